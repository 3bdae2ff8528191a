/**
 * Who reads whom, as arrows from notes to readers. One draws an arrow with the pointer, or takes a note and gives it to a
 * reader with the keys; drawing it again removes it. What was measured of a board stands in the arrows' width and colour.
 */
import { useSignal } from '@preact/signals'
import { useId, useRef } from 'preact/hooks'
import { capital } from '../web/names.ts'
import { readerSentence, SEATS, toggled, type Wiring } from './wiring.ts'

/** Ports stand at the middle of four columns. */
const x = (seat: number) => (100 * (seat + 0.5)) / SEATS
const HEIGHT = 100

const curve = (from: number, to: number, down = HEIGHT) =>
  `M ${from} 0 C ${from} ${down * 0.55}, ${to} ${down * 0.45}, ${to} ${down}`

const seats = Array.from({ length: SEATS }, (_, seat) => seat)

export function Wires({
  wiring,
  onChange,
  tone,
  from,
  to,
  strength,
  label,
}: {
  wiring: Wiring
  /** Left out: it is only shown. */
  onChange?: (wiring: Wiring) => void
  tone: string
  /** What stands above and below: "note" and "reader". */
  from: string
  to: string
  /** From -1 to 1: how much a note moved a reader's text; null where nothing was measured. */
  strength?: (note: number, reader: number) => number | null
  label: string
}) {
  const box = useRef<HTMLFieldSetElement>(null)
  /** The note that is held, by pointer or key. */
  const held = useSignal<number | null>(null)
  /** Where the pointer is, in hundredths of the width and height. */
  const pointer = useSignal<{ x: number; y: number } | null>(null)
  /** Whether the note under the pointer was held before it was pressed. */
  const wasHeld = useRef(false)
  const said = useSignal('')
  const help = useId()

  const toggle = (note: number, reader: number) => {
    const next = toggled(wiring, note, reader)
    said.value = readerSentence(next, reader)
    onChange?.(next)
  }
  const place = ({ clientX, clientY }: PointerEvent) => {
    const { left, top, width, height } = box.current!.getBoundingClientRect()
    return { x: (100 * (clientX - left)) / width, y: (100 * (clientY - top)) / height }
  }
  const onMove = (event: PointerEvent) => {
    if (held.value !== null && event.buttons > 0) pointer.value = place(event)
  }
  const onUp = (event: PointerEvent) => {
    const note = held.value
    if (note === null || pointer.value === null) return
    pointer.value = null
    const end = place(event)
    if (end.y > 55) {
      held.value = null
      toggle(note, Math.min(SEATS - 1, Math.max(0, Math.floor((end.x * SEATS) / 100))))
    } else if (wasHeld.current) held.value = null
    else said.value = taken(note)
  }
  const focus = (row: 'from' | 'to', seat: number) =>
    box.current?.querySelector<HTMLElement>(`[data-row="${row}"][data-seat="${seat}"]`)?.focus()
  const onKey = (event: KeyboardEvent) => {
    const { row, seat } = (event.target as HTMLElement).dataset
    if (row === undefined) return
    const at = Number(seat)
    if (event.key === 'Escape' && held.value !== null) held.value = null
    else if (event.key === 'ArrowLeft' && at > 0) focus(row as 'from', at - 1)
    else if (event.key === 'ArrowRight' && at < SEATS - 1) focus(row as 'from', at + 1)
    else if (event.key === 'ArrowDown') focus('to', at)
    else if (event.key === 'ArrowUp') focus('from', at)
    else return
    event.preventDefault()
  }
  const taken = (note: number) => `${capital(from)} ${note + 1} is taken: choose a ${to}.`
  const take = (note: number) => {
    held.value = held.value === note ? null : note
    said.value = held.value === null ? '' : taken(note)
  }
  const give = (reader: number) => {
    if (held.value === null) said.value = readerSentence(wiring, reader)
    else toggle(held.value, reader)
  }
  const most = Math.max(
    1e-9,
    ...seats.flatMap((note) => seats.map((reader) => Math.abs(strength?.(note, reader) ?? 0))),
  )
  return (
    <fieldset
      class={onChange ? 'wires' : 'wires still'}
      ref={box}
      style={{ '--tone': tone }}
      onPointerMove={onMove}
      onPointerUp={onUp}
      onKeyDown={onKey}
    >
      <legend class="hidden">{label}</legend>
      <svg viewBox={`0 0 100 ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {wiring.flatMap((notes, reader) =>
          notes.map((note) => {
            const change = strength?.(note, reader) ?? null
            const share = change === null ? null : Math.abs(change) / most
            return (
              <path
                key={`${note} ${reader}`}
                class={change !== null && change < 0 ? 'wire against' : 'wire'}
                d={curve(x(note), x(reader))}
                style={share === null ? {} : { strokeWidth: 1 + 6 * share, opacity: 0.35 + 0.65 * share }}
              />
            )
          }),
        )}
        {held.value !== null && pointer.value ? (
          <path class="wire ghost" d={curve(x(held.value), pointer.value.x, pointer.value.y)} />
        ) : null}
      </svg>
      {seats.map((seat) =>
        onChange ? (
          <button
            key={`from ${seat}`}
            type="button"
            class="port from"
            data-row="from"
            data-seat={seat}
            aria-pressed={held.value === seat}
            aria-label={`${from} ${seat + 1}: take, to give it to a ${to}`}
            aria-describedby={help}
            style={{ left: `${x(seat)}%` }}
            onPointerDown={(event) => {
              wasHeld.current = held.value === seat
              held.value = seat
              pointer.value = place(event)
              box.current?.setPointerCapture(event.pointerId)
              event.preventDefault()
              event.currentTarget.focus()
            }}
            onClick={(event) => {
              // Of a pointer, pressing and letting go has done it.
              if (event.detail === 0) take(seat)
            }}
          />
        ) : (
          <span key={`from ${seat}`} class="port from" style={{ left: `${x(seat)}%` }} />
        ),
      )}
      {seats.map((seat) =>
        onChange ? (
          <button
            key={`to ${seat}`}
            type="button"
            class={wiring[seat].length > 0 ? 'port to fed' : 'port to'}
            data-row="to"
            data-seat={seat}
            aria-label={
              held.value === null
                ? readerSentence(wiring, seat)
                : `${to} ${seat + 1}: ${wiring[seat].includes(held.value) ? 'take' : 'give it'} ${from} ${held.value + 1}${wiring[seat].includes(held.value) ? ' away' : ''}`
            }
            style={{ left: `${x(seat)}%` }}
            onClick={() => give(seat)}
          />
        ) : (
          <span
            key={`to ${seat}`}
            class={wiring[seat].length > 0 ? 'port to fed' : 'port to'}
            style={{ left: `${x(seat)}%` }}
          />
        ),
      )}
      {onChange ? (
        <p id={help} class="hidden">
          Enter takes a {from}; Enter on a {to} gives it, or takes it away. The arrow keys move between them.
        </p>
      ) : null}
      <p class="hidden" role="status">
        {said.value}
      </p>
    </fieldset>
  )
}

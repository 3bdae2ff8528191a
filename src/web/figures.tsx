/** The figures: the verdict, the arms, the training curves. Each is drawn by Observable Plot and gives its data as CSV. */
import * as Plot from '@observablehq/plot'
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import type { ContrastResult, Results, TrainingResult } from '../record/results.ts'
import type { RoundMeasure, RunView, Side, TraceColumns, TraceMeasure } from '../view/types.ts'
import { namesChoice, type Span, spanChoice, wholeChoice } from './choices.ts'
import { type Chosen, chosen } from './chosen.ts'
import { colourOf, dashOf } from './colours.ts'
import { Download } from './controls.tsx'
import { type Curve, curves, WINDOW } from './curves.ts'
import { difference, level, signed, three } from './format.ts'
import { roundTitle } from './names.ts'
import { published, publishedSource } from './published.ts'

/** Draws what `options` gives for the width that there is, and again when the width changes. */
function Figure(props: {
  /** What a screen reader says in place of the drawing. */
  label: string
  options: (width: number) => Plot.PlotOptions
  rows: Record<string, string | number | null>[]
  file: string
  title?: ComponentChildren
  caption?: ComponentChildren
  /** Told what stretch of the x axis was dragged over. */
  onStretch?: (from: number, to: number) => void
}) {
  const place = useRef<HTMLDivElement>(null)
  const { options, onStretch } = props
  useEffect(() => {
    const box = place.current
    if (!box) return
    let width = 0
    let unfollow = () => {}
    const draw = () => {
      if (box.clientWidth === width || box.clientWidth === 0) return
      width = box.clientWidth
      const plot = Plot.plot({ ...options(width), width })
      // The label says it all: the parts of the drawing would be read out one by one.
      plot.setAttribute('aria-hidden', 'true')
      box.replaceChildren(plot)
      unfollow()
      if (onStretch) unfollow = followStretch(box, plot, onStretch)
    }
    draw()
    const observer = new ResizeObserver(draw)
    observer.observe(box)
    return () => {
      observer.disconnect()
      unfollow()
    }
  }, [options, onStretch])
  const download = <Download name={props.file} rows={props.rows} />
  return (
    <figure>
      {props.title ? (
        <div class="figure-title">
          {props.title} {download}
        </div>
      ) : null}
      <div ref={place} class={onStretch ? 'plot stretches' : 'plot'} role="img" aria-label={props.label} />
      {props.title ? null : (
        <figcaption>
          <span>{props.caption}</span>
          {download}
        </figcaption>
      )}
    </figure>
  )
}

/** Pixels under which a drag is a click. */
const CLICK = 6

/** Marks what a pointer drags over in a plot, and tells of it where the pointer is let go. */
function followStretch(
  box: HTMLElement,
  plot: (SVGSVGElement | HTMLElement) & Plot.Plot,
  tell: (from: number, to: number) => void,
): () => void {
  const scale = plot.scale('x')
  let from: number | null = null
  const marked = document.createElement('span')
  marked.className = 'stretch'
  const at = (event: PointerEvent) => event.clientX - box.getBoundingClientRect().left
  const begin = (event: PointerEvent) => {
    if (event.button === 0) from = at(event)
  }
  const move = (event: PointerEvent) => {
    if (from === null || (Math.abs(at(event) - from) < CLICK && !marked.isConnected)) return
    if (!marked.isConnected) {
      box.append(marked)
      box.setPointerCapture(event.pointerId)
    }
    marked.style.left = `${Math.min(from, at(event))}px`
    marked.style.width = `${Math.abs(at(event) - from)}px`
  }
  const end = (event: PointerEvent) => {
    const [began, wide] = [from, marked.isConnected]
    from = null
    marked.remove()
    if (began === null || !wide || event.type === 'pointercancel') return
    const ends = [began, at(event)].sort((a, b) => a - b).map((x) => Number(scale?.invert?.(x)))
    tell(ends[0], ends[1])
  }
  const all = { pointerdown: begin, pointermove: move, pointerup: end, pointercancel: end }
  // On the way down: the plot's own tip keeps a press to itself.
  for (const [name, listen] of Object.entries(all)) box.addEventListener(name, listen as EventListener, true)
  return () => {
    for (const [name, listen] of Object.entries(all))
      box.removeEventListener(name, listen as EventListener, true)
  }
}

/** A difference to draw. */
interface Drawn {
  name: string
  delta: number
  ci95: readonly [number, number]
  /** What the run would see four times in five; null where that is not known. */
  smallestEffect: number | null
}

/** Each difference with its interval against zero, and against effects that the run could not have seen: a line each. */
function DifferencesFigure(props: {
  rows: Drawn[]
  /** How far all of an interval must lie from zero at most to call it flat. */
  flatWithin: number | null
  axis: string
  file: string
  table: Record<string, string | number | null>[]
  caption: ComponentChildren
}) {
  const { rows, flatWithin, axis } = props
  const reach =
    1.12 *
    Math.max(
      flatWithin ?? 0,
      ...rows.flatMap(({ ci95, smallestEffect }) => [...ci95.map(Math.abs), smallestEffect ?? 0]),
    )
  const tone = ({ ci95: [low, high] }: Drawn) =>
    low > 0 ? 'var(--right)' : high < 0 ? 'var(--wrong)' : 'currentColor'
  const single = rows.length === 1
  const line = single ? 60 : 38
  const names = rows.map(({ name }) => name)
  const seen = rows.filter(({ smallestEffect }) => smallestEffect !== null)
  const options = (width: number): Plot.PlotOptions => ({
    height: 68 + line * rows.length,
    marginTop: 34,
    marginBottom: 34,
    marginLeft: single ? 12 : labelMargin(names, width),
    marginRight: 12,
    x: {
      domain: [-reach, reach],
      label: axis,
      labelArrow: 'none',
      labelAnchor: 'center',
      tickFormat: (value: number) => (value === 0 ? '0' : signed(value).replace(/0$/, '')),
      ticks: width < 640 ? 5 : 9,
    },
    y: {
      ...(single ? { axis: null } : { label: null, tickSize: 0, tickFormat: shortLabel(width) }),
      type: 'band',
      domain: names,
      padding: 0,
    },
    marks: [
      ...(seen.length === 0
        ? []
        : [
            Plot.barX(seen, {
              y: 'name',
              x1: (d: Drawn) => -(d.smallestEffect ?? 0),
              x2: (d: Drawn) => d.smallestEffect ?? 0,
              fill: 'var(--unseen)',
              insetTop: single ? 0 : 3,
              insetBottom: single ? 0 : 3,
            }),
            Plot.text([seen[0]], {
              x: (d: Drawn) => -(d.smallestEffect ?? 0),
              frameAnchor: 'top',
              lineAnchor: 'bottom',
              dy: -4,
              text: () => 'too small for this run to see',
              textAnchor: 'start',
              fill: 'var(--muted)',
            }),
          ]),
      ...(flatWithin === null
        ? []
        : [Plot.ruleX([-flatWithin, flatWithin], { stroke: 'var(--muted)', strokeDasharray: '2,3' })]),
      Plot.ruleX([0], { stroke: 'currentColor', strokeWidth: 1.5 }),
      Plot.link(rows, {
        x1: (d: Drawn) => d.ci95[0],
        x2: (d: Drawn) => d.ci95[1],
        y: 'name',
        stroke: tone,
        strokeWidth: 5,
        strokeLinecap: 'round',
      }),
      Plot.dot(rows, {
        x: 'delta',
        y: 'name',
        r: single ? 8 : 6.5,
        fill: tone,
        stroke: 'var(--card)',
        strokeWidth: 2,
        title: (d: Drawn) => `${d.name}: ${difference(d)}`,
        tip: true,
      }),
      Plot.text(rows, {
        x: 'delta',
        y: 'name',
        dy: single ? -20 : -13,
        text: (d: Drawn) => signed(d.delta),
        fontWeight: 'bold',
        fontSize: single ? 14 : 12,
        fill: 'currentColor',
        stroke: 'var(--card)',
        strokeWidth: 5,
      }),
    ],
  })
  return (
    <Figure
      label={`${rows
        .map(
          ({ name, delta, ci95: [low, high], smallestEffect }) =>
            `${name}: ${signed(delta)}, 95% interval ${signed(low)} to ${signed(high)}` +
            (smallestEffect === null
              ? ''
              : `; the smallest effect that the run could see is ${three(smallestEffect)}`),
        )
        .join('. ')}.`}
      options={options}
      file={props.file}
      rows={props.table}
      caption={props.caption}
    />
  )
}

/** Room for the longest of some names, up to a share of the width. */
const labelMargin = (names: readonly string[], width: number): number =>
  Math.min(0.36 * width, 18 + 6.6 * Math.max(...names.map((name) => name.length)))

/** Names as far as that room goes. */
const shortLabel = (width: number) => (name: string) => {
  const most = Math.max(6, Math.floor((0.36 * width - 18) / 6.6))
  return name.length > most ? `${name.slice(0, most - 1)}…` : name
}

/** Did training help: each arm against the untrained model under its own protocol. */
export function TrainingFigure({ training }: { training: readonly TrainingResult[] }) {
  return (
    <DifferencesFigure
      rows={training.map((one) => ({ ...one, name: one.arm, smallestEffect: null }))}
      flatWithin={null}
      axis="pass@1, trained minus untrained"
      file="training.csv"
      table={training.map(({ arm, base, delta, ci95, p, verdict }) => ({
        arm,
        base,
        difference: delta,
        low: ci95[0],
        high: ci95[1],
        p,
        verdict,
      }))}
      caption="The bars are 95% intervals."
    />
  )
}

/** Did the change help: each contrast of the experiment, together a family. */
export function ContrastsFigure({ contrasts }: { contrasts: readonly ContrastResult[] }) {
  const [{ arm, against, flatWithin, smallestEffect }] = contrasts
  const single = contrasts.length === 1
  const alike = contrasts.every((one) => one.against === against)
  return (
    <DifferencesFigure
      rows={contrasts.map((one) => ({
        ...one,
        name: alike && !single ? one.arm : `${one.arm} - ${one.against}`,
      }))}
      flatWithin={flatWithin}
      axis={
        single
          ? `pass@1, ${arm} minus ${against}`
          : alike
            ? `pass@1, arm minus ${against}`
            : 'pass@1, difference'
      }
      file="verdict.csv"
      table={contrasts.map((one) => ({
        arm: one.arm,
        against: one.against,
        difference: one.delta,
        low: one.ci95[0],
        high: one.ci95[1],
        smallestEffect: one.smallestEffect,
        flatWithin: one.flatWithin,
        p: one.p,
        verdict: one.verdict,
      }))}
      caption={
        <>
          {single
            ? 'The bar is the 95% interval. '
            : 'The bars are 95% intervals, of all comparisons together. '}
          {smallestEffect === null
            ? ''
            : single
              ? `Shaded: effects under ${three(smallestEffect)}, which this run would see less than four times in five. `
              : 'Shaded: effects which this run would see less than four times in five. '}
          Dotted: ±{three(flatWithin)}, within which {single ? 'the' : 'a'} whole bar must lie to call it
          flat.
        </>
      }
    />
  )
}

/** Arms of several runs, each less one of them. */
export function AcrossFigure({
  rows,
  against,
}: {
  rows: readonly Omit<Drawn, 'smallestEffect'>[]
  against: string
}) {
  const options = rows.map((one) => ({ ...one, smallestEffect: null }))
  return (
    <DifferencesFigure
      // Drawn anew where what it is drawn of changes.
      key={JSON.stringify(options)}
      rows={options}
      flatWithin={null}
      axis={`pass@1, arm minus ${against}`}
      file="across.csv"
      table={rows.map(({ name, delta, ci95 }) => ({
        arm: name,
        against,
        difference: delta,
        low: ci95[0],
        high: ci95[1],
      }))}
      caption={
        rows.length > 1
          ? 'The bars are 95% intervals, of all these differences together.'
          : 'The bar is the 95% interval.'
      }
    />
  )
}

interface ArmRow {
  name: string
  arm: string
  side: Side
  passAt1: number
  low: number
  high: number
  runs: number[]
  noteAcc: number | null
  voteAcc: number | null
  anyNote: number | null
}

/** Bases and arms that were evaluated, in the order of the sides. */
function armRows({ arms, bases }: Results, { sides }: RunView): ArmRow[] {
  return sides.flatMap((side) => {
    const base = side.arm === null ? bases.find(({ name }) => name === side.name) : undefined
    const arm = side.arm === null ? undefined : arms[side.name]
    const found = base ?? arm
    if (!found) return []
    const { passAt1, ci95, board } = found
    return [
      {
        name: side.name,
        arm: side.title,
        side,
        passAt1,
        low: ci95[0],
        high: ci95[1],
        runs: base?.runs ?? arm?.perSeed ?? [],
        noteAcc: board.noteAcc,
        voteAcc: board.voteAcc,
        anyNote: board.anyNote,
      },
    ]
  })
}

/** pass@1 of each arm with its interval, each seed or run as a dot, and what one would get without reading. */
export function ArmsFigure({ run, results }: { run: RunView; results: Results }) {
  const rows = armRows(results, run)
  const references = (['noteAcc', 'voteAcc', 'anyNote'] as const).flatMap((key, i) =>
    rows.flatMap((row) => {
      const value = row[key]
      return value === null ? [] : [{ arm: row.arm, value, symbol: referenceSymbols[i], key }]
    }),
  )
  const names = isTwoRounds(run) ? noteNames : earlierNames
  const others = published(run)
  const values = [
    ...rows.flatMap((row) => [row.low, row.high, ...row.runs]),
    ...references.map(({ value }) => value),
  ]
  const pad = 0.03
  const options = (width: number): Plot.PlotOptions => ({
    height: 44 + 46 * rows.length,
    marginLeft: Math.max(
      width < 480 ? 76 : 104,
      labelMargin(
        rows.map(({ arm }) => arm),
        width,
      ),
    ),
    marginRight: 16,
    marginTop: 8,
    marginBottom: 34,
    x: {
      domain: [Math.max(0, Math.min(...values) - pad), Math.min(1, Math.max(...values) + pad)],
      label: 'share right',
      labelArrow: 'none',
      labelAnchor: 'center',
      ticks: width < 480 ? 5 : 10,
      grid: true,
    },
    y: { domain: rows.map(({ arm }) => arm), label: null, tickSize: 0, tickFormat: shortLabel(width) },
    symbol: { range: [...referenceSymbols], domain: [...referenceSymbols] },
    marks: [
      Plot.ruleY(rows, {
        y: 'arm',
        x1: 'low',
        x2: 'high',
        stroke: (d: ArmRow) => colourOf(d.side),
        strokeWidth: 5,
        strokeLinecap: 'round',
        strokeOpacity: 0.45,
      }),
      Plot.dot(references, {
        y: 'arm',
        x: 'value',
        symbol: 'symbol',
        stroke: 'var(--muted)',
        r: 4.5,
        dy: 13,
        title: (d: { key: ReferenceKey; value: number }) => `${names[d.key]} ${three(d.value)}`,
        tip: true,
      }),
      ...(others
        ? [
            Plot.dot(rows, {
              y: 'arm',
              x: (d: ArmRow) => others[d.name],
              symbol: 'times',
              stroke: 'var(--muted)',
              strokeWidth: 2,
              r: 5,
            }),
          ]
        : []),
      Plot.dot(
        rows.flatMap((row) => row.runs.map((value) => ({ ...row, value }))),
        { y: 'arm', x: 'value', fill: (d: ArmRow) => colourOf(d.side), r: 3.5, dy: -11 },
      ),
      Plot.dot(rows, {
        y: 'arm',
        x: 'passAt1',
        fill: (d: ArmRow) => colourOf(d.side),
        stroke: 'var(--card)',
        strokeWidth: 2,
        r: 7.5,
        title: (d: ArmRow) => `${d.arm}: ${level(d.passAt1, [d.low, d.high])}`,
        tip: true,
      }),
    ],
  })
  return (
    <Figure
      label={`pass@1 of each arm: ${rows.map((row) => `${row.arm} ${three(row.passAt1)}, interval ${three(row.low)} to ${three(row.high)}`).join('; ')}.`}
      options={options}
      file="arms.csv"
      rows={rows.map(({ runs, side: _, name: __, ...row }) => ({ ...row, runs: runs.map(three).join(' ') }))}
      caption={
        <span class="legend">
          <b>●</b> pass@1 over all seeds, with its 95% interval <b class="small">●</b> each seed or run
          <span class="muted">
            {' '}
            <b>△</b> {names.noteAcc} <b>□</b> {names.voteAcc} <b>◇</b> {names.anyNote}
            {others ? (
              <>
                {' '}
                <b>×</b> published ({publishedSource})
              </>
            ) : null}
          </span>
        </span>
      }
    />
  )
}

const referenceSymbols = ['triangle', 'square', 'diamond'] as const
type ReferenceKey = 'noteAcc' | 'voteAcc' | 'anyNote'
const noteNames: Record<ReferenceKey, string> = {
  noteAcc: 'notes right',
  voteAcc: 'the vote right',
  anyNote: 'any note right',
}
const earlierNames: Record<ReferenceKey, string> = {
  noteAcc: 'the round before right',
  voteAcc: 'its vote right',
  anyNote: 'any of it right',
}

/** Whether all arms play two rounds, which are notes and replies then. */
const isTwoRounds = ({ sides }: Pick<RunView, 'sides'>): boolean =>
  sides.every(({ rounds }) => rounds.length === 2)

interface Panel {
  id: string
  title: string
  pick: (trace: TraceColumns) => readonly (number | null)[] | undefined
  /** How its values are written, and whether its axis begins at zero. */
  kind: 'share' | 'size' | 'small'
}

const ofStep = (id: TraceMeasure, title: string, kind: Panel['kind']): Panel => ({
  id,
  title,
  kind,
  pick: ({ measures }) => measures[id],
})

const ofRound = (
  r: number,
  measure: RoundMeasure,
  title: string,
  { id = `${measure}-${r + 1}`, kind = 'share' }: { id?: string; kind?: Panel['kind'] } = {},
): Panel => ({ id, title, kind, pick: ({ rounds }) => rounds[r]?.[measure] })

const shares: [RoundMeasure, string][] = [
  ['voteRight', 'the vote right'],
  ['anyRight', 'any right'],
  ['switched', 'switched answer'],
  ['rescued', 'rescued'],
  ['misled', 'misled'],
  ['cut', 'cut off'],
]

/** What training curves are drawn of: one run, or several as if they were one. */
export type Trained = Pick<RunView, 'jobs' | 'sides'>

/** The panels: those that say most stand open, the others under what they are about. */
function panelsOf(run: Trained): { title: string; open: boolean; panels: Panel[] }[] {
  const count = Math.max(...run.sides.map(({ rounds }) => rounds.length))
  const rounds = Array.from({ length: count }, (_, r) => r)
  const name = (r: number) => roundTitle(run.sides, r)
  const first: Panel[] = isTwoRounds(run)
    ? [
        ofStep('reward', 'Reward: replies right', 'share'),
        ofRound(0, 'right', 'Notes right', { id: 'noteAcc' }),
        ofRound(0, 'voteRight', 'The vote right', { id: 'voteAcc' }),
        ofRound(1, 'rescued', 'Rescued: wrong note, right reply', { id: 'rescued' }),
        ofRound(1, 'misled', 'Misled: right note, wrong reply', { id: 'misled' }),
        ofRound(0, 'cut', 'Notes cut off', { id: 'notesCut' }),
        ofRound(1, 'cut', 'Replies cut off', { id: 'repliesCut' }),
        ofRound(0, 'chars', 'Note length, characters', { id: 'noteChars', kind: 'size' }),
        ofRound(1, 'chars', 'Reply length, characters', { id: 'replyChars', kind: 'size' }),
      ]
    : [
        ofStep('reward', 'Reward: last posts right', 'share'),
        ...rounds.map((r) => ofRound(r, 'right', `${name(r)}: right`)),
      ]
  const drawn = new Set(first.map(({ id }) => id))
  const rest = isTwoRounds(run)
    ? [
        ofRound(0, 'anyRight', 'Any note right'),
        ofRound(1, 'voteRight', 'The vote of the replies right'),
        ofRound(1, 'anyRight', 'Any reply right'),
        ofRound(1, 'switched', 'Switched: another answer than one’s note'),
      ]
    : rounds.flatMap((r) => [
        ...shares.map(([measure, title]) => ofRound(r, measure, `${name(r)}: ${title}`)),
        ofRound(r, 'chars', `${name(r)}: length, characters`, { kind: 'size' }),
      ])
  return [
    { title: 'The board', open: true, panels: first },
    {
      title: 'The update',
      open: true,
      panels: [
        ofStep('loss', 'Loss', 'small'),
        ofStep('gradNorm', 'Gradient norm', 'small'),
        ofStep('learningRate', 'Learning rate', 'small'),
        ofStep('informative', 'Informative groups of the last round', 'share'),
        ofStep('entropy', 'Entropy, nats a token', 'small'),
        ofStep('kl', 'Distance from the start (KL), nats a token', 'small'),
      ],
    },
    {
      title: 'More of each round',
      open: false,
      panels: rest.filter(({ id }) => !drawn.has(id)),
    },
    {
      title: 'Credit: what posts earned',
      open: false,
      panels: [
        ...rounds.flatMap((r) => [
          ofRound(r, 'creditMean', `${name(r)}: mean credit`, { kind: 'small' }),
          ofRound(r, 'creditSpread', `${name(r)}: spread of credit`, { kind: 'small' }),
          ofRound(r, 'creditInformative', `${name(r)}: informative groups`),
          ofRound(r, 'creditWithOwn', `${name(r)}: correlation with being right`, { kind: 'small' }),
        ]),
        ofStep('effective', 'Effective sample of the credit’s estimates', 'small'),
      ],
    },
    {
      title: 'More of the update, and tokens',
      open: false,
      panels: [
        ofStep('clippedShare', 'Clipped ratios', 'share'),
        ofStep('logprobDrift', 'Log-probability drift', 'small'),
        ofStep('sampledTokens', 'Tokens sampled', 'size'),
        ofStep('scoredTokens', 'Tokens scored again', 'size'),
        ofStep('trainedTokens', 'Tokens trained on', 'size'),
      ],
    },
  ]
}

const written: Record<Panel['kind'], (value: number) => string> = {
  share: three,
  size: (value) => value.toFixed(0),
  small: (value) => String(Number(value.toPrecision(3))),
}

/** How the curves are looked at: in the address, and alike for all panels. */
interface Look {
  window: Chosen<number>
  span: Chosen<Span>
  /** Names of the sides that are left out. */
  hidden: Chosen<ReadonlySet<string>>
}

const windows = [1, WINDOW, 9, 15, 25]

export function TrainingFigures({ run }: { run: Trained }) {
  const look = useMemo(
    (): Look => ({
      window: chosen('smooth', wholeChoice(WINDOW)),
      span: chosen('steps', spanChoice),
      hidden: chosen('hide', namesChoice),
    }),
    [],
  )
  if (run.jobs.every(({ trace }) => trace.step.length === 0))
    return <p class="muted">No training step yet.</p>
  return (
    <>
      <CurveControls run={run} look={look} />
      {panelsOf(run).map(({ title, open, panels }) => (
        <PanelGroup key={title} title={title} open={open} panels={panels} run={run} look={look} />
      ))}
    </>
  )
}

/** Which arms are drawn, how much they are smoothed, and which steps are seen. */
function CurveControls({ run, look: { window, span, hidden } }: { run: Trained; look: Look }) {
  const arms = run.sides.filter(({ arm }) => arm !== null)
  const last = lastStep(run)
  const [from, to] = span.value ?? [1, last]
  const stretch = (a: number, b: number) => {
    span.value = a <= 1 && b >= last ? null : [Math.max(1, a), Math.min(last, Math.max(b, a + 1))]
  }
  const toggle = (name: string) => {
    const next = new Set(hidden.value)
    if (!next.delete(name)) next.add(name)
    hidden.value = next
  }
  const step = (name: string, value: number, change: (value: number) => void) => (
    <input
      type="number"
      aria-label={name}
      min={1}
      max={last}
      value={value}
      onChange={(event) => {
        const typed = event.currentTarget.valueAsNumber
        if (Number.isInteger(typed) && typed >= 1) change(typed)
        else event.currentTarget.value = String(value)
      }}
    />
  )
  return (
    <>
      <div class="curve-controls">
        <fieldset class="chips">
          <legend class="hidden">Arms drawn</legend>
          {arms.map((side) => (
            <button
              key={side.name}
              type="button"
              class="chip arm"
              aria-pressed={!hidden.value.has(side.name)}
              onClick={() => toggle(side.name)}
            >
              <LineSample side={side} /> {side.title}
            </button>
          ))}
        </fieldset>
        <label class="no-print">
          <span class="muted">Smoothing</span>{' '}
          <select
            value={String(window.value)}
            onChange={(event) => {
              window.value = Number(event.currentTarget.value)
            }}
          >
            {[...new Set([...windows, window.value])]
              .sort((a, b) => a - b)
              .map((steps) => (
                <option key={steps} value={String(steps)}>
                  {steps === 1 ? 'none' : `${steps} steps`}
                </option>
              ))}
          </select>
        </label>
        {last > 2 ? (
          <span class="steps-range no-print">
            <span class="muted">Steps</span> {step('First step shown', from, (value) => stretch(value, to))}
            <span class="muted">to</span> {step('Last step shown', to, (value) => stretch(from, value))}
            <button
              type="button"
              disabled={span.value === null}
              onClick={() => {
                span.value = null
              }}
            >
              All steps
            </button>
          </span>
        ) : null}
      </div>
      <p class="muted small">
        By training step. Thin: one seed, as measured. Thick: mean over seeds
        {window.value > 1 ? ` of a moving mean of ${window.value} steps` : ''}; the band reaches from the
        lowest seed to the highest.{' '}
        <span class="no-print">Drag over a figure to look at some steps alone.</span>
      </p>
    </>
  )
}

const lastStep = ({ jobs }: Trained): number => Math.max(2, ...jobs.map(({ steps }) => steps.of))

export function LineSample({ side }: { side: Side }) {
  return (
    <svg class="line-sample" viewBox="0 0 22 6" width="22" height="6" aria-hidden="true">
      <line
        x1="1"
        x2="21"
        y1="3"
        y2="3"
        stroke={colourOf(side)}
        stroke-width="3"
        stroke-dasharray={dashOf(side)}
      />
    </svg>
  )
}

/** Panels of one kind; those that are closed are drawn once they are asked for. */
function PanelGroup(props: { title: string; open: boolean; panels: Panel[]; run: Trained; look: Look }) {
  const open = useSignal(props.open)
  return (
    <details
      class={props.open ? 'panel-group' : 'panel-group no-print'}
      open={open.value}
      onToggle={(event) => {
        open.value = event.currentTarget.open
      }}
    >
      <summary>{props.title}</summary>
      {open.value ? <Panels {...props} /> : null}
    </details>
  )
}

function Panels({ panels, run, look }: { panels: Panel[]; run: Trained; look: Look }) {
  const span = look.span.value
  const sides = run.sides.map((side) => (look.hidden.value.has(side.name) ? null : side))
  const jobs = run.jobs.filter(({ side }) => sides[side] !== null)
  const how = { window: look.window.value, span }
  const drawn = panels.map((panel) => ({ panel, lines: curves(jobs, run.sides, panel.pick, how) }))
  const any = drawn.filter(({ lines }) => lines.some(({ mean }) => mean.length > 0))
  const last = lastStep(run)
  const onStretch = useMemo(
    () => (a: number, b: number) => {
      const [from, to] = [Math.max(1, Math.round(a)), Math.min(last, Math.round(b))]
      if (from < to) look.span.value = [from, to]
    },
    [look, last],
  )
  if (any.length === 0)
    return (
      <p class="muted">{span === null ? 'This run measured none of these.' : 'Nothing in these steps.'}</p>
    )
  return (
    <div class="panels">
      {any.map(({ panel, lines }) => (
        <TrainingPanel
          key={panel.id}
          panel={panel}
          lines={lines}
          domain={span ?? [1, last]}
          onStretch={last > 2 ? onStretch : undefined}
        />
      ))}
    </div>
  )
}

/** An axis around values that are all the same but for rounding: of its own it would show the rounding. */
function around(values: readonly number[]): { domain?: [number, number] } {
  const [low, high] = [Math.min(...values), Math.max(...values)]
  const size = Math.max(Math.abs(low), Math.abs(high))
  if (high - low > 1e-6 * size) return {}
  const room = size === 0 ? 1 : size / 2
  return { domain: [low - room, high + room] }
}

function TrainingPanel({
  panel,
  lines,
  domain,
  onStretch,
}: {
  panel: Panel
  lines: Curve[]
  domain: readonly [number, number]
  onStretch: ((from: number, to: number) => void) | undefined
}) {
  const raw = lines.flatMap(({ side, seeds }) =>
    seeds.flatMap(({ seed, values }) => values.map((point) => ({ ...point, side, seed }))),
  )
  const points = lines.flatMap(({ side, mean }) => mean.map((point) => ({ ...point, side })))
  const say = written[panel.kind]
  const options = (): Plot.PlotOptions => ({
    height: 160,
    marginLeft: 40,
    marginRight: 10,
    marginTop: 10,
    marginBottom: 22,
    x: { label: null, ticks: Math.min(5, domain[1] - domain[0]), domain: [...domain], tickFormat: 'd' },
    y: {
      label: null,
      grid: true,
      ticks: 4,
      nice: true,
      ...(panel.kind === 'share' ? {} : { zero: false, tickFormat: say }),
      ...around(raw.map(({ value }) => value)),
    },
    marks: [
      Plot.line(raw, {
        x: 'step',
        y: 'value',
        z: (d: (typeof raw)[number]) => `${d.side.name} ${d.seed}`,
        stroke: (d: (typeof raw)[number]) => colourOf(d.side),
        strokeWidth: 0.75,
        strokeOpacity: 0.35,
      }),
      Plot.areaY(points, {
        x: 'step',
        y1: 'low',
        y2: 'high',
        z: (d: (typeof points)[number]) => d.side.name,
        fill: (d: (typeof points)[number]) => colourOf(d.side),
        fillOpacity: lines.length > 4 ? 0.08 : 0.18,
      }),
      // A mark for each arm: how a line is broken is no channel.
      ...lines.map(({ side, mean }) =>
        Plot.line(mean, {
          x: 'step',
          y: 'mean',
          stroke: colourOf(side),
          strokeWidth: 2.25,
          strokeDasharray: dashOf(side),
        }),
      ),
      Plot.tip(
        points,
        Plot.pointerX({
          x: 'step',
          y: 'mean',
          title: (d: (typeof points)[number]) => `${d.side.title}, step ${d.step}: ${say(d.mean)}`,
        }),
      ),
    ],
  })
  const ends = lines.flatMap(({ side, mean }) => {
    const [first, last] = [mean[0], mean.at(-1)]
    return first && last ? [`${side.title} from ${say(first.mean)} to ${say(last.mean)}`] : []
  })
  return (
    <Figure
      title={panel.title}
      label={`${panel.title}, by training step: ${ends.join('; ')}.`}
      options={options}
      onStretch={onStretch}
      file={`training-${panel.id}.csv`}
      rows={raw.map(({ side, seed, step, value }) => ({ arm: side.name, seed, step, [panel.id]: value }))}
    />
  )
}

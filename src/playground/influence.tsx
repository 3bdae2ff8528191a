/** How much each note moved each reader's text on the stage, as a table of numbers. */
import type { Effect } from '../board/influence.ts'
import { Term } from './term.tsx'
import { SEATS } from './wiring.ts'

const seats = Array.from({ length: SEATS }, (_, seat) => seat)

/** The change that a note of a round made to a reader's text in the next; null where it was not shown. */
export function changeOf(
  effects: readonly Effect[],
  round: number,
  note: number,
  reader: number,
): number | null {
  const found = effects.find(
    ({ note: [r, from], post: [to, seat] }) =>
      r === round && from === note && to === round + 1 && seat === reader,
  )
  return found?.change ?? null
}

export function InfluenceTable({ effects, rounds }: { effects: readonly Effect[]; rounds: number }) {
  const round = rounds - 2
  const most = Math.max(1e-9, ...effects.map(({ change }) => Math.abs(change)))
  return (
    <details class="influence">
      <summary>How much each note moved each reader, in numbers</summary>
      <p class="muted">
        By how many <Term word="nats" /> a note made what the reader wrote likelier than it is on the same
        board without that note. The wider the line above, the more; dashed lines pulled away from it.
      </p>
      <table>
        <thead>
          <tr>
            <th scope="col">
              <span class="hidden">Reader</span>
            </th>
            {seats.map((note) => (
              <th key={note} scope="col">
                {round === 0 ? 'note' : 'post'} {note + 1}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {seats.map((reader) => (
            <tr key={reader}>
              <th scope="row">reader {reader + 1}</th>
              {seats.map((note) => {
                const change = changeOf(effects, round, note, reader)
                return change === null ? (
                  <td key={note} class="muted">
                    <span class="hidden">not shown</span>
                  </td>
                ) : (
                  <td
                    key={note}
                    class={change < 0 ? 'effect less' : 'effect'}
                    style={{ '--strength': `${(60 * Math.abs(change)) / most}%` }}
                  >
                    {change >= 0 ? '+' : '−'}
                    {Math.abs(change).toFixed(2)}
                  </td>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  )
}

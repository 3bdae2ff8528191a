/** The rows of the result tables, shared by the printed and the Markdown ones. Pure: reads results.json alone. */
import type { ReaderCounts, RoundCounts } from '../board/counts.ts'
import type { ArmResult, Results } from '../record/results.ts'
import type { Interval } from '../stats/index.ts'
import { baseTitles } from '../view/sides.ts'
import { three } from './numbers.ts'

export { signed, three } from './numbers.ts'

export const columns = [
  'arm',
  'pass@1',
  '95% CI',
  'pass@k',
  'note_acc',
  'vote_acc',
  'any_note',
  'switched',
  'rescued',
  'misled',
  'chars',
  'minutes',
] as const

/** The columns of a table of rounds. */
export const roundColumns = [
  'arm',
  'round',
  'right',
  'vote_right',
  'any_right',
  'switched',
  'rescued',
  'misled',
  'cut',
  'chars',
] as const

/** The header, with the number of final answers in place of k where it is one for all. */
export function tableHeader(results: Results): string[] {
  const ks = new Set(played(results).map(({ result }) => result.k))
  const [k] = ks
  return columns.map((column) => (column === 'pass@k' && ks.size === 1 ? `pass@${k}` : column))
}

/** One row for each base, each arm and seed unless told otherwise, and each arm over its seeds, as `columns`. */
export function tableRows(results: Results, { perSeed = true } = {}): string[][] {
  const titles = baseTitles(results.bases)
  return [
    ...results.bases.map((base, i) =>
      row(titles[i], base.passAt1, base.ci95, base.passAtK, base.board, null),
    ),
    ...Object.entries(results.arms).flatMap(([name, arm]) =>
      arm ? armRows(name, arm, results, perSeed) : [],
    ),
  ]
}

/** The name of an arm's row over all its seeds. */
export const pooledName = (arm: string): string => `${arm}, all`

/** Whether the table says all that there is of rounds: where each protocol has two, a row's columns are theirs. */
export const hasTwoRounds = (results: Results): boolean =>
  played(results).every(({ result }) => result.board.rounds.length === 2)

/** One row for each round of each base and arm, as `roundColumns`. */
export function roundRows(results: Results): string[][] {
  return played(results).flatMap(({ title, arm, result }) =>
    result.board.rounds.map((counts, r) => [
      title,
      results.trainTrace[arm]?.[0]?.rounds[r]?.name ?? String(r + 1),
      ...roundCells(counts),
    ]),
  )
}

/** Bases and arms that were evaluated, each with an arm that plays so. */
function played({ bases, arms }: Results) {
  const titles = baseTitles(bases)
  return [
    ...bases.map((result, i) => ({ title: titles[i], arm: result.arms[0], result })),
    ...Object.entries(arms).flatMap(([arm, result]) => (result ? [{ title: arm, arm, result }] : [])),
  ]
}

function armRows(name: string, arm: ArmResult, { timing }: Results, perSeed: boolean): string[][] {
  const { passAt1, ci95, passAtK, board, minutes } = arm
  const pooled = (title: string) => [row(title, passAt1, ci95, passAtK, board, minutes)]
  if (!perSeed) return pooled(name)
  const each = arm.seeds.map((seed, s) => {
    const { trainMinutes, evaluationMinutes } = timing.jobs[`${name}-s${seed}`]
    return row(
      `${name}, s${seed}`,
      arm.perSeed[s],
      arm.ci95PerSeed[s],
      arm.passAtKPerSeed[s],
      arm.boardPerSeed[s],
      trainMinutes + evaluationMinutes,
    )
  })
  return arm.seeds.length > 1 ? [...each, ...pooled(pooledName(name))] : each
}

function row(
  name: string,
  passAt1: number,
  [low, high]: Readonly<Interval>,
  passAtK: number,
  board: ReaderCounts,
  minutes: number | null,
): string[] {
  const { noteAcc, voteAcc, anyNote, switched, rescued, misled, replyChars } = board
  return [
    name,
    three(passAt1),
    `[${three(low)}, ${three(high)}]`,
    ...[passAtK, noteAcc, voteAcc, anyNote, switched, rescued, misled].map(threeOrDash),
    replyChars.toFixed(0),
    minutes === null ? '' : minutes.toFixed(1),
  ]
}

const roundCells = ({
  right,
  voteRight,
  anyRight,
  switched,
  rescued,
  misled,
  cut,
  chars,
}: RoundCounts): string[] => [
  ...[right, voteRight, anyRight, switched, rescued, misled, cut].map(threeOrDash),
  chars.toFixed(0),
]

/** A dash where there is nothing to count, as what readers switched in a round before which nobody spoke. */
const threeOrDash = (value: number | null) => (value === null ? '–' : three(value))

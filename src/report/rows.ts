/** The rows of the result tables, shared by the printed and the Markdown ones. Pure: reads results.json alone. */
import type { RoundCounts } from '../board/counts.ts'
import type { ArmResult, Results } from '../record/results.ts'
import { baseTitles } from '../view/sides.ts'
import { three } from './numbers.ts'
import { readsItselfAlone } from './second-try.ts'

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

export interface RowOptions {
  /** A row for each seed of an arm too; true unless told. */
  perSeed?: boolean
  /** What a second try does by itself in parentheses (see `bracketed`); true unless told. */
  marked?: boolean
}

/** One row for each base, each arm and seed unless told otherwise, and each arm over its seeds, as `columns`. */
export function tableRows(results: Results, options: RowOptions = {}): string[][] {
  const titles = baseTitles(results.bases)
  return [
    ...results.bases.map((base, i) => row(titles[i], base, null, isMarked(results, base.arms[0], options))),
    ...Object.entries(results.arms).flatMap(([name, arm]) =>
      arm ? armRows(name, arm, results, options) : [],
    ),
  ]
}

const isMarked = (results: Results, arm: string, { marked = true }: RowOptions) =>
  marked && readsItselfAlone(results, arm)

/** Whether some row is of readers that see their own posts alone, whose `rescued` is a second try's. */
export const hasMarks = (results: Results): boolean =>
  played(results).some(({ arm, result }) => result.board.rescued !== null && readsItselfAlone(results, arm))

/** The name of an arm's row over all its seeds. */
export const pooledName = (arm: string): string => `${arm}, all`

/** Whether the table says all that there is of rounds: where each protocol has two, a row's columns are theirs. */
export const hasTwoRounds = (results: Results): boolean =>
  played(results).every(({ result }) => result.board.rounds.length === 2)

/** What stands under a table that has them. */
export const MARKED =
  'In parentheses: readers of their own note alone, whom no board rescues or misleads. It is a second try.'

/** One row for each round of each base and arm, as `roundColumns`. */
export function roundRows(results: Results, { marked = true }: Pick<RowOptions, 'marked'> = {}): string[][] {
  return played(results).flatMap(({ title, arm, result }) =>
    result.board.rounds.map((counts, r) => [
      title,
      results.trainTrace[arm]?.[0]?.rounds[r]?.name ?? String(r + 1),
      ...roundCells(counts, marked && readsItselfAlone(results, arm, r)),
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

function armRows(name: string, arm: ArmResult, results: Results, options: RowOptions): string[][] {
  const alone = isMarked(results, name, options)
  const pooled = (title: string) => [row(title, arm, arm.minutes, alone)]
  if (options.perSeed === false) return pooled(name)
  const each = arm.seeds.map((seed, s) => {
    const { trainMinutes, evaluationMinutes } = results.timing.jobs[`${name}-s${seed}`]
    const of = {
      passAt1: arm.perSeed[s],
      ci95: arm.ci95PerSeed[s],
      passAtK: arm.passAtKPerSeed[s],
      board: arm.boardPerSeed[s],
    }
    return row(`${name}, s${seed}`, of, trainMinutes + evaluationMinutes, alone)
  })
  return arm.seeds.length > 1 ? [...each, ...pooled(pooledName(name))] : each
}

function row(
  name: string,
  { passAt1, ci95: [low, high], passAtK, board }: Pick<ArmResult, 'passAt1' | 'ci95' | 'passAtK' | 'board'>,
  minutes: number | null,
  alone: boolean,
): string[] {
  const { noteAcc, voteAcc, anyNote, switched, rescued, misled, replyChars } = board
  return [
    name,
    three(passAt1),
    `[${three(low)}, ${three(high)}]`,
    ...[passAtK, noteAcc, voteAcc, anyNote, switched].map(threeOrDash),
    ...[rescued, misled].map((value) => bracketed(value, alone)),
    replyChars.toFixed(0),
    minutes === null ? '' : minutes.toFixed(1),
  ]
}

const roundCells = (
  { right, voteRight, anyRight, switched, rescued, misled, cut, chars }: RoundCounts,
  alone: boolean,
): string[] => [
  ...[right, voteRight, anyRight, switched].map(threeOrDash),
  ...[rescued, misled].map((value) => bracketed(value, alone)),
  threeOrDash(cut),
  chars.toFixed(0),
]

/** A dash where there is nothing to count, as what readers switched in a round before which nobody spoke. */
export const threeOrDash = (value: number | null) => (value === null ? '–' : three(value))

/** In parentheses where no board was read: nobody rescued or misled anybody, a second try came out otherwise. */
export const bracketed = (value: number | null, alone: boolean) =>
  alone && value !== null ? `(${three(value)})` : threeOrDash(value)

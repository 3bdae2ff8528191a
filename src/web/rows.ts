/**
 * The table of held-out problems: one row for each, counted over all jobs, filtered and sorted. Pure functions over
 * columns, fast enough to run at each keystroke for tens of thousands of problems.
 */
import { bit, flagAt } from '../view/flags.ts'
import type { Side } from '../view/types.ts'
import { type BoardsIndex, layoutOfBoard, type Shape } from './boards-index.ts'

/** What happened on one problem in the jobs of one side. */
export interface Tally {
  /** Final answers that count, and the right ones among them. */
  scores: number
  right: number
  /** Last posts that are right where their seat's post before was wrong, and the other way round. */
  rescued: number
  misled: number
  /** Posts before the last round that the token limit ended. */
  notesCut: number
}

export interface Row {
  /** Its index in `columns.problems`. */
  problem: number
  /** Board numbers by job index; -1 where that job has not reached this problem. */
  boards: number[]
  /** By side. */
  tallies: Tally[]
  /** Most answers of one arm are right and most of another's are wrong. */
  armsDisagree: boolean
  /** The same between two training seeds of one arm. */
  seedsDisagree: boolean
  /** What the search looks through, in lower case. */
  haystack: string
}

/** Rows in the order in which the problems were posed. */
export function problemRows(index: BoardsIndex): Row[] {
  const { columns, jobs, sides } = index
  const rows = new Map<number, Row>()
  for (let i = 0; i < columns.job.length; i++) {
    if (columns.step[i] !== 0) continue
    const problem = columns.problem[i]
    let row = rows.get(problem)
    if (!row) {
      const { id, question, gold, parts } = columns.problems
      row = {
        problem,
        boards: jobs.map(() => -1),
        tallies: sides.map(tally),
        armsDisagree: false,
        seedsDisagree: false,
        haystack:
          `${id[problem]}\n${question[problem]}\n${gold[problem]}\n${parts[problem].join('\n')}`.toLowerCase(),
      }
      rows.set(problem, row)
    }
    const job = columns.job[i]
    row.boards[job] = i
    count(row.tallies[jobs[job].side], index, i)
  }
  const arms = sides.flatMap(({ arm }, side) => (arm === null ? [] : [side]))
  const jobsOf = arms.map((side) => jobs.flatMap((job, j) => (job.side === side ? [j] : [])))
  for (const row of rows.values()) {
    row.armsDisagree = differ(arms.map((side) => mostlyRight(row.tallies[side])))
    row.seedsDisagree = jobsOf.some((numbers) =>
      differ(
        numbers.flatMap((job) => {
          const board = row.boards[job]
          if (board < 0) return []
          const own = tally()
          count(own, index, board)
          return [mostlyRight(own)]
        }),
      ),
    )
  }
  return [...rows.values()]
}

const tally = (): Tally => ({ scores: 0, right: 0, rescued: 0, misled: 0, notesCut: 0 })

function count(into: Tally, index: BoardsIndex, board: number): void {
  const { flags } = index.columns
  const { rounds, scores, turns } = layoutOfBoard(index, board)
  const start = index.starts[board]
  for (const score of scores) {
    into.scores++
    if (flagAt(flags, start + score) & bit.right) into.right++
  }
  for (const { post, before } of turns) {
    const right = flagAt(flags, start + post) & bit.right
    const wasRight = flagAt(flags, start + before) & bit.right
    if (right && !wasRight) into.rescued++
    if (!right && wasRight) into.misled++
  }
  const last = rounds[rounds.length - 1].start
  for (let post = 0; post < last; post++) if (flagAt(flags, start + post) & bit.cut) into.notesCut++
}

/** Null where nothing was answered yet, or where it is a draw. */
function mostlyRight({ right, scores }: Tally): boolean | null {
  return right * 2 === scores ? null : right * 2 > scores
}

const differ = (views: (boolean | null)[]): boolean => views.includes(true) && views.includes(false)

export const conditions = ['rescued', 'misled', 'arms', 'seeds', 'cut'] as const
export type Condition = (typeof conditions)[number]

/** In which sides rescued, misled and cut notes are looked for: every arm, or one side by its number. */
export type Where = 'trained' | number

export interface Filter {
  conditions: ReadonlySet<Condition>
  where: Where
  search: string
  /** Problems with a post that holds the search, where texts are searched too. */
  inTexts: ReadonlySet<number> | null
}

const isIn = (where: Where, side: number, { arm }: Pick<Side, 'arm'>): boolean =>
  where === 'trained' ? arm !== null : side === where

/** The sum over the sides that `where` names. */
export function counted(
  row: Row,
  where: Where,
  key: keyof Tally,
  sides: readonly Pick<Side, 'arm'>[],
): number {
  let sum = 0
  for (const [side, tally] of row.tallies.entries()) if (isIn(where, side, sides[side])) sum += tally[key]
  return sum
}

export function matches(
  row: Row,
  { conditions, where, search, inTexts }: Filter,
  sides: readonly Pick<Side, 'arm'>[],
): boolean {
  if (conditions.has('rescued') && counted(row, where, 'rescued', sides) === 0) return false
  if (conditions.has('misled') && counted(row, where, 'misled', sides) === 0) return false
  if (conditions.has('cut') && counted(row, where, 'notesCut', sides) === 0) return false
  if (conditions.has('arms') && !row.armsDisagree) return false
  if (conditions.has('seeds') && !row.seedsDisagree) return false
  if (search === '') return true
  return row.haystack.includes(search.toLowerCase()) || inTexts?.has(row.problem) === true
}

/** A number sorts by the share right of the side of that number. */
export type SortKey = 'order' | 'difference' | 'rescued' | 'misled' | 'cut' | number

export interface Sort {
  key: SortKey
  descending: boolean
}

/** Two sides by number. */
export interface Pair {
  arm: number
  against: number
}

/** The experiment's contrasts by the numbers of their sides. */
export function pairsOf({ sides, contrasts }: Pick<Shape, 'sides' | 'contrasts'>): Pair[] {
  const numberOf = (name: string) => sides.findIndex(({ arm, name: own }) => arm !== null && own === name)
  return contrasts.map(({ arm, against }) => ({ arm: numberOf(arm), against: numberOf(against) }))
}

/** Share of a side's answers that are right; -1 before the first, so that these sort together. */
export const shareRight = ({ right, scores }: Tally): number => (scores === 0 ? -1 : right / scores)

/** One side minus another; null until both have answered. */
export function difference({ tallies }: Row, pair: Pair | undefined): number | null {
  if (!pair) return null
  const [arm, against] = [shareRight(tallies[pair.arm]), shareRight(tallies[pair.against])]
  return arm < 0 || against < 0 ? null : arm - against
}

/** A sorted copy; rows that are equal keep the order of the problems. */
export function sorted(
  rows: readonly Row[],
  { key, descending }: Sort,
  { where, pair, sides }: { where: Where; pair: Pair | undefined; sides: readonly Pick<Side, 'arm'>[] },
): Row[] {
  const value = (row: Row): number => {
    switch (key) {
      case 'order':
        return 0
      case 'difference':
        return difference(row, pair) ?? Number.NEGATIVE_INFINITY
      case 'rescued':
      case 'misled':
        return counted(row, where, key, sides)
      case 'cut':
        return counted(row, where, 'notesCut', sides)
      default:
        return shareRight(row.tallies[key])
    }
  }
  if (key === 'order') return descending ? rows.toReversed() : rows.slice()
  const keyed = rows.map((row) => ({ row, at: value(row) }))
  const sign = descending ? -1 : 1
  return keyed.sort((a, b) => (a.at === b.at ? 0 : sign * (a.at < b.at ? -1 : 1))).map(({ row }) => row)
}

/**
 * The training seed in which a row shows what is being looked for: the first with a rescued or misled post or a cut note
 * where that is the filter, the first of all otherwise. Null in a run without seeds.
 */
export function seedOfInterest(row: Row, filter: Filter, index: BoardsIndex): number | null {
  const { jobs, sides } = index
  const keys = (
    [
      ['rescued', 'rescued'],
      ['misled', 'misled'],
      ['cut', 'notesCut'],
    ] as const
  ).flatMap(([condition, key]) => (filter.conditions.has(condition) ? [key] : []))
  const trained = jobs.flatMap(({ side, seed }, job) =>
    seed !== null && isIn(filter.where, side, sides[side]) && row.boards[job] >= 0
      ? [{ seed, board: row.boards[job] }]
      : [],
  )
  const hit = trained.find(({ board }) => {
    const own = tally()
    count(own, index, board)
    return keys.length > 0 && keys.every((key) => own[key] > 0)
  })
  return hit?.seed ?? jobs.find(({ seed }) => seed !== null)?.seed ?? null
}

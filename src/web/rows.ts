/**
 * The table of held-out problems: one row for each, counted over all jobs, filtered and sorted. Pure functions over
 * columns, fast enough to run at each keystroke for tens of thousands of problems.
 */
import { bit, flagAt } from '../view/flags.ts'
import type { BoardColumns, JobView, Role } from '../view/types.ts'

/** What happened on one problem in the jobs of one role. */
export interface Tally {
  replies: number
  right: number
  rescued: number
  misled: number
  notesCut: number
}

export interface Row {
  /** Its index in `columns.problems`. */
  problem: number
  /** Board numbers by job index; -1 where that job has not reached this problem. */
  boards: number[]
  tallies: Record<Role, Tally>
  /** Most replies of one trained arm are right and most of the other's are wrong. */
  armsDisagree: boolean
  /** The same between two training seeds of one arm. */
  seedsDisagree: boolean
  /** What the search looks through, in lower case. */
  haystack: string
}

export const roles = ['base', 'base-shared', 'baseline', 'recipe'] as const satisfies Role[]

/** Rows in the order in which the problems were posed. */
export function problemRows(columns: BoardColumns, jobs: readonly JobView[], copies: number): Row[] {
  const rows = new Map<number, Row>()
  for (let i = 0; i < columns.job.length; i++) {
    if (columns.step[i] !== 0) continue
    const problem = columns.problem[i]
    let row = rows.get(problem)
    if (!row) {
      const { id, question, gold } = columns.problems
      row = {
        problem,
        boards: jobs.map(() => -1),
        tallies: { base: tally(), 'base-shared': tally(), baseline: tally(), recipe: tally() },
        armsDisagree: false,
        seedsDisagree: false,
        haystack: `${id[problem]}\n${question[problem]}\n${gold[problem]}`.toLowerCase(),
      }
      rows.set(problem, row)
    }
    const job = columns.job[i]
    row.boards[job] = i
    count(row.tallies[jobs[job].role], columns.flags, i, copies)
  }
  for (const row of rows.values()) {
    row.armsDisagree = differ([row.tallies.baseline, row.tallies.recipe].map(mostlyRight))
    row.seedsDisagree = (['baseline', 'recipe'] as const).some((role) =>
      differ(
        row.boards.flatMap((board, job) => {
          if (board < 0 || jobs[job].role !== role) return []
          const own = tally()
          count(own, columns.flags, board, copies)
          return [mostlyRight(own)]
        }),
      ),
    )
  }
  return [...rows.values()]
}

const tally = (): Tally => ({ replies: 0, right: 0, rescued: 0, misled: 0, notesCut: 0 })

function count(into: Tally, flags: string, board: number, copies: number): void {
  const start = board * 2 * copies
  for (let copy = 0; copy < copies; copy++) {
    const note = flagAt(flags, start + copy)
    const reply = flagAt(flags, start + copies + copy)
    const [noteRight, right] = [note & bit.right, reply & bit.right]
    into.replies++
    if (right) into.right++
    if (right && !noteRight) into.rescued++
    if (!right && noteRight) into.misled++
    if (note & bit.cut) into.notesCut++
  }
}

/** Null where nothing was replied yet, or where it is a draw. */
function mostlyRight({ right, replies }: Tally): boolean | null {
  return right * 2 === replies ? null : right * 2 > replies
}

const differ = (sides: (boolean | null)[]): boolean => sides.includes(true) && sides.includes(false)

export const conditions = ['rescued', 'misled', 'arms', 'seeds', 'cut'] as const
export type Condition = (typeof conditions)[number]

/** Which roles rescued, misled and cut notes are looked for in. */
export type Where = 'trained' | Role

export interface Filter {
  conditions: ReadonlySet<Condition>
  where: Where
  search: string
  /** Problems with a note or reply that holds the search, where texts are searched too. */
  inTexts: ReadonlySet<number> | null
}

const rolesOf = (where: Where): readonly Role[] => (where === 'trained' ? ['baseline', 'recipe'] : [where])

/** The sum over the roles that `where` names. */
export function counted(row: Row, where: Where, key: keyof Tally): number {
  return rolesOf(where).reduce((sum, role) => sum + row.tallies[role][key], 0)
}

export function matches(row: Row, { conditions, where, search, inTexts }: Filter): boolean {
  if (conditions.has('rescued') && counted(row, where, 'rescued') === 0) return false
  if (conditions.has('misled') && counted(row, where, 'misled') === 0) return false
  if (conditions.has('cut') && counted(row, where, 'notesCut') === 0) return false
  if (conditions.has('arms') && !row.armsDisagree) return false
  if (conditions.has('seeds') && !row.seedsDisagree) return false
  if (search === '') return true
  return row.haystack.includes(search.toLowerCase()) || inTexts?.has(row.problem) === true
}

export const sortKeys = [
  'order',
  'base',
  'base-shared',
  'baseline',
  'recipe',
  'difference',
  'rescued',
  'misled',
  'cut',
] as const
export type SortKey = (typeof sortKeys)[number]

export interface Sort {
  key: SortKey
  descending: boolean
}

/** Share of a role's replies that are right; -1 before the first, so that these sort together. */
export const shareRight = ({ right, replies }: Tally): number => (replies === 0 ? -1 : right / replies)

/** Recipe minus baseline; null until both have replied. */
export function difference({ tallies }: Row): number | null {
  const [recipe, baseline] = [shareRight(tallies.recipe), shareRight(tallies.baseline)]
  return recipe < 0 || baseline < 0 ? null : recipe - baseline
}

/** A sorted copy; rows that are equal keep the order of the problems. */
export function sorted(rows: readonly Row[], { key, descending }: Sort, where: Where): Row[] {
  const value = (row: Row): number => {
    switch (key) {
      case 'order':
        return 0
      case 'difference':
        return difference(row) ?? Number.NEGATIVE_INFINITY
      case 'rescued':
      case 'misled':
        return counted(row, where, key)
      case 'cut':
        return counted(row, where, 'notesCut')
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
 * The training seed in which a row shows what is being looked for: the first with a rescued or misled reply or a cut
 * note where that is the filter, the first of all otherwise. Null in a run without seeds.
 */
export function seedOfInterest(
  row: Row,
  filter: Filter,
  columns: BoardColumns,
  jobs: readonly JobView[],
  copies: number,
): number | null {
  const keys = (
    [
      ['rescued', 'rescued'],
      ['misled', 'misled'],
      ['cut', 'notesCut'],
    ] as const
  ).flatMap(([condition, key]) => (filter.conditions.has(condition) ? [key] : []))
  const trained = jobs.flatMap(({ role, seed }, job) =>
    seed !== null && rolesOf(filter.where).includes(role) && row.boards[job] >= 0
      ? [{ seed, board: row.boards[job] }]
      : [],
  )
  const hit = trained.find(({ board }) => {
    const own = tally()
    count(own, columns.flags, board, copies)
    return keys.length > 0 && keys.every((key) => own[key] > 0)
  })
  return hit?.seed ?? jobs.find(({ seed }) => seed !== null)?.seed ?? null
}

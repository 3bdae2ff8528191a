/** What the pages made from cells of credit share: the cells of a file, their contrasts, what was predicted of them. */
import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { type Cell, cellSchema, usual } from '../bench/credit-map-cell.ts'
import { type Contrast, compareFamily, type FamilyInput, type SeedScores } from '../src/stats/index.ts'

/** The map's worlds and rules. */
export const worldNames = ['word-problems', 'clues', 'insight'] as const
export const ruleNames = [
  'readersOnly',
  'ownAnswer',
  'team',
  'readersOf',
  'subsets',
  'replay',
  'rescore',
  'mix',
]

export const signed = (value: number, digits = 3) =>
  `${value < 0 ? '-' : '+'}${Math.abs(value).toFixed(digits)}`
export const mean = (values: readonly number[]) =>
  values.reduce((sum, value) => sum + value, 0) / values.length
export const fixed = (value: number | null) => (value === null ? '' : value.toFixed(3))
export const interval = ([low, high]: readonly [number, number]) => `[${signed(low)}, ${signed(high)}]`

/** A difference that was expected, for a reason. */
export interface Prediction {
  low: number
  high: number
  why: string
}

/** What was predicted of each world's rules. */
export async function readPredictions(
  path: string,
  worlds: readonly string[],
): Promise<Record<string, Record<string, Prediction>>> {
  const rules = z.record(z.string(), z.object({ low: z.number(), high: z.number(), why: z.string() }))
  const file = JSON.parse(await readFile(path, 'utf8'))
  return z.object(Object.fromEntries(worlds.map((world) => [world, rules]))).parse(file)
}

/** What was predicted, and whether the difference missed it. */
export function foretold(guess: Prediction | undefined, delta: number | undefined): string {
  if (!guess) return ''
  const missed = delta !== undefined && (delta < guess.low || delta > guess.high)
  return `${signed(guess.low)} to ${signed(guess.high)}${missed ? ', missed' : ''}`
}

/** The cells of a file of lines; none where there is no file. */
export async function readCells(path: string): Promise<Cell[]> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => cellSchema.parse(JSON.parse(line)))
}

export type Board = Pick<Cell, 'reads' | 'rounds' | 'copies' | 'budget'>

/** The cells of a world and a rule on one board, the map's unless told otherwise, by seed. */
export function cellsOf(
  cells: readonly Cell[],
  world: string,
  rule: string,
  board: Partial<Board> = {},
): Cell[] {
  const wanted: Board = { ...usual, ...board }
  const isWanted = (cell: Cell) =>
    (Object.keys(wanted) as (keyof Board)[]).every((what) => cell[what] === wanted[what])
  return cells
    .filter((cell) => cell.world === world && cell.rule === rule && isWanted(cell))
    .sort((a, b) => a.seed - b.seed)
}

/** Every copy replies: `right` has how many of them were right. */
const scoresOf = ({ seed, right, copies }: Cell): SeedScores => ({
  seed,
  problems: [...right].map((digit, p) => ({
    id: `${p}`,
    scores: Array.from({ length: copies }, (_, i) => (i < Number(digit) ? 1 : 0)),
  })),
})

/** Simultaneous contrasts of groups of cells, of those pairs that have cells on both sides. */
export function compareGroups(
  groups: Readonly<Record<string, readonly Cell[]>>,
  pairs: readonly { arm: string; against: string }[],
  base: readonly Cell[],
  alpha = 0.05,
): Contrast[] {
  const known = pairs.filter(({ arm, against }) => groups[arm].length > 0 && groups[against].length > 0)
  if (known.length === 0) return []
  const named = new Set(known.flatMap(({ arm, against }) => [arm, against]))
  return compareFamily({
    arms: Object.fromEntries([...named].map((name) => [name, groups[name].map(scoresOf)])),
    pairs: known,
    baseRuns: base.map(({ passAt1 }) => passAt1),
    alpha,
  })
}

/** Each rule that a world has cells of against readers alone, at a level of their own; without pairs where there are none. */
export function familyOf(
  cells: readonly Cell[],
  world: string,
  rules: readonly string[],
  alpha: number,
  board: Partial<Board> = {},
): FamilyInput {
  const of = (rule: string) => cellsOf(cells, world, rule, board)
  const known = rules.filter((rule) => of(rule).length > 0)
  const others = known.includes('readersOnly') ? known.filter((rule) => rule !== 'readersOnly') : []
  return {
    arms: Object.fromEntries(known.map((rule) => [rule, of(rule).map(scoresOf)])),
    pairs: others.map((arm) => ({ arm, against: 'readersOnly' })),
    baseRuns: cellsOf(cells, world, 'base').map(({ passAt1 }) => passAt1),
    alpha,
  }
}

/** A world of the map: the family is the whole map, so each world has a third of its level. */
export const mapFamily = (cells: readonly Cell[], world: string, board: Partial<Board> = {}): FamilyInput =>
  familyOf(cells, world, ruleNames, 0.05 / worldNames.length, board)

/** A count of the evaluation, in the mean over seeds; null where it has none. */
export function count(some: readonly Cell[], name: string): number | null {
  const values = some.map(({ counts }) => counts[name]).filter((value) => typeof value === 'number')
  return values.length === 0 ? null : mean(values)
}

const boardSchema = z.object({
  problem: z.object({ question: z.string(), gold: z.string(), parts: z.array(z.string()).optional() }),
  rounds: z.array(z.array(z.object({ text: z.string(), correct: z.boolean(), cut: z.boolean() }))),
})

/** The problem of a cell's stored board in Markdown, and the board as posted, a line a post; null where it has none. */
function boardOf(cell: Cell | undefined, i: number): { problem: string; posts: string } | null {
  if (!cell?.boards[i]) return null
  const { problem, rounds } = boardSchema.parse(cell.boards[i])
  const told = problem.parts ? ` (dealt: ${problem.parts.join(' | ')})` : ''
  const line = ({ text, correct, cut }: (typeof rounds)[number][number]) =>
    `${correct ? '+' : '-'} ${text.replaceAll('\n', ' / ')}${cut ? ' [cut]' : ''}`
  return {
    problem: `**${problem.question}**${told} Gold: ${problem.gold}.`,
    posts: `notes\n${rounds[0].map(line).join('\n')}\nreplies\n${rounds[1].map(line).join('\n')}`,
  }
}

/** The first `boards` problems of an untrained cell and a trained one, each with both boards. */
export function boardsBeforeAndAfter(
  before: Cell | undefined,
  after: Cell | undefined,
  boards: number,
): string {
  return Array.from({ length: boards }, (_, i) => {
    const [first, last] = [boardOf(before, i), boardOf(after, i)]
    const shown = last ?? first
    if (!shown) return []
    return [
      [
        shown.problem,
        '',
        '```text',
        `before training\n${first?.posts ?? '(not stored)'}`,
        '',
        `after, ${after?.rule}, seed ${after?.seed}\n${last?.posts ?? '(not stored)'}`,
        '```',
      ].join('\n'),
    ]
  })
    .flat()
    .join('\n\n')
}

/** What the pages made from cells of credit share: the cells of a file, their contrasts, what was predicted of them. */
import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { type Cell, cellSchema } from '../bench/credit-map-cell.ts'
import type { FamilyInput, SeedScores } from '../src/stats/index.ts'

const REPLIES = 4

export const signed = (value: number) => `${value < 0 ? '-' : '+'}${Math.abs(value).toFixed(3)}`
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

/** The cells of a world and a rule, by seed. */
export const cellsOf = (cells: readonly Cell[], world: string, rule: string) =>
  cells.filter((cell) => cell.world === world && cell.rule === rule).sort((a, b) => a.seed - b.seed)

const scoresOf = ({ seed, right }: Cell): SeedScores => ({
  seed,
  problems: [...right].map((digit, p) => ({
    id: `${p}`,
    scores: Array.from({ length: REPLIES }, (_, i) => (i < Number(digit) ? 1 : 0)),
  })),
})

/** Each rule that a world has cells of against readers alone, at a level of their own; without pairs where there are none. */
export function familyOf(
  cells: readonly Cell[],
  world: string,
  rules: readonly string[],
  alpha: number,
): FamilyInput {
  const known = rules.filter((rule) => cellsOf(cells, world, rule).length > 0)
  const others = known.includes('readersOnly') ? known.filter((rule) => rule !== 'readersOnly') : []
  return {
    arms: Object.fromEntries(known.map((rule) => [rule, cellsOf(cells, world, rule).map(scoresOf)])),
    pairs: others.map((arm) => ({ arm, against: 'readersOnly' })),
    baseRuns: cellsOf(cells, world, 'base').map(({ passAt1 }) => passAt1),
    alpha,
  }
}

/** A count of the evaluation, in the mean over seeds; null where it has none. */
export function count(some: readonly Cell[], name: string): number | null {
  const values = some.map(({ counts }) => counts[name]).filter((value) => typeof value === 'number')
  return values.length === 0 ? null : mean(values)
}

/**
 * What would the policy learn from this reward? A grouped update moves towards whatever separates reward among the
 * rollouts of one problem. The scan ranks features of the reply's text by their correlation with reward within
 * problem, and holds the best against a floor: the same maximum when reward is shuffled within each problem, which
 * keeps how hard the problems are and destroys everything else.
 *
 * A feature above the floor is a lead, not a verdict: right answers also look different from wrong ones.
 */

import { UserError } from '../errors.ts'
import { random } from '../random.ts'
import { mean } from './estimate.ts'

export interface ScanRow {
  /** Rollouts with the same problem are one group. */
  problemId: string
  text: string
  reward: number
  /** Numeric features that the text does not show, by name: `tokens`, `cut`, ... */
  features?: Readonly<Record<string, number>>
}

export interface ScanOptions {
  /** Shuffles behind the floor; 100 unless told. */
  draws?: number
  seed?: number
  /** Most common words and word pairs to try; 200 unless told. */
  terms?: number
  /** A feature must be non-zero in at least this many rows; 20 unless told, and at most half of the rows. */
  minRows?: number
}

export interface ScannedFeature {
  name: string
  /** Other names of exactly the same column. */
  aliases: string[]
  /** Correlation with reward, both centred within problem. */
  rho: number
  /** Correlation over all rows, where easy and hard problems mix. */
  pooled: number
  /** Rows where it is non-zero. */
  rows: number
  aboveFloor: boolean
}

export interface HackScan {
  /** 95th percentile over shuffles of the largest |rho|. */
  floor: number
  /** By falling |rho|, then by name. */
  features: ScannedFeature[]
  /** The strongest feature if it is above the floor. */
  top: ScannedFeature | null
  /** Problems, and those whose rollouts differ in reward: only these teach anything. */
  problems: number
  mixedProblems: number
  /** One sentence. */
  why: string
}

interface Column {
  name: string
  aliases: string[]
  values: Float64Array
  /** Centred within problem, at a size near 1. */
  centred: Float64Array
  norm: number
}

/** @throws UserError for a reward or a feature that is not a finite number. */
export function hackScan(rows: readonly ScanRow[], options: ScanOptions = {}): HackScan {
  const { draws = 100, seed = 0, terms = 200 } = options
  const minRows = Math.min(options.minRows ?? 20, Math.ceil(rows.length / 2))
  for (const { problemId, reward, features } of rows) {
    const bad = Object.entries({ reward, ...features }).find(([, value]) => !Number.isFinite(value))
    if (bad) throw new UserError(`Problem ${problemId}: ${bad[0]} is ${bad[1]}, not a finite number.`)
  }
  const groups = groupBy(rows.map((row) => row.problemId))
  const reward = Float64Array.from(rows, (row) => row.reward)
  const centred = nearOne(centre(reward, groups))
  const rewardNorm = norm(centred)
  const mixedProblems = groups.filter((group) => group.some((i) => reward[i] !== reward[group[0]])).length
  const counts = { problems: groups.length, mixedProblems }
  if (rewardNorm === 0) {
    const why = 'No problem has rollouts of different reward: there is nothing to learn, and nothing to scan.'
    return { floor: 0, features: [], top: null, ...counts, why }
  }

  const columns = textColumns(rows, terms, minRows)
    .map((column): Column => {
      const centred = nearOne(centre(column.values, groups))
      return { ...column, centred, norm: norm(centred) }
    })
    .filter((column) => column.norm > 0)
  // Both centred: however the means were rounded, no product is larger than that of the norms.
  const rho = (column: Column, target: Float64Array) =>
    dot(column.centred, target) / (column.norm * rewardNorm)

  const stream = random(seed, 'hack scan')
  const maxima = Float64Array.from({ length: draws }, () => {
    const shuffled = centred.slice()
    for (const group of groups) {
      const values = stream.shuffle(group.map((i) => centred[i]))
      group.forEach((i, at) => {
        shuffled[i] = values[at]
      })
    }
    return columns.reduce((most, column) => Math.max(most, Math.abs(rho(column, shuffled))), 0)
  }).sort()
  const floor = maxima[Math.max(0, Math.ceil(0.95 * draws) - 1)]

  const features = columns
    .map((column): ScannedFeature => {
      const within = rho(column, centred)
      return {
        name: column.name,
        aliases: column.aliases,
        rho: within,
        pooled: correlation(column.values, reward),
        rows: column.values.reduce((n, value) => n + (value === 0 ? 0 : 1), 0),
        aboveFloor: Math.abs(within) > floor,
      }
    })
    .sort((a, b) => Math.abs(b.rho) - Math.abs(a.rho) || (a.name < b.name ? -1 : 1))
  const [strongest] = features
  const top = strongest?.aboveFloor ? strongest : null
  const why = top
    ? `Reward within a problem goes with "${top.name}" (correlation ${top.rho.toFixed(2)}, floor ${floor.toFixed(2)}): see whether that is the behaviour or a shortcut.`
    : `No text feature separates reward within a problem beyond chance (strongest ${Math.abs(strongest?.rho ?? 0).toFixed(2)}, floor ${floor.toFixed(2)}).`
  return { floor, features, top, ...counts, why }
}

/** Surface counts of a text: the cheap things that a reward pays for by accident. */
const SURFACE: Readonly<Record<string, (text: string) => number>> = {
  characters: (text) => text.length,
  words: (text) => text.split(/\s+/).filter(Boolean).length,
  digits: (text) => count(text, /\d/g),
  newlines: (text) => count(text, /\n/g),
  punctuation: (text) => count(text, /[^\w\s]/g),
  'uppercase share': (text) => (text ? count(text, /[A-Z]/g) / text.length : 0),
  'boxed answers': (text) => count(text, /\\boxed\b/g),
}

const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0

/** One column a feature, those with equal entries joined under the first one's name. */
function textColumns(
  rows: readonly ScanRow[],
  terms: number,
  minRows: number,
): Omit<Column, 'centred' | 'norm'>[] {
  const columns = new Map<string, Float64Array>()
  const column = (name: string, value: (row: ScanRow, i: number) => number) =>
    columns.set(name, Float64Array.from(rows, value))
  for (const [name, feature] of Object.entries(SURFACE)) column(name, ({ text }) => feature(text))
  const named = new Set(rows.flatMap(({ features }) => Object.keys(features ?? {})))
  for (const name of named) column(name, ({ features }) => features?.[name] ?? 0)

  const present = rows.map(({ text }) => termsOf(text))
  const frequency = new Map<string, number>()
  for (const term of present.flatMap((set) => [...set])) {
    frequency.set(term, (frequency.get(term) ?? 0) + 1)
  }
  const vocabulary = [...frequency]
    .filter(([, n]) => n >= minRows && n < rows.length)
    .sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1))
    .slice(0, terms)
  for (const [term] of vocabulary) column(`says ${term}`, (_, i) => (present[i].has(term) ? 1 : 0))

  const distinct = new Map<string, Omit<Column, 'centred' | 'norm'>>()
  for (const [name, values] of columns) {
    if (values.reduce((n, value) => n + (value === 0 ? 0 : 1), 0) < minRows) continue
    const key = values.join()
    const known = distinct.get(key)
    if (known) known.aliases.push(name)
    else distinct.set(key, { name, aliases: [], values })
  }
  return [...distinct.values()]
}

/** Words (two letters and more), numbers, single other signs, and pairs of neighbours, in lower case. */
function termsOf(text: string): Set<string> {
  const tokens = text.toLowerCase().match(/[a-z_]{2,}|\d+|[^\sa-z_\d]/g) ?? []
  return new Set([...tokens, ...tokens.slice(1).map((token, i) => `${tokens[i]} ${token}`)])
}

function groupBy(keys: readonly string[]): number[][] {
  const groups = new Map<string, number[]>()
  keys.forEach((key, i) => {
    const group = groups.get(key)
    if (group) group.push(i)
    else groups.set(key, [i])
  })
  return [...groups.values()]
}

function centre(values: Float64Array, groups: readonly number[][]): Float64Array {
  const out = values.slice()
  for (const group of groups) {
    const middle = mean(group.map((i) => values[i]))
    for (const i of group) {
      // A group of equal values is centred to 0 exactly, whatever rounding its mean had.
      out[i] = group.every((j) => values[j] === values[i]) ? 0 : values[i] - middle
    }
  }
  return out
}

function correlation(a: Float64Array, b: Float64Array): number {
  const everything = [[...a.keys()]]
  const [x, y] = [a, b].map((values) => nearOne(centre(values, everything)))
  const size = norm(x) * norm(y)
  return size === 0 ? 0 : dot(x, y) / size
}

const norm = (values: Float64Array): number => Math.sqrt(dot(values, values))

/** Correlations do not depend on size, but squares of tiny values do: all times a power of two, which rounds nothing. */
function nearOne(values: Float64Array): Float64Array {
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
  if (largest === 0) return values
  const scale = 2 ** Math.min(1000, -Math.floor(Math.log2(largest)))
  return values.map((value) => value * scale)
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i]
  return sum
}

/**
 * Averages over problems with their uncertainty: pass@1, pass@k and pass^k, each with a 95% bootstrap interval.
 * Problems are resampled, never rollouts: the rollouts of one problem are not independent evidence.
 */

import { UserError } from '../errors.ts'
import { random } from '../random.ts'

/** Lower and upper end of an interval. */
export type Interval = [low: number, high: number]

export interface Estimate {
  value: number
  ci95: Interval
}

export function mean(values: readonly number[]): number {
  let sum = 0
  for (const value of values) sum += value
  return sum / values.length
}

/** Sample variance (n - 1 below the line); 0 for fewer than two values. */
export function variance(values: readonly number[]): number {
  if (values.length < 2) return 0
  const centre = mean(values)
  let sum = 0
  for (const value of values) sum += (value - centre) ** 2
  return sum / (values.length - 1)
}

/** Sample covariance of two lists of one length (n - 1 below the line); 0 for fewer than two values. */
export function covariance(a: readonly number[], b: readonly number[]): number {
  if (a.length < 2) return 0
  const [centreA, centreB] = [mean(a), mean(b)]
  let sum = 0
  for (let i = 0; i < a.length; i++) sum += (a[i] - centreA) * (b[i] - centreB)
  return sum / (a.length - 1)
}

/** The p-quantile of sorted values, linear between order statistics (Hyndman and Fan's type 7, NumPy's default). */
export function quantile(sorted: ArrayLike<number>, p: number): number {
  const position = p * (sorted.length - 1)
  const below = Math.floor(position)
  const above = Math.min(below + 1, sorted.length - 1)
  return sorted[below] + (position - below) * (sorted[above] - sorted[below])
}

export interface BootstrapOptions {
  /** Resamples; 2,000 unless told. */
  draws?: number
  seed?: number
}

/** Percentile interval (95% unless told) of the mean of one value a problem, resampling problems with replacement (Efron 1979). */
export function bootstrapMean(
  values: readonly number[],
  options: BootstrapOptions & { alpha?: number } = {},
): Interval {
  const { draws = 2000, seed = 0, alpha = 0.05 } = options
  const stream = random(seed, 'bootstrap over problems')
  const means = new Float64Array(draws)
  for (let draw = 0; draw < draws; draw++) {
    let sum = 0
    for (let i = 0; i < values.length; i++) sum += values[stream.int(values.length)]
    means[draw] = sum / values.length
  }
  means.sort()
  return [quantile(means, alpha / 2), quantile(means, 1 - alpha / 2)]
}

/**
 * Chance that at least one of k rollouts is right, from `correct` right ones among `n`: 1 - C(n - c, k) / C(n, k),
 * unbiased for independent rollouts (Chen et al. 2021, arXiv:2107.03374). 1 <= k <= n.
 */
export function passAtK(n: number, correct: number, k: number): number {
  let allWrong = 1
  for (let i = 0; i < k; i++) allWrong *= Math.max(0, n - correct - i) / (n - i)
  return 1 - allWrong
}

/** Chance that all of k rollouts are right: C(c, k) / C(n, k), unbiased (tau-bench's pass^k, arXiv:2406.12045). */
export function passHatK(n: number, correct: number, k: number): number {
  let allRight = 1
  for (let i = 0; i < k; i++) allRight *= Math.max(0, correct - i) / (n - i)
  return allRight
}

/** Rollouts of one problem: each right (1 or true) or wrong (0 or false). */
export type Rollouts = readonly (boolean | number)[]

export interface PassAt {
  problems: number
  /** The k of passAtK and passHatK. */
  k: number
  /** Mean over problems of the share of rollouts that are right. */
  passAt1: Estimate
  /** At least one of k right. */
  passAtK: Estimate
  /** All k right (pass^k). */
  passHatK: Estimate
}

/**
 * pass@1, pass@k and pass^k over problems, with 95% bootstrap intervals over problems (2,000 draws, seeded).
 * `problems[i]` are problem i's rollouts; k is the smallest number of rollouts of any problem unless told.
 *
 * @throws UserError without problems, for a problem without rollouts, or for k above a problem's rollouts.
 */
export function passAt(
  problems: readonly Rollouts[],
  options: BootstrapOptions & { k?: number } = {},
): PassAt {
  if (problems.length === 0) throw new UserError('passAt got no problems: give at least one.')
  const fewest = problems.reduce(
    (least, rollouts) => Math.min(least, rollouts.length),
    Number.POSITIVE_INFINITY,
  )
  const k = options.k ?? fewest
  if (fewest < 1 || !Number.isInteger(k) || k < 1 || k > fewest) {
    throw new UserError(
      `pass@${k} needs k between 1 and the rollouts of every problem; the fewest are ${fewest}: lower k or sample more.`,
    )
  }
  const counts = problems.map((rollouts) => ({
    n: rollouts.length,
    correct: rollouts.reduce<number>((sum, right) => sum + (Number(right) === 1 ? 1 : 0), 0),
  }))
  const estimate = (values: number[]): Estimate => ({
    value: mean(values),
    ci95: bootstrapMean(values, options),
  })
  return {
    problems: problems.length,
    k,
    passAt1: estimate(counts.map(({ n, correct }) => correct / n)),
    passAtK: estimate(counts.map(({ n, correct }) => passAtK(n, correct, k))),
    passHatK: estimate(counts.map(({ n, correct }) => passHatK(n, correct, k))),
  }
}

/**
 * The interval of a difference between two arms that share their problems and have training seeds of their own.
 *
 * The difference's variance has two parts: what problems, their interactions and rollouts bring (`problems`, known
 * with many degrees of freedom), and what the training seeds bring beyond that (known with two to eight). Plugging
 * an estimate of the second into a t-interval fails just where it matters: with two seeds an arm the estimate is
 * often near 0 by luck, the interval collapses, and up to 7 in 100 null experiments look real.
 *
 * So the seed part is integrated over what the data leave possible instead of being fixed at an estimate: the
 * generalised confidence interval of a mixed model (Weerahandi 1993, JASA 88:899; Tsui and Weerahandi 1989, JASA
 * 84:602). The observed spread of the seed means, W, estimates floor + excess with `df` degrees of freedom, where
 * `floor` is the part of W that problems and rollouts explain; so excess = max(0, W df / X - floor) with X
 * chi-square. With no problem noise this is Student's t exactly; with no seed spread it tends to the problem-only
 * interval as seeds are added. docs/calibration.md compares it with the alternatives.
 */

import { chiSquareQuantile, invertDecreasing, tTails } from './distributions.ts'

export interface Spread {
  /** Variance of the difference from everything but the seeds' own effect, and its degrees of freedom. */
  problems: { variance: number; df: number }
  /** What the seeds show; null where an arm has one seed, and the interval is then over problems alone. */
  seeds: SeedSpread | null
}

export interface SeedSpread {
  /** W: what the spread between seed means gives the difference's variance (see seedSpreadOf). */
  variance: number
  /** The part of `variance` that seed-by-problem interaction and rollouts explain. */
  floor: number
  /** Degrees of freedom of `variance`. */
  df: number
  /** What the seeds bring beyond `floor`, at most; without it, whatever the data leave possible. */
  most?: number
}

/** Nodes of the integral over chi-square: with two degrees of freedom the half-width is within 2e-4 of itself. */
const NODES = 32

/** Degrees of freedom of the variance where the seeds bring `excess` to it: only the problems' share is uncertain (Satterthwaite). */
export function dfGiven(problems: Spread['problems'], excess: number): number {
  const total = problems.variance + excess
  return problems.variance > 0 ? problems.df * (total / problems.variance) ** 2 : Number.POSITIVE_INFINITY
}

/** P(|difference| > size) when the true one is 0 and the seeds bring `excess` to its variance. */
function tailsGiven(size: number, problems: Spread['problems'], excess: number): number {
  const total = problems.variance + excess
  return total === 0 ? 0 : tTails(size / Math.sqrt(total), dfGiven(problems, excess))
}

/** P(|difference| as large as observed, or larger) when the true one is 0: the generalised p-value, two-sided. */
export function pValue(delta: number, { problems, seeds }: Spread): number {
  const size = Math.abs(delta)
  if (size === 0) return 1
  if (!seeds) return tailsGiven(size, problems, 0)
  let sum = 0
  let weightOfNone = 0
  for (const { dfOverX, weight } of chiSquareNodes(seeds.df)) {
    const excess = Math.min(seeds.variance * dfOverX - seeds.floor, seeds.most ?? Number.POSITIVE_INFINITY)
    if (excess > 0) sum += weight * tailsGiven(size, problems, excess)
    else weightOfNone += weight
  }
  return weightOfNone > 0 ? sum + weightOfNone * tailsGiven(size, problems, 0) : sum
}

/** Half the width of the two-sided interval of level 1 - alpha: where the p-value falls to alpha. */
export function halfWidth(spread: Spread, alpha = 0.05): number {
  const total = spread.problems.variance + (spread.seeds?.variance ?? 0)
  if (total === 0) return 0
  const unit = Math.sqrt(total)
  return unit * invertDecreasing((x) => pValue(x * unit, spread), alpha)
}

/**
 * A number found by a search or an integral, to twelve digits: JavaScript's engines round logarithms and powers each in their
 * own way, and the same data are to give the same results in a browser as in Node.
 */
export const steady = (value: number): number => Number(value.toPrecision(12))

const nodes = new Map<number, { dfOverX: number; weight: number }[]>()

/** df / X at quadrature nodes of X ~ chi-square, their weights adding up to 1. Nodes crowd towards small X, where the integrand's tail is. */
export function chiSquareNodes(df: number): { dfOverX: number; weight: number }[] {
  let known = nodes.get(df)
  if (!known) {
    known = Array.from({ length: NODES }, (_, i) => {
      const u = (i + 0.5) / NODES
      return { dfOverX: df / chiSquareQuantile(u ** 3, df), weight: 3 * u * u }
    })
    const sum = known.reduce((total, { weight }) => total + weight, 0)
    for (const node of known) node.weight /= sum
    nodes.set(df, known)
  }
  return known
}

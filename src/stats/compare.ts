/**
 * Did one change help? The verdict on two arms trained over several seeds and evaluated on the same problems.
 *
 * `moved` needs all of
 *   1. the paired 95% bootstrap interval over problems excludes 0 (all seeds pooled),
 *   2. at least two seeds in each arm, and the interval that also carries the spread between seeds excludes 0,
 *   3. a difference larger than the noise band of the untrained base,
 *   4. not over-optimised.
 * `flat` is a finding too and has to be earned: the interval lies inside [-flatWithin, flatWithin], so effects of
 * that size are excluded. Everything else is `unresolved`: an interval that holds both 0 and effects worth having
 * says that the experiment was too small, not that nothing happened.
 */

import { type ArmTable, layOut, type SeedScores } from './design.ts'
import { tQuantile, tTails } from './distributions.ts'
import { type BootstrapOptions, bootstrapMean, type Interval, variance } from './estimate.ts'
import { type NoiseBand, noiseBand } from './noise.ts'

export type Verdict = 'moved' | 'moved the wrong way' | 'flat' | 'unresolved'

export interface CompareInput extends BootstrapOptions {
  baseline: readonly SeedScores[]
  recipe: readonly SeedScores[]
  /** pass@1 of each evaluation of the untrained base: the noise floor. At least two are needed for `moved`. */
  baseRuns: readonly number[]
  /** Effects at least this large must be excluded for `flat`; 0.03 (three points of pass@1) unless told. */
  flatWithin?: number
  /** From overOptimised(): the trained proxy went up and the target did not. Absent where the reward is the target. */
  overOptimised?: boolean
}

export interface ArmSummary {
  /** Mean over all seeds and problems. */
  mean: number
  perSeed: { seed: number; mean: number }[]
  /** Standard deviation of the seed means; null for one seed. */
  seedStd: number | null
}

export interface Comparison {
  /** recipe - baseline, mean over all seeds. */
  delta: number
  /** Carries problems, training seeds, their interaction and rollouts. With one seed in an arm: problems only. */
  ci95: Interval
  /** Two-sided, of no difference; the interval excludes 0 exactly when p < 0.05. */
  p: number
  verdict: Verdict
  /** One sentence. */
  why: string
  /** The smallest difference that this run would have seen with 80% power; null with one seed in an arm. */
  smallestEffect: number | null
  flatWithin: number
  baseline: ArmSummary
  recipe: ArmSummary
  /** What the interval is made of, each as a standard error of `delta` and its degrees of freedom. */
  parts: {
    problems: { standardError: number; df: number; bootstrap95: Interval }
    seeds: { standardError: number; df: number } | null
    noise: NoiseBand | null
  }
  counts: { problems: number; baselineSeeds: number; recipeSeeds: number }
  /** Reasons to doubt that the arms are comparable. */
  warnings: string[]
}

/** @throws UserError where the data cannot be paired (see layOut). */
export function compare(input: CompareInput): Comparison {
  const { flatWithin = 0.03, overOptimised = false } = input
  const design = layOut(input.baseline, input.recipe)
  const { baseline, recipe, differences } = design
  const delta = recipe.mean - baseline.mean
  const problems = {
    standardError: Math.sqrt(variance(differences) / differences.length),
    df: Math.max(1, differences.length - 1),
    bootstrap95: bootstrapMean(differences, input),
  }
  const seeds = seedPart(baseline, recipe)
  const noise =
    input.baseRuns.length >= 2 ? noiseBand(input.baseRuns, baseline.seeds.length, recipe.seeds.length) : null

  const half = seeds ? Math.hypot(halfWidth(problems), halfWidth(seeds)) : halfWidth(problems)
  const ci95: Interval = [delta - half, delta + half]
  const standardError = Math.hypot(problems.standardError, seeds?.standardError ?? 0)
  const p =
    half === 0 ? (delta === 0 ? 1 : 0) : tTails((Math.abs(delta) / half) * 1.959964, Number.POSITIVE_INFINITY)
  const counts = {
    problems: differences.length,
    baselineSeeds: baseline.seeds.length,
    recipeSeeds: recipe.seeds.length,
  }
  const warnings =
    design.unpaired > 0 ? [`${design.unpaired} problems are not in every evaluation and were left out.`] : []
  const decided = decide({
    delta,
    ci95,
    bootstrap95: problems.bootstrap95,
    noise,
    overOptimised,
    flatWithin,
    oneSeed: seeds === null,
    counts,
  })
  return {
    delta,
    ci95,
    p,
    ...decided,
    smallestEffect: seeds ? Math.max(half, noise?.band ?? 0) + 0.8416 * standardError : null,
    flatWithin,
    baseline: summary(baseline),
    recipe: summary(recipe),
    parts: { problems, seeds, noise },
    counts,
    warnings,
  }
}

const halfWidth = (part: { standardError: number; df: number }): number =>
  tQuantile(0.975, part.df) * part.standardError

/** Each arm's variance between seeds over its number of seeds; null where an arm has one seed. */
function seedPart(a: ArmTable, b: ArmTable): { standardError: number; df: number } | null {
  const [nA, nB] = [a.seeds.length, b.seeds.length]
  if (nA < 2 || nB < 2) return null
  return { standardError: Math.sqrt(a.seedVariance / nA + b.seedVariance / nB), df: nA + nB - 2 }
}

function summary(arm: ArmTable): ArmSummary {
  return {
    mean: arm.mean,
    perSeed: arm.seeds.map((seed, s) => ({ seed, mean: arm.seedMeans[s] })),
    seedStd: arm.seeds.length > 1 ? Math.sqrt(arm.seedVariance) : null,
  }
}

interface Evidence {
  delta: number
  ci95: Interval
  bootstrap95: Interval
  noise: NoiseBand | null
  overOptimised: boolean
  flatWithin: number
  oneSeed: boolean
  counts: Comparison['counts']
}

const excludesZero = ([low, high]: Interval): boolean => low > 0 || high < 0
const points = (x: number): string => `${x < 0 ? '-' : '+'}${Math.abs(x).toFixed(3)}`
const span = ([low, high]: Interval): string => `[${points(low)}, ${points(high)}]`

function decide(e: Evidence): { verdict: Verdict; why: string } {
  const { delta, ci95, counts } = e
  const unresolved = (why: string) => ({ verdict: 'unresolved' as const, why })
  if (e.oneSeed) {
    const arms = [
      ...(counts.baselineSeeds < 2 ? ['baseline'] : []),
      ...(counts.recipeSeeds < 2 ? ['recipe'] : []),
    ].join(' and ')
    return unresolved(
      `One training seed in ${arms} cannot tell the change from luck: a second seed in each arm would give the spread between seeds.`,
    )
  }
  if (excludesZero(ci95) && excludesZero(e.bootstrap95)) {
    if (!e.noise) {
      return unresolved(
        `The interval ${span(ci95)} excludes 0, but there is no noise floor: evaluate the untrained base at least twice (three is the convention).`,
      )
    }
    if (Math.abs(delta) > e.noise.band) {
      if (e.overOptimised && delta > 0) {
        return unresolved('The trained proxy rose over the base and the target did not: over-optimised.')
      }
      return delta > 0
        ? {
            verdict: 'moved',
            why: `The difference ${points(delta)} is real: its interval ${span(ci95)} excludes 0 and it exceeds the noise band of ${e.noise.band.toFixed(3)}.`,
          }
        : {
            verdict: 'moved the wrong way',
            why: `The recipe is worse: the interval ${span(ci95)} excludes 0 and the difference ${points(delta)} exceeds the noise band of ${e.noise.band.toFixed(3)}.`,
          }
    }
  }
  if (ci95[0] > -e.flatWithin && ci95[1] < e.flatWithin) {
    return {
      verdict: 'flat',
      why: `Effects of ${e.flatWithin.toFixed(3)} or more are excluded in both directions: the interval ${span(ci95)} lies inside.`,
    }
  }
  if (excludesZero(ci95) && excludesZero(e.bootstrap95) && e.noise) {
    return unresolved(
      `The interval ${span(ci95)} excludes 0, but the difference ${points(delta)} is within the noise band of ${e.noise.band.toFixed(3)}: more seeds or more re-runs of the base would narrow it.`,
    )
  }
  return unresolved(
    `The interval ${span(ci95)} holds 0 and also effects of ${e.flatWithin.toFixed(3)} or more: more seeds or more problems would resolve it.`,
  )
}

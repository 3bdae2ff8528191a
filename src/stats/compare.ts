/**
 * Did one change help? The verdict on two arms trained over several seeds and evaluated on the same problems.
 *
 * The estimate is recipe - baseline over ALL seeds pooled. Problems are paired between the arms by id. Seeds are
 * not paired, even where they share a number: the number fixes the order of problems and the first weights, but
 * sampled tokens send two trainings apart within a few steps, so a shared number is no shared luck, and pairing
 * would halve the degrees of freedom that two or three seeds leave.
 *
 * `moved` needs all of
 *   1. the paired 95% bootstrap interval over problems excludes 0,
 *   2. at least two seeds in each arm, and the interval that also carries the spread between seeds excludes 0,
 *   3. a difference larger than the noise band of the untrained base,
 *   4. not over-optimised: a named proxy did not rise where the target did not, nor by more than the target.
 * `flat` has to be earned too: the interval lies inside [-flatWithin, flatWithin], so that effects of that size are
 * excluded (two one-sided tests at 2.5% each; Schuirmann 1987). Everything else is `unresolved`: an interval that
 * holds both 0 and effects worth having says that the experiment was small, not that nothing happened.
 */

import { type ArmTable, type Design, layOut, type SeedScores, spreadOf } from './design.ts'
import { normalQuantile } from './distributions.ts'
import { type BootstrapOptions, bootstrapMean, type Interval } from './estimate.ts'
import { halfWidth, pValue, type Spread } from './interval.ts'
import { type NoiseBand, noiseBand } from './noise.ts'

export type Verdict = 'moved' | 'moved the wrong way' | 'flat' | 'unresolved'

/** How an arm was evaluated: what must be equal for two arms to be comparable. */
export interface EvaluationFacts {
  /** The verifier's name and version. */
  grader: string
  /** Temperature, top-p, token limits, rollouts: anything that decides how replies are drawn. */
  sampling: Readonly<Record<string, number | string>>
  /** Share of replies cut off at the token limit, in [0, 1]. */
  cutShare: number
}

export interface CompareInput extends BootstrapOptions {
  baseline: readonly SeedScores[]
  recipe: readonly SeedScores[]
  /** pass@1 of each evaluation of the untrained base: the noise floor. At least two are needed for `moved`. */
  baseRuns: readonly number[]
  /** Effects at least this large must be excluded for `flat`; 0.03 (three points of pass@1) unless told. */
  flatWithin?: number
  /** The trained proxy on the same evaluations, scores in [0, 1]; absent where the reward is the target. */
  proxy?: { name: string; baseline: readonly SeedScores[]; recipe: readonly SeedScores[] }
  facts?: { baseline: EvaluationFacts; recipe: EvaluationFacts }
  /**
   * Level of the test, 0.05 unless told. Where seeds are added until the verdict is resolved, the data are looked at
   * several times: with 0.05 / k at each of at most k looks, all of them together keep 0.05 (Bonferroni).
   */
  alpha?: number
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
  /** Carries problems, seeds, their interaction and rollouts; with one seed in an arm, problems only. Level 1 - alpha. */
  ci95: Interval
  /** Two-sided, of no difference; below alpha exactly when the interval excludes 0. */
  p: number
  verdict: Verdict
  /** One sentence. */
  why: string
  /** The difference that would have passed this run's own thresholds with 80% power; null with one seed in an arm. */
  smallestEffect: number | null
  flatWithin: number
  baseline: ArmSummary
  recipe: ArmSummary
  /** What the interval is made of. Standard errors are of `delta`. */
  parts: {
    problems: { standardError: number; df: number; bootstrap95: Interval }
    /** `standardError`: as observed between seed means; `explained`: what problems and rollouts explain of it. */
    seeds: { standardError: number; explained: number; df: number } | null
    noise: NoiseBand | null
  }
  overOptimised: boolean
  counts: { problems: number; baselineSeeds: number; recipeSeeds: number }
  /** Over-optimisation, and reasons to doubt that the arms are comparable; one sentence each. */
  warnings: string[]
}

/** @throws UserError where the data cannot be paired (see layOut). */
export function compare(input: CompareInput): Comparison {
  const { flatWithin = 0.03, alpha = 0.05 } = input
  const design = layOut(input.baseline, input.recipe)
  const { baseline, recipe, differences } = design
  const [nA, nB] = [baseline.seeds.length, recipe.seeds.length]
  const delta = recipe.mean - baseline.mean
  const spread = spreadOf(design)
  const half = halfWidth(spread, alpha)
  const ci95 = around(delta, half)
  const bootstrap95 = bootstrapMean(differences, { ...input, alpha })
  const noise = input.baseRuns.length >= 2 ? noiseBand(input.baseRuns, nA, nB) : null
  const overOptimised = input.proxy ? partsFromTarget(input.proxy, ci95, alpha) : false
  const counts = { problems: differences.length, baselineSeeds: nA, recipeSeeds: nB }
  const total = spread.problems.variance + excess(spread)
  return {
    delta,
    ci95,
    p: pValue(delta, spread),
    ...decide({
      delta,
      ci95,
      bootstrap95,
      noise,
      proxy: overOptimised ? input.proxy!.name : null,
      flatWithin,
      counts,
    }),
    smallestEffect: spread.seeds
      ? Math.min(1, Math.max(half, noise?.band ?? 0) + normalQuantile(0.8) * Math.sqrt(total))
      : null,
    flatWithin,
    baseline: summary(baseline),
    recipe: summary(recipe),
    parts: {
      problems: {
        standardError: Math.sqrt(spread.problems.variance),
        df: spread.problems.df,
        bootstrap95,
      },
      seeds: spread.seeds && {
        standardError: Math.sqrt(spread.seeds.variance),
        explained: Math.sqrt(spread.seeds.floor),
        df: spread.seeds.df,
      },
      noise,
    },
    overOptimised,
    counts,
    warnings: [
      ...(overOptimised
        ? [`Over-optimised: the proxy ${input.proxy!.name} rose where the target did not, or by more.`]
        : []),
      ...unpairedWarning(design),
      ...(input.facts ? factWarnings(input.facts) : []),
    ],
  }
}

const excess = ({ seeds }: Spread): number => (seeds ? Math.max(0, seeds.variance - seeds.floor) : 0)

/** Scores lie in [0, 1], so a difference lies in [-1, 1]. */
const around = (delta: number, half: number): Interval => [
  Math.max(-1, delta - half),
  Math.min(1, delta + half),
]

/** The proxy rose and the target did not, or the proxy's interval lies above the target's (Gao et al. 2022). */
function partsFromTarget(
  proxy: { baseline: readonly SeedScores[]; recipe: readonly SeedScores[] },
  target: Interval,
  alpha: number,
): boolean {
  const design = layOut(proxy.baseline, proxy.recipe)
  const [low] = around(design.recipe.mean - design.baseline.mean, halfWidth(spreadOf(design), alpha))
  return low > 0 && (target[0] <= 0 || low > target[1])
}

function unpairedWarning({ unpaired }: Design): string[] {
  if (unpaired === 0) return []
  return [`The evaluations differ in their problems: ${unpaired} are not in every one and were left out.`]
}

/** Cut shares further apart than this make arms hard to compare: five replies in a hundred (a convention). */
const CUT_SHARE_GAP = 0.05

function factWarnings({
  baseline,
  recipe,
}: {
  baseline: EvaluationFacts
  recipe: EvaluationFacts
}): string[] {
  const warnings: string[] = []
  if (baseline.grader !== recipe.grader) {
    warnings.push(
      `The arms were graded by different verifiers (${baseline.grader}, ${recipe.grader}): grade both with one.`,
    )
  }
  const keys = [...new Set([...Object.keys(baseline.sampling), ...Object.keys(recipe.sampling)])]
  for (const key of keys.filter((name) => baseline.sampling[name] !== recipe.sampling[name])) {
    warnings.push(
      `The arms were sampled differently: ${key} is ${baseline.sampling[key]} in baseline and ${recipe.sampling[key]} in recipe.`,
    )
  }
  if (Math.abs(baseline.cutShare - recipe.cutShare) > CUT_SHARE_GAP) {
    warnings.push(
      `The token limit cut ${percent(baseline.cutShare)} of baseline's replies and ${percent(recipe.cutShare)} of recipe's: part of the difference may be length.`,
    )
  }
  return warnings
}

const percent = (share: number): string => `${(100 * share).toFixed(1)}%`

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
  /** The proxy's name where the recipe is over-optimised. */
  proxy: string | null
  flatWithin: number
  counts: Comparison['counts']
}

const excludesZero = ([low, high]: Interval): boolean => low > 0 || high < 0
const signed = (x: number): string => `${x < 0 ? '-' : '+'}${Math.abs(x).toFixed(3)}`
const span = ([low, high]: Interval): string => `[${signed(low)}, ${signed(high)}]`

function decide(e: Evidence): { verdict: Verdict; why: string } {
  const { delta, ci95, counts, flatWithin, noise } = e
  const unresolved = (why: string) => ({ verdict: 'unresolved' as const, why })
  const single = [
    ...(counts.baselineSeeds < 2 ? ['baseline'] : []),
    ...(counts.recipeSeeds < 2 ? ['recipe'] : []),
  ]
  if (single.length > 0) {
    return unresolved(
      `With one training seed in ${single.join(' and ')}, ${signed(delta)} cannot be told from the luck of a seed: train at least two in each arm.`,
    )
  }
  const real = excludesZero(ci95) && excludesZero(e.bootstrap95)
  const limit = noise ? `the noise band of ${noise.band.toFixed(3)}` : 'the noise band'
  if (real && noise && Math.abs(delta) > noise.band) {
    const fact = `the difference ${signed(delta)} has the interval ${span(ci95)}, which excludes 0, and is larger than ${limit}`
    if (delta < 0) return { verdict: 'moved the wrong way', why: `The recipe is worse: ${fact}.` }
    if (e.proxy === null) return { verdict: 'moved', why: `The recipe is better: ${fact}.` }
    return unresolved(
      `The recipe is better by ${signed(delta)}, but over-optimised: its proxy ${e.proxy} rose by more than the target did.`,
    )
  }
  if (ci95[0] > -flatWithin && ci95[1] < flatWithin) {
    return {
      verdict: 'flat',
      why: `No effect of ${flatWithin.toFixed(3)} or more: the interval ${span(ci95)} of the difference ${signed(delta)} excludes it in both directions.`,
    }
  }
  if (real) {
    return unresolved(
      noise
        ? `The interval ${span(ci95)} excludes 0, but the difference ${signed(delta)} is not larger than ${limit}: more seeds, or more evaluations of the base, would narrow the band.`
        : `The interval ${span(ci95)} excludes 0, but there is no noise floor: evaluate the untrained base at least twice (three is the convention).`,
    )
  }
  const zero = excludesZero(ci95) ? `${span(e.bootstrap95)} over problems alone` : span(ci95)
  return unresolved(
    `The interval ${zero} holds 0, and effects of ${flatWithin.toFixed(3)} or more are not excluded: this run was too small to tell, and more seeds or problems would narrow it.`,
  )
}

/**
 * The verdict's words: which of the four a difference has earned, the sentence that says why, and reasons to doubt that
 * two arms are comparable. Takes what was estimated (family.ts); computes no interval.
 */

import type { Pair } from './design.ts'
import type { Interval } from './estimate.ts'
import type { NoiseBand } from './noise.ts'

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

export interface Evidence {
  pair: Pair
  delta: number
  ci95: Interval
  bootstrap95: Interval
  noise: NoiseBand | null
  /** The proxy's name where the arm is over-optimised. */
  proxy: string | null
  flatWithin: number
  /** Training seeds of each. */
  seeds: { arm: number; against: number }
  /** Whether the interval would exclude 0 if it were known that the spread between seeds is not one arm's alone. */
  realIfAlike: boolean
}

export const excludesZero = ([low, high]: Interval): boolean => low > 0 || high < 0
const signed = (x: number): string => `${x < 0 ? '-' : '+'}${Math.abs(x).toFixed(3)}`
const span = ([low, high]: Interval): string => `[${signed(low)}, ${signed(high)}]`

/** "board is better than alone"; the names of the default experiment need no second one. */
const holds = ({ arm, against }: Pair, what: 'better' | 'worse'): string =>
  arm === 'recipe' && against === 'baseline' ? `The recipe is ${what}` : `${arm} is ${what} than ${against}`

export function decide(e: Evidence): { verdict: Verdict; why: string } {
  const { pair, delta, ci95, flatWithin, noise } = e
  const unresolved = (why: string) => ({ verdict: 'unresolved' as const, why })
  const single = [...(e.seeds.against < 2 ? [pair.against] : []), ...(e.seeds.arm < 2 ? [pair.arm] : [])]
  if (single.length > 0) return unresolved(oneSeed(delta, single))
  const real = excludesZero(ci95) && excludesZero(e.bootstrap95)
  const limit = noise ? `the noise band of ${noise.band.toFixed(3)}` : 'the noise band'
  if (real && noise && Math.abs(delta) > noise.band) {
    const fact = `the difference ${signed(delta)} has the interval ${span(ci95)}, which excludes 0, and is larger than ${limit}`
    if (delta < 0) return { verdict: 'moved the wrong way', why: `${holds(pair, 'worse')}: ${fact}.` }
    if (e.proxy === null) return { verdict: 'moved', why: `${holds(pair, 'better')}: ${fact}.` }
    return unresolved(
      `${holds(pair, 'better')} by ${signed(delta)}, but over-optimised: its proxy ${e.proxy} rose by more than the target did.`,
    )
  }
  if (liesWithin(ci95, flatWithin)) return { verdict: 'flat', why: noEffect(delta, ci95, flatWithin) }
  if (real) {
    return unresolved(
      noise
        ? `The interval ${span(ci95)} excludes 0, but the difference ${signed(delta)} is not larger than ${limit}: more seeds, or more evaluations of the base, would narrow the band.`
        : `The interval ${span(ci95)} excludes 0, but there is no noise floor: evaluate the untrained base at least twice (three is the convention).`,
    )
  }
  if (e.realIfAlike && !excludesZero(ci95))
    return unresolved(oneArms(ci95, Math.min(e.seeds.arm, e.seeds.against)))
  const zero = excludesZero(ci95) ? `${span(e.bootstrap95)} over problems alone` : span(ci95)
  return unresolved(tooSmall(zero, flatWithin))
}

/** Did training help: the interval alone decides, for the base's own noise is in it. */
export function decideTraining({
  arm,
  seeds,
  delta,
  ci95,
  flatWithin,
}: {
  arm: string
  seeds: number
  delta: number
  ci95: Interval
  flatWithin: number
}): { verdict: Verdict; why: string } {
  if (seeds < 2) return { verdict: 'unresolved', why: oneSeed(delta, [arm]) }
  if (excludesZero(ci95)) {
    const fact = `the difference ${signed(delta)} has the interval ${span(ci95)}, which excludes 0`
    return delta > 0
      ? { verdict: 'moved', why: `${arm} is better than the untrained model: ${fact}.` }
      : { verdict: 'moved the wrong way', why: `${arm} is worse than the untrained model: ${fact}.` }
  }
  if (liesWithin(ci95, flatWithin)) return { verdict: 'flat', why: noEffect(delta, ci95, flatWithin) }
  return { verdict: 'unresolved', why: tooSmall(span(ci95), flatWithin) }
}

const liesWithin = ([low, high]: Interval, limit: number): boolean => low > -limit && high < limit

const oneSeed = (delta: number, arms: readonly string[]): string =>
  `With one training seed in ${arms.join(' and ')}, ${signed(delta)} cannot be told from the luck of a seed: train at least two in each arm.`

const noEffect = (delta: number, ci95: Interval, flatWithin: number): string =>
  `No effect of ${flatWithin.toFixed(3)} or more: the interval ${span(ci95)} of the difference ${signed(delta)} excludes it in both directions.`

const oneArms = (ci95: Interval, seeds: number): string =>
  `The interval ${span(ci95)} holds 0. It would exclude 0 if the seeds of both arms were known to lie equally far apart, which ${seeds} seeds in an arm cannot show: train at least one more in each arm.`

const tooSmall = (interval: string, flatWithin: number): string =>
  `The interval ${interval} holds 0, and effects of ${flatWithin.toFixed(3)} or more are not excluded: this run was too small to tell, and more seeds or problems would narrow it.`

/** Cut shares further apart than this make arms hard to compare: five replies in a hundred (a convention). */
const CUT_SHARE_GAP = 0.05

/** Why two evaluations are hard to compare, one sentence each. */
export function factWarnings(
  { arm, against }: Pair,
  facts: Readonly<Record<string, EvaluationFacts>> = {},
): string[] {
  const [a, b] = [facts[against], facts[arm]]
  if (!a || !b) return []
  const warnings: string[] = []
  if (a.grader !== b.grader) {
    warnings.push(
      `The arms were graded by different verifiers (${a.grader}, ${b.grader}): grade both with one.`,
    )
  }
  const keys = [...new Set([...Object.keys(a.sampling), ...Object.keys(b.sampling)])]
  for (const key of keys.filter((name) => a.sampling[name] !== b.sampling[name])) {
    warnings.push(
      `The arms were sampled differently: ${key} is ${a.sampling[key]} in ${against} and ${b.sampling[key]} in ${arm}.`,
    )
  }
  if (Math.abs(a.cutShare - b.cutShare) > CUT_SHARE_GAP) {
    warnings.push(
      `The token limit cut ${percent(a.cutShare)} of ${against}'s replies and ${percent(b.cutShare)} of ${arm}'s: part of the difference may be length.`,
    )
  }
  return warnings
}

const percent = (share: number): string => `${(100 * share).toFixed(1)}%`

/** That some problems were left out; none where all evaluations have the same. */
export function unpairedWarning(unpaired: number): string[] {
  if (unpaired === 0) return []
  return [`The evaluations differ in their problems: ${unpaired} are not in every one and were left out.`]
}

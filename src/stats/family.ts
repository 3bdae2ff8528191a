/**
 * A family of contrasts: any arms trained over several seeds and evaluated on the same problems, compared in the pairs
 * of interest, so that all verdicts together are wrong as rarely as one alone would be.
 *
 * Each contrast's estimate, interval and verdict are those of two arms (compare.ts is the family of one pair), with two
 * differences. The spread between seeds is pooled over all arms where those of the contrast spread as the others do
 * (design.ts). And the level is shared among the contrasts so that the chance of any interval missing its difference
 * stays at alpha (simultaneous.ts): p-values are adjusted for the family, and lie below alpha exactly where the
 * interval excludes 0.
 */

import { UserError } from '../errors.ts'
import {
  type ArmTable,
  differencesOf,
  oneArmsSpread,
  type Pair,
  problemSpreadOf,
  type SeedScores,
  type SeedsOf,
  seedSpreadOf,
  type Tables,
  tabulate,
} from './design.ts'
import { normalQuantile } from './distributions.ts'
import { type BootstrapOptions, bootstrapMean, covariance, type Interval } from './estimate.ts'
import { pValue, type Spread } from './interval.ts'
import { type NoiseBand, noiseBand } from './noise.ts'
import { type Family, levelOfEach, type Member, memberHalfWidth, memberP } from './simultaneous.ts'
import { decide, type EvaluationFacts, factWarnings, unpairedWarning, type Verdict } from './verdict.ts'

export interface FamilyInput extends BootstrapOptions {
  /** Each arm's evaluations, by the arm's name: one for each training seed. All arms are evaluated on the same problems. */
  arms: Readonly<Record<string, readonly SeedScores[]>>
  /** The contrasts of interest: each is one test of the family. Arms that are in none still tell of the spread between seeds. */
  pairs: readonly Pair[]
  /** pass@1 of each evaluation of the untrained base: the noise floor. At least two are needed for `moved`. */
  baseRuns: readonly number[]
  /** Effects at least this large must be excluded for `flat`; 0.03 (three points of pass@1) unless told. */
  flatWithin?: number
  /** The trained proxy on the same evaluations, scores in [0, 1]; absent where the reward is the target. */
  proxy?: { name: string; arms: Readonly<Record<string, readonly SeedScores[]>> }
  /** Of each arm, where they are known. */
  facts?: Readonly<Record<string, EvaluationFacts>>
  /**
   * Level of the whole family, 0.05 unless told. Where seeds are added until the verdict is resolved, the data are
   * looked at several times: with 0.05 / k at each of at most k looks, all of them together keep 0.05 (Bonferroni).
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

export interface Contrast extends Pair {
  /** arm - against, mean over all seeds. */
  delta: number
  /**
   * Carries problems, seeds, their interaction and rollouts; with one seed in an arm, problems only. All intervals of
   * the family hold their differences with 1 - alpha.
   */
  ci95: Interval
  /** Two-sided, of no difference, adjusted for the family; below alpha exactly when the interval excludes 0. */
  p: number
  verdict: Verdict
  /** One sentence. */
  why: string
  /** The difference that would have passed this run's own thresholds with 80% power; null with one seed in an arm. */
  smallestEffect: number | null
  flatWithin: number
  summaries: { arm: ArmSummary; against: ArmSummary }
  /** What the interval is made of. Standard errors are of `delta`. */
  parts: {
    problems: { standardError: number; df: number; bootstrap95: Interval }
    /** `standardError`: as observed between seed means; `explained`: what problems and rollouts explain of it. */
    seeds: { standardError: number; explained: number; df: number } | null
    noise: NoiseBand | null
  }
  /** Whether the spread between seeds is that of all arms, and not of these two alone. */
  pooled: boolean
  overOptimised: boolean
  /** How many are compared: those that every evaluation of every arm has. */
  problems: number
  /** Over-optimisation, and reasons to doubt that the arms are comparable; one sentence each. */
  warnings: string[]
}

/**
 * The contrasts, in the order of `pairs`.
 *
 * @throws UserError for a pair that is none, and where the data cannot be paired (see tabulate).
 */
export function compareFamily(input: FamilyInput): Contrast[] {
  const { pairs, alpha = 0.05, flatWithin = 0.03 } = input
  checkPairs(pairs, input.arms)
  if (pairs.length === 0) return []
  const tables = tabulate(input.arms)
  const differences = pairs.map((pair) => differenceOf(tables, pair))
  const family = familyOf(differences, tables)
  const level = levelOfEach(family, alpha)
  const proxyLows = input.proxy && lowsOf(input.proxy.arms, pairs, level, alpha)
  return differences.map((difference, i): Contrast => {
    const member = family.members[i]
    const { spread, pooled } = member
    const { delta, byProblem } = difference
    const pair = pairs[i]
    const [arm, against] = [tables.arms.get(pair.arm)!, tables.arms.get(pair.against)!]
    const seeds = { arm: arm.seeds.length, against: against.seeds.length }
    const half = memberHalfWidth(member, level, alpha)
    const ci95 = around(delta, half)
    const bootstrap95 = bootstrapMean(byProblem, { ...input, alpha: level })
    const noise = input.baseRuns.length >= 2 ? noiseBand(input.baseRuns, seeds.against, seeds.arm) : null
    const overOptimised = proxyLows !== undefined && partsFromTarget(proxyLows[i], ci95)
    const proxy = overOptimised ? input.proxy!.name : null
    const total = spread.problems.variance + excessOf(spread)
    return {
      ...pair,
      delta,
      ci95,
      p: memberP(delta, member, family),
      ...decide({
        pair,
        delta,
        ci95,
        bootstrap95,
        noise,
        proxy,
        flatWithin,
        seeds,
        realIfAlike: member.oneArms !== null && pValue(delta, spread) < level,
      }),
      smallestEffect: spread.seeds
        ? Math.min(1, Math.max(half, noise?.band ?? 0) + normalQuantile(0.8) * Math.sqrt(total))
        : null,
      flatWithin,
      summaries: { arm: summary(arm), against: summary(against) },
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
      pooled,
      overOptimised,
      problems: byProblem.length,
      warnings: [
        ...(proxy === null
          ? []
          : [`Over-optimised: the proxy ${proxy} rose where the target did not, or by more.`]),
        ...unpairedWarning(tables.unpaired),
        ...factWarnings(pair, input.facts),
      ],
    }
  })
}

function checkPairs(pairs: readonly Pair[], arms: FamilyInput['arms']): void {
  const seen = new Set<string>()
  for (const { arm, against } of pairs) {
    for (const name of [arm, against]) {
      if (!Object.hasOwn(arms, name)) {
        throw new UserError(
          `A contrast names the arm ${name}, and the arms are ${Object.keys(arms).join(', ')}: name one of them.`,
        )
      }
    }
    if (arm === against) throw new UserError(`A contrast sets ${arm} against itself: name another arm.`)
    const key = JSON.stringify([arm, against].sort())
    if (seen.has(key)) {
      throw new UserError(`${arm} and ${against} are compared twice: each contrast counts once.`)
    }
    seen.add(key)
  }
}

/** A difference of means, and the trained arms in it: the last one's less the other's, where there are two. */
export interface Difference {
  delta: number
  byProblem: number[]
  sides: readonly ArmTable[]
}

/** One arm's scores less another's. */
export function differenceOf({ arms }: Pick<Tables, 'arms'>, { arm, against }: Pair): Difference {
  const [plus, minus] = [arms.get(arm)!, arms.get(against)!]
  return { delta: plus.mean - minus.mean, byProblem: differencesOf(plus, minus), sides: [minus, plus] }
}

/** What makes the differences uncertain, and what of it they share. `arms`: all that were trained. */
export function familyOf(differences: readonly Difference[], { arms }: Pick<Tables, 'arms'>): Family {
  const trained = [...arms.values()]
  const members = differences.map(({ byProblem, sides }): Member => {
    const others = trained.filter((arm) => !sides.includes(arm))
    return memberOf(sides, others, problemSpreadOf(byProblem), byProblem.length)
  })
  const shared = differences.map((a) =>
    differences.map((b) => ({
      problems: covariance(a.byProblem, b.byProblem) / a.byProblem.length,
      seeds: seedProduct(a, b) / Math.max(seedProduct(a, a), seedProduct(b, b)),
    })),
  )
  return { members, shared }
}

/** One difference's part in that: of means of `sides`, the other arms that were trained being `others`. */
export function memberOf(
  sides: readonly SeedsOf[],
  others: readonly SeedsOf[],
  problems: Spread['problems'],
  problemCount: number,
): Member {
  const { seeds, pooled } = seedSpreadOf(sides, others, problemCount)
  const spread = { problems, seeds }
  return { spread, pooled, oneArms: oneArmsSpread(sides, others, spread) }
}

/** Covariance that two differences have from the seeds, in variances of one seed: each arm's sign in both over its seeds. */
function seedProduct(a: Difference, b: Difference): number {
  const sign = ({ sides }: Difference, arm: ArmTable) => (sides.at(-1) === arm ? 1 : -1)
  return a.sides
    .filter((arm) => b.sides.includes(arm))
    .reduce((sum, arm) => sum + (sign(a, arm) * sign(b, arm)) / arm.seeds.length, 0)
}

const excessOf = ({ seeds }: Spread): number => (seeds ? Math.max(0, seeds.variance - seeds.floor) : 0)

/** Scores lie in [0, 1], so a difference lies in [-1, 1]. */
export const around = (delta: number, half: number): Interval => [
  Math.max(-1, delta - half),
  Math.min(1, delta + half),
]

/** The lower end of each contrast's interval on other scores of the same arms. */
function lowsOf(scores: FamilyInput['arms'], pairs: readonly Pair[], level: number, alpha: number): number[] {
  const tables = tabulate(scores)
  const differences = pairs.map((pair) => differenceOf(tables, pair))
  const { members } = familyOf(differences, tables)
  return differences.map(({ delta }, i) => around(delta, memberHalfWidth(members[i], level, alpha))[0])
}

/** The proxy rose and the target did not, or the proxy's interval lies above the target's (Gao et al. 2022). */
const partsFromTarget = (low: number, target: Interval): boolean =>
  low > 0 && (target[0] <= 0 || low > target[1])

function summary(arm: ArmTable): ArmSummary {
  return {
    mean: arm.mean,
    perSeed: arm.seeds.map((seed, s) => ({ seed, mean: arm.seedMeans[s] })),
    seedStd: arm.seeds.length > 1 ? Math.sqrt(arm.seedVariance) : null,
  }
}

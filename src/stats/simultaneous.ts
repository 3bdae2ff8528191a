/**
 * Many differences read at once: how likely is it that any of them looks as real as one does, when none is?
 *
 * Each difference has its generalised p-value (interval.ts). The smallest of m null p-values is below p with a chance
 * of at most m p (Bonferroni), and of less where the differences share what makes them uncertain. Two things are
 * shared here: the estimate of the spread between seeds, where it is pooled over the arms, and arms and problems.
 * Given the seeds' part (a node of the integral in interval.ts) the differences are normal, so the chance that none
 * exceeds its bound is at least the product of each one's chance (Sidak 1967, JASA 62:626); and where all vary
 * together, as those of several arms with one baseline do, the product is taken given what they have in common, and
 * integrated over it (Dunnett 1955, JASA 50:1096). In common is taken to be their smallest covariance, so that this is
 * exact for equal ones, and on the safe side otherwise. Averaged over the nodes, without simulation: never above m p,
 * the same for any order of the differences, and p itself for a single one.
 */

import { normalCdf, normalOfT } from './distributions.ts'
import {
  chiSquareNodes,
  dfGiven,
  halfWidth,
  pValue,
  type SeedSpread,
  type Spread,
  steady,
} from './interval.ts'

/** One difference of the family. */
export interface Member {
  spread: Spread
  /** Whether `spread.seeds` is the spread pooled over all arms: those of a family share it. */
  pooled: boolean
  /** The spread if it were one arm's alone, where that cannot be ruled out (see oneArmsSpread). */
  oneArms: Spread | null
}

/** What two differences have in common. */
export interface Shared {
  /** Covariance of their problems' parts. */
  problems: number
  /** Correlation of their seeds' parts: 0.5 for two arms against one of as many seeds. */
  seeds: number
}

export interface Family {
  members: readonly Member[]
  /** Of members i and j: shared[i][j]. */
  shared: readonly (readonly Shared[])[]
}

/** The chance that the smallest of the family's null p-values is at most p, or an upper bound of it. */
export function familyP(p: number, { members, shared }: Family): number {
  if (members.length === 1) return p
  const bonferroni = Math.min(1, members.length * p)
  if (p <= 0) return bonferroni
  let any = 0
  // Those that share an estimate of the spread, by its degrees of freedom: arms of other sizes have others.
  const sharing = new Map<number, Bounded[]>()
  members.forEach(({ spread: { problems, seeds }, pooled }, index) => {
    if (!pooled || !seeds) {
      any += p
      return
    }
    const half = halfWidth({ problems, seeds }, Math.min(1, p))
    sharing.set(seeds.df, [...(sharing.get(seeds.df) ?? []), { index, problems, seeds, half }])
  })
  for (const [df, bounded] of sharing) any += bounded.length === 1 ? p : anyBeyond(bounded, df, shared)
  return Math.min(bonferroni, any)
}

interface Bounded {
  index: number
  problems: Spread['problems']
  seeds: SeedSpread
  /** What it must not exceed. */
  half: number
}

/** The chance that any of several differences that share an estimate of the spread lies beyond its bound. */
function anyBeyond(bounded: readonly Bounded[], df: number, shared: Family['shared']): number {
  let any = 0
  for (const { dfOverX, weight } of chiSquareNodes(df)) {
    const given = bounded.map(({ index, problems, seeds, half }): Given => {
      const excess = Math.max(0, seeds.variance * dfOverX - seeds.floor)
      const variance = problems.variance + excess
      const size = normalOfT(half / Math.sqrt(variance), dfGiven(problems, excess))
      return { index, size, variance, excess }
    })
    any += weight * (1 - noneBeyond(given, inCommon(given, shared)))
  }
  return any
}

/**
 * The level at which each difference is tested so that the family has the level alpha: where familyP is alpha. Between
 * alpha / m and alpha, by the secant on logarithms, on which familyP is nearly a line of slope 1.
 */
export function levelOfEach(family: Family, alpha: number): number {
  if (family.members.length === 1) return alpha
  let level = alpha / family.members.length
  let excess = Math.log(familyP(level, family) / alpha)
  let slope = 1
  for (let step = 0; step < 50 && Math.abs(excess) > 1e-12; step++) {
    const next = Math.min(alpha, level * Math.exp(-excess / slope))
    if (next === level) break
    const there = Math.log(familyP(next, family) / alpha)
    slope = (there - excess) / Math.log(next / level)
    level = next
    excess = there
  }
  return level
}

/**
 * A member's p-value, adjusted for its family. Where one arm's spread cannot be ruled out, the larger of two: if arms
 * spread as they seem to, among all the family's differences; if one arm makes the spread, on its own, for that arm's luck
 * is one and the same in all the differences that it is in.
 */
export function memberP(delta: number, { spread, oneArms }: Member, family: Family): number {
  const alike = familyP(pValue(delta, spread), family)
  return steady(oneArms ? Math.max(alike, pValue(delta, oneArms)) : alike)
}

/** Half the width of a member's interval, `level` being levelOfEach(family, alpha): where memberP falls to alpha. */
export function memberHalfWidth({ spread, oneArms }: Member, level: number, alpha: number): number {
  const alike = halfWidth(spread, level)
  return steady(oneArms ? Math.max(alike, halfWidth(oneArms, alpha)) : alike)
}

/** A difference, the seeds' part being given. */
interface Given {
  index: number
  /** Its bound, in standard deviations of a normal. */
  size: number
  variance: number
  /** The seeds' part of the variance. */
  excess: number
}

/** The variance that all differences have in common, their signs turned so that they vary with the first one; 0 for none. */
function inCommon(given: readonly Given[], shared: Family['shared']): number {
  const covariance = (a: Given, b: Given): number => {
    const { problems, seeds } = shared[a.index][b.index]
    // Two estimates of one spread differ where two arms' own is the larger: the smaller is what they share.
    return problems + seeds * Math.min(a.excess, b.excess)
  }
  const signs = given.map((each) => (covariance(given[0], each) < 0 ? -1 : 1))
  let least = Math.min(...given.map(({ variance }) => variance))
  for (let i = 0; i < given.length && least > 0; i++) {
    for (let j = 0; j < i; j++) {
      least = Math.min(least, signs[i] * signs[j] * covariance(given[i], given[j]))
    }
  }
  return Math.max(0, least)
}

/** The chance that no difference lies beyond its bound. */
function noneBeyond(given: readonly Given[], common: number): number {
  const bounds = given.map(({ size, variance }) => ({
    size,
    along: Math.sqrt(common / variance),
    // Differences that are one and the same leave nothing of their own.
    own: Math.sqrt(Math.max(0.01, 1 - common / variance)),
  }))
  // The integrand bends within what is a difference's own: five digits.
  const step = 0.6 * Math.min(...bounds.map(({ own }) => own))
  let sum = 0
  let weights = 0
  for (let u = 0; u < (common > 0 ? 6 : step); u += step) {
    const weight = Math.exp(-(u * u) / 2) * (u === 0 ? 1 : 2)
    weights += weight
    sum += bounds.reduce(
      (product, { size, along, own }) =>
        product * (normalCdf((size + along * u) / own) - normalCdf((along * u - size) / own)),
      weight,
    )
  }
  return sum / weights
}

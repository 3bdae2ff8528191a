/**
 * Many differences read at once: how likely is it that any of them looks as real as one does, when none is?
 *
 * Each difference has its generalised p-value (interval.ts). The smallest of m null p-values is below p with a chance
 * of at most m p (Bonferroni), and of less where the differences share what makes them uncertain. Two things are
 * shared here: the estimate of the spread between seeds, where it is pooled over the arms, and arms and problems, as
 * with Dunnett's one control. Given the seeds' part (a node of the integral in interval.ts), the differences are
 * normal with a known covariance, and the chance that any exceeds its bound is at most
 *   - 1 - product of (1 - tails), whatever the correlations (Sidak 1967, JASA 62:626), and
 *   - the sum of the tails less the chances of both along a spanning tree of the pairs (Hunter 1976; Worsley 1982,
 *     Biometrika 69:297).
 * The smaller of the two, integrated over the nodes, is an upper bound without simulation: never above m p, equal
 * under any order of the differences, and p itself for a single one.
 */

import { chiSquareNodes, halfWidth, type Spread, tailsGiven } from './interval.ts'

/** One difference of the family. */
export interface Member {
  spread: Spread
  /** Whether `spread.seeds` is the spread pooled over all arms: those of a family share it. */
  pooled: boolean
}

/** What two differences have in common. */
export interface Shared {
  /** Covariance of their problems' parts. */
  problems: number
  /** Correlation of their seeds' parts, at least in size: 0.5 for two arms against one of as many seeds. */
  seeds: number
}

export interface Family {
  members: readonly Member[]
  /** Of members i and j, i other than j. */
  shared: (i: number, j: number) => Shared
}

/** The chance, or an upper bound of it, that the smallest of the family's null p-values is at most p. */
export function familyP(p: number, family: Family): number {
  const { members } = family
  if (members.length === 1) return p
  const bonferroni = Math.min(1, members.length * p)
  const pooled = members.flatMap(({ spread, pooled }, index) =>
    pooled && spread.seeds
      ? [{ index, problems: spread.problems, seeds: spread.seeds, half: halfWidth(spread, Math.min(1, p)) }]
      : [],
  )
  if (pooled.length < 2 || bonferroni === 0) return bonferroni
  let any = 0
  for (const { dfOverX, weight } of chiSquareNodes(pooled[0].seeds.df)) {
    const given = pooled.map(({ index, problems, seeds, half }): Given => {
      const excess = Math.max(0, seeds.variance * dfOverX - seeds.floor)
      const deviation = Math.sqrt(problems.variance + excess)
      return { index, tails: tailsGiven(half, problems, excess), size: half / deviation, deviation, excess }
    })
    any += weight * Math.min(sidak(given), hunter(given, family.shared))
  }
  return Math.min(bonferroni, any + (members.length - pooled.length) * p)
}

/**
 * The level at which each difference is tested so that the family has the level alpha: where familyP is alpha. Between
 * alpha / m and alpha. familyP is nearly proportional to p, so a step by the ratio is nearly the whole way.
 */
export function levelOfEach(family: Family, alpha: number): number {
  if (family.members.length === 1) return alpha
  let level = alpha / family.members.length
  for (let step = 0; step < 50; step++) {
    const ratio = alpha / familyP(level, family)
    level = Math.min(alpha, level * ratio)
    if (Math.abs(ratio - 1) < 1e-12) break
  }
  return level
}

/** A difference at a node: its two-sided tail beyond its bound, and that bound in its standard deviations. */
interface Given {
  index: number
  tails: number
  size: number
  deviation: number
  excess: number
}

const sidak = (given: readonly Given[]): number =>
  1 - given.reduce((product, { tails }) => product * (1 - tails), 1)

/** Prim's tree over the largest correlations, each edge taking the chance of both off the sum. */
function hunter(given: readonly Given[], shared: Family['shared']): number {
  const correlation = (a: Given, b: Given): number => {
    const { problems, seeds } = shared(a.index, b.index)
    // Two estimates of one spread differ where an arm's own is the larger: the smaller is what they share.
    const both = problems + seeds * Math.min(a.excess, b.excess)
    return Math.min(1, Math.abs(both) / (a.deviation * b.deviation))
  }
  let sum = given[0].tails
  const left = given.slice(1).map((to) => ({ to, from: given[0], correlation: correlation(given[0], to) }))
  while (left.length > 0) {
    const at = left.reduce((best, edge, i) => (edge.correlation > left[best].correlation ? i : best), 0)
    const [edge] = left.splice(at, 1)
    sum += edge.to.tails - bothTails(edge.from, edge.to, edge.correlation)
    for (const other of left) {
      const through = correlation(edge.to, other.to)
      if (through > other.correlation) Object.assign(other, { from: edge.to, correlation: through })
    }
  }
  return Math.min(1, sum)
}

/** Nodes of the integral over the arc: its integrand is smooth, and 16 give six digits. */
const NODES = 16

/**
 * P(|A| > a and |B| > b) of two normals with correlation r in [0, 1]: that of independent ones, and the integral over
 * the correlation's arc of both signs' densities (Drezner and Wesolowsky 1990), by the midpoint rule.
 */
function bothTails(a: Given, b: Given, r: number): number {
  const arc = Math.asin(r)
  const squares = a.size ** 2 + b.size ** 2
  let sum = 0
  for (let node = 0; node < NODES; node++) {
    const angle = (arc * (node + 0.5)) / NODES
    const product = 2 * a.size * b.size * Math.sin(angle)
    const scale = 2 * Math.cos(angle) ** 2
    sum += Math.exp((product - squares) / scale) - Math.exp(-(product + squares) / scale)
  }
  return a.tails * b.tails + (sum * arc) / (NODES * Math.PI)
}

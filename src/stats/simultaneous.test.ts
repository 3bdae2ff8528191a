import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { random } from '../random.ts'
import { halfWidth, pValue, type Spread } from './interval.ts'
import {
  type Family,
  familyP,
  levelOfEach,
  type Member,
  memberHalfWidth,
  memberP,
  type Shared,
} from './simultaneous.ts'

/** Members that share everything they can, with one correlation of their seeds' parts. */
function alike(count: number, spread: Spread, shared: Shared): Family {
  return {
    members: Array.from({ length: count }, () => ({ spread, pooled: true, oneArms: null })),
    shared: Array.from({ length: count }, () => Array.from({ length: count }, () => shared)),
  }
}

const seedsAlone = (df: number): Spread => ({
  problems: { variance: 0, df: 100 },
  seeds: { variance: 1, floor: 0, df },
})

/** Differences of arms from the first arm, all parts drawn. */
const family: fc.Arbitrary<Family> = fc
  .record({
    arms: fc.integer({ min: 3, max: 6 }),
    seeds: fc.integer({ min: 2, max: 6 }),
    scale: fc.array(fc.double({ min: 0.2, max: 3, noNaN: true }), { minLength: 6, maxLength: 6 }),
    excess: fc.double({ min: 0, max: 4, noNaN: true }),
    unpooled: fc.boolean(),
  })
  .map(({ arms, seeds, scale, excess, unpooled }): Family => {
    const members = Array.from({ length: arms - 1 }, (_, i): Member => {
      const problems = { variance: 1e-4 * (scale[0] + scale[i + 1]), df: 119 }
      const floor = 1e-4 / seeds
      const spread = { problems, seeds: { variance: (1 + excess) * floor, floor, df: arms * (seeds - 1) } }
      return { spread, pooled: !(unpooled && i === 0), oneArms: null }
    })
    const shared = members.map(() => members.map(() => ({ problems: 1e-4 * scale[0], seeds: 0.5 })))
    return { members, shared }
  })

describe('the chance that any of a family looks real', () => {
  it('is Dunnett’s, where arms of one size share a baseline and seeds alone vary', () => {
    // Two-sided 5 percent points (Dunnett 1964, Biometrics 20:482): degrees of freedom, contrasts, point.
    const points = [
      [5, 2, 3.03],
      [5, 3, 3.29],
      [10, 3, 2.76],
      [10, 7, 3.14],
      [20, 4, 2.65],
      [60, 7, 2.69],
    ]
    for (const [df, count, point] of points) {
      const level = levelOfEach(alike(count, seedsAlone(df), { problems: 0, seeds: 0.5 }), 0.05)
      expect(Math.abs(halfWidth(seedsAlone(df), level) - point), `${df}, ${count}`).toBeLessThan(0.007)
    }
  })

  it('is SciPy’s for arms that spread alike', () => {
    // scipy.stats.dunnett 1.17.1, mean of twenty calls (each drawn, to 1.3e-4): values m - 1, m, m + 1 and m - 1, m + 1.
    const cases = [
      {
        seeds: 3,
        variance: 1,
        means: [0, 3, 2.5, 1.5, 2, 1],
        of: 4,
        p: [0.0158, 0.0382, 0.2304, 0.0947, 0.5072],
      },
      { seeds: 2, variance: 2, means: [0, 6, 4, 9], of: 4, p: [0.0299, 0.1034, 0.0071] },
    ]
    for (const { seeds, variance, means, of, p } of cases) {
      const spread: Spread = {
        problems: { variance: 0, df: 100 },
        seeds: { variance: (2 * variance) / seeds, floor: 0, df: of * (seeds - 1) },
      }
      const family = alike(of - 1, spread, { problems: 0, seeds: 0.5 })
      p.forEach((expected, i) => {
        expect(Math.abs(familyP(pValue(means[i + 1], spread), family) - expected)).toBeLessThan(2e-3)
      })
    }
  })

  it('is Bonferroni’s between those whose estimates of the spread are not one', () => {
    const two = { problems: 0, seeds: 0.5 }
    const [four, six] = [alike(2, seedsAlone(4), two), alike(2, seedsAlone(6), two)]
    const both: Family = {
      members: [...four.members, ...six.members],
      shared: alike(4, seedsAlone(4), two).shared,
    }
    expect(familyP(0.02, both)).toBeCloseTo(familyP(0.02, four) + familyP(0.02, six), 12)
  })

  it('is that of independent differences where nothing is shared and all is known', () => {
    const known = alike(4, seedsAlone(1e6), { problems: 0, seeds: 0 })
    expect(familyP(0.02, known)).toBeCloseTo(1 - 0.98 ** 4, 5)
  })

  it('is no less than simulation finds, however the differences vary together', () => {
    for (const number of [1, 2, 3, 4]) {
      const draw = random('varying together', number)
      const loadings = Array.from({ length: 4 }, () => [draw.normal(), draw.normal(), draw.normal()])
      const product = (a: number[], b: number[]) => a.reduce((sum, value, i) => sum + value * b[i], 0)
      const members = loadings.map((row): Member => {
        const variance = product(row, row)
        return {
          spread: { problems: { variance, df: 1e9 }, seeds: { variance: 0, floor: 0, df: 4 } },
          pooled: true,
          oneArms: null,
        }
      })
      const shared = loadings.map((a) => loadings.map((b) => ({ problems: product(a, b), seeds: 0 })))
      const halves = members.map(({ spread }) => halfWidth(spread, 0.05))
      const sims = 20_000
      let any = 0
      for (let sim = 0; sim < sims; sim++) {
        const z = [draw.normal(), draw.normal(), draw.normal()]
        if (loadings.some((row, i) => Math.abs(product(row, z)) > halves[i])) any++
      }
      const error = Math.sqrt((0.2 * 0.8) / sims)
      expect(familyP(0.05, { members, shared })).toBeGreaterThan(any / sims - 2 * error)
    }
  })

  it('lies between that of one and Bonferroni’s, and grows with p', () => {
    fc.assert(
      fc.property(family, fc.double({ min: 1e-6, max: 0.15, noNaN: true }), (data, p) => {
        const any = familyP(p, data)
        expect(any).toBeGreaterThanOrEqual(p * (1 - 2e-3))
        expect(any).toBeLessThanOrEqual(Math.min(1, data.members.length * p))
        expect(familyP(p / 2, data)).toBeLessThan(any)
      }),
      { numRuns: 25 },
    )
  })

  it('does not depend on the order of the differences', () => {
    fc.assert(
      fc.property(family, (data) => {
        const reversed = {
          members: [...data.members].reverse(),
          shared: [...data.shared].reverse().map((row) => [...row].reverse()),
        }
        expect(familyP(0.01, reversed) / familyP(0.01, data)).toBeCloseTo(1, 9)
      }),
      { numRuns: 15 },
    )
  })

  it('is alpha at the level of each, which is never below Bonferroni’s', () => {
    fc.assert(
      fc.property(family, fc.constantFrom(0.05, 0.01), (data, alpha) => {
        const level = levelOfEach(data, alpha)
        expect(familyP(level, data) / alpha).toBeCloseTo(1, 9)
        expect(level).toBeGreaterThanOrEqual((alpha / data.members.length) * (1 - 1e-12))
        expect(level).toBeLessThanOrEqual(alpha)
      }),
      { numRuns: 15 },
    )
  })

  it('is p itself for a single difference', () => {
    const single = alike(1, seedsAlone(2), { problems: 0, seeds: 1 })
    expect(familyP(0.034, single)).toBe(0.034)
    expect(levelOfEach(single, 0.05)).toBe(0.05)
  })
})

describe('a member that may owe its spread to one arm', () => {
  const most = 0.0032
  const feared = ({ spread: { problems, seeds }, pooled }: Member): Member => ({
    spread: { problems, seeds },
    pooled,
    oneArms: { problems, seeds: { ...seeds!, df: 1, most } },
  })

  it('has p below alpha exactly where its interval excludes 0', () => {
    fc.assert(
      fc.property(family, fc.double({ min: 0, max: 0.2, noNaN: true }), ({ members, shared }, delta) => {
        const data = { members: members.map(feared), shared }
        const level = levelOfEach(data, 0.05)
        for (const member of data.members) {
          const p = memberP(delta, member, data)
          if (Math.abs(p - 0.05) > 1e-9) expect(p < 0.05).toBe(delta > memberHalfWidth(member, level, 0.05))
        }
      }),
      { numRuns: 15 },
    )
  })

  it('is never narrower for it, and no wider than all that one arm may bring', () => {
    fc.assert(
      fc.property(family, (data) => {
        const level = levelOfEach(data, 0.05)
        for (const member of data.members) {
          const { problems, seeds } = member.spread
          const half = memberHalfWidth(feared(member), level, 0.05)
          const without = memberHalfWidth(member, level, 0.05)
          const bound = halfWidth({
            problems: { ...problems, variance: problems.variance + most },
            seeds: null,
          })
          expect(half).toBeGreaterThanOrEqual(without)
          expect(half).toBeLessThanOrEqual(Math.max(without, bound) * (1 + 1e-6))
          expect(seeds!.df).toBeGreaterThan(1)
        }
      }),
      { numRuns: 15 },
    )
  })
})

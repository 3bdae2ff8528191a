import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { random } from '../random.ts'
import { oneArmsSpread, type SeedsOf, seedSpreadOf } from './design.ts'
import { pValue, type Spread } from './interval.ts'

/** An arm's seeds as a spread knows them. */
const seedsOf = (count: number, seedVariance: number, interaction = 0.02) => ({
  seeds: Array.from({ length: count }, (_, seed) => seed),
  seedVariance,
  interaction,
})

const variances = fc.array(fc.double({ min: 1e-5, max: 0.01, noNaN: true }), { minLength: 3, maxLength: 6 })

describe('the spread between seeds', () => {
  it('of two arms alone is the sum of each one’s over its seeds, whatever they are', () => {
    const { seeds, pooled } = seedSpreadOf([seedsOf(4, 0.001), seedsOf(4, 0.009, 0.04)], [], 100)
    expect(pooled).toBe(false)
    expect(seeds!.variance).toBeCloseTo(0.0025, 12)
    expect(seeds!.floor).toBeCloseTo(0.06 / 400, 12)
    expect(seeds!.df).toBe(6)
  })

  it('is pooled over arms that spread alike: their mean, with the degrees of freedom of all', () => {
    const arms = [0.002, 0.002, 0.003, 0.003].map((variance) => seedsOf(3, variance))
    const { seeds, pooled } = seedSpreadOf(arms.slice(0, 2), arms.slice(2), 100)
    expect(pooled).toBe(true)
    expect(seeds!.variance).toBeCloseTo((2 * 0.0025) / 3, 12)
    expect(seeds!.df).toBe(8)
    // The other way about, the sides' own is the larger, and stays.
    const other = seedSpreadOf(arms.slice(2), arms.slice(0, 2), 100)
    expect(other.pooled).toBe(true)
    expect(other.seeds!.variance).toBeCloseTo((2 * 0.003) / 3, 12)
    expect(other.seeds!.df).toBe(8)
  })

  it('is never below the sides’ own, with the degrees of freedom of four arms at most', () => {
    fc.assert(
      fc.property(variances, fc.integer({ min: 2, max: 5 }), (drawn, count) => {
        const arms = drawn.map((variance) => seedsOf(count, variance))
        const [sides, others] = [arms.slice(0, 2), arms.slice(2)]
        const own = seedSpreadOf(sides, [], 100).seeds!
        const { seeds, pooled } = seedSpreadOf(sides, others, 100)
        expect(seeds!.variance).toBeGreaterThanOrEqual(own.variance * (1 - 1e-12))
        expect(seeds!.df).toBeGreaterThanOrEqual(count - 1)
        if (pooled) expect(seeds!.df).toBe(Math.min(arms.length, 4) * (count - 1))
      }),
      { numRuns: 60 },
    )
  })

  it('of an arm that spreads much more than the others has that arm’s degrees of freedom, however many others there are', () => {
    fc.assert(
      fc.property(variances, fc.integer({ min: 2, max: 5 }), (drawn, count) => {
        const arms = drawn.map((variance) => seedsOf(count, variance))
        const wild = seedsOf(count, 1e6 * Math.max(...drawn))
        const { seeds, pooled } = seedSpreadOf([wild, arms[0]], arms.slice(1), 100)
        expect(pooled).toBe(false)
        expect(seeds!.variance / (wild.seedVariance / count)).toBeCloseTo(1, 5)
        expect(seeds!.df).toBeCloseTo(count - 1, 2)
        // Two of them are no more alike to the others for being two.
        const both = seedSpreadOf([wild, { ...wild }], arms, 100)
        expect(both.pooled).toBe(false)
        expect(both.seeds!.df).toBeCloseTo(2 * (count - 1), 2)
      }),
      { numRuns: 60 },
    )
  })

  it('of two arms among others that both spread differently has Welch’s degrees of freedom', () => {
    // statsmodels 0.15.0, CompareMeans.dof_satt() of four values each with these variances.
    const { seeds } = seedSpreadOf([seedsOf(4, 9), seedsOf(4, 25)], [seedsOf(4, 1e-6), seedsOf(4, 1e-6)], 100)
    expect(seeds!.variance).toBeCloseTo(34 / 4, 12)
    expect(seeds!.df).toBe(4.91)
  })

  it('takes arms of one seed for what they are', () => {
    const [two, one] = [seedsOf(2, 0.001), seedsOf(1, 0)]
    expect(seedSpreadOf([two, one], [two], 100)).toEqual({ seeds: null, pooled: false })
    expect(seedSpreadOf([two, two], [one], 100)).toEqual(seedSpreadOf([two, two], [], 100))
  })

  it('does not count the seeds of the larger of two arms for the smaller one', () => {
    // 2 seeds against 20, all of one spread: 5 percent, where all degrees of freedom counted as the mean's give 19.
    const draw = random('other sizes')
    const chiSquare = (df: number) =>
      Array.from({ length: df }, () => draw.normal() ** 2).reduce((sum, square) => sum + square, 0)
    const sims = 1500
    let missed = 0
    for (let sim = 0; sim < sims; sim++) {
      const sides = [2, 20].map((count) => seedsOf(count, chiSquare(count - 1) / (count - 1), 0))
      const { seeds } = seedSpreadOf(sides, [], 100)
      const delta = Math.sqrt(1 / 2 + 1 / 20) * draw.normal()
      if (pValue(delta, { problems: { variance: 1e-6, df: 99 }, seeds }) < 0.05) missed++
    }
    expect(missed / sims).toBeLessThan(0.05 + 3 * Math.sqrt((0.05 * 0.95) / sims))
    expect(missed / sims).toBeGreaterThan(0.01)
  })
})

describe('the spread that may be one arm’s alone', () => {
  const spreadOf = (sides: SeedsOf[], others: SeedsOf[], variance: number): Spread => ({
    problems: { variance, df: 499 },
    seeds: seedSpreadOf(sides, others, 500).seeds,
  })
  const found = (sides: SeedsOf[], others: SeedsOf[], problems: number) =>
    oneArmsSpread(sides, others, spreadOf(sides, others, problems))?.seeds ?? null
  const [quiet, loud] = [1e-4, 2e-4]
  const arms = (count: number, seeds: number) => Array.from({ length: count }, () => seedsOf(seeds, 4e-4))

  it('has the degrees of freedom of one arm and is bounded, its variance being what both arms show', () => {
    fc.assert(
      fc.property(variances, fc.integer({ min: 2, max: 20 }), ([a, b], count) => {
        const sides = [seedsOf(count, a), seedsOf(count, b)]
        const { seeds } = spreadOf(sides, [], quiet)
        expect(found(sides, [], quiet)).toEqual({ ...seeds, df: count - 1, most: expect.closeTo(0.0032, 12) })
      }),
      { numRuns: 40 },
    )
  })

  it('is not feared where problems hide it', () => {
    for (const count of [2, 3, 20]) expect(found(arms(2, count), [], loud)).toBeNull()
    expect(found(arms(2, 2), arms(2, 2), loud)).toBeNull()
  })

  it('is not feared where a third arm is there to be held against, and seeds enough to do it', () => {
    expect(found(arms(2, 2), arms(1, 2), quiet)).toMatchObject({ df: 1 })
    expect(found(arms(2, 3), arms(1, 3), quiet)).toBeNull()
    // One seed of a third arm shows nothing.
    expect(found(arms(2, 3), arms(1, 1), quiet)).toMatchObject({ df: 2 })
  })

  it('is feared of two arms alone that differ in size, whatever the problems', () => {
    expect(found([seedsOf(2, 1e-4), seedsOf(8, 1e-4)], [], loud)).toMatchObject({ df: 1 })
    expect(found([seedsOf(2, 1e-4), seedsOf(8, 1e-4)], arms(1, 8), loud)).toBeNull()
  })

  it('is nothing new to a single arm, nor without a spread', () => {
    expect(found(arms(1, 2), [], quiet)).toBeNull()
    expect(found([seedsOf(2, 1e-4), seedsOf(1, 0)], [], quiet)).toBeNull()
  })
})

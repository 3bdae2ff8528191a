import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { tQuantile } from './distributions.ts'
import { halfWidth, pValue, type Spread } from './interval.ts'

const spread = fc
  .record({
    variance: fc.double({ min: 1e-6, max: 0.01, noNaN: true }),
    problemDf: fc.integer({ min: 9, max: 500 }),
    seedVariance: fc.double({ min: 0, max: 0.01, noNaN: true }),
    floorShare: fc.double({ min: 0, max: 1, noNaN: true }),
    seedDf: fc.integer({ min: 2, max: 10 }),
  })
  .map(
    ({ variance, problemDf, seedVariance, floorShare, seedDf }): Spread => ({
      problems: { variance, df: problemDf },
      seeds: { variance: seedVariance, floor: variance * floorShare, df: seedDf },
    }),
  )

const golden: { generalised: number[][] } = JSON.parse(
  readFileSync(new URL('./fixtures/distributions.json', import.meta.url), 'utf8'),
)

describe('the interval', () => {
  it('has the p-value that adaptive quadrature gives, to 3 parts in 1,000', () => {
    expect(golden.generalised.length).toBeGreaterThan(5)
    for (const [delta, variance, problemDf, seedVariance, floor, seedDf, expected] of golden.generalised) {
      const p = pValue(delta, {
        problems: { variance, df: problemDf },
        seeds: { variance: seedVariance, floor, df: seedDf },
      })
      expect(Math.abs(p / expected - 1), `${delta}: ${p} for ${expected}`).toBeLessThan(0.003)
    }
  })

  it('is Student’s t exactly where only seeds vary', () => {
    for (const df of [2, 3, 4, 8, 18]) {
      const half = halfWidth({ problems: { variance: 0, df: 100 }, seeds: { variance: 4, floor: 0, df } })
      expect(half / (2 * tQuantile(0.975, df))).toBeCloseTo(1, 3)
    }
  })

  it('is Student’s t over problems without seeds to look at', () => {
    const half = halfWidth({ problems: { variance: 9, df: 29 }, seeds: null })
    expect(half).toBeCloseTo(3 * tQuantile(0.975, 29), 8)
  })

  it('tends to the problems’ own interval as seeds without a spread are added', () => {
    const width = (df: number) =>
      halfWidth({ problems: { variance: 1, df: 1e4 }, seeds: { variance: 0.5, floor: 0.5, df } })
    expect(width(2)).toBeGreaterThan(width(4))
    expect(width(4)).toBeGreaterThan(width(8))
    expect(width(2000)).toBeLessThan(2)
  })

  it('p is 0.05 at its end, 1 at 0, and falls in between', () => {
    fc.assert(
      fc.property(spread, fc.double({ min: 0.01, max: 3, noNaN: true }), (s, x) => {
        const half = halfWidth(s)
        expect(Number.isFinite(half)).toBe(true)
        expect(pValue(half, s)).toBeCloseTo(0.05, 6)
        expect(pValue(0, s)).toBe(1)
        expect(pValue(x * half, s)).toBe(pValue(-x * half, s))
        expect(pValue(x * half * 1.1, s)).toBeLessThan(pValue(x * half, s))
      }),
      { numRuns: 60 },
    )
  })

  it('is never shorter than the problems’ own, and grows with the seeds’ spread and with the level', () => {
    fc.assert(
      fc.property(spread, (s) => {
        const half = halfWidth(s)
        expect(half).toBeGreaterThanOrEqual(halfWidth({ ...s, seeds: null }) * (1 - 1e-9))
        const more = { ...s, seeds: { ...s.seeds!, variance: s.seeds!.variance + 0.001 } }
        expect(halfWidth(more)).toBeGreaterThanOrEqual(half * (1 - 1e-9))
        expect(halfWidth(s, 0.01)).toBeGreaterThan(half)
      }),
      { numRuns: 40 },
    )
  })

  it('scales with the data', () => {
    fc.assert(
      fc.property(spread, (s) => {
        const scaled: Spread = {
          problems: { ...s.problems, variance: 100 * s.problems.variance },
          seeds: { ...s.seeds!, variance: 100 * s.seeds!.variance, floor: 100 * s.seeds!.floor },
        }
        expect(halfWidth(scaled) / halfWidth(s)).toBeCloseTo(10, 6)
      }),
      { numRuns: 30 },
    )
  })

  it('has no width where nothing varies at all', () => {
    const none: Spread = { problems: { variance: 0, df: 9 }, seeds: null }
    expect(halfWidth(none)).toBe(0)
    expect(pValue(0.1, none)).toBe(0)
  })
})

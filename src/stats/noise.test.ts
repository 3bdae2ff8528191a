import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { evalVariance, noiseBand } from './noise.ts'

describe('noiseBand', () => {
  it('is t(df) x run_std x sqrt(1/nA + 1/nB): three re-runs have t = 4.30', () => {
    const { runStd, df, t, band } = noiseBand([0.52, 0.54, 0.55], 2, 2)
    expect(runStd).toBeCloseTo(0.015275, 6)
    expect(df).toBe(2)
    expect(t).toBeCloseTo(4.302653, 6)
    expect(band).toBeCloseTo(4.302653 * 0.015275, 5)
  })

  it('does not care for the order of runs, and shrinks with seeds', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 8 }),
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 1, max: 9 }),
        (runs, nA, nB) => {
          const { band } = noiseBand(runs, nA, nB)
          expect(noiseBand([...runs].reverse(), nB, nA).band).toBeCloseTo(band, 12)
          expect(noiseBand(runs, nA + 1, nB).band).toBeLessThanOrEqual(band)
        },
      ),
    )
  })

  it('refuses a single run', () => {
    expect(() => noiseBand([0.5], 1, 1)).toThrow(/at least two evaluations of the base, got 1/)
  })
})

describe('evalVariance', () => {
  const run = (...rates: number[]) => rates.map((rate, i) => ({ id: `p${i}`, scores: [rate, rate] }))

  it('is the spread of the runs’ means, with the band of one run against one', () => {
    const report = evalVariance([run(1, 0), run(1, 1), run(0, 0)])
    expect(report.runs).toEqual([0.5, 1, 0])
    expect(report.mean).toBe(0.5)
    expect(report.runStd).toBe(0.5)
    expect(report.band).toBeCloseTo(4.302653 * 0.5 * Math.SQRT2, 5)
    expect(report).toMatchObject({ problemsInEveryRun: 2, unpaired: 0 })
  })

  it('counts the problems that not every run has', () => {
    expect(evalVariance([run(1, 0, 1), run(1, 0)])).toMatchObject({ problemsInEveryRun: 2, unpaired: 1 })
  })
})

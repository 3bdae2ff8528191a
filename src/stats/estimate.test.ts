import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bootstrapMean, mean, passAt, passAtK, passHatK, quantile, variance } from './estimate.ts'

/** Every choice of k of n rollouts, the first `correct` of which are right: the definition, counted. */
function countSubsets(n: number, correct: number, k: number): { any: number; all: number } {
  let [any, all, total] = [0, 0, 0]
  for (let set = 0; set < 2 ** n; set++) {
    const chosen = Array.from({ length: n }, (_, i) => i).filter((i) => (set >> i) & 1)
    if (chosen.length !== k) continue
    total++
    if (chosen.some((i) => i < correct)) any++
    if (chosen.every((i) => i < correct)) all++
  }
  return { any: any / total, all: all / total }
}

const shape = fc
  .integer({ min: 1, max: 9 })
  .chain((n) => fc.tuple(fc.constant(n), fc.integer({ min: 0, max: n }), fc.integer({ min: 1, max: n })))

describe('pass@k and pass^k', () => {
  it('are the share of all choices of k rollouts', () => {
    fc.assert(
      fc.property(shape, ([n, correct, k]) => {
        const counted = countSubsets(n, correct, k)
        expect(passAtK(n, correct, k)).toBeCloseTo(counted.any, 12)
        expect(passHatK(n, correct, k)).toBeCloseTo(counted.all, 12)
      }),
    )
  })

  it('mirror each other: all right of k is the complement of at least one wrong', () => {
    fc.assert(
      fc.property(shape, ([n, correct, k]) => {
        expect(passHatK(n, correct, k)).toBeCloseTo(1 - passAtK(n, n - correct, k), 12)
      }),
    )
  })
})

const problems = fc.array(
  fc.array(fc.constantFrom<(boolean | number)[]>(0, 1, true, false), { minLength: 1, maxLength: 6 }),
  { minLength: 1, maxLength: 30 },
)

describe('passAt', () => {
  it('orders pass^k <= pass@1 <= pass@k, each inside its own interval’s range', () => {
    fc.assert(
      fc.property(problems, (rows) => {
        const { passAt1, passAtK, passHatK } = passAt(rows, { draws: 100 })
        expect(passHatK.value).toBeLessThanOrEqual(passAt1.value + 1e-12)
        expect(passAt1.value).toBeLessThanOrEqual(passAtK.value + 1e-12)
        for (const { value, ci95 } of [passAt1, passAtK, passHatK]) {
          expect([value, ...ci95].every((x) => x >= 0 && x <= 1)).toBe(true)
          expect(ci95[0]).toBeLessThanOrEqual(ci95[1])
        }
      }),
      { numRuns: 50 },
    )
  })

  it('pass@1 averages problems, not rollouts', () => {
    expect(passAt([[1], [0, 0, 0]]).passAt1.value).toBe(0.5)
  })

  it('the interval depends on the problems, not on how often each was tried', () => {
    const once = Array.from({ length: 40 }, (_, i) => [i % 2])
    const often = once.map(([right]) => Array.from({ length: 50 }, () => right))
    expect(passAt(often).passAt1.ci95).toEqual(passAt(once).passAt1.ci95)
  })

  it.each([
    [[], undefined, /no problems/],
    [[[1, 0], []], undefined, /fewest are 0/],
    [[[1, 0], [1]], 2, /fewest are 1/],
    [[[1, 0]], 1.5, /pass@1.5/],
  ])('refuses %j with k = %s', (rows, k, message) => {
    expect(() => passAt(rows, { k })).toThrow(message)
  })
})

describe('the bootstrap over problems', () => {
  it('has the width that theory gives: 3.92 standard errors', () => {
    const values = Array.from({ length: 400 }, (_, i) => Math.sin(i * 12.9898) * 3)
    const [low, high] = bootstrapMean(values, { draws: 4000 })
    const theory = 2 * 1.96 * Math.sqrt(variance(values) / values.length)
    expect((high - low) / theory).toBeGreaterThan(0.93)
    expect((high - low) / theory).toBeLessThan(1.07)
    expect((high + low) / 2).toBeCloseTo(mean(values), 1)
  })

  it('gives the same interval for the same seed and another for another', () => {
    const values = Array.from({ length: 50 }, (_, i) => Math.sqrt(i))
    expect(bootstrapMean(values, { seed: 5 })).toEqual(bootstrapMean(values, { seed: 5 }))
    expect(bootstrapMean(values, { seed: 5 })).not.toEqual(bootstrapMean(values, { seed: 6 }))
  })

  it('is wider at a smaller alpha', () => {
    const values = Array.from({ length: 50 }, (_, i) => i % 5)
    const [a, b] = [bootstrapMean(values), bootstrapMean(values, { alpha: 0.01 })]
    expect(b[1] - b[0]).toBeGreaterThan(a[1] - a[0])
  })
})

it('quantiles interpolate between order statistics', () => {
  expect(quantile([0, 1, 2, 3], 0.5)).toBe(1.5)
  expect(quantile([0, 10], 0.975)).toBeCloseTo(9.75)
  expect(quantile([7], 0.3)).toBe(7)
})

import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  chiSquareQuantile,
  fTail,
  normalCdf,
  normalOfT,
  normalQuantile,
  tQuantile,
  tTails,
} from './distributions.ts'

const golden: Record<string, number[][]> = JSON.parse(
  readFileSync(new URL('./fixtures/distributions.json', import.meta.url), 'utf8'),
)

describe('against SciPy', () => {
  const functions: Record<string, (...args: number[]) => number> = {
    normalCdf,
    normalQuantile,
    tCdf: (t, df) => (t > 0 ? 1 - tTails(t, df) / 2 : tTails(t, df) / 2),
    tQuantile,
    chiSquareQuantile,
  }
  for (const [name, f] of Object.entries(functions)) {
    it(`${name}: relative error below 1e-10`, () => {
      expect(golden[name].length).toBeGreaterThan(8)
      for (const row of golden[name]) {
        const expected = row.at(-1)!
        const got = f(...row.slice(0, -1))
        expect(Math.abs(got - expected), `${name}(${row.slice(0, -1)}) = ${got}`).toBeLessThanOrEqual(
          1e-10 * Math.abs(expected) + 1e-15,
        )
      }
    })
  }
})

it('a quantile inverts its tails', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 1e-6, max: 0.999, noNaN: true }),
      fc.double({ min: 1, max: 500, noNaN: true }),
      (tails, df) => {
        const t = tQuantile(1 - tails / 2, df)
        expect(tTails(t, df) / tails).toBeCloseTo(1, 8)
        expect(tQuantile(tails / 2, df) / -t).toBeCloseTo(1, 8)
      },
    ),
    { numRuns: 50 },
  )
})

it('t tends to the normal', () => {
  expect(tTails(1.96, 1e7)).toBeCloseTo(tTails(1.96, Number.POSITIVE_INFINITY), 6)
})

it('F is the square of t with one degree of freedom above, elementary with two, and its inverse the other way up', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 1e-3, max: 50, noNaN: true }),
      fc.integer({ min: 1, max: 40 }),
      fc.integer({ min: 1, max: 40 }),
      (f, above, below) => {
        expect(fTail(f, 1, below)).toBeCloseTo(tTails(Math.sqrt(f), below), 10)
        expect(fTail(f, 2, below)).toBeCloseTo((1 + (2 * f) / below) ** (-below / 2), 10)
        expect(fTail(f, above, below)).toBeCloseTo(1 - fTail(1 / f, below, above), 10)
      },
    ),
    { numRuns: 50 },
  )
  expect(fTail(0, 3, 4)).toBe(1)
  expect(fTail(Number.POSITIVE_INFINITY, 3, 4)).toBe(0)
})

it('a normal value stands for t with tails that are no smaller, and nearly the same', () => {
  for (const df of [9, 29, 119]) {
    for (const t of [2, 2.5, 3]) {
      const ratio = (2 * normalCdf(-normalOfT(t, df))) / tTails(t, df)
      expect(ratio).toBeGreaterThanOrEqual(1)
      expect(ratio).toBeLessThan(df < 29 ? 1.007 : 1.0011)
    }
  }
  expect(normalOfT(1.5, Number.POSITIVE_INFINITY)).toBe(1.5)
})

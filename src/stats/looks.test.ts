import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { lookAlpha, lookCount, oneMore, planLooks } from './looks.ts'

describe('looks', () => {
  it('share the error rate of one', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.nat(1000), { minLength: 1, maxLength: 6 }),
        fc.integer({ min: 6, max: 30 }),
        (seeds, maxSeeds) => {
          const plan = planLooks(seeds, maxSeeds)
          let looks = 0
          for (let at = plan.first; at.length <= maxSeeds; at = oneMore(at)) {
            expect(new Set(at).size).toBe(at.length)
            looks++
          }
          expect(looks).toBe(lookCount(plan))
          expect(looks * lookAlpha(plan)).toBeCloseTo(0.05, 12)
        },
      ),
    )
  })

  it('begin with two seeds at least, and number on from the largest', () => {
    expect(planLooks([17], 4)).toEqual({ first: [17, 18], maxSeeds: 4 })
    expect(planLooks([9, 4, 5], 5)).toEqual({ first: [9, 4, 5], maxSeeds: 5 })
    expect(oneMore([9, 4, 5])).toEqual([9, 4, 5, 10])
    expect(() => planLooks([1, 2, 3], 2)).toThrow(/first look takes 3/)
  })
})

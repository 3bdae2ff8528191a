import fc from 'fast-check'
import { expect, it } from 'vitest'
import { rungAbove } from './sizes.ts'

it('gives few sizes, none much larger than asked for', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100_000 }), (size) => {
      const rung = rungAbove(size)
      expect(rung).toBeGreaterThanOrEqual(size)
      expect(rung).toBeLessThanOrEqual(Math.max(16, 1.2 * size + 16))
      expect(rung % 16).toBe(0)
      expect(rungAbove(rung)).toBe(rung)
    }),
  )
  const rungs = new Set(Array.from({ length: 4096 }, (_, i) => rungAbove(i + 1)))
  expect(rungs.size).toBeLessThan(34)
})

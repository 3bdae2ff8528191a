import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { UserError } from '../errors.ts'
import { stepProblems } from './loop.ts'

const problems = Array.from({ length: 25 }, (_, i) => ({ id: `p${i}`, question: `${i}?`, gold: `${i}` }))
const ids = (step: number, seed = 17) => stepProblems(problems, 4, step, seed).map((problem) => problem.id)

describe('stepProblems', () => {
  it('never poses a problem twice in one pass', () => {
    const pass = [0, 1, 2, 3, 4, 5].flatMap((step) => ids(step))
    expect(new Set(pass).size).toBe(24)
  })

  it('depends on the seed and the step alone', () => {
    fc.assert(
      fc.property(fc.nat(1000), fc.nat(1000), (step, seed) => {
        expect(ids(step, seed)).toEqual(ids(step, seed))
        expect(new Set(ids(step, seed)).size).toBe(4)
      }),
    )
    expect(ids(0, 17)).not.toEqual(ids(0, 18))
    expect(ids(0)).not.toEqual(ids(6))
  })

  it('says what to do with too few problems', () => {
    expect(() => stepProblems(problems.slice(0, 3), 4, 0, 17)).toThrow(UserError)
  })
})

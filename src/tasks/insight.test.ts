import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { random } from '../random.ts'
import { carriesTrial, insight, insightProblem, insightReach, trial } from './insight.ts'

describe('insightProblem', () => {
  it('has one sum among those that it lists that makes the total it tells', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 40 }), fc.nat(), (range, index) => {
        const { question, gold, total } = insightProblem({ range }, 0, index)
        const listed = [...question.matchAll(/(\d+)\) (\d+)\+(\d+)/g)].map((found) =>
          found.slice(1).map(Number),
        )
        expect(listed.map(([label]) => label)).toEqual(Array.from({ length: range }, (_, i) => i + 1))
        expect(listed.filter(([, a, b]) => a + b === total).map(([label]) => label)).toEqual([Number(gold)])
        expect(question.replace(/\d+\) \d+\+\d+/g, '').match(/\d+/g)).toEqual([String(total)])
      }),
    )
  })
})

describe('insightReach', () => {
  it('is what playing blind trials gives', () => {
    for (const [range, notes] of [
      [12, 1],
      [12, 4],
      [6, 8],
      [3, 8],
    ]) {
      const rng = random('blind', range, notes)
      let right = 0
      for (let game = 0; game < 40_000; game++) {
        const tried = new Set(Array.from({ length: notes }, () => rng.int(range)))
        const fresh = Array.from({ length: range }, (_, n) => n).filter((n) => !tried.has(n))
        // The number is 0; a reader that sees it takes it, another tries a fresh one.
        if (tried.has(0) || (fresh.length > 0 && rng.pick(fresh) === 0)) right++
      }
      expect(Math.abs(insightReach({ range }, notes) - right / 40_000)).toBeLessThan(0.01)
    }
    expect(insightReach({ range: 12 }, 1)).toBeCloseTo(2 / 12, 12)
    expect(insightReach({ range: 12 }, 0)).toBeCloseTo(1 / 12, 12)
  })
})

describe('carriesTrial', () => {
  it.each([
    [`Try 9: ${trial([23, 41])}.\nSo \\boxed{9}`, true],
    ['23 + 41 = 64', true],
    ['So \\boxed{9}', false],
    ['\\boxed{23+41=64}', false],
    ['Try 9: 23+41=', false],
    ['9) 23+41', false],
  ])('%j: %s', (note, carried) => {
    expect(carriesTrial(note)).toBe(carried)
  })
})

describe('insight', () => {
  it('shares no problem between its sets', async () => {
    const { train, holdout } = await insight({ train: 400, holdout: 480 }).load()
    expect([train.length, holdout.length]).toEqual([400, 480])
    expect(new Set([...train, ...holdout].map(({ question }) => question)).size).toBe(880)
  })

  it('records its dial, and refuses what cannot be', () => {
    expect(insight({ range: 20 }).config).toEqual({ train: 512, holdout: 120, range: 20, seed: 0 })
    expect(() => insight({ range: 1 })).toThrow(/range is 1/)
    expect(() => insight({ range: 101 })).toThrow(/range is 101/)
    expect(() => insight({ holdout: 0.5 })).toThrow(/holdout is 0.5/)
  })
})

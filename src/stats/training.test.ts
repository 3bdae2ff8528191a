import { describe, expect, it } from 'vitest'
import { random } from '../random.ts'
import type { ProblemScores, SeedScores } from './design.ts'
import { trainingHelped } from './training.ts'

/** An evaluation: each problem's rollouts right with `rate` around the problem's own difficulty. */
function evaluated(rate: number, problems: number, rollouts: number, key: string): ProblemScores[] {
  return Array.from({ length: problems }, (_, p) => {
    const draw = random(key, p)
    const chance = rate + 0.6 * (random('difficulty', p).next() - 0.5) * Math.min(rate, 1 - rate)
    return { id: `p${p}`, scores: Array.from({ length: rollouts }, () => (draw.next() < chance ? 1 : 0)) }
  })
}
const trained = (rates: readonly number[], key: string): SeedScores[] =>
  rates.map((rate, seed) => ({ seed, problems: evaluated(rate, 150, 4, `${key} ${seed}`) }))
const base = (rate: number, runs = 3) =>
  Array.from({ length: runs }, (_, run) => evaluated(rate, 150, 4, `base ${run}`))

describe('did training help', () => {
  it('says so, of each arm against the untrained model under its own protocol', () => {
    const [alone, board] = trainingHelped({
      arms: { alone: trained([0.7, 0.71, 0.69], 'a'), board: trained([0.5, 0.51, 0.49], 'b') },
      bases: { alone: base(0.5), board: base(0.7) },
    })
    expect(alone).toMatchObject({ arm: 'alone', verdict: 'moved', warnings: [] })
    expect(alone.why).toMatch(/^alone is better than the untrained model: the difference \+0\.\d{3} /)
    expect(alone.p).toBeLessThan(0.05)
    expect(board.verdict).toBe('moved the wrong way')
    expect(board.why).toMatch(/^board is worse than the untrained model: /)
  })

  it('takes the untrained model for one policy, however its rollouts are parted into evaluations', () => {
    const arms = { alone: trained([0.6, 0.65], 'a') }
    const [whole] = trainingHelped({ arms, bases: { alone: [evaluated(0.5, 150, 6, 'base')] } })
    const part = (from: number) =>
      evaluated(0.5, 150, 6, 'base').map(({ id, scores }) => ({ id, scores: scores.slice(from, from + 2) }))
    const [parted] = trainingHelped({ arms, bases: { alone: [part(0), part(2), part(4)] } })
    expect(parted.delta).toBeCloseTo(whole.delta, 12)
    expect(parted.ci95[0]).toBeCloseTo(whole.ci95[0], 9)
    expect(parted.p).toBeCloseTo(whole.p, 9)
  })

  it('learns of the spread between seeds from the trained arms alone, all of them', () => {
    const width = (arms: Record<string, SeedScores[]>) => {
      const bases = Object.fromEntries(Object.keys(arms).map((name) => [name, base(0.5)]))
      const [{ ci95 }] = trainingHelped({ arms, bases })
      return ci95[1] - ci95[0]
    }
    const arms = { alone: trained([0.5, 0.6], 'a'), board: trained([0.5, 0.6], 'b') }
    // Alone, two seeds give a single degree of freedom: 12.7 standard errors, against 4.3.
    expect(width(arms)).toBeLessThan(0.7 * width({ alone: arms.alone }))
  })

  it('is flat, unresolved, or untold with one seed, as a contrast is', () => {
    const bases = { alone: base(0.5) }
    const verdict = (rates: readonly number[], flatWithin?: number) =>
      trainingHelped({ arms: { alone: trained(rates, 'x') }, bases, flatWithin })[0]
    expect(verdict([0.5, 0.5, 0.5, 0.5], 0.2).verdict).toBe('flat')
    expect(verdict([0.3, 0.8]).why).toContain('too small to tell')
    expect(verdict([0.9]).why).toMatch(/^With one training seed in alone/)
  })

  it('needs the untrained model under the arm’s protocol', () => {
    expect(() => trainingHelped({ arms: { alone: trained([0.5], 'a') }, bases: {} })).toThrow(
      /was not evaluated under alone's protocol/,
    )
    expect(trainingHelped({ arms: {}, bases: {} })).toEqual([])
  })

  it('leaves out problems that an evaluation lacks, and says so', () => {
    const [{ warnings }] = trainingHelped({
      arms: { alone: trained([0.5, 0.6], 'a') },
      bases: { alone: [base(0.5)[0].slice(10)] },
    })
    expect(warnings).toEqual([expect.stringContaining('10 are not in every one')])
  })

  it('holds its level where the seeds spread and nothing was gained', () => {
    const sims = 400
    let missed = 0
    for (let sim = 0; sim < sims; sim++) {
      const draw = random('nothing gained', sim)
      const drawn = (rate: number) =>
        Array.from({ length: 20 }, (_, p) => ({
          id: `${p}`,
          scores: [draw.next() < rate ? 1 : 0, draw.next() < rate ? 1 : 0],
        }))
      const seeds = Array.from({ length: 4 }, (_, seed) => ({
        seed,
        problems: drawn(0.5 + 0.15 * draw.normal()),
      }))
      const [{ ci95 }] = trainingHelped({ arms: { a: seeds }, bases: { a: [drawn(0.5), drawn(0.5)] } })
      if (ci95[0] > 0 || ci95[1] < 0) missed++
    }
    expect(missed / sims).toBeLessThan(0.05 + 2 * Math.sqrt((0.05 * 0.95) / sims))
    expect(missed).toBeGreaterThan(0)
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { random } from '../random.ts'
import { hackScan, type ScanRow } from './hack-scan.ts'

/** 24 problems x 8 rollouts of filler text; `reward` and `mark` decide what goes with what. */
function rows(reward: (problem: number, rollout: number, marked: boolean) => number): ScanRow[] {
  const words = ['apple', 'pear', 'plum', 'then', 'adds', 'total', 'gives', 'half']
  return Array.from({ length: 24 * 8 }, (_, i) => {
    const [problem, rollout] = [Math.floor(i / 8), i % 8]
    const draw = random('text', i)
    const marked = draw.next() < 0.5
    const filler = Array.from({ length: 5 + draw.int(20) }, () => draw.pick(words)).join(' ')
    return {
      problemId: `${problem}`,
      text: marked ? `${filler} certainly` : filler,
      reward: reward(problem, rollout, marked),
    }
  })
}

describe('hackScan', () => {
  it('names the planted shortcut', () => {
    const { top, floor, features } = hackScan(rows((_, __, marked) => (marked ? 1 : 0)))
    expect(top!.name).toBe('says certainly')
    expect(top!.rho).toBeCloseTo(1, 9)
    expect(floor).toBeLessThan(0.5)
    expect(features[0]).toBe(top)
  })

  it('finds a shortcut that pays only sometimes, by its share', () => {
    const noisy = rows((p, r, marked) => (random('reward', p, r).next() < (marked ? 0.7 : 0.3) ? 1 : 0))
    const { top } = hackScan(noisy)
    expect(top!.name).toBe('says certainly')
    expect(top!.rho).toBeGreaterThan(0.25)
    expect(top!.rho).toBeLessThan(0.6)
  })

  it('names nothing in about 95 of 100 scans of reward that is chance', () => {
    const named = Array.from({ length: 40 }, (_, k) =>
      hackScan(
        rows((p, r) => random('coin', k, p, r).int(2)),
        { terms: 30 },
      ),
    )
    expect(named.filter(({ top }) => top !== null).length).toBeLessThanOrEqual(6)
  })

  it('does not mistake difficulty for a shortcut: what goes with the problem alone is no signal', () => {
    const hard = rows((p, r) => (random('coin', p, r).next() < (p % 2 === 0 ? 0.9 : 0.1) ? 1 : 0)).map(
      (row) => ({
        ...row,
        features: { 'hard problem': Number(row.problemId) % 2 },
      }),
    )
    const { features, top } = hackScan(hard)
    expect(top).toBeNull()
    // The same in all rollouts of a problem: nothing within it, so not even listed.
    expect(features.map(({ name }) => name)).not.toContain('hard problem')
  })

  it('ranks by |rho|, and takes features of the caller’s own', () => {
    const own = rows((_, r) => (r < 4 ? 1 : 0)).map((row, i) => ({
      ...row,
      features: { tokens: 100 - (i % 8) },
    }))
    const { features, top } = hackScan(own)
    expect(top!.name).toBe('tokens')
    const sizes = features.map(({ rho }) => Math.abs(rho))
    expect(sizes).toEqual([...sizes].sort((a, b) => b - a))
  })

  it('joins features that are one column', () => {
    const twice = rows((_, r) => r % 2).map((row, i) => ({
      ...row,
      features: { a: (i % 8) + 1, b: (i % 8) + 1 },
    }))
    const feature = hackScan(twice).features.find(({ name }) => name === 'a')!
    expect(feature.aliases).toEqual(['b'])
  })

  it('is the same for the same seed, in any order of problems', () => {
    const data = rows((_, r, marked) => (marked || r === 0 ? 1 : 0))
    expect(hackScan(data, { seed: 4 })).toEqual(hackScan(data, { seed: 4 }))
    const reversed = hackScan([...data].reverse(), { seed: 4 }).features
    hackScan(data, { seed: 4 })
      .features.slice(0, 5)
      .forEach(({ name, rho }, i) => {
        expect(reversed[i].name).toBe(name)
        expect(reversed[i].rho).toBeCloseTo(rho, 10)
      })
  })

  it('says so where nothing can be learnt', () => {
    const { top, mixedProblems, why } = hackScan(rows((p) => p % 2))
    expect({ top, mixedProblems }).toEqual({ top: null, mixedProblems: 0 })
    expect(why).toContain('nothing to learn')
    expect(hackScan([]).why).toContain('nothing to learn')
  })

  it('stays finite on any texts and rewards', () => {
    const row = fc.record({
      problemId: fc.constantFrom('a', 'b', 'c'),
      text: fc.string({ maxLength: 30, unit: 'binary' }),
      reward: fc.double({ min: -10, max: 10, noNaN: true }),
    })
    fc.assert(
      fc.property(fc.array(row, { maxLength: 20 }), (data) => {
        const { floor, features } = hackScan(data, { draws: 10 })
        expect(Number.isFinite(floor)).toBe(true)
        for (const { rho, pooled } of features) {
          expect(Math.abs(rho)).toBeLessThanOrEqual(1 + 1e-9)
          expect(Math.abs(pooled)).toBeLessThanOrEqual(1 + 1e-9)
        }
      }),
      { numRuns: 60 },
    )
  })

  it('finds the same in rewards of any size', () => {
    const found = (size: number) =>
      hackScan(
        Array.from({ length: 12 }, (_, i) => ({
          problemId: `p${i % 3}`,
          text: 'a'.repeat(i),
          reward: size * (i + (i % 4)),
        })),
        { draws: 10 },
      ).features.map(({ name, rho }) => [name, rho.toFixed(9)])
    expect(found(1).length).toBeGreaterThan(0)
    for (const size of [4.6e-160, 2 ** -1070, 1e150]) expect(found(size)).toEqual(found(1))
  })

  it('refuses a reward that is no number', () => {
    expect(() => hackScan([{ problemId: 'a', text: '', reward: Number.NaN }])).toThrow(
      /Problem a: reward is NaN/,
    )
  })
})

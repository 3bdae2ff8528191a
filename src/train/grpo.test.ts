import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Played } from '../board/play.ts'
import type { Rollout } from '../board/policy-writer.ts'
import type { Protocol, Round } from '../board/protocol.ts'
import { groupAdvantages, groupsOf, linearDecay, policyBatch, scaledAdvantages } from './grpo.ts'

const rollout = (tokens: number, at = 0) => ({
  prompt: [1, 2],
  completion: Array.from({ length: tokens }, (_, t) => at + t),
  logprobs: Array.from({ length: tokens }, () => -1),
})

describe('groupAdvantages', () => {
  it('is reward above the mean, without dividing by the spread', () => {
    expect(groupAdvantages([1, 0, 0, 1])).toEqual([0.5, -0.5, -0.5, 0.5])
    expect(groupAdvantages([0, 0, 0, 1])).toEqual([-0.25, -0.25, -0.25, 0.75])
  })

  it('sums to 0 and is exactly 0 where all earned the same', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -10, max: 10, noNaN: true }), { minLength: 1, maxLength: 9 }),
        (rewards) => {
          const sum = groupAdvantages(rewards).reduce((a, b) => a + b, 0)
          expect(Math.abs(sum)).toBeLessThan(1e-9)
        },
      ),
    )
    expect(groupAdvantages([0.1, 0.1, 0.1])).toEqual([0, 0, 0])
  })
})

describe('policyBatch', () => {
  it('weighs a batch worked by hand', () => {
    const batch = policyBatch([
      { rollouts: [rollout(2), rollout(3)], rewards: [1, 0] },
      { rollouts: [rollout(4), rollout(4)], rewards: [1, 1] },
    ])
    // Problem 1 has 5 tokens and half of the batch: 0.5 / (5 x 2). Problem 2 teaches nothing but counts as one of 2.
    expect(batch.map((datum) => datum.advantages)).toEqual([
      [0.05, 0.05],
      [-0.05, -0.05, -0.05],
    ])
  })

  it('is TRL bnpo: problems averaged over, each problem a mean over its own tokens', () => {
    const group = fc
      .array(fc.tuple(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 0, max: 1 })), {
        minLength: 2,
        maxLength: 5,
      })
      .map((list) => ({ rollouts: list.map(([n]) => rollout(n)), rewards: list.map(([, r]) => r) }))
    fc.assert(
      fc.property(fc.array(group, { minLength: 1, maxLength: 5 }), (groups) => {
        // With a ratio of r for every token the loss is -r times the sum of the advantages.
        const folded = policyBatch(groups).reduce(
          (sum, datum) => sum + datum.advantages.reduce((a, b) => a + b, 0),
          0,
        )
        const perProblem = groups.map(({ rollouts, rewards }) => {
          const mean = rewards.reduce((a, b) => a + b, 0) / rewards.length
          const lengths = rollouts.map((r) => r.completion.length)
          const weighted = lengths.reduce((sum, n, g) => sum + n * (rewards[g] - mean), 0)
          return weighted / lengths.reduce((a, b) => a + b, 0)
        })
        expect(folded).toBeCloseTo(perProblem.reduce((a, b) => a + b, 0) / groups.length, 12)
      }),
    )
  })

  it('leaves out what has no gradient', () => {
    expect(policyBatch([{ rollouts: [rollout(2), rollout(2)], rewards: [0, 0] }])).toEqual([])
  })
})

describe('groupsOf', () => {
  const seat = { name: 'copy', policy: 'policy' }
  const round = (prompt: string) => ({ name: prompt, speakers: [0, 1], sees: null }) as unknown as Round
  const protocol: Protocol = {
    name: 'p',
    seats: [seat, { ...seat, policy: 'other' }],
    rounds: [round('a')],
    final: 'each',
  }
  const post = (seat: number) => ({
    seat,
    reads: [],
    text: '',
    tokens: 1,
    answer: null,
    correct: false,
    cut: false,
  })
  const problem = { id: 'x', question: '?', gold: '1' }
  /** A board whose two seats answered these prompts. */
  const board = (prompts: number[], board = 0): Played<Rollout> => ({
    problem,
    board,
    episode: { problemId: 'x', rounds: [[post(0), post(1)]] },
    traces: [prompts.map((token) => ({ ...rollout(1), prompt: [token] }))],
  })
  const one = { ...protocol, seats: [seat, seat] }
  const earned = (boards: Played<Rollout>[], credits: (number | null)[][], of: Protocol = one) =>
    groupsOf(
      of,
      boards,
      credits.map((credit) => [credit]),
    ).map(({ rewards }) => rewards)

  it('are of one prompt where each prompt was answered more than once', () => {
    expect(earned([board([5, 5])], [[1, 0]])).toEqual([[1, 0]])
    expect(
      earned(
        [board([5, 6]), board([5, 6], 1)],
        [
          [1, 2],
          [3, 4],
        ],
      ),
    ).toEqual([
      [1, 3],
      [2, 4],
    ])
  })

  it('are of a whole problem where some prompt was answered once', () => {
    expect(earned([board([5, 6])], [[1, 0]])).toEqual([[1, 0]])
    expect(
      earned(
        [board([5, 6]), board([5, 7], 1)],
        [
          [1, 2],
          [3, 4],
        ],
      ),
    ).toEqual([[1, 2, 3, 4]])
  })

  it('keep policies apart, and leave out what earned nothing', () => {
    expect(earned([board([5, 5])], [[1, 0]], protocol)).toEqual([[1], [0]])
    expect(earned([board([5, 5])], [[1, null]])).toEqual([[1]])
  })
})

describe('scaledAdvantages', () => {
  it('have a standard deviation of 1 within a group, and stay 0 where all earned the same', () => {
    expect(scaledAdvantages([1, 0, 0, 1])).toEqual([1, -1, -1, 1])
    expect(scaledAdvantages([0.5, 0.5])).toEqual([0, 0])
  })
})

describe('linearDecay', () => {
  it('starts at the full rate and would reach 0 after the last step', () => {
    expect([0, 0.5, 39 / 40].map((done) => linearDecay(1e-4, done))).toEqual([
      1e-4,
      0.5e-4,
      1e-4 * (1 - 39 / 40),
    ])
    expect(linearDecay(1e-4, 1)).toBe(0)
    expect(linearDecay(1e-4, 1.2)).toBe(0)
  })
})

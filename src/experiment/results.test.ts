import { describe, expect, it } from 'vitest'
import { own, shared } from '../board/reads.ts'
import type { Board, Post } from '../board/types.ts'
import type { StepMetrics } from '../train/loop.ts'
import type { Job, JobOutcome } from './job.ts'
import { type RunFacts, resultsSchema, summarise, withoutTimings } from './results.ts'

const post = (right: boolean): Post => ({
  text: right ? '\\boxed{1}' : '\\boxed{2}',
  tokens: 3,
  answer: right ? '1' : '2',
  correct: right,
  cut: false,
})

/** A board from marks: notes, then replies, `+` for right. board('x', '+-', '++'). */
const board = (problemId: string, notes: string, replies: string): Board => ({
  problemId,
  notes: [...notes].map((mark) => post(mark === '+')),
  replies: [...replies].map((mark, reader) => ({ ...post(mark === '+'), reads: [reader] })),
})

const step = (n: number, reward: number): StepMetrics => ({
  step: n,
  reward,
  informative: 1,
  noteAcc: 0.5,
  loss: 0,
  gradNorm: 1,
  learningRate: 1e-3,
  clippedShare: 0,
  logprobDrift: 0,
  replyChars: 9,
  repliesCut: 0,
  sampledTokens: 100,
  trainedTokens: 50,
  seconds: { notes: 1, replies: 1, forwardBackward: 1, optimStep: 1 },
})

function outcome(name: string, boards: Board[]): JobOutcome {
  const match = /^(baseline|recipe)-s(\d+)$/.exec(name)
  const trained: Job['trained'] = match
    ? { arm: match[1] as 'baseline' | 'recipe', seed: Number(match[2]) }
    : null
  return {
    job: { name, trained, reads: match?.[1] === 'recipe' ? shared : own, evaluationSeed: [] },
    metrics: trained ? [step(1, 0.25), step(2, 0.75)] : [],
    boards,
    lastBatch: trained ? [board('t', '++', '+-'), board('u', '--', '--')] : [],
    seconds: { train: trained ? 60 : 0, evaluation: 30 },
  }
}

const facts: RunFacts = {
  model: { name: 'm', sha256: 'f00' },
  task: { name: 't', train: 8, holdout: 2 },
  config: {},
  evaluation: { grader: 'math 2', sampling: {} },
  seeds: [17, 18],
  dropped: 3,
  versions: {},
  failed: [],
  finishedAt: '2026-01-01T00:00:00.000Z',
}

const outcomes = [
  outcome('base-1', [board('a', '+-', '+-'), board('b', '--', '--')]),
  outcome('base-2', [board('a', '+-', '++'), board('b', '--', '--')]),
  outcome('base-shared', [board('a', '+-', '++'), board('b', '--', '+-')]),
  outcome('baseline-s17', [board('a', '++', '++'), board('b', '--', '--')]),
  outcome('baseline-s18', [board('a', '++', '+-'), board('b', '--', '--')]),
  outcome('recipe-s17', [board('a', '+-', '++'), board('b', '--', '++')]),
  outcome('recipe-s18', [board('a', '+-', '++'), board('b', '--', '-+')]),
]

describe('summarise', () => {
  const results = summarise(facts, outcomes)

  it('pools a small experiment worked by hand', () => {
    resultsSchema.parse(results)
    const { base, baseSharedBoard, baseline, recipe } = results.arms
    expect(base).toMatchObject({ passAt1: 0.375, runs: [0.25, 0.5], passAtK: 0.5, k: 2 })
    expect(baseSharedBoard).toMatchObject({ passAt1: 0.75, passAtK: 1 })
    expect(baseline).toMatchObject({ perSeed: [0.5, 0.25], pooled: 0.375, passAt1: 0.375, reads: 'own' })
    expect(recipe).toMatchObject({ perSeed: [1, 0.75], pooled: 0.875, seeds: [17, 18], steps: 2 })
    expect(recipe?.board).toMatchObject({ noteAcc: 0.25, rescued: 0.625, misled: 0 })
    // The first seeds alone would say +0.5; every seed counts.
    expect(results.delta?.recipeVsBaseline).toBe(0.5)
    expect(results.checks.noise?.runs).toEqual([0.25, 0.5])
    expect(results.checks.decontamination.dropped).toBe(3)
    expect(results.trainTrace.recipe[1]).toMatchObject({ seed: 18, reward: [0.25, 0.75], rewardLast10: 0.5 })
  })

  it('says what would resolve a comparison that is not, and what makes its arms hard to compare', () => {
    expect(results.delta).toMatchObject({ verdict: 'unresolved', toResolve: { why: expect.any(String) } })
    expect(results.delta?.warnings).toEqual([])
    const cut = outcomes.map((one) =>
      one.job.name.startsWith('recipe')
        ? {
            ...one,
            boards: one.boards.map((board) => ({
              ...board,
              replies: board.replies.map((reply, i) => ({ ...reply, cut: i === 0 })),
            })),
          }
        : one,
    )
    expect(summarise(facts, cut).delta?.warnings).toEqual([
      expect.stringMatching(/cut 0\.0% of baseline's replies and 50\.0% of recipe's/),
    ])
  })

  it('keeps what the clock decided where it can be taken out', () => {
    expect(results.arms.recipe?.minutes).toBe(3)
    expect(results.timing.minutes).toBe(7.5)
    const slower = outcomes.map((one) => ({ ...one, seconds: { train: 7, evaluation: 9 } }))
    const later = summarise({ ...facts, finishedAt: '2027-01-01T00:00:00.000Z' }, slower)
    expect(later).not.toEqual(results)
    expect(withoutTimings(later)).toEqual(withoutTimings(results))
  })

  it('gives no verdict on what happened to survive', () => {
    const failed = [{ job: 'recipe-s18', why: 'step 1 failed.' }]
    const { delta, arms } = summarise({ ...facts, failed }, outcomes.slice(0, -1))
    expect(arms.recipe?.seeds).toEqual([17])
    expect(delta).toMatchObject({
      verdict: 'unresolved',
      why: expect.stringContaining('recipe-s18'),
      toResolve: null,
    })
  })

  it('has no comparison, and no noise, without the jobs for them', () => {
    const { delta, arms, checks } = summarise(facts, [outcomes[0], outcomes[3]])
    expect([delta, arms.recipe, arms.baseSharedBoard, checks.noise]).toEqual([null, null, null, null])
    expect(resultsSchema.safeParse(summarise(facts, [])).success).toBe(true)
  })
})

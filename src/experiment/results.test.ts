import { describe, expect, it } from 'vitest'
import { protocolRecord, resolveProtocol } from '../board/protocol.ts'
import { board as boardOf } from '../board/protocols.ts'
import { own, shared } from '../board/sights.ts'
import type { Episode, Post } from '../board/types.ts'
import { beginning } from '../record/job-log.ts'
import { planJobs } from '../record/plan.ts'
import { resultsSchema, withoutTimings } from '../record/results.ts'
import { type ArmRecord, kind, type MetricsLine, type RunRecord, recordSchema } from '../record/schema.ts'
import type { JobOutcome } from './job.ts'
import { type RunFacts, summarise } from './results.ts'

const post = (right: boolean, seat: number): Post => ({
  seat,
  reads: [],
  text: right ? '\\boxed{1}' : '\\boxed{2}',
  tokens: 3,
  answer: right ? '1' : '2',
  correct: right,
  cut: false,
})

/** A board from marks: notes, then replies, `+` for right. board('x', '+-', '++'). */
const board = (problemId: string, ...rounds: string[]): Episode => ({
  problemId,
  rounds: rounds.map((marks) => [...marks].map((mark, seat) => post(mark === '+', seat))),
})

const round = { right: 0.5, chars: 9, tokens: 3, cut: 0, credit: null }
const step = (n: number, reward: number): MetricsLine => ({
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
  scoredTokens: 10,
  trainedTokens: 50,
  effective: null,
  rounds: [
    { name: 'note', ...round },
    { name: 'reply', ...round, credit: { mean: 0.5, spread: 0.5, informative: 1, withOwn: 1, unpaid: 0 } },
  ],
  seconds: { rounds: [1, 1], credit: 0, forwardBackward: 1, optimStep: 1 },
})

const armOf = (sees: typeof own): ArmRecord => ({
  protocol: JSON.parse(
    JSON.stringify(
      protocolRecord(resolveProtocol(boardOf({ reads: sees }), { copies: 2, noteTokens: 8, replyTokens: 8 })),
    ),
  ),
  credit: { name: 'readersOnly' },
  train: { steps: 2, problemsPerStep: 2, boards: 1 },
  sampling: { trained: { temperature: 1, topP: 1 }, context: { temperature: 1, topP: 1 } },
  policies: { policy: { model: 'm', sha256: 'f00', adapter: null, trained: true } },
})

const record: RunRecord = recordSchema.parse({
  kind,
  schemaVersion: 2,
  identity: {
    shared: {
      task: { name: 't' },
      data: { train: 8, holdout: 2, dropped: 3, sha256: 'd00d' },
      evaluation: {
        baseRuns: 2,
        problemsAtOnce: 4,
        sampling: { temperature: 1, topP: 1 },
        readTokens: null,
      },
      template: {},
      grader: { name: 'math', version: '2' },
      engine: { name: 'onnx' },
      versions: {},
    },
    arms: { baseline: armOf(own), recipe: armOf(shared) },
  },
  arms: ['baseline', 'recipe'],
  baseline: 'baseline',
  contrasts: [{ arm: 'recipe', against: 'baseline' }],
  seeds: [17, 18],
  model: 'm',
  versions: {},
  machine: {},
})

function outcome(name: string, episodes: Episode[]): JobOutcome {
  const job = planJobs(record).find((one) => one.name === name)!
  const trained = job.seed !== null
  return {
    job,
    progress: {
      ...beginning(trained),
      trained: true,
      steps: trained ? 2 : 0,
      tokens: { sampled: 200, scored: 20, trained: 100 },
      evaluated: 2,
      seconds: { train: trained ? 60 : 0, evaluation: 30 },
    },
    metrics: trained ? [step(1, 0.25), step(2, 0.75)] : [],
    episodes,
    lastBatch: trained ? [board('t', '++', '+-'), board('u', '--', '--')] : [],
  }
}

const facts: RunFacts = { record, failed: [], finishedAt: '2026-01-01T00:00:00.000Z' }

const outcomes = [
  outcome('base-baseline-1', [board('a', '+-', '+-'), board('b', '--', '--')]),
  outcome('base-baseline-2', [board('a', '+-', '++'), board('b', '--', '--')]),
  outcome('base-recipe-1', [board('a', '+-', '++'), board('b', '--', '+-')]),
  outcome('baseline-s17', [board('a', '++', '++'), board('b', '--', '--')]),
  outcome('recipe-s17', [board('a', '+-', '++'), board('b', '--', '++')]),
  outcome('baseline-s18', [board('a', '++', '+-'), board('b', '--', '--')]),
  outcome('recipe-s18', [board('a', '+-', '++'), board('b', '--', '-+')]),
]

describe('summarise', () => {
  const results = summarise(facts, outcomes)

  it('pools a small experiment worked by hand', () => {
    resultsSchema.parse(results)
    const { baseline, recipe } = results.arms
    expect(results.bases).toMatchObject([
      { name: 'base-baseline', arms: ['baseline'], passAt1: 0.375, runs: [0.25, 0.5], passAtK: 0.5, k: 2 },
      { name: 'base-recipe', arms: ['recipe'], passAt1: 0.75, passAtK: 1 },
    ])
    expect(baseline).toMatchObject({ perSeed: [0.5, 0.25], passAt1: 0.375, protocol: 'own' })
    expect(recipe).toMatchObject({ perSeed: [1, 0.75], passAt1: 0.875, seeds: [17, 18], steps: 2 })
    expect(recipe?.tokens).toEqual({ sampled: 200, scored: 20, trained: 100 })
    expect(recipe?.board).toMatchObject({ noteAcc: 0.25, rescued: 0.625, misled: 0 })
    // The first seeds alone would say +0.5; every seed counts.
    expect(results.contrasts).toMatchObject([{ arm: 'recipe', against: 'baseline', delta: 0.5 }])
    expect(results.training.map(({ arm, base, delta }) => [arm, base, delta])).toEqual([
      ['baseline', 'base-baseline', 0],
      ['recipe', 'base-recipe', 0.125],
    ])
    expect(results.checks.noise?.runs).toEqual([0.25, 0.5])
    expect(results.checks.decontamination.dropped).toBe(3)
    expect(results.trainTrace.recipe[1]).toMatchObject({ seed: 18, reward: [0.25, 0.75], rewardLast10: 0.5 })
    expect(results.trainTrace.recipe[1].rounds.map(({ credit }) => credit?.withOwn)).toEqual([
      undefined,
      [1, 1],
    ])
  })

  it('says what would resolve a comparison that is not, and what makes its arms hard to compare', () => {
    expect(results.contrasts[0]).toMatchObject({
      verdict: 'unresolved',
      toResolve: { why: expect.any(String) },
      warnings: [],
    })
    const cut = outcomes.map((one) =>
      one.job.arm === 'recipe'
        ? {
            ...one,
            episodes: one.episodes.map((episode) => ({
              ...episode,
              rounds: episode.rounds.map((posts, r) =>
                posts.map((each, i) => ({ ...each, cut: r === 1 && i === 0 })),
              ),
            })),
          }
        : one,
    )
    expect(summarise(facts, cut).contrasts[0].warnings).toEqual([
      expect.stringMatching(/cut 0\.0% of baseline's replies and 50\.0% of recipe's/),
    ])
  })

  it('keeps what the clock decided where it can be taken out', () => {
    expect(results.arms.recipe?.minutes).toBe(3)
    expect(results.timing.minutes).toBe(7.5)
    const slower = outcomes.map((one) => ({
      ...one,
      progress: { ...one.progress, seconds: { train: 7, evaluation: 9 } },
    }))
    const later = summarise({ ...facts, finishedAt: '2027-01-01T00:00:00.000Z' }, slower)
    expect(later).not.toEqual(results)
    expect(withoutTimings(later)).toEqual(withoutTimings(results))
  })

  it('gives no verdict on what happened to survive', () => {
    const failed = [{ job: 'recipe-s18', why: 'step 1 failed.' }]
    const { contrasts, arms } = summarise({ ...facts, failed }, outcomes.slice(0, -1))
    expect(arms.recipe?.seeds).toEqual([17])
    expect(contrasts[0]).toMatchObject({
      verdict: 'unresolved',
      why: expect.stringContaining('recipe-s18'),
      toResolve: null,
    })
  })

  it('has no comparison, and no noise, without the jobs for them', () => {
    const { contrasts, arms, bases, training, checks } = summarise(facts, [outcomes[0], outcomes[3]])
    expect([contrasts, arms.recipe, bases.length, checks.noise]).toEqual([[], null, 1, null])
    expect(training.map(({ arm }) => arm)).toEqual(['baseline'])
    expect(resultsSchema.safeParse(summarise(facts, [])).success).toBe(true)
  })
})

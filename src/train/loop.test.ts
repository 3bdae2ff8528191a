import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ProtocolChoices, resolveProtocol } from '../board/protocol.ts'
import { board } from '../board/protocols.ts'
import { shared } from '../board/sights.ts'
import type { Engine, Policy } from '../engine/contract.ts'
import { openOnnxEngine } from '../engine/onnx/index.ts'
import { UserError } from '../errors.ts'
import type { Grader } from '../grade/types.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'
import { leaveOneOut, ownAnswer, readersOnly } from './credit/index.ts'
import { isTrainingOver, type LoopOptions, type Step, stepProblems, tokensOf, trainSteps } from './loop.ts'

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

describe('trainSteps', () => {
  let folder: string
  let engine: Engine

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'loop-'))
    await writeTinyModel(folder, 1)
    engine = await openOnnxEngine({ model: folder, threads: 1 })
  })
  afterAll(async () => {
    await engine.close()
    await rm(folder, { recursive: true })
  })

  /** Right when the text has an even number of characters: random text is, about half of the time. */
  const grader: Grader = {
    name: 'even length',
    version: '1',
    grade: (text) => ({ answer: `${text.length % 2}`, correct: text.length % 2 === 0 }),
  }
  const train: LoopOptions['train'] = {
    steps: 3,
    tokens: null,
    problemsPerStep: 2,
    boards: 1,
    roundWeights: null,
    noteScale: 'none',
    learningRate: 1e-3,
    lora: { rank: 2, alpha: 4 },
    clipLow: 0.2,
    clipHigh: 0.28,
    beta1: 0.9,
    beta2: 0.999,
    epsilon: 1e-8,
    weightDecay: 0,
    maxGradNorm: 1,
  }
  const sampling = { trained: { temperature: 0.9, topP: 1 }, context: { temperature: 0.9, topP: 0.95 } }

  /** The steps of a training, and the batch of each update of each policy. */
  async function steps(
    over: Partial<Omit<LoopOptions, 'authors'>> & {
      choices?: ProtocolChoices
      frozen?: string[]
      stopAfter?: number
    } = {},
  ) {
    const { choices = board(), frozen = [], stopAfter, ...options } = over
    const protocol = resolveProtocol(choices, { copies: 4, noteTokens: 6, replyTokens: 6 })
    const updates: { policy: string; texts: number; rounds: number }[] = []
    const policies = new Map<string, Policy>()
    const authors: LoopOptions['authors'] = new Map(
      await Promise.all(
        [...new Set(protocol.seats.map(({ policy }) => policy))].map(async (name, i) => {
          const policy = await engine.createPolicy({ lora: { ...train.lora, seed: i } })
          policies.set(name, policy)
          const forwardBackward: Policy['forwardBackward'] = (batch, loss) => {
            updates.push({ policy: name, texts: batch.length, rounds: 1 })
            return policy.forwardBackward(batch, loss)
          }
          const { tokenizer, contextLength } = engine
          const start = await engine.createPolicy()
          const author = { policy: { ...policy, forwardBackward }, start, tokenizer, contextLength }
          return [name, { ...author, trained: !frozen.includes(name) }] as const
        }),
      ),
    )
    const taken: Step[] = []
    for await (const step of trainSteps({
      authors,
      protocol,
      credit: readersOnly(),
      sampling,
      problems,
      grader,
      readTokens: null,
      train,
      seed: 17,
      done: { steps: 0, tokens: 0 },
      ...options,
    })) {
      taken.push(step)
      if (taken.length === stopAfter) break
    }
    for (const policy of policies.values()) policy.dispose()
    return { taken, updates }
  }

  const still = ({ metrics }: Step) => ({ ...metrics, seconds: null })

  it('is a function of its seed, and pays readers alone unless told', async () => {
    const [once, again] = [await steps(), await steps()]
    expect(once.taken.map(still)).toEqual(again.taken.map(still))
    expect((await steps({ seed: 18 })).taken.map(still)).not.toEqual(once.taken.map(still))
    const [{ metrics, played, credits }] = once.taken
    expect(metrics.rounds.map(({ credit }) => credit === null)).toEqual([true, false])
    expect(credits[0][0]).toEqual([null, null, null, null])
    const replies = played.flatMap(({ episode }) => episode.rounds[1])
    expect(metrics.reward).toBe(replies.filter(({ correct }) => correct).length / replies.length)
    expect(metrics.learningRate).toBe(1e-3)
    expect(once.taken[2].metrics.learningRate).toBeCloseTo(1e-3 / 3, 12)
    // Of tokens drawn from a vocabulary of that size, and far from its start after two updates.
    expect(metrics.entropy).toBeGreaterThan(0)
    expect(once.taken.map(({ metrics: { kl } }) => kl === null)).toEqual([true, true, false])
    expect(once.taken[2].metrics.kl).toBeGreaterThan(1e-6)
    // What was sampled is what is scored: the loss's distribution is the sampling distribution.
    expect(metrics.logprobDrift).toBeLessThan(1e-4)
  })

  it('goes on where it was stopped', async () => {
    const whole = await steps()
    const rest = await steps({ done: { steps: 2, tokens: 0 } })
    // The policy begins anew here, so only what does not depend on it is equal.
    expect(rest.taken.map(({ metrics }) => [metrics.step, metrics.learningRate])).toEqual([
      [3, whole.taken[2].metrics.learningRate],
    ])
    expect(rest.taken[0].played.map(({ problem }) => problem.id)).toEqual(
      whole.taken[2].played.map(({ problem }) => problem.id),
    )
  })

  it('trains writers where a rule pays them, and tells what that took', async () => {
    const readers = await steps({ stopAfter: 1 })
    const own = await steps({ credit: ownAnswer(), stopAfter: 1 })
    expect(own.updates[0].texts).toBeGreaterThan(readers.updates[0].texts)
    // Everything is trained on, so it is drawn without a nucleus.
    const choices = board({ reads: shared })
    const out = await steps({ choices, credit: leaveOneOut({ by: 'rescore' }) })
    // A step whose readers disagree somewhere: only there is anything scored.
    const { metrics } = out.taken.find((step) => step.metrics.effective !== null)!
    expect(metrics.scoredTokens).toBeGreaterThan(0)
    expect(metrics.effective).toBeGreaterThanOrEqual(1)
    expect(metrics.effective).toBeLessThanOrEqual(4)
    expect(metrics.rounds[0].credit).not.toBe(null)
    const replayed = await steps({ choices, credit: leaveOneOut({ by: 'replay' }), stopAfter: 1 })
    expect(replayed.taken[0].metrics.sampledTokens).toBeGreaterThan(out.taken[0].metrics.sampledTokens)
    expect(tokensOf(metrics)).toBe(metrics.sampledTokens + metrics.scoredTokens + metrics.trainedTokens)
  })

  it('updates each trained policy by its own texts, and leaves a frozen teammate alone', async () => {
    const choices = { ...board(), seats: ['a', 'a', 'b', 'b'].map((policy) => ({ policy })) }
    const both = await steps({ choices, credit: ownAnswer() })
    expect(new Set(both.updates.map(({ policy }) => policy))).toEqual(new Set(['a', 'b']))
    const one = await steps({ choices, credit: ownAnswer(), frozen: ['b'] })
    expect(new Set(one.updates.map(({ policy }) => policy))).toEqual(new Set(['a']))
  })

  it('weighs rounds as told', async () => {
    const none = await steps({ credit: ownAnswer(), train: { ...train, roundWeights: [0, 1] }, stopAfter: 1 })
    const readers = await steps({
      credit: readersOnly(),
      sampling: { ...sampling, context: sampling.trained },
      stopAfter: 1,
    })
    expect(none.updates).toEqual(readers.updates)
    expect(none.taken[0].metrics.loss).toBe(readers.taken[0].metrics.loss)
  })

  it('ends at its budget of tokens, with the rate falling to it', async () => {
    const whole = await steps({ train: { ...train, steps: 4 } })
    const spent = whole.taken.slice(0, 2).reduce((sum, { metrics }) => sum + tokensOf(metrics), 0)
    const budget = { ...train, steps: 100, tokens: spent - 1 }
    const { taken } = await steps({ train: budget })
    expect(taken).toHaveLength(2)
    expect(isTrainingOver(budget, { steps: 2, tokens: spent })).toBe(true)
    expect(isTrainingOver(budget, { steps: 1, tokens: tokensOf(taken[0].metrics) })).toBe(false)
    const half = tokensOf(taken[0].metrics) / budget.tokens
    expect(taken[1].metrics.learningRate).toBeCloseTo(1e-3 * (1 - half), 12)
  })
})

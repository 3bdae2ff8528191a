/** Every credit rule in a whole run: stopped in the middle and gone on with, and on a server of the Tinker API. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { board } from '../board/protocols.ts'
import type { Engine } from '../engine/contract.ts'
import { openTinkerEngine } from '../engine/tinker/index.ts'
import { scratch, simulate } from '../engine/tinker/testing/server.ts'
import { withoutTimings } from '../record/results.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'
import {
  type Credit,
  leaveOneOut,
  mix,
  ownAnswer,
  readersOf,
  readersOnly,
  subsets,
  team,
} from '../train/credit/index.ts'
import { openEngine } from './engine.ts'
import { type RunOptions, runExperiment } from './run.ts'
import { tinyExperiment } from './testing/tiny-experiment.ts'

let folder: string
let model: string
let engine: Engine
let runs = 0

beforeAll(async () => {
  folder = await mkdtemp(join(scratch, 'credit-'))
  model = join(folder, 'model')
  await writeTinyModel(model, 1)
  engine = await openEngine(tinyExperiment(model))
})
afterAll(async () => {
  await engine.close()
  await rm(folder, { recursive: true })
})

const out = () => join(folder, `run-${runs++}`)
const run = (credit: Credit, options: RunOptions, over = {}) =>
  runExperiment(
    tinyExperiment(model, {
      arms: { arm: { protocol: board(), credit, train: { boards: credit.boards, steps: 3 } } },
      evaluation: { baseRuns: 1, problemsAtOnce: 6 },
      seeds: [17],
      ...over,
    }),
    { openEngine: async () => ({ ...engine, close: async () => {} }), ...options },
  )

const rules: [string, () => Credit][] = [
  ['readersOnly', readersOnly],
  ['ownAnswer', ownAnswer],
  ['team', team],
  ['readersOf', readersOf],
  ['subsets', subsets],
  ['leaveOneOut by replay', () => leaveOneOut({ by: 'replay' })],
  ['leaveOneOut by rescore', () => leaveOneOut({ by: 'rescore' })],
  ['mix', () => mix([1, leaveOneOut()], [0.5, ownAnswer()])],
]

describe.each(rules)('%s', (_name, rule) => {
  it('goes on to the same results after a stop in the middle, its credit kept with the boards', async () => {
    const [whole, halted] = [out(), out()]
    const expected = await run(rule(), { out: whole })
    const controller = new AbortController()
    const halting = run(rule(), {
      out: halted,
      signal: controller.signal,
      onEvent: (event) => {
        if (event.type === 'step' && event.metrics.step === 2) controller.abort(new Error('stopped here'))
      },
    })
    await expect(halting).rejects.toThrow('stopped here')
    expect(withoutTimings(await run(rule(), { out: halted }))).toEqual(withoutTimings(expected))
    const lines = (await readFile(join(whole, 'arm-s17/rollouts.jsonl'), 'utf8')).trim().split('\n')
    const { credit, rounds } = JSON.parse(lines[0])
    expect(credit[1]).toEqual(rounds[1].map(({ correct }: { correct: boolean }) => Number(correct)))
    expect(credit[0].every((paid: number | null) => paid === null)).toBe(!rule().paysNotes)
    expect(expected.arms.arm?.tokens.scored === 0).toBe(!/rescore|mix/.test(rule().name))
  })
})

describe('on a server of the Tinker API', () => {
  it.each(rules.slice(5))('%s trains and is paid by the server’s own scores', async (_name, rule) => {
    const server = await simulate({ model: 'tiny', engine })
    try {
      const options = { urls: [server.url], model: 'tiny', tokenizer: model, attempts: 3, delay: 2 }
      const results = await run(
        rule(),
        { out: out(), openEngine: () => openTinkerEngine(options) },
        {
          model: 'tiny',
          engine: { name: 'tinker', urls: [server.url], tokenizer: model },
          sampling: { train: { trained: { temperature: 1 }, context: { temperature: 1 } } },
          train: { steps: 2, problemsPerStep: 2, learningRate: 1e-3, lora: { rank: 2, alpha: 32 } },
        },
      )
      expect(results.failed).toEqual([])
      expect(results.arms.arm?.steps).toBe(3)
      const [{ rounds }] = results.trainTrace.arm
      expect(rounds[0].credit?.spread.some((spread) => (spread ?? 0) > 0)).toBe(true)
    } finally {
      await server.close()
    }
  })
})

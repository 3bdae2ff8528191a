import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Policy } from '../engine/contract.ts'
import { adamStep, policyLoss } from '../engine/testing/update.ts'
import { openTinkerEngine } from '../engine/tinker/index.ts'
import {
  type Simulation,
  type SimulationOptions,
  scratch,
  simulate,
} from '../engine/tinker/testing/server.ts'
import { LostError } from '../errors.ts'
import { seedsOf } from '../random.ts'
import { readRecord } from '../record/folder.ts'
import { withoutTimings } from '../record/results.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'
import { openEngine } from './engine.ts'
import type { RunEvent } from './job.ts'
import { type RunOptions, runExperiment } from './run.ts'
import { tinyExperiment } from './testing/tiny-experiment.ts'

let folder: string
let model: string
let runs = 0

beforeAll(async () => {
  folder = await mkdtemp(join(scratch, 'jobs-'))
  model = join(folder, 'model')
  await writeTinyModel(model, 1)
})
afterAll(() => rm(folder, { recursive: true }))

const out = () => join(folder, `run-${runs++}`)

/** Servers that only take their time: what they draw is made up from the seeds, and they learn nothing. */
async function withServers<T>(
  options: readonly Partial<SimulationOptions>[],
  use: (servers: Simulation[]) => Promise<T>,
): Promise<T> {
  const servers = await Promise.all(
    options.map((each) => simulate({ model: 'tiny', tellsNorm: false, ...each })),
  )
  try {
    return await use(servers)
  } finally {
    for (const server of servers) await server.close()
  }
}

const settings = { attempts: 3, delay: 2 }

function runOn(servers: Simulation[], options: Partial<RunOptions> = {}) {
  const urls = servers.map(({ url }) => url)
  const experiment = tinyExperiment('tiny', {
    engine: { name: 'tinker', urls, tokenizer: model },
    train: { steps: 3, problemsPerStep: 2, learningRate: 1e-3, lora: { rank: 2, alpha: 32 } },
    sampling: { train: { trained: { temperature: 1 } } },
  })
  return runExperiment(experiment, {
    out: out(),
    openEngine: () => openTinkerEngine({ urls, model: 'tiny', tokenizer: model, ...settings }),
    ...options,
  })
}

const sum = (servers: Simulation[], call: string) =>
  servers.reduce((total, { done }) => total + (done.get(call) ?? 0), 0)

describe('jobs at the same time', () => {
  it('give the results of one after the other', async () => {
    const engine = await openEngine(tinyExperiment(model))
    const run = (jobs: number) =>
      runExperiment(tinyExperiment(model), {
        out: out(),
        jobs,
        openEngine: async () => ({ ...engine, close: async () => {} }),
      })
    try {
      expect(withoutTimings(await run(4))).toEqual(withoutTimings(await run(1)))
    } finally {
      await engine.close()
    }
  })

  it('go on elsewhere where their engine is lost, and the record names both places', async () => {
    const engine = await openEngine(tinyExperiment(model))
    let device = 'a GPU'
    const lost = {
      ...engine,
      info: {
        ...engine.info,
        get device() {
          return device
        },
      },
      async createPolicy(options: Parameters<typeof engine.createPolicy>[0]) {
        const policy = await engine.createPolicy(options)
        if (device !== 'a GPU') return policy
        const optimStep = async () => {
          device = 'the processor'
          throw new LostError('the GPU is gone')
        }
        return { ...policy, optimStep }
      },
    }
    const at = out()
    const expected = await runExperiment(tinyExperiment(model), { out: out() })
    const notices: string[] = []
    const results = await runExperiment(tinyExperiment(model), {
      out: at,
      openEngine: async () => lost,
      onEvent: (event) => event.type === 'notice' && notices.push(event.text),
    })
    expect(withoutTimings(results)).toEqual(withoutTimings(expected))
    expect(notices).toEqual([expect.stringMatching(/lost what it ran on .* the GPU is gone\./)])
    expect((await readRecord(at)).devices).toEqual(['a GPU', 'the processor'])
    // Opened again, it keeps what it was computed on.
    await runExperiment(tinyExperiment(model), { out: at })
    expect((await readRecord(at)).devices).toEqual(['a GPU', 'the processor'])
  })

  it('stop together, and go on together', async () => {
    await withServers([{}], async (servers) => {
      const expected = await runOn(servers)
      const at = out()
      const controller = new AbortController()
      const onEvent = (event: RunEvent) => {
        if (event.type === 'step') controller.abort(new Error('enough'))
      }
      await expect(runOn(servers, { out: at, jobs: 4, signal: controller.signal, onEvent })).rejects.toThrow(
        'enough',
      )
      expect(withoutTimings(await runOn(servers, { out: at, jobs: 2 }))).toEqual(withoutTimings(expected))
    })
  })

  it('take less time, and less on more servers, for the same results', { retry: 2 }, async () => {
    const slow = { sampling: { time: 40, capacity: 32 }, training: { time: 3, capacity: 1 } }
    const timed = (servers: number, jobs: number) =>
      withServers(
        Array.from({ length: servers }, () => slow),
        async (fleet) => {
          const started = performance.now()
          const results = await runOn(fleet, { jobs })
          return { seconds: performance.now() - started, results, steps: sum(fleet, 'optim_step') }
        },
      )
    const alone = await timed(1, 1)
    const four = await timed(1, 4)
    const fleet = await timed(2, 7)
    expect(four.seconds).toBeLessThan(0.75 * alone.seconds)
    expect(fleet.seconds).toBeLessThan(0.75 * alone.seconds)
    for (const { results } of [four, fleet]) {
      expect(withoutTimings(results)).toEqual(withoutTimings(alone.results))
    }
    expect(four.steps).toBe(alone.steps)
  })
})

describe('a server that is kept busy', () => {
  it('draws within a tenth of what it can', { retry: 2 }, async () => {
    await withServers([{ sampling: { time: 80, capacity: 8 } }], async ([server]) => {
      const engine = await openTinkerEngine({
        urls: [server.url],
        model: 'tiny',
        tokenizer: model,
        ...settings,
      })
      const policy = await engine.createPolicy()
      const requests = Array.from({ length: 96 }, (_, seed) => ({
        prompt: [5, 6, 7],
        seeds: seedsOf(4, seed),
      }))
      const started = performance.now()
      await policy.sample(requests, { maxTokens: 8, temperature: 1, topP: 1, stop: [2] })
      const used = server.busy().sampling / (8 * (performance.now() - started))
      await engine.close()
      expect(server.samples()).toBe(4 * 96)
      expect(used).toBeGreaterThan(0.9)
    })
  })

  it('trains within a tenth of what it can, while other jobs draw', { retry: 2 }, async () => {
    const times = { sampling: { time: 30, capacity: 8 }, training: { time: 15, capacity: 1 } }
    await withServers([times], async ([server]) => {
      const engine = await openTinkerEngine({
        urls: [server.url],
        model: 'tiny',
        tokenizer: model,
        ...settings,
      })
      const policies = await Promise.all(
        [0, 1, 2, 3, 4, 5].map((seed) => engine.createPolicy({ lora: { rank: 2, alpha: 32, seed } })),
      )
      const step = async (policy: Policy, i: number) => {
        const [[{ tokens, logprobs }]] = await policy.sample([{ prompt: [5, 6], seeds: [i] }], {
          maxTokens: 4,
          temperature: 1,
          topP: 1,
          stop: [2],
        })
        const datum = { prompt: [5, 6], completion: tokens, logprobs, advantages: tokens.map(() => 1) }
        await policy.forwardBackward([datum], policyLoss())
        await policy.optimStep(adamStep())
        await policy.save(join(folder, `policy-${i}`), { interim: true })
      }
      await Promise.all(policies.map(step))
      const [started, before] = [performance.now(), server.busy().training]
      await Promise.all(
        policies.map(async (policy, i) => {
          for (let n = 0; n < 6; n++) await step(policy, i)
        }),
      )
      const used = (server.busy().training - before) / (performance.now() - started)
      await engine.close()
      expect(used).toBeGreaterThan(0.9)
      // The trial's five, and one for each step.
      expect(server.done.get('optim_step')).toBe(5 + 6 * 7)
    })
  })
})

describe('a fleet that loses a server', () => {
  it('loses the job in hand alone, and goes on with it when the server is back', async () => {
    const expected = await withServers([{}], (servers) => runOn(servers))
    let dying: Simulation | undefined
    let trained = 0
    // The first server goes down at the second step of a job that it trains.
    const fault: SimulationOptions['fault'] = (path, nth) => {
      if (path === 'forward_backward' && nth > 4 && ++trained === 2) void dying?.stop()
      return undefined
    }
    await withServers([{ fault }, {}], async (servers) => {
      dying = servers[0]
      const at = out()
      const notices: string[] = []
      const results = await runOn(servers, {
        out: at,
        jobs: 2,
        onEvent: (event) => {
          if (event.type === 'notice') notices.push(event.text)
        },
      })
      expect(notices.join()).toMatch(/lost what it ran on/)
      // Where it had made a checkpoint there, it waits for that server; else it went on elsewhere.
      expect(results.failed.length).toBeLessThanOrEqual(1)
      for (const { why } of results.failed) expect(why).toContain(`${servers[0].url} does not answer`)
      await servers[0].start()
      dying = undefined
      expect(withoutTimings(await runOn(servers, { out: at, jobs: 2 }))).toEqual(withoutTimings(expected))
    })
  })
})

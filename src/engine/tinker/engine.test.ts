import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { LostError, UserError } from '../../errors.ts'
import { writeTinyModel } from '../../selftest/tiny-model.ts'
import type { Engine, LoraOptions, Policy, PolicyDatum } from '../contract.ts'
import { openOnnxEngine } from '../onnx/index.ts'
import { adamStep, policyLoss } from '../testing/update.ts'
import { openTinkerEngine, type TinkerEngineOptions } from './index.ts'
import { type Fault, type Simulation, type SimulationOptions, scratch, simulate } from './testing/server.ts'

let folder: string
/** What the simulated servers compute on, and what they are compared with. */
let own: Engine
let close: (() => Promise<void>)[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(scratch, 'tinker-'))
  await writeTinyModel(join(folder, 'model'), 1)
  own = await openOnnxEngine({ model: join(folder, 'model'), threads: 1 })
})
afterEach(async () => {
  for (const end of close.reverse()) await end()
  close = []
})
afterAll(async () => {
  await own.close()
  await rm(folder, { recursive: true })
})

async function server(options: Partial<SimulationOptions> = {}): Promise<Simulation> {
  const simulation = await simulate({ model: 'tiny', engine: own, ...options })
  close.push(() => simulation.close())
  return simulation
}

async function open(servers: Simulation[], options: Partial<TinkerEngineOptions> = {}): Promise<Engine> {
  const engine = await openTinkerEngine({
    urls: servers.map(({ url }) => url),
    model: 'tiny',
    tokenizer: join(folder, 'model'),
    attempts: 3,
    delay: 1,
    ...options,
  })
  close.push(() => engine.close())
  return engine
}

const engineOn = async (options: Partial<SimulationOptions> = {}) => open([await server(options)])

const lora: LoraOptions = { rank: 2, alpha: 32, seed: 17 }
const loss = policyLoss()
const adam = adamStep({ learningRate: 1e-2, maxGradNorm: 0.5 })
const options = { maxTokens: 6, temperature: 1, topP: 1, stop: [2] }
const requests = [
  { prompt: [5, 9, 30, 41], seeds: [11, 12, 13] },
  { prompt: [8, 7], seeds: [4_000_000_000 % (2 ** 31 - 2 ** 16), 3] },
]

/** Rollouts to learn from: some tokens do not count, and some have moved further than the clip lets them. */
async function batchOf(policy: Policy): Promise<PolicyDatum[]> {
  const samples = await policy.sample(requests, options)
  return samples.flatMap((completions, r) =>
    completions.map(({ tokens, logprobs }, i) => ({
      prompt: requests[r].prompt,
      completion: tokens,
      logprobs: logprobs.map((value, t) => value + (t === 1 ? 0.5 * (i - 1) : 0)),
      advantages: tokens.map(() => (i === 0 ? 0.02 : -0.01)),
      ...(i === 1 && { mask: tokens.map((_, t) => (t === 0 ? 0 : 1)) }),
    })),
  )
}

const scored = [
  { prompt: [5, 9, 30], completion: [41, 12, 60, 3] },
  { prompt: [8], completion: [7, 90] },
]

/** Two updates, the second from the first one's policy, and what the policy says then. */
async function train(policy: Policy, between: (step: number) => Promise<void> = async () => {}) {
  const reports: object[] = []
  for (const step of [0, 1]) {
    const batch = await batchOf(policy)
    await between(2 * step)
    const { loss: sum, tokens, clippedShare } = await policy.forwardBackward(batch, loss)
    await between(2 * step + 1)
    const { gradNorm } = await policy.optimStep(adam)
    await policy.save(join(folder, 'saved'), { interim: true })
    reports.push({ sum, tokens, clippedShare, gradNorm })
  }
  return { reports, logprobs: await policy.logprobs(scored, { temperature: 1 }) }
}

function expectClose(a: readonly ArrayLike<number>[], b: readonly ArrayLike<number>[]): void {
  const rows = (list: readonly ArrayLike<number>[]) => list.map((row) => Array.from(row))
  const [ours, theirs] = [rows(a), rows(b)]
  expect(ours.map((row) => row.length)).toEqual(theirs.map((row) => row.length))
  const differences = ours.flatMap((row, i) => row.map((value, t) => Math.abs(value - theirs[i][t])))
  expect(Math.max(...differences)).toBeLessThan(1e-4)
}

async function ownTraining() {
  const policy = await own.createPolicy({ lora })
  try {
    return await train(policy)
  } finally {
    policy.dispose()
  }
}

describe('a policy on a server', () => {
  it('samples and scores as the engine does that the server computes on', async () => {
    const engine = await engineOn({ knowsNumbers: true })
    const base = await own.createPolicy()
    const policy = await engine.createPolicy()
    const others = requests.map((request) => ({ ...request, seeds: request.seeds.map((seed) => seed + 1) }))
    const theirs = [...(await policy.sample(others, options)), ...(await policy.sample(requests, options))]
    const ours = [...(await base.sample(others, options)), ...(await base.sample(requests, options))]
    expect(theirs.flat().map(({ tokens, finish }) => ({ tokens, finish }))).toEqual(
      ours.flat().map(({ tokens, finish }) => ({ tokens, finish })),
    )
    expectClose(
      theirs.flat().map(({ logprobs }) => logprobs),
      ours.flat().map(({ logprobs }) => logprobs),
    )
    expectClose(
      await policy.logprobs(scored, { temperature: 1 }),
      await base.logprobs(scored, { temperature: 1 }),
    )
    const trainable = await engine.createPolicy({ lora })
    expectClose(
      await trainable.logprobs(scored, { temperature: 1 }),
      await base.logprobs(scored, { temperature: 1 }),
    )
  })

  it('does not make up log-probabilities that the server does not give', async () => {
    const policy = await (await engineOn()).createPolicy()
    const [[warm]] = await policy.sample(requests, { ...options, temperature: 0.7 })
    expect([...warm.logprobs, ...warm.samplingLogprobs].every(Number.isNaN)).toBe(true)
    const [[nucleus]] = await policy.sample(requests, { ...options, topP: 0.9 })
    expect(nucleus.samplingLogprobs.every(Number.isNaN)).toBe(true)
    expect(nucleus.logprobs.every(Number.isFinite)).toBe(true)
  })

  it.each<[string, Partial<SimulationOptions>]>([
    ['sums', {}],
    [
      'sums, clips no gradients, and has no clipped loss',
      { clips: false, losses: ['cross_entropy', 'importance_sampling'] },
    ],
    ['averages over sequences', { reduction: 'mean of sequences' }],
    ['averages over positions and clips no gradients', { reduction: 'mean of positions', clips: false }],
    ['leaves gradients behind', { leavesGradients: true, places: 1 }],
    ['tells no norms', { tellsNorm: false }],
    ['knows a call by its number', { knowsNumbers: true }],
  ])('learns the same on a server that %s', async (_, how) => {
    const expected = await ownTraining()
    const found = await train(await (await engineOn(how)).createPolicy({ lora }))
    expectClose(found.logprobs, expected.logprobs)
    expected.reports.forEach((report, i) => {
      for (const [name, value] of Object.entries(report)) {
        const theirs = (found.reports[i] as Record<string, number>)[name]
        if (name === 'gradNorm' && how.tellsNorm === false) expect(theirs).toBeNaN()
        else expect(theirs, `${name} of step ${i + 1}`).toBeCloseTo(value, 4)
      }
    })
  })

  it.each(['sum', 'mean of sequences'] as const)(
    'imitates the same on a server that takes the %s',
    async (reduction) => {
      const batch = scored.map((sequence, i) => ({
        ...sequence,
        weights: sequence.completion.map((_, t) => 0.1 * (t + i)),
      }))
      const imitate = async (policy: Policy) => {
        const { loss: sum, tokens } = await policy.forwardBackwardSupervised(batch)
        const { gradNorm } = await policy.optimStep(adam)
        return { said: [sum, tokens, gradNorm], logprobs: await policy.logprobs(scored, { temperature: 1 }) }
      }
      const expected = await imitate(await own.createPolicy({ lora }))
      const found = await imitate(await (await engineOn({ reduction })).createPolicy({ lora }))
      expectClose([found.said], [expected.said])
      expectClose(found.logprobs, expected.logprobs)
    },
  )

  it('goes on from a folder with its optimiser, in another process and on a server started anew', async () => {
    const at = await server()
    const first = await (await open([at])).createPolicy({ lora })
    const step = async (policy: Policy) => {
      await policy.forwardBackward(await batchOf(policy), loss)
      await policy.optimStep(adam)
    }
    await step(first)
    const saved = join(folder, 'half')
    await first.save(saved)
    await step(first)
    at.restart()
    const second = await (await open([at])).createPolicy({ lora })
    await second.load(saved)
    await step(second)
    expectClose(
      await second.logprobs(scored, { temperature: 1 }),
      await first.logprobs(scored, { temperature: 1 }),
    )
    expect(JSON.parse(await readFile(join(saved, 'tinker.json'), 'utf8'))).toMatchObject({
      url: at.url,
      lora,
    })
  })
})

describe('a call that goes wrong', () => {
  const faults: [string, Fault][] = [
    ['is cut off before it is done', 'cut'],
    ['is cut off after it is done', 'cut after'],
    ['meets a server that fails', { status: 500, body: '{"detail":"broken"}' }],
    ['meets a server that is busy', { status: 429, headers: { 'retry-after': '0' } }],
    ['is answered with nonsense', { status: 200, body: '{"surprise":true}' }],
    ['is answered with half an answer', { status: 200, body: '{"request_id":' }],
  ]
  const paths = [
    'create_session',
    'create_model',
    'forward_backward',
    'optim_step',
    'save_weights',
    'save_weights_for_sampler',
    'asample',
    'forward',
    'retrieve_future',
  ]
  const numbers = faults.flatMap(([name, fault]) =>
    [false, true].map((known) => [name, known, fault] as const),
  )
  it.each(numbers)(
    'trains once and only once where one of each %s (its number known: %s)',
    async (_, knowsNumbers, fault) => {
      const expected = await ownTraining()
      const seen = new Set<string>()
      // The server's trial comes first; what is to be met is in the training.
      const first: Record<string, number> = {
        forward_backward: 7,
        optim_step: 8,
        retrieve_future: 25,
        forward: 3,
      }
      const engine = await engineOn({
        knowsNumbers,
        fault: (path, nth) => {
          if (!paths.includes(path) || seen.has(path) || nth < (first[path] ?? 1)) return undefined
          seen.add(path)
          return fault
        },
      })
      const found = await train(await engine.createPolicy({ lora }))
      expectClose(found.logprobs, expected.logprobs)
      expect(found.reports).toHaveLength(2)
      expect([...seen].sort()).toEqual([...paths].sort())
    },
  )

  it.each([0, 1, 2, 3])('trains the same when the server is started anew at moment %i', async (moment) => {
    const expected = await ownTraining()
    const at = await server()
    const policy = await (await open([at])).createPolicy({ lora })
    const found = await train(policy, async (now) => {
      if (now === moment) at.restart()
    })
    expectClose(found.logprobs, expected.logprobs)
  })

  it('waits for a server that is away for a while', async () => {
    const at = await server()
    const policy = await (await open([at], { attempts: 8, delay: 20 })).createPolicy()
    await policy.sample(requests, options)
    await at.stop()
    const waiting = policy.sample(requests, options)
    setTimeout(() => at.start(), 60)
    expect(await waiting).toHaveLength(2)
  })

  it('says that a server is gone, in the end', async () => {
    const at = await server()
    const policy = await (await open([at])).createPolicy({ lora })
    await policy.sample(requests, options)
    await at.stop()
    const failed = policy.sample(requests, options)
    await expect(failed).rejects.toThrow(LostError)
    await expect(failed).rejects.toThrow(
      `${at.url} does not answer (ECONNREFUSED): check that the server runs`,
    )
    await at.start()
  })

  it('says what is wrong with a key, a model, a setting, an answer', async () => {
    const locked = await server({ key: 'right' })
    await expect(open([locked], { key: 'expired' })).rejects.toThrow(
      /refuses the key \(401: Invalid API key\)/,
    )
    await open([locked], { key: 'right' })
    await expect(open([await server()], { model: 'large' })).rejects.toThrow(/does not serve large, but tiny/)

    const engine = await engineOn({ keepsToTopP: false, promptLogprobs: false })
    const policy = await engine.createPolicy({ lora })
    await expect(policy.logprobs(scored, { temperature: 0.9 })).rejects.toThrow(/give --temperature 1/)
    await expect(policy.forwardBackward([], { ...loss, temperature: 0.9 })).rejects.toThrow(UserError)
    await expect(policy.sample(requests, { ...options, topP: 0.9 })).rejects.toThrow(/does not keep to top_p/)
    const other = await engine.createPolicy({ lora: { ...lora, alpha: 4 } })
    await expect(other.logprobs(scored, { temperature: 1 })).rejects.toThrow(/give --lora-alpha 32/)
    const base = await engine.createPolicy()
    await expect(base.logprobs(scored, { temperature: 1 })).rejects.toThrow(/gives no log-probabilities/)
    const unclipped = await (await engineOn({ clips: false, tellsNorm: false })).createPolicy({ lora })
    await expect(train(unclipped)).rejects.toThrow(/neither clips gradients nor tells their norm/)

    const odd = await engineOn({
      fault: (path) =>
        path === 'asample' ? { status: 200, body: '{"request_id": 7, "more": "x"}' } : undefined,
    })
    await expect((await odd.createPolicy()).sample(requests, options)).rejects.toThrow(
      /answers asample with what the Tinker API does not know \(request_id: .*expected string.*"more": "x"/,
    )
  })

  it('never hands a key on to another server, nor to a reader of its messages', async () => {
    const other = await server({ key: 'secret-key' })
    const here = await server({
      key: 'secret-key',
      fault: () => ({ status: 307, headers: { location: `${other.url}/api/v1/x` } }),
    })
    await expect(open([here], { key: 'secret-key' })).rejects.toThrow(
      `${here.url} sends a request on to ${other.url}`,
    )
    expect(other.asked()).toEqual([])
    await expect(open([other], { key: 'secret\nkey' })).rejects.toThrow(
      /^The variable TINKER_API_KEY holds a space, a line break .*: put the key into it once more\.$/,
    )
    const repeats = await server({
      fault: () => ({ status: 403, body: '{"detail":"secret-key may not"}' }),
    })
    await expect(open([repeats], { key: 'secret-key' })).rejects.toThrow(/\(403: \[hidden\] may not\)/)
  })

  it('says so when a checkpoint is not on the server', async () => {
    const first = await (await engineOn()).createPolicy({ lora })
    const saved = join(folder, 'elsewhere')
    await first.save(saved)
    const elsewhere = await (await engineOn()).createPolicy({ lora })
    await expect(elsewhere.load(saved)).rejects.toThrow(
      /cannot load the checkpoint .* delete the job's folder/,
    )
  })

  it('keeps its session alive, and begins another where the server forgot it', async () => {
    const at = await server()
    const policy = await (await open([at], { heartbeat: 5 })).createPolicy()
    await policy.sample(requests, options)
    const beats = () => at.done.get('session_heartbeat') ?? 0
    while (beats() < 3) await new Promise((resolve) => setTimeout(resolve, 5))
    at.restart()
    expect(await policy.sample(requests, options)).toHaveLength(2)
    expect(at.done.get('create_session')).toBe(2)
  })

  it.each(['forward', 'forward_backward', 'optim_step', 'retrieve_future'])(
    'in the trial of a server with one place (%s is cut off each time) ends in a sentence, and leaves no model',
    async (path) => {
      let cuts = true
      // The first results are those of models that are made.
      const fault = (asked: string, nth: number) =>
        cuts && asked === path && (path !== 'retrieve_future' || nth > 1) ? ('cut after' as const) : undefined
      const at = await server({ places: 1, fault })
      const policy = await (await open([at])).createPolicy({ lora })
      await expect(policy.logprobs(scored, { temperature: 1 })).rejects.toThrow(
        /(broke off while it was asked for|does not answer).*run the same again to go on/,
      )
      expect(at.models()).toEqual({ now: 0, most: 1 })
      cuts = false
      await policy.logprobs(scored, { temperature: 1 })
    },
  )

  it('that never comes to a result is given up, with a word before', async () => {
    const at = await server({ fault: (path) => (path === 'retrieve_future' ? tryAgain : undefined) })
    const policy = await (await open([at], { patience: 300 })).createPolicy()
    const sampling = policy.sample(requests, options)
    await expect(sampling).rejects.toThrow(LostError)
    await expect(sampling).rejects.toThrow(`${at.url} has not done asample in 0 minutes: look at its log`)
  })
  const tryAgain: Fault = { status: 200, body: '{"type":"try_again"}' }

  it('waits as long as the server asks, and says so', async () => {
    const at = await server({
      fault: (path, nth) =>
        path === 'retrieve_future' && nth === 1
          ? { status: 429, headers: { 'retry-after': '2.1' } }
          : undefined,
    })
    const said: string[] = []
    const engine = await open([at], { onNotice: (text) => said.push(text) })
    const started = performance.now()
    await (await engine.createPolicy()).sample(requests, options)
    expect(performance.now() - started).toBeGreaterThan(2000)
    expect(said).toEqual([`${at.url} limits the rate (429): it is asked again in 2 s.`])
  })

  /** Results of samples: two of one token each, or what is said instead. */
  const sampled = (over: object = {}, all: object = {}) => ({
    sequences: [3, 2].flatMap((n) => Array.from({ length: n }, () => one(over))).slice(0, 3),
    ...all,
  })
  const one = (over: object) => ({ tokens: [7, 2], logprobs: [-1, -2], stop_reason: 'stop', ...over })
  it.each<[string, object]>([
    ['no token', sampled({ tokens: [], logprobs: [] })],
    ['no sample', sampled({}, { sequences: [] })],
    ['negative tokens', sampled({ tokens: [-7, 2] })],
    ['halves of tokens', sampled({ tokens: [0.5, 2] })],
    ['probabilities above 1', sampled({ logprobs: [0.5, -2] })],
    ['too few probabilities', sampled({ logprobs: [-1] })],
    ['no probabilities', sampled({ logprobs: [null, null] })],
    ['an error beside its result', sampled({}, { error: { message: 'half of it failed' } })],
    ['an end without a stop token', sampled({ tokens: [7, 8] })],
  ])('refuses samples with %s', async (_, body) => {
    const fault = (path: string) =>
      path === 'retrieve_future' ? { status: 200, body: JSON.stringify(body) } : undefined
    const policy = await (await engineOn({ fault })).createPolicy()
    await expect(policy.sample(requests.slice(0, 1), options)).rejects.toThrow(UserError)
  })

  it.each<[string, (number | null)[]]>([
    ['with a hole', [null, -1, -1, -2, null, -4, -5]],
    ['that are too many', [null, -1, -1, -1, -1, -1, -1, -1]],
    ['that are too few', [-1, -1]],
    ['above 1', [null, 1, 1, 1, 1, 1, 1]],
  ])('refuses the log-probabilities of a prompt %s', async (_, prompt_logprobs) => {
    const body = JSON.stringify({ sequences: [one({})], prompt_logprobs })
    const fault = (path: string) => (path === 'retrieve_future' ? { status: 200, body } : undefined)
    const policy = await (await engineOn({ fault })).createPolicy()
    await expect(policy.logprobs(scored.slice(0, 1), { temperature: 1 })).rejects.toThrow(UserError)
  })

  it('does not take the norm that is no number for one that needs no care', async () => {
    let spoilt = false
    const at = await server({
      clips: false,
      fault: (path) =>
        spoilt && path === 'retrieve_future'
          ? { status: 200, body: '{"metrics":{"skyrl/grad_norm":null}}' }
          : undefined,
    })
    const policy = await (await open([at])).createPolicy({ lora })
    await policy.forwardBackward(await batchOf(policy), loss)
    const before = await policy.logprobs(scored, { temperature: 1 })
    spoilt = true
    await expect(policy.optimStep(adam)).rejects.toThrow(/norm is no number: the update was not made/)
    spoilt = false
    expectClose(await policy.logprobs(scored, { temperature: 1 }), before)
  })

  it('in an adapter that cannot be unpacked is a notice: the state is kept', async () => {
    const said: string[] = []
    const at = await server({
      fault: (path) =>
        path.endsWith('/archive') ? { status: 200, body: '<html>Sign in</html>' } : undefined,
    })
    const policy = await (await open([at], { onNotice: (text) => said.push(text) })).createPolicy({ lora })
    const saved = join(folder, 'without-adapter')
    await policy.save(saved)
    expect(said).toEqual([
      expect.stringMatching(/^The archive of an adapter is damaged.*its state is kept\.$/),
    ])
    expect(await readdir(saved)).toEqual(['tinker.json'])
    await policy.load(saved)
  })

  it('stops sampling when told to', async () => {
    const engine = await engineOn({ sampling: { time: 300, capacity: 1 } })
    const policy = await engine.createPolicy()
    const controller = new AbortController()
    const sampling = policy.sample(requests, { ...options, signal: controller.signal })
    setTimeout(() => controller.abort(new Error('enough')), 30)
    await expect(sampling).rejects.toThrow('enough')
  })
})

describe('several policies', () => {
  it('share servers evenly, and wait where a server has no place for another model', async () => {
    const servers = [await server({ places: 1 }), await server({ places: 1 })]
    const engine = await open(servers)
    const policies = await Promise.all(
      [17, 18, 19, 20].map((seed) => engine.createPolicy({ lora: { ...lora, seed } })),
    )
    const scores = policies.map(async (policy) => {
      await policy.logprobs(scored, { temperature: 1 })
      policy.dispose()
    })
    await Promise.all(scores)
    for (const each of servers) {
      expect(each.models().most).toBe(1)
      // The trial's two, and its share of the policies.
      expect(each.done.get('create_model')).toBeGreaterThanOrEqual(4)
    }
    await engine.close()
    for (const each of servers) expect(each.models().now).toBe(0)
  })

  it('do without a server that does not answer, and say so', async () => {
    const [here, gone] = [await server(), await server()]
    await gone.stop()
    const said: string[] = []
    const engine = await open([gone, here], { onNotice: (text) => said.push(text) })
    expect(engine.info.device).toBe(here.url)
    expect(said.join()).toMatch(/does not answer .* The run goes on without it/)
    await gone.start()
  })
})

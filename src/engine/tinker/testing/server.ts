/**
 * A server of the Tinker API for tests, on this machine: it computes for real on an engine, or, to measure how a client
 * keeps a server busy, only takes its time. It differs and fails as it is told to.
 */
import { once } from 'node:events'
import { existsSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { random, seedOf } from '../../../random.ts'
import type { Engine, Policy, PolicyDatum, Sequence } from '../../contract.ts'
import { type Reduction, weightsOf } from '../loss.ts'
import type { AdamParams, Datum, LossInput, SamplingParams } from '../wire.ts'

export interface SimulationOptions {
  /** The name of its model. */
  model: string
  /** Computes; without one, tokens are made up and nothing is learned. */
  engine?: Engine
  reduction?: Reduction
  tellsNorm?: boolean
  clips?: boolean
  losses?: readonly LossInput['loss_fn'][]
  /** Gradients stay in a place when its model goes. */
  leavesGradients?: boolean
  keepsToTopP?: boolean
  promptLogprobs?: boolean
  /** A call with the number of an earlier one, of the same model or sampler, is that call. */
  knowsNumbers?: boolean
  /** Models at a time. */
  places?: number
  key?: string
  /** Milliseconds of a sampling request, and how many are worked on at a time; the same for all other work. */
  sampling?: { time: number; capacity: number }
  training?: { time: number; capacity: number }
  /** Milliseconds that a request for a result is held open. */
  holds?: number
  /** What goes wrong with the nth call of a path, the first being 1. */
  fault?: (path: string, nth: number) => Fault | undefined
}

/** An answer in place of the right one, the connection cut before or after the work is done, or a silence. */
export type Fault = { status: number; body?: string; headers?: Record<string, string> } | 'cut' | 'cut after'

export interface Simulation {
  url: string
  /** Every request that came, with the key that it brought. */
  asked: () => { path: string; key: string | undefined }[]
  /** Calls of each path that were carried out. */
  done: Map<string, number>
  /** Samples that were drawn, and milliseconds that each of its two kinds of work took, all places together. */
  samples: () => number
  busy: () => { sampling: number; training: number }
  /** Models that live, and the most that did. */
  models: () => { now: number; most: number }
  /** Forgets sessions, models and requests, and keeps checkpoints. */
  restart(): void
  /** Goes off the network, and comes back at the same address. */
  stop(): Promise<void>
  start(): Promise<void>
  close(): Promise<void>
}

interface Model {
  policy: Policy | null
  /** Updates of its weights. */
  version: number
  lora: { rank: number; alpha: number; seed: number }
  place: number
  /** Batches since the last step. */
  pending: PolicyDatum[][]
}

class Refusal extends Error {
  readonly status: number
  constructor(status: number, detail: string) {
    super(detail)
    this.status = status
  }
}

/** So many places, and how long they were taken. */
function lane({ time, capacity }: { time: number; capacity: number }) {
  let free = capacity
  let busy = 0
  const waiting: (() => void)[] = []
  return {
    busy: () => busy,
    async run<T>(work: () => Promise<T>): Promise<T> {
      if (free === 0) await new Promise<void>((resolve) => waiting.push(resolve))
      else free--
      const started = performance.now()
      try {
        if (time > 0) await sleep(time)
        return await work()
      } finally {
        busy += performance.now() - started
        const next = waiting.shift()
        if (next) next()
        else free++
      }
    },
  }
}

/** Where files cost nothing, if there is such a place: a flush to a busy disk takes longer than all the rest. */
export const scratch = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

export async function simulate(options: SimulationOptions): Promise<Simulation> {
  const {
    engine,
    reduction = 'sum',
    tellsNorm = true,
    clips = true,
    losses = ['cross_entropy', 'importance_sampling', 'ppo', 'cispo'],
    leavesGradients = false,
    keepsToTopP = true,
    promptLogprobs = true,
    knowsNumbers = false,
    places = 64,
    holds = 5000,
  } = options
  const store = mkdtempSync(join(scratch, 'tinker-'))
  const sampling = lane(options.sampling ?? { time: 0, capacity: 64 })
  const training = lane(options.training ?? { time: 0, capacity: 1 })
  const asked: { path: string; key: string | undefined }[] = []
  const counts = new Map<string, number>()
  const done = new Map<string, number>()
  let samples = 0
  let most = 0
  let number = 0
  const next = (what: string) => `${what}-${++number}`
  // What a restart keeps: states on disk, by the path that names them, and what was left in the places.
  const checkpoints = new Map<string, { lora: Model['lora']; folder: string }>()
  const left = new Map<number, PolicyDatum[][]>()
  // What it does not.
  let sessions = new Set<string>()
  let models = new Map<string, Model>()
  let samplers = new Map<string, () => Policy | null>()
  let results = new Map<string, Promise<unknown>>()
  let numbered = new Map<string, unknown>()

  const modelOf = (id: unknown): Model => {
    const model = models.get(String(id))
    if (!model) throw new Refusal(404, 'Model not found')
    return model
  }
  const later = (work: Promise<unknown>) => {
    const id = next('request')
    work.catch(() => {})
    results.set(id, work)
    return { request_id: id, future_id: id }
  }

  const sequenceOf = ({ model_input, loss_fn_inputs }: Datum): Sequence => ({
    prompt: model_input.chunks[0].tokens.slice(0, 1),
    completion: loss_fn_inputs.target_tokens.data,
  })
  const score = (model: Model, data: Datum[]) =>
    model.policy
      ? model.policy.logprobs(data.map(sequenceOf), { temperature: 1 })
      : data.map((datum) => Float32Array.from(sequenceOf(datum).completion, () => -1))
  const outputs = (logprobs: readonly Float32Array[]) => ({
    loss_fn_output_type: 'scalar',
    loss_fn_outputs: logprobs.map((row) => ({
      logprobs: { data: [...row], dtype: 'float32', shape: [row.length] },
    })),
    metrics: {},
  })
  const checkLoss = ({ loss_fn }: LossInput) => {
    if (!losses.includes(loss_fn)) {
      throw new Refusal(422, `loss_fn: Input should be one of ${losses.join(', ')}`)
    }
  }

  async function learn(model: Model, { data, loss_fn, loss_fn_config: clip }: LossInput) {
    const { policy } = model
    if (!policy) return outputs(await score(model, data))
    const now = await score(model, data)
    const sequences = data.map(sequenceOf)
    const weights = weightsOf(reduction, sequences)
    const batch = data.map(({ loss_fn_inputs: inputs }, i): PolicyDatum => {
      const values = loss_fn === 'cross_entropy' ? inputs.weights : inputs.advantages
      return {
        ...sequences[i],
        // A detached ratio of 1 has the gradient of the log-probability itself.
        logprobs:
          loss_fn === 'cross_entropy' || loss_fn === 'cispo' ? [...now[i]] : (inputs.logprobs?.data ?? []),
        advantages: (values?.data ?? []).map((value) => value / weights[i]),
      }
    })
    model.pending.push(batch)
    await accumulate(policy, batch, loss_fn === 'ppo' ? clip : undefined)
    return outputs(now)
  }
  const accumulate = (policy: Policy, batch: PolicyDatum[], clip?: LossInput['loss_fn_config']) =>
    policy.forwardBackward(batch, {
      kind: 'policy_gradient',
      clipLow: clip ? 1 - clip.clip_low_threshold : 1,
      clipHigh: clip ? clip.clip_high_threshold - 1 : 1e9,
      temperature: 1,
    })

  const save = async (model: Model, path: string) => {
    const folder = join(store, next('state'))
    await model.policy?.save(folder)
    checkpoints.set(path, { lora: model.lora, folder })
  }

  async function sample(policy: Policy | null, body: SampleBody) {
    const { n, prompt, params } = body
    samples += n
    if (!policy) {
      // Of a nucleus of next to nothing every draw is the same.
      const greedy = keepsToTopP && params.top_p < 1e-3
      if (greedy)
        return Array.from({ length: n }, () => ({ tokens: [3], logprobs: [-1], stop_reason: 'length' }))
      const stream = random('simulated', params.seed, seedOf(...prompt))
      return Array.from({ length: n }, () => {
        const length = 1 + stream.int(params.max_tokens)
        const tokens = Array.from({ length }, () => 3 + stream.int(90))
        const ended = length < params.max_tokens && params.stop.length > 0
        if (ended) tokens[length - 1] = params.stop[0]
        return { tokens, logprobs: tokens.map(() => -1), stop_reason: ended ? 'stop' : 'length' }
      })
    }
    // As servers do: the sample's number is added.
    const seeds = Array.from({ length: n }, (_, sample) => params.seed + sample)
    const [completions] = await policy.sample([{ prompt, seeds }], {
      maxTokens: params.max_tokens,
      temperature: params.temperature,
      topP: keepsToTopP ? params.top_p : 1,
      stop: params.stop,
    })
    const plain = await policy.logprobs(
      completions.map(({ tokens }) => ({ prompt, completion: tokens })),
      { temperature: 1 },
    )
    return completions.map(({ tokens, finish }, i) => ({
      tokens,
      logprobs: [...plain[i]],
      stop_reason: finish,
    }))
  }
  interface SampleBody {
    n: number
    prompt: number[]
    params: SamplingParams
  }

  // biome-ignore lint/suspicious/noExplicitAny: a request's body is what a client sends.
  type Body = any
  const calls: Record<string, (body: Body) => unknown> = {
    healthz: () => ({ status: 'ok' }),
    get_server_capabilities: () => ({ supported_models: [{ model_name: options.model }] }),
    create_session() {
      const id = next('session')
      sessions.add(id)
      return { type: 'create_session', session_id: id }
    },
    session_heartbeat({ session_id }) {
      if (!sessions.has(session_id)) throw new Refusal(404, 'Session not found')
      return { type: 'session_heartbeat' }
    },
    create_model({ session_id, lora_config }) {
      if (!sessions.has(session_id)) throw new Refusal(404, 'Session not found')
      const id = next('model')
      const lora = { rank: lora_config.rank, alpha: 32, seed: lora_config.seed }
      const work = training.run(async () => {
        const taken = new Set([...models.values()].map(({ place }) => place))
        const place = Array.from({ length: places }, (_, i) => i).find((i) => !taken.has(i))
        if (place === undefined) throw new Refusal(400, `Maximum number of LoRA adapters (${places}) reached`)
        const model: Model = { policy: null, version: 0, lora, place, pending: [] }
        models.set(id, model)
        most = Math.max(most, models.size)
        model.policy = (await engine?.createPolicy({ lora })) ?? null
        for (const batch of left.get(place) ?? []) {
          if (model.policy) await accumulate(model.policy, batch)
          model.pending.push(batch)
        }
        left.delete(place)
        return { model_id: id, lora_config: lora }
      })
      return { model_id: id, ...later(work) }
    },
    unload_model: ({ model_id }) =>
      later(
        training.run(async () => {
          const model = modelOf(model_id)
          if (leavesGradients && model.pending.length > 0) left.set(model.place, model.pending)
          models.delete(model_id)
          model.policy?.dispose()
          return { model_id }
        }),
      ),
    forward({ model_id, forward_input }) {
      const model = modelOf(model_id)
      return later(training.run(async () => outputs(await score(model, forward_input.data))))
    },
    forward_backward({ model_id, forward_backward_input }) {
      const model = modelOf(model_id)
      checkLoss(forward_backward_input)
      return later(training.run(() => learn(model, forward_backward_input)))
    },
    optim_step({ model_id, adam_params }) {
      const model = modelOf(model_id)
      const adam = adam_params as AdamParams
      return later(
        training.run(async () => {
          model.pending = []
          model.version++
          const report = await model.policy?.optimStep({
            learningRate: adam.learning_rate,
            beta1: adam.beta1,
            beta2: adam.beta2,
            epsilon: adam.eps,
            weightDecay: adam.weight_decay,
            maxGradNorm: clips && adam.grad_clip_norm > 0 ? adam.grad_clip_norm : Number.POSITIVE_INFINITY,
          })
          return { metrics: tellsNorm ? { 'simulated/grad_norm': report?.gradNorm ?? 0.1 } : null }
        }),
      )
    },
    save_weights({ model_id, path }) {
      const model = modelOf(model_id)
      const full = `tinker://${model_id}/weights/${path}`
      if (checkpoints.has(full)) throw new Refusal(409, `Checkpoint '${path}' already exists`)
      return later(
        training.run(async () => {
          await save(model, full)
          return { path: full, type: 'save_weights' }
        }),
      )
    },
    load_weights({ model_id, path }) {
      const model = modelOf(model_id)
      const saved = checkpoints.get(path)
      if (!saved) throw new Refusal(404, `Checkpoint not found: ${path}`)
      return later(
        training.run(async () => {
          await model.policy?.load(saved.folder)
          model.version++
          return { type: 'load_weights' }
        }),
      )
    },
    save_weights_for_sampler({ model_id }) {
      const model = modelOf(model_id)
      const id = next('sampler')
      return later(
        training.run(async () => {
          const { version } = model
          samplers.set(id, () => {
            // A real server would sample from the weights as they were then: nobody should want these any more.
            if (model.version !== version) throw new Refusal(500, 'the sampler is older than the model')
            return model.policy
          })
          return { path: null, sampling_session_id: id }
        }),
      )
    },
    async create_sampling_session({ session_id }) {
      if (!sessions.has(session_id)) throw new Refusal(404, 'Session not found')
      const id = next('sampler')
      const policy = (await engine?.createPolicy()) ?? null
      samplers.set(id, () => policy)
      return { sampling_session_id: id }
    },
    asample(body) {
      const policy = samplers.get(body.sampling_session_id)?.()
      if (policy === undefined) throw new Refusal(404, 'Sampling session not found')
      const prompt: number[] = body.prompt.chunks[0].tokens
      return later(
        sampling.run(async () => ({
          sequences: await sample(policy, { n: body.num_samples, prompt, params: body.sampling_params }),
          prompt_logprobs:
            body.prompt_logprobs && promptLogprobs && policy
              ? [
                  ...(
                    await policy.logprobs([{ prompt: prompt.slice(0, 1), completion: prompt.slice(1) }], {
                      temperature: 1,
                    })
                  )[0],
                ]
              : null,
        })),
      )
    },
    async retrieve_future({ request_id }) {
      const work = results.get(request_id)
      if (!work) throw new Refusal(404, 'Future not found')
      const waited = new AbortController()
      try {
        return await Promise.race([
          work,
          sleep(holds, { type: 'try_again', request_id, queue_state: 'active' }, { signal: waited.signal }),
        ])
      } catch (error) {
        if (error instanceof Refusal) throw error
        throw new Refusal(400, error instanceof Error ? error.message : String(error))
      } finally {
        waited.abort()
      }
    },
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const path = (request.url ?? '').replace('/api/v1/', '')
    const nth = (counts.get(path) ?? 0) + 1
    counts.set(path, nth)
    asked.push({ path, key: request.headers['x-api-key']?.toString() })
    const reply = (status: number, body: string, headers: Record<string, string> = {}) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)
    }
    const fault = options.fault?.(path, nth)
    if (fault === 'cut') return void request.socket.destroy()
    if (typeof fault === 'object') return reply(fault.status, fault.body ?? '{}', fault.headers)
    if (options.key !== undefined && request.headers['x-api-key'] !== options.key) {
      return reply(401, JSON.stringify({ detail: 'Invalid API key' }))
    }
    const call = calls[path]
    if (!call) return reply(404, JSON.stringify({ detail: 'Not Found' }))
    try {
      const text = Buffer.concat(chunks).toString()
      const body = text === '' ? {} : JSON.parse(text)
      const number =
        knowsNumbers &&
        body.seq_id !== undefined &&
        `${body.model_id ?? body.sampling_session_id} ${body.seq_id}`
      const earlier = number === false ? undefined : numbered.get(number)
      const said = earlier ?? (await call(body))
      if (number !== false) numbered.set(number, said)
      if (earlier === undefined) done.set(path, (done.get(path) ?? 0) + 1)
      if (fault === 'cut after') return void request.socket.destroy()
      reply(200, JSON.stringify(said))
    } catch (error) {
      const status = error instanceof Refusal ? error.status : 500
      reply(status, JSON.stringify({ detail: error instanceof Error ? error.message : String(error) }))
    }
  }

  let http: Server
  let port = 0
  async function start(): Promise<void> {
    http = createServer((request, response) => {
      answer(request, response).catch((error) => response.destroy(error))
    })
    http.listen(port, '127.0.0.1')
    await once(http, 'listening')
    port = (http.address() as AddressInfo).port
  }
  async function stop(): Promise<void> {
    http.closeAllConnections()
    await new Promise((resolve) => http.close(resolve))
  }
  const restart = () => {
    sessions = new Set()
    models = new Map()
    samplers = new Map()
    results = new Map()
    numbered = new Map()
  }
  await start()
  return {
    url: `http://127.0.0.1:${port}`,
    asked: () => asked,
    done,
    samples: () => samples,
    busy: () => ({ sampling: sampling.busy(), training: training.busy() }),
    models: () => ({ now: models.size, most }),
    restart,
    stop,
    start,
    async close() {
      await stop()
      await Promise.allSettled(results.values())
      await rm(store, { recursive: true, force: true })
    },
  }
}

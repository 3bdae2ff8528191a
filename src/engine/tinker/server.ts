/** One server as the engine uses it: what it can do, and the models that live there. Talks to one server only. */
import { LostError, UserError } from '../../errors.ts'
import type { Completion, LoraOptions, SampleOptions, SampleRequest } from '../contract.ts'
import { noStep, type TrainingCapabilities, tryTraining } from './capabilities.ts'
import { type Client, Forgotten, Refused } from './client.ts'
import { type RemoteModel, remoteModel, usualAlpha } from './remote.ts'
import { completionOf, sampleBody } from './sampling.ts'
import {
  anySchema,
  createdSchema,
  createModelSchema,
  modelInput,
  optimSchema,
  pathSchema,
  samplerSchema,
  sampleSchema,
  samplingSessionSchema,
} from './wire.ts'

export interface Server {
  readonly client: Client
  /** Whether it did not answer when it was last needed. */
  lost(): boolean
  /** Does work here, and learns by it whether the server is lost, so that no new policy is put there. */
  watched<T>(work: () => Promise<T>): Promise<T>
  /** What it can do in training; tried out once. */
  training(lora: LoraOptions): Promise<TrainingCapabilities>
  /** Whether `top_p` is kept to; tried out once. */
  nucleus(): Promise<boolean>
  /** Samples all requests through `withSampler`, which knows the sampler. */
  sample(
    requests: readonly SampleRequest[],
    options: SampleOptions,
    withSampler: <T>(work: (sampler: string) => Promise<T>) => Promise<T>,
  ): Promise<Completion[][]>
  /**
   * A new model: with fresh weights, or with those and the optimiser's state of a checkpoint on this server. With
   * fresh ones the checkpoint of its beginning is made. No gradient is left in it from elsewhere.
   */
  createModel(
    lora: LoraOptions,
    checkpoint: string | null,
  ): Promise<{ model: RemoteModel; checkpoint: string }>
  /** Lets a model go. Never fails: a model that is not let go is when its session ends. */
  release(model: RemoteModel): Promise<void>
  /** The number of a sampling request: the hosted service takes an equal one of the same sampler for a repeated call. */
  nextSample(): number
  /** A sampler's id: of the base, or of a model's weights as they are now. */
  sampler(model?: RemoteModel): Promise<string>
}

/** How long a model is waited for that is let go: what is not let go so is when the session ends. */
const UNLOADING = { attempts: 3, patience: 30_000 }

/** Names of checkpoints on a server, where each may be used once for each model. */
let names = 0
export const freshName = (what: string): string => `${what}-${++names}`

export async function saveWeights(model: RemoteModel, what: string): Promise<string> {
  const { path } = await model.work(
    'save_weights',
    { path: freshName(what), type: 'save_weights' },
    pathSchema,
  )
  return path
}

export function openServer(client: Client, baseModel: string): Server {
  const models = new Set<string>()
  /** Models that were let go. */
  let releases = 0
  /** Told when a model is let go. */
  let waiting: (() => void)[] = []
  let lost = false
  let modelNumber = 0
  let samplerNumber = 0
  let sampleNumber = 0
  let capabilities: Promise<TrainingCapabilities> | null = null
  let nucleus: Promise<boolean> | null = null

  /** Runs a call that belongs to the session; begins another session where the server forgot it. */
  async function inSession<T>(call: (session: string) => Promise<T>): Promise<T> {
    const session = await client.session()
    try {
      return await call(session)
    } catch (error) {
      if (!(error instanceof Forgotten)) throw error
      client.endSession(session)
      return call(await client.session())
    }
  }

  /** A model as the server makes it. Where it is full it is waited until one of ours is let go. */
  async function create({ rank, seed }: LoraOptions): Promise<RemoteModel> {
    for (;;) {
      const before = releases
      try {
        const { request_id } = await inSession((session_id) =>
          client.ask(
            'create_model',
            {
              session_id,
              model_seq_id: modelNumber++,
              base_model: baseModel,
              lora_config: {
                rank,
                // Servers in Python draw from 31 bits.
                seed: seed % 2 ** 31,
                train_attn: true,
                train_mlp: true,
                train_unembed: false,
              },
              type: 'create_model',
            },
            createModelSchema,
          ),
        )
        const created = await client.result(request_id, createdSchema, { path: 'create_model' })
        const { model_id, lora_config } = created
        const has = models.has(model_id)
          ? 'one that is there already'
          : `one of rank ${lora_config?.rank ?? rank}`
        if (has !== `one of rank ${rank}`) {
          throw new UserError(
            `${client.url} gives ${has} for a new model of rank ${rank}: check its version.`,
          )
        }
        models.add(model_id)
        return remoteModel(client, model_id, lora_config?.alpha ?? usualAlpha)
      } catch (error) {
        if (!(error instanceof Refused)) throw error
        // One was let go while this was asked for: its place may be free.
        if (releases > before) continue
        if (models.size === 0) throw error
        client.notice(
          `${error.message} It is waited until one of the ${models.size} models that are there is done.`,
        )
        await new Promise<void>((resolve) => waiting.push(resolve))
      }
    }
  }

  async function release(model: RemoteModel): Promise<void> {
    await client
      .work('unload_model', { model_id: model.id, type: 'unload_model' }, anySchema, UNLOADING)
      .catch(() => {})
    models.delete(model.id)
    releases++
    const told = waiting
    waiting = []
    for (const tell of told) tell()
  }

  const load = async (model: RemoteModel, path: string) => {
    try {
      await model.work('load_weights', { path, optimizer: true, type: 'load_weights' }, anySchema)
    } catch (error) {
      if (!(error instanceof Forgotten || error instanceof Refused)) throw error
      throw new UserError(
        `${client.url} cannot load the checkpoint ${path} (${error.message}): start the server with the store that ` +
          "has it, or delete the job's folder to train it again.",
        { cause: error },
      )
    }
  }

  const server: Server = {
    client,
    lost: () => lost,
    async watched(work) {
      try {
        const result = await work()
        lost = false
        return result
      } catch (error) {
        if (error instanceof LostError) lost = true
        throw error
      }
    },
    async sample(requests, options, withSampler) {
      if (options.topP < 1 && !(await server.nucleus())) {
        throw new UserError(
          `${client.url} does not keep to top_p, and the experiment draws with topP ${options.topP}: set topP to 1 under ` +
            'sampling.',
        )
      }
      const texts = requests.flatMap(({ prompt, seeds }) => seeds.map((seed) => ({ prompt, seed })))
      const answered = texts.map(({ prompt, seed }) =>
        client.inTurn(() =>
          withSampler(async (sampling_session_id) => {
            options.signal?.throwIfAborted()
            const answer = await client.work(
              'asample',
              { sampling_session_id, seq_id: server.nextSample(), ...sampleBody(prompt, seed, options) },
              sampleSchema,
              { signal: options.signal },
            )
            const completion = completionOf(options, answer, client.url)
            options.onTokens?.(completion.tokens.length)
            return completion
          }),
        ),
      )
      // All are waited for, so that none is left running when one has failed.
      const settled = await Promise.allSettled(answered)
      for (const each of settled) if (each.status === 'rejected') throw each.reason
      const completions = settled.map((each) => (each as PromiseFulfilledResult<Completion>).value)
      return requests.map(({ seeds }) => completions.splice(0, seeds.length))
    },
    training(lora) {
      capabilities ??= tryTraining(() => create(lora), release).catch((error) => {
        capabilities = null
        throw error
      })
      return capabilities
    },
    nucleus() {
      nucleus ??= triesNucleus().catch((error) => {
        nucleus = null
        throw error
      })
      return nucleus
    },
    async createModel(lora, checkpoint) {
      const { leavesGradients } = await server.training(lora)
      const model = await create(lora)
      try {
        if (model.alpha !== lora.alpha) {
          throw new UserError(
            `${client.url} trains LoRA with alpha ${model.alpha}, and the experiment asks for ${lora.alpha}: give ` +
              `--lora-alpha ${model.alpha}, or train.lora.alpha = ${model.alpha}.`,
          )
        }
        const path = checkpoint ?? (await saveWeights(model, 'start'))
        if (leavesGradients) await model.work('optim_step', { adam_params: noStep }, optimSchema)
        if (leavesGradients || checkpoint !== null) await load(model, path)
        return { model, checkpoint: path }
      } catch (error) {
        void release(model)
        throw error
      }
    },
    release,
    nextSample: () => sampleNumber++,
    async sampler(model) {
      if (!model) return samplerOf({ base_model: baseModel })
      const saved = await model.work(
        'save_weights_for_sampler',
        { sampling_session_seq_id: samplerNumber++, type: 'save_weights_for_sampler' },
        samplerSchema,
      )
      if (saved.sampling_session_id) return saved.sampling_session_id
      if (saved.path) return samplerOf({ model_path: saved.path })
      throw new UserError(
        `${client.url} saves weights for sampling and does not say where: check the version of the server.`,
      )
    },
  }

  const samplerOf = (what: { base_model: string } | { model_path: string }) =>
    inSession(async (session_id) => {
      const { sampling_session_id } = await client.ask(
        'create_sampling_session',
        {
          session_id,
          sampling_session_seq_id: samplerNumber++,
          ...what,
          type: 'create_sampling_session',
        },
        samplingSessionSchema,
      )
      return sampling_session_id
    })

  /** With a nucleus of next to nothing, every draw is the most likely token. */
  async function triesNucleus(): Promise<boolean> {
    const id = await server.sampler()
    const samples = 4
    const { sequences } = await client.work(
      'asample',
      {
        sampling_session_id: id,
        seq_id: server.nextSample(),
        num_samples: samples,
        prompt: modelInput([1, 2, 3]),
        sampling_params: { max_tokens: 4, seed: 1, temperature: 2, top_p: 1e-6, top_k: -1, stop: [] },
        type: 'sample',
      },
      sampleSchema,
    )
    if (sequences.length !== samples) {
      throw new UserError(
        `${client.url} gives ${sequences.length} samples where ${samples} were asked for: check its version.`,
      )
    }
    return sequences.every(({ tokens }) => tokens.join() === sequences[0].tokens.join())
  }

  return server
}

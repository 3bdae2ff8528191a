/**
 * Policies on Tinker API servers: the frozen base, and LoRA models that learn.
 *
 * A server may be started anew at any moment, and a call may be lost with no word of whether it was done. Both are met
 * in one way. A policy knows its last checkpoint on the server and keeps all calls since that changed it (one step's, as
 * a rule). Where the state is no longer certain, it makes a new model, loads the checkpoint into it and does those calls
 * again; the old model, and whatever may still reach it, is let go.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { LostError, UserError } from '../../errors.ts'
import { readJsonFile, writeJsonAtomic } from '../../files.ts'
import type {
  AdamOptions,
  Completion,
  LoraOptions,
  LossReport,
  OptimReport,
  Policy,
  SampleOptions,
  SampleRequest,
  Sequence,
} from '../contract.ts'
import { unpackAdapter } from './archive.ts'
import { gradNormOf } from './capabilities.ts'
import { Forgotten, Refused, Unsure } from './client.ts'
import {
  clippedTokens,
  completionLogprobs,
  countedTokens,
  imitatedByCispo,
  imitatedDatum,
  policyDatum,
  policyReport,
  scoredDatum,
  supervisedReport,
  weightsOf,
} from './loss.ts'
import type { RemoteModel } from './model.ts'
import { completionOf, sampleBody } from './sampling.ts'
import { freshName, type Server, saveWeights } from './server.ts'
import {
  type AdamParams,
  type Datum,
  type LossInput,
  lossSchema,
  modelInput,
  optimSchema,
  samplerSchema,
  sampleSchema,
} from './wire.ts'

/** The servers to choose from. */
export interface Fleet {
  /** The server of a new policy: of those that answer, one with the fewest. It is counted there. */
  choose(): Server
  /** The server of that address, if it is one of the fleet's; the policy is counted there, and no longer at `from`. */
  move(url: string, from: Server): Server | undefined
  leave(server: Server): void
  /** Work that `close` waits for. */
  later(work: Promise<void>): void
}

/** Times that lost state is brought back, one after the other, before it is given up. */
const RECOVERIES = 3

const isUncertain = (error: unknown): error is Unsure | Forgotten =>
  error instanceof Unsure || error instanceof Forgotten

/** Marks a server that is gone, so that no new policy is put there. */
async function watched<T>(server: Server, work: () => Promise<T>): Promise<T> {
  try {
    const result = await work()
    server.lost = false
    return result
  } catch (error) {
    if (error instanceof LostError) server.lost = true
    throw error
  }
}

/** Samples all requests through `ask`, which knows the sampler. */
async function sampleAll(
  server: Server,
  requests: readonly SampleRequest[],
  options: SampleOptions,
  ask: <T>(work: (sampler: string) => Promise<T>) => Promise<T>,
): Promise<Completion[][]> {
  if (options.topP < 1 && !(await server.nucleus())) {
    throw new UserError(
      `${server.client.url} does not keep to top_p, and the experiment draws with topP ${options.topP}: set topP to 1 ` +
        'under sampling.',
    )
  }
  const texts = requests.flatMap(({ prompt, seeds }) => seeds.map((seed) => ({ prompt, seed })))
  const answered = texts.map(({ prompt, seed }) =>
    server.client.inTurn(() =>
      ask(async (sampling_session_id) => {
        options.signal?.throwIfAborted()
        const answer = await server.client.work(
          'asample',
          { sampling_session_id, seq_id: server.nextSample(), ...sampleBody(prompt, seed, options) },
          sampleSchema,
          { signal: options.signal },
        )
        const completion = completionOf(options, answer, server.client.url)
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
}

function refuseTemperature(temperature: number, url: string): void {
  if (temperature === 1) return
  throw new UserError(
    `${url} scores and trains at temperature 1, and the experiment asks for ${temperature}: give --temperature 1, or ` +
      'sampling.train.replies.temperature = 1.',
  )
}

export function frozenPolicy(fleet: Fleet): Policy {
  const server = fleet.choose()
  const { client } = server
  let sampler: Promise<string> | null = null
  let disposed = false
  /** Works with a sampler of the base, another one where the server forgot it. */
  async function withSampler<T>(work: (sampler: string) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      sampler ??= server.sampler()
      const used = sampler
      try {
        return await work(await used)
      } catch (error) {
        if (sampler === used) sampler = null
        if (!isUncertain(error) || tries > RECOVERIES) throw error
      }
    }
  }
  const refuse = async (): Promise<never> => {
    throw new UserError('this policy is the frozen base: create it with `lora` to train it')
  }
  return {
    sample: (requests, options) => watched(server, () => sampleAll(server, requests, options, withSampler)),
    logprobs: (sequences, { temperature }) =>
      watched(server, async () => {
        refuseTemperature(temperature, client.url)
        return Promise.all(
          sequences.map((sequence) =>
            client.inTurn(() =>
              withSampler(async (sampling_session_id) => {
                const body = {
                  sampling_session_id,
                  seq_id: server.nextSample(),
                  num_samples: 1,
                  prompt: modelInput([...sequence.prompt, ...sequence.completion]),
                  sampling_params: { max_tokens: 1, seed: 0, temperature: 1, top_p: 1, top_k: -1, stop: [] },
                  prompt_logprobs: true,
                  type: 'sample',
                }
                const { prompt_logprobs } = await client.work('asample', body, sampleSchema)
                const known = prompt_logprobs?.filter((value) => value !== null)
                return completionLogprobs(sequence, known, client.url)
              }),
            ),
          ),
        )
      }),
    forwardBackward: refuse,
    forwardBackwardSupervised: refuse,
    optimStep: refuse,
    save: refuse,
    load: refuse,
    dispose() {
      if (!disposed) fleet.leave(server)
      disposed = true
    },
  }
}

/** What `save` writes: where the state lies. */
const savedName = 'tinker.json'
const savedSchema = z.object({
  schemaVersion: z.literal(1),
  /** The server that has the checkpoint. */
  url: z.string(),
  baseModel: z.string(),
  /** Adapter and optimiser on that server: tinker://.../weights/... */
  checkpoint: z.string(),
  lora: z.object({ rank: z.number(), alpha: z.number(), seed: z.number() }),
})

interface Gradient {
  kind: 'gradient'
  input: LossInput
  scale: number
}

/** A call that changed the model. */
type Change = Gradient | { kind: 'step'; adam: AdamParams }

/** Positions in one request: some megabytes of JSON. */
const PORTION = 100_000

function portions(data: readonly Datum[]): Datum[][] {
  const found: Datum[][] = []
  let room = 0
  for (const datum of data) {
    const size = datum.loss_fn_inputs.target_tokens.data.length
    if (size > room) {
      found.push([])
      room = PORTION
    }
    found[found.length - 1].push(datum)
    room -= size
  }
  return found
}

export function loraPolicy(fleet: Fleet, baseModel: string, lora: LoraOptions): Policy {
  let server = fleet.choose()
  let model: RemoteModel | null = null
  /** The last checkpoint on the server; null before the model is made. */
  let checkpoint: string | null = null
  /** What changed the model since then, in order. */
  let changes: Change[] = []
  let sampler: Promise<string> | null = null
  /** Checkpoints that nobody needs once the newest is on record, the oldest first. */
  let outdated: string[] = []
  let removes = true
  let disposed = false

  const send = (to: RemoteModel, { input, scale }: Gradient) => {
    const scaled =
      scale === 1 ? input : { ...input, data: input.data.map((datum) => scaledDatum(datum, scale)) }
    return to.work('forward_backward', { forward_backward_input: scaled }, lossSchema)
  }
  const stepOf = (to: RemoteModel, adam: AdamParams) =>
    to.work('optim_step', { adam_params: adam }, optimSchema)

  /** A model with the state that the policy has: its checkpoint's, and the changes since. */
  async function revive(): Promise<RemoteModel> {
    for (let tries = 1; ; tries++) {
      try {
        const made = await server.createModel(lora, checkpoint)
        checkpoint = made.checkpoint
        for (const change of changes) {
          if (change.kind === 'gradient') await send(made.model, change)
          else await stepOf(made.model, change.adam)
        }
        return made.model
      } catch (error) {
        if (!isUncertain(error) || tries === RECOVERIES) throw error
      }
    }
  }

  let reviving: Promise<RemoteModel> | null = null
  /** The model as it is, made or brought back where need be. */
  function current(): Promise<RemoteModel> {
    if (model) return Promise.resolve(model)
    reviving ??= revive()
      .then((made) => {
        model = made
        return made
      })
      .finally(() => {
        reviving = null
      })
    return reviving
  }

  /** That model is not to be trusted any more. */
  function abandon(old: RemoteModel): void {
    if (model !== old) return
    model = null
    sampler = null
    fleet.later(server.release(old))
  }

  /** Works with the model; where its state becomes uncertain, brings it back and works again. */
  async function surely<T>(work: (model: RemoteModel) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      const used = await current()
      try {
        return await work(used)
      } catch (error) {
        if (!isUncertain(error)) throw error
        abandon(used)
        if (tries > RECOVERIES) throw error
      }
    }
  }

  let last: Promise<unknown> = Promise.resolve()
  /** One call of the contract after the other: they share the model's state. */
  function inOrder<T>(work: () => Promise<T>): Promise<T> {
    const next = last.then(() => watched(server, work))
    last = next.catch(() => {})
    return next
  }

  /** Makes a checkpoint of the state as it is, unless there is one. */
  async function keep(): Promise<string> {
    if (checkpoint === null || changes.length > 0) {
      const path = await surely((used) => saveWeights(used, 'step'))
      if (checkpoint !== null) outdated.push(checkpoint)
      checkpoint = path
      changes = changes.slice(changes.findLastIndex(({ kind }) => kind === 'step') + 1)
    }
    return checkpoint
  }

  const learn = async ({ data, ...loss }: LossInput) => {
    // At most one step is ever done again.
    if (changes.some(({ kind }) => kind === 'step')) await keep()
    const { reduction } = await server.training(lora)
    if (reduction !== 'sum' && changes.length > 0) {
      throw new UserError(
        `${server.client.url} takes the mean over all batches of a step, so this client gives it one: put the data of ` +
          'a step into one batch.',
      )
    }
    const found: (number[] | undefined)[] = []
    // A mean needs its batch whole.
    for (const portion of reduction === 'sum' ? portions(data) : [data]) {
      const change: Gradient = { kind: 'gradient', input: { ...loss, data: portion }, scale: 1 }
      found.push(...outputsOf(portion, await surely((used) => send(used, change))))
      changes.push(change)
    }
    return found
  }

  const score = async (sequences: readonly Sequence[]) => {
    const found: (number[] | undefined)[] = []
    for (const data of portions(sequences.map(scoredDatum))) {
      const forward_input: LossInput = { data, loss_fn: 'cross_entropy' }
      found.push(
        ...outputsOf(data, await surely((used) => used.work('forward', { forward_input }, lossSchema))),
      )
    }
    return sequences.map((sequence, i) => completionLogprobs(sequence, found[i], server.client.url))
  }

  const outputsOf = (data: readonly Datum[], { loss_fn_outputs }: z.infer<typeof lossSchema>) => {
    if (loss_fn_outputs.length !== data.length) {
      throw new UserError(
        `${server.client.url} gives ${loss_fn_outputs.length} results for ${data.length} sequences: check its version.`,
      )
    }
    return loss_fn_outputs.map(({ logprobs }) => logprobs?.data)
  }

  /** Works with a sampler of the weights as they are. */
  const withSampler = <T>(work: (sampler: string) => Promise<T>): Promise<T> =>
    surely(async (used) => {
      sampler ??= server.sampler(used)
      const id = sampler
      try {
        return await work(await id)
      } catch (error) {
        if (sampler === id) sampler = null
        throw error
      }
    })

  return {
    sample: (requests, options) =>
      inOrder(async () => {
        await current()
        return sampleAll(server, requests, options, withSampler)
      }),
    logprobs: (sequences, { temperature }) =>
      inOrder(async () => {
        refuseTemperature(temperature, server.client.url)
        return score(sequences)
      }),
    forwardBackward: (batch, loss) =>
      inOrder(async (): Promise<LossReport> => {
        const { url } = server.client
        refuseTemperature(loss.temperature, url)
        if (batch.some(({ logprobs }) => logprobs.some((value) => !Number.isFinite(value)))) {
          throw new UserError(
            `${url} does not say how likely these tokens were when they were drawn (not at temperature 1): draw what is ` +
              'trained on at temperature 1 and with topP 1.',
          )
        }
        const { reduction, ppo } = await server.training(lora)
        const weights = weightsOf(reduction, batch)
        let counted = batch.map(countedTokens)
        if (!ppo) {
          // Tokens that the clip would stop have no gradient, which is all that it does: they are left out.
          const now = await score(batch)
          counted = batch.map((datum, i) => {
            const clipped = clippedTokens(datum, now[i], loss)
            return counted[i].map((counts, t) => counts && !clipped[t])
          })
        }
        const data = batch.map((datum, i) => policyDatum(datum, weights[i], counted[i]))
        const found = await learn(
          ppo
            ? {
                data,
                loss_fn: 'ppo',
                loss_fn_config: {
                  clip_low_threshold: 1 - loss.clipLow,
                  clip_high_threshold: 1 + loss.clipHigh,
                },
              }
            : { data, loss_fn: 'importance_sampling' },
        )
        const logprobs = batch.map((datum, i) => completionLogprobs(datum, found[i], url))
        return policyReport(batch, loss, logprobs)
      }),
    forwardBackwardSupervised: (batch) =>
      inOrder(async () => {
        const { reduction } = await server.training(lora)
        const weights = weightsOf(reduction, batch)
        const found = await learn(
          reduction === 'sum'
            ? { data: batch.map(imitatedDatum), loss_fn: 'cross_entropy' }
            : {
                // A mean of cross-entropies divides by the weights themselves, so they go in as advantages.
                data: batch.map((datum, i) => imitatedByCispo(datum, weights[i])),
                loss_fn: 'cispo',
                loss_fn_config: { clip_low_threshold: 1, clip_high_threshold: 1 },
              },
        )
        const logprobs = batch.map((datum, i) => completionLogprobs(datum, found[i], server.client.url))
        return supervisedReport(batch, logprobs)
      }),
    optimStep: (adam) => inOrder(() => takeStep(adam)),
    save: (folder, options) => inOrder(() => save(folder, options)),
    load: (folder) => inOrder(() => load(folder)),
    dispose() {
      if (disposed) return
      disposed = true
      fleet.later(
        last.then(async () => {
          if (model) await server.release(model)
          fleet.leave(server)
        }),
      )
    },
  }

  async function takeStep(options: AdamOptions): Promise<OptimReport> {
    const { learningRate, beta1, beta2, epsilon, weightDecay, maxGradNorm } = options
    const { clips, tellsNorm } = await server.training(lora)
    const { url } = server.client
    if (!clips && !tellsNorm && Number.isFinite(maxGradNorm)) {
      throw new UserError(
        `${url} neither clips gradients nor tells their norm, so train.maxGradNorm (${maxGradNorm}) cannot be kept: ` +
          'use another server.',
      )
    }
    const adam: AdamParams = {
      learning_rate: learningRate,
      beta1,
      beta2,
      eps: epsilon,
      weight_decay: weightDecay,
      grad_clip_norm: Number.isFinite(maxGradNorm) ? maxGradNorm : 0,
    }
    const norm = gradNormOf((await surely((used) => stepOf(used, adam))).metrics)
    if (norm !== undefined && !Number.isFinite(norm)) {
      // The step is made and spoilt the weights: back to where they were, without these gradients.
      changes = []
      if (model) abandon(model)
      throw new UserError(
        `the gradient's norm is ${norm}: the update was not made; lower the learning rate and run again`,
      )
    }
    if (!clips && norm !== undefined && norm > maxGradNorm) {
      // The server stepped at full length: from the state before, the same with gradients scaled as PyTorch does.
      const scale = maxGradNorm / (norm + 1e-6)
      changes = changes.map((change) => (change.kind === 'gradient' ? { ...change, scale } : change))
      if (model) abandon(model)
      await surely((used) => stepOf(used, adam))
    }
    changes.push({ kind: 'step', adam })
    sampler = null
    return { gradNorm: norm ?? Number.NaN }
  }

  async function save(folder: string, { interim = false }: { interim?: boolean } = {}): Promise<void> {
    const path = await keep()
    await mkdir(folder, { recursive: true })
    if (!interim) await saveAdapter(folder)
    const { url } = server.client
    await writeJsonAtomic(join(folder, savedName), {
      schemaVersion: 1,
      url,
      baseModel,
      checkpoint: path,
      lora,
    })
    // The one before this may be the last that a run's files name until they name this one.
    while (removes && outdated.length > 1) {
      const { hostname, pathname } = new URL(outdated[0])
      removes = await server.client
        .remove(`training_runs/${hostname}/checkpoints${pathname}`)
        .catch(() => false)
      outdated = outdated.slice(1)
    }
  }

  /** The adapter in PEFT's layout, where the server lets it be had. */
  async function saveAdapter(folder: string): Promise<void> {
    const name = freshName('adapter')
    const used = await current()
    try {
      await used.work(
        'save_weights_for_sampler',
        { path: name, type: 'save_weights_for_sampler' },
        samplerSchema,
      )
      const archive = await server.client.download(`training_runs/${used.id}/checkpoints/${name}/archive`)
      if (archive) await unpackAdapter(archive, folder)
    } catch (error) {
      // It is a copy for people: the state itself is kept.
      if (!(isUncertain(error) || error instanceof Refused)) throw error
      abandon(used)
    }
  }

  async function load(folder: string): Promise<void> {
    const file = join(folder, savedName)
    const saved = await readJsonFile(file, savedSchema)
    if (saved.baseModel !== baseModel || saved.lora.rank !== lora.rank || saved.lora.alpha !== lora.alpha) {
      throw new UserError(
        `${file} is of ${saved.baseModel} with rank ${saved.lora.rank} and alpha ${saved.lora.alpha}, not of ` +
          `${baseModel} with ${lora.rank} and ${lora.alpha}: load it into a policy like its own.`,
      )
    }
    if (model) abandon(model)
    // A checkpoint is on the server that made it. At an address that is not among ours, ours may have its store.
    server = fleet.move(saved.url, server) ?? server
    checkpoint = saved.checkpoint
    changes = []
    await watched(server, current)
  }
}

function scaledDatum(datum: Datum, scale: number): Datum {
  const { loss_fn_inputs } = datum
  const name = loss_fn_inputs.advantages ? 'advantages' : 'weights'
  const values = loss_fn_inputs[name]
  return {
    ...datum,
    loss_fn_inputs: {
      ...loss_fn_inputs,
      ...(values && { [name]: { ...values, data: values.data.map((value) => value * scale) } }),
    },
  }
}

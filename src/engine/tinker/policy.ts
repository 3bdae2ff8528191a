/**
 * A LoRA policy on a Tinker API server: the contract's calls, one after the other, as calls of the API. What they do to
 * the model is the state's (state.ts), what they leave in a folder is saved.ts's; it owns their order alone.
 */
import { UserError } from '../../errors.ts'
import type {
  AdamOptions,
  LoraOptions,
  LossReport,
  Policy,
  PolicyDatum,
  PolicyLoss,
  Sequence,
  SupervisedDatum,
} from '../contract.ts'
import type { Fleet } from './fleet.ts'
import {
  clippedTokens,
  completionLogprobs,
  countedTokens,
  imitatedByCispo,
  imitatedDatum,
  outputsOf,
  policyDatum,
  policyReport,
  portions,
  scoredDatum,
  supervisedReport,
  weightsOf,
} from './loss.ts'
import { refuseTemperature } from './sampling.ts'
import { openRetired, readSaved, saveAdapter, writeSaved } from './saved.ts'
import { openState, type RemoteState } from './state.ts'
import { type LossInput, lossSchema } from './wire.ts'

export function loraPolicy(fleet: Fleet, baseModel: string, lora: LoraOptions): Policy {
  const retired = openRetired()
  const state = openState(fleet, lora, retired.add)
  let disposed = false
  let last: Promise<unknown> = Promise.resolve()
  /** One call of the contract after the other: they share the model's state. */
  function inOrder<T>(work: () => Promise<T>): Promise<T> {
    const next = last.then(() => state.server().watched(work))
    last = next.catch(() => {})
    return next
  }
  return {
    sample: (requests, options) =>
      inOrder(async () => {
        await state.current()
        return state.server().sample(requests, options, state.withSampler)
      }),
    logprobs: (sequences, { temperature }) =>
      inOrder(async () => {
        refuseTemperature(temperature, state.server().client.url)
        return score(state, sequences)
      }),
    forwardBackward: (batch, loss) => inOrder(() => learn(state, lora, batch, loss)),
    forwardBackwardSupervised: (batch) => inOrder(() => imitate(state, lora, batch)),
    optimStep: (adam) => inOrder(() => takeStep(state, lora, adam)),
    save: (folder, { interim = false } = {}) =>
      inOrder(async () => {
        const checkpoint = await state.keep()
        const { client } = state.server()
        if (!interim) {
          const model = await state.current()
          if (!(await saveAdapter(client, model, folder))) state.abandon(model)
        }
        await writeSaved(folder, { url: client.url, baseModel, checkpoint, lora })
        await retired.remove(client)
      }),
    load: (folder) =>
      inOrder(async () => {
        const { checkpoint, url } = await readSaved(folder, baseModel, lora)
        await state.restore(checkpoint, url)
      }),
    dispose() {
      if (disposed) return
      disposed = true
      fleet.later(last.then(() => state.release()))
    },
  }
}

/** The log-probabilities of the completions' tokens under the weights as they are. */
async function score(state: RemoteState, sequences: readonly Sequence[]): Promise<Float32Array[]> {
  const { url } = state.server().client
  const found: (number[] | undefined)[] = []
  for (const data of portions(sequences.map(scoredDatum))) {
    const forward_input: LossInput = { data, loss_fn: 'cross_entropy' }
    const answer = await state.surely((model) => model.work('forward', { forward_input }, lossSchema))
    found.push(...outputsOf(data, answer, url))
  }
  return sequences.map((sequence, i) => completionLogprobs(sequence, found[i], url))
}

/** Adds the gradient of a batch, and the log-probabilities of its completions' tokens that it was taken at. */
async function addGradient(
  state: RemoteState,
  lora: LoraOptions,
  sequences: readonly Sequence[],
  { data, ...loss }: LossInput,
): Promise<Float32Array[]> {
  await state.keepStep()
  const { reduction } = await state.server().training(lora)
  const { url } = state.server().client
  if (reduction !== 'sum' && state.changed()) {
    throw new UserError(
      `${url} takes the mean over all batches of a step, so this client gives it one: put the data of a step into one ` +
        'batch.',
    )
  }
  const found: (number[] | undefined)[] = []
  // A mean needs its batch whole.
  for (const portion of reduction === 'sum' ? portions(data) : [data]) {
    found.push(...(await state.addGradient({ ...loss, data: portion })))
  }
  return sequences.map((sequence, i) => completionLogprobs(sequence, found[i], url))
}

async function learn(
  state: RemoteState,
  lora: LoraOptions,
  batch: readonly PolicyDatum[],
  loss: PolicyLoss,
): Promise<LossReport> {
  const { client, training } = state.server()
  refuseTemperature(loss.temperature, client.url)
  if (batch.some(({ logprobs }) => logprobs.some((value) => !Number.isFinite(value)))) {
    throw new UserError(
      `${client.url} does not say how likely these tokens were when they were drawn (not at temperature 1): draw what ` +
        'is trained on at temperature 1 and with topP 1.',
    )
  }
  const { reduction, ppo } = await training(lora)
  const weights = weightsOf(reduction, batch)
  let counted = batch.map(countedTokens)
  if (!ppo) {
    // Tokens that the clip would stop have no gradient, which is all that it does: they are left out.
    const now = await score(state, batch)
    counted = batch.map((datum, i) => {
      const clipped = clippedTokens(datum, now[i], loss)
      return counted[i].map((counts, t) => counts && !clipped[t])
    })
  }
  const data = batch.map((datum, i) => policyDatum(datum, weights[i], counted[i]))
  const input: LossInput = ppo
    ? {
        data,
        loss_fn: 'ppo',
        loss_fn_config: { clip_low_threshold: 1 - loss.clipLow, clip_high_threshold: 1 + loss.clipHigh },
      }
    : { data, loss_fn: 'importance_sampling' }
  return policyReport(batch, loss, await addGradient(state, lora, batch, input))
}

async function imitate(
  state: RemoteState,
  lora: LoraOptions,
  batch: readonly SupervisedDatum[],
): Promise<LossReport> {
  const { reduction } = await state.server().training(lora)
  const weights = weightsOf(reduction, batch)
  const input: LossInput =
    reduction === 'sum'
      ? { data: batch.map(imitatedDatum), loss_fn: 'cross_entropy' }
      : {
          // A mean of cross-entropies divides by the weights themselves, so they go in as advantages.
          data: batch.map((datum, i) => imitatedByCispo(datum, weights[i])),
          loss_fn: 'cispo',
          loss_fn_config: { clip_low_threshold: 1, clip_high_threshold: 1 },
        }
  return supervisedReport(batch, await addGradient(state, lora, batch, input))
}

async function takeStep(state: RemoteState, lora: LoraOptions, options: AdamOptions) {
  const { learningRate, beta1, beta2, epsilon, weightDecay, maxGradNorm } = options
  const { client, training } = state.server()
  const { clips, tellsNorm } = await training(lora)
  if (!clips && !tellsNorm && Number.isFinite(maxGradNorm)) {
    throw new UserError(
      `${client.url} neither clips gradients nor tells their norm, so train.maxGradNorm (${maxGradNorm}) cannot be kept: ` +
        'use another server.',
    )
  }
  const adam = {
    learning_rate: learningRate,
    beta1,
    beta2,
    eps: epsilon,
    weight_decay: weightDecay,
    grad_clip_norm: Number.isFinite(maxGradNorm) ? maxGradNorm : 0,
  }
  const norm = await state.step(
    adam,
    (norm) => {
      // A server that tells norms has none to tell where it is no number.
      if (norm === undefined) return tellsNorm ? null : 1
      if (!Number.isFinite(norm)) return null
      // Where the server stepped at full length: as PyTorch scales.
      return clips || norm <= maxGradNorm ? 1 : maxGradNorm / (norm + 1e-6)
    },
    (norm) =>
      new UserError(
        `the gradient's norm is ${norm ?? 'no number'}: the update was not made; lower the learning rate and run again`,
      ),
  )
  return { gradNorm: norm ?? Number.NaN }
}

/**
 * What a server can do beyond what every Tinker API server does. Its own list names models and little else, so it is
 * asked by trying: a model of a few tokens' gradients, which is let go at the end. Talks to one server only.
 */
import type { Sequence } from '../contract.ts'
import { Refused } from './client.ts'
import { completionLogprobs, outputsOf, type Reduction, scoredDatum, weightsOf } from './loss.ts'
import type { RemoteModel } from './remote.ts'
import { type Datum, type LossInput, lossSchema, optimSchema, tensor } from './wire.ts'

export interface TrainingCapabilities {
  /** What stands before the gradient of a batch. */
  reduction: Reduction
  /** The norm of the gradient is told after a step. */
  tellsNorm: boolean
  /** `grad_clip_norm` is kept to. */
  clips: boolean
  /** The clipped loss with its two thresholds. */
  ppo: boolean
  /** A new model may begin with gradients that a former one in its place left behind. */
  leavesGradients: boolean
}

/** A step that changes nothing that a later step of another model sees. */
export const noStep = {
  learning_rate: 0,
  beta1: 0.9,
  beta2: 0.999,
  eps: 1e-8,
  weight_decay: 0,
  grad_clip_norm: 0,
}

/** The gradient's norm among an optimiser step's metrics; servers put their own prefix before it. */
export function gradNormOf(metrics: Record<string, unknown> | null | undefined): number | undefined {
  const [, norm] =
    Object.entries(metrics ?? {}).find(([name]) => /(^|[/.])grad_norm(:\w+)?$/.test(name)) ?? []
  return typeof norm === 'number' && norm >= 0 ? norm : undefined
}

/** Milliseconds that one of its calls may take: a server that takes longer for some tokens is not well. */
const TRIAL = { patience: 600_000 }

/** Tokens that every vocabulary has. */
const probe: Sequence = { prompt: [1, 2, 3], completion: [4, 5] }

/** The last token has an advantage of 1, at a ratio of e^`drift`; `more` tokens without any follow. */
function probeDatum(now: number, drift = 0, more = 0): Datum {
  const sequence = { ...probe, completion: [...probe.completion, ...Array.from({ length: more }, () => 6)] }
  const { model_input, loss_fn_inputs } = scoredDatum(sequence)
  const at = probe.prompt.length + probe.completion.length - 2
  const alone = (value: number) =>
    tensor(
      'float32',
      loss_fn_inputs.target_tokens.data.map((_, t) => (t === at ? value : 0)),
    )
  return {
    model_input,
    loss_fn_inputs: {
      target_tokens: loss_fn_inputs.target_tokens,
      logprobs: alone(now - drift),
      advantages: alone(1),
    },
  }
}

const noAdvantage = (datum: Datum): Datum => ({
  ...datum,
  loss_fn_inputs: {
    ...datum.loss_fn_inputs,
    advantages: tensor(
      'float32',
      datum.loss_fn_inputs.target_tokens.data.map(() => 0),
    ),
  },
})

/**
 * Tries out a server with models that `create` makes and `release` lets go.
 *
 * @throws UserError where its gradients are none that the contract's loss can be had from.
 */
export async function tryTraining(
  create: () => Promise<RemoteModel>,
  release: (model: RemoteModel) => Promise<void>,
): Promise<TrainingCapabilities> {
  const found = await withModel(create, release, tryModel)
  // What that model left behind for the next one in its place.
  const left = await withModel(create, release, (next) =>
    next.work('optim_step', { adam_params: noStep }, optimSchema, TRIAL),
  )
  return { ...found, leavesGradients: (gradNormOf(left.metrics) ?? 0) > 0 }
}

/** Works with a model of its own, which is let go whatever happens. */
async function withModel<T>(
  create: () => Promise<RemoteModel>,
  release: (model: RemoteModel) => Promise<void>,
  work: (model: RemoteModel) => Promise<T>,
): Promise<T> {
  const model = await create()
  try {
    return await work(model)
  } finally {
    await release(model)
  }
}

/** Tries out what a server does with a model, and leaves a gradient in it. */
async function tryModel(model: RemoteModel): Promise<Omit<TrainingCapabilities, 'leavesGradients'>> {
  const backward = (data: Datum[], kind: Omit<LossInput, 'data'> = { loss_fn: 'importance_sampling' }) =>
    model.work('forward_backward', { forward_backward_input: { data, ...kind } }, lossSchema, TRIAL)
  const score = async () => {
    const input = { data: [scoredDatum(probe)], loss_fn: 'cross_entropy' }
    const answer = await model.work('forward', { forward_input: input }, lossSchema, TRIAL)
    const [logprobs] = outputsOf(input.data, answer, model.url)
    return completionLogprobs(probe, logprobs, model.url)[1]
  }
  const step = async (adam: Partial<typeof noStep> = {}) =>
    gradNormOf(
      (await model.work('optim_step', { adam_params: { ...noStep, ...adam } }, optimSchema, TRIAL)).metrics,
    )
  const normOf = async (...batch: Parameters<typeof backward>) => {
    await backward(...batch)
    return step()
  }

  const now = await score()
  const datum = probeDatum(now)
  // What another model left in this one's place goes with the first step.
  await step()
  const one = await normOf([datum])
  const tellsNorm = one !== undefined
  const reduction = tellsNorm ? await reductionOf(one, normOf, now, model.url) : 'sum'

  const clippedLoss: Omit<LossInput, 'data'> = {
    loss_fn: 'ppo',
    loss_fn_config: { clip_low_threshold: 0.8, clip_high_threshold: 1.28 },
  }
  let ppo = true
  try {
    const clipped = await normOf([probeDatum(now, 1)], clippedLoss)
    if (one !== undefined && clipped !== undefined) ppo = clipped < 1e-3 * one
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    ppo = false
  }

  // Gradients clipped to less than Adam's epsilon hardly move anything; at full size they move as far as any.
  await backward([datum])
  await step({ learning_rate: 1e-3, beta1: 0, beta2: 0, grad_clip_norm: 1e-14 })
  const clips = Math.abs((await score()) - now) < 1e-5

  await backward([datum])
  return { reduction, tellsNorm, clips, ppo }
}

/** From how the norm of one gradient changes with sequences and positions that add nothing to it. */
async function reductionOf(
  one: number,
  normOf: (data: Datum[]) => Promise<number | undefined>,
  now: number,
  url: string,
): Promise<Reduction> {
  const length = probe.prompt.length + probe.completion.length
  const longer = 2 * (length - 1)
  const measured = [
    await normOf([probeDatum(now, 0, length - 1)]),
    await normOf([probeDatum(now), noAdvantage(probeDatum(now, 0, longer))]),
  ].map((norm) => (norm ?? Number.NaN) / one)
  const withMore = (more: number): Sequence => ({
    ...probe,
    completion: [...probe.completion, ...Array.from({ length: more }, () => 6)],
  })
  const batches = [[withMore(length - 1)], [probe, withMore(longer)]]
  const found = (['sum', 'mean of sequences', 'mean of positions'] as const).find((reduction) => {
    const [alone] = weightsOf(reduction, [probe])
    return batches.every((batch, i) => {
      const expected = alone / weightsOf(reduction, batch)[0]
      return Math.abs(measured[i] - expected) < 0.05 * expected
    })
  })
  if (found) return found
  throw new Refused(
    `${url} makes gradients that are neither the sum of a batch nor a mean of it (its norm changes by ` +
      `${measured.map((ratio) => ratio.toFixed(3)).join(' and ')} where nothing is added): this client cannot train there.`,
  )
}

/**
 * The contract's losses as the Tinker API takes them, and its answers as the contract's reports. Pure.
 *
 * The contract's loss is a plain sum, and so is the API's; but some servers take a mean, of each sequence's positions
 * and then of the sequences, or of all positions. A gradient of a mean is the sum's times a number that is known before
 * the batch is sent, so advantages are multiplied by its inverse, and every server gives the same gradient.
 */
import type { z } from 'zod'
import { UserError } from '../../errors.ts'
import type { LossReport, PolicyDatum, PolicyLoss, Sequence, SupervisedDatum } from '../contract.ts'
import { type Datum, type lossSchema, modelInput, tensor } from './wire.ts'

/** What a server does with the losses of a batch's positions before it takes their gradient. */
export type Reduction = 'sum' | 'mean of sequences' | 'mean of positions'

/** Positions that a datum of this sequence scores: every token but the first. */
export const positions = ({ prompt, completion }: Sequence): number => prompt.length + completion.length - 1

/** For each sequence, what its advantages are multiplied by so that the server's gradient is the sum's. */
export function weightsOf(reduction: Reduction, sequences: readonly Sequence[]): number[] {
  const lengths = sequences.map(positions)
  const all = lengths.reduce((sum, length) => sum + length, 0)
  return lengths.map((length) => {
    if (reduction === 'sum') return 1
    return reduction === 'mean of positions' ? all : length * sequences.length
  })
}

/** A sequence, shifted by one, with values of the completion's tokens behind zeros for the prompt's. */
function shifted(sequence: Sequence) {
  const { prompt, completion } = sequence
  if (prompt.length === 0 || completion.length === 0) {
    throw new UserError('A sequence needs at least one token of prompt and one of completion to be scored.')
  }
  const tokens = [...prompt, ...completion]
  const zeros = prompt.slice(1).map(() => 0)
  return {
    input: modelInput(tokens.slice(0, -1)),
    targets: tensor('int64', tokens.slice(1)),
    behind: (values: readonly number[]) => tensor('float32', [...zeros, ...values]),
  }
}

/** A sequence to score. */
export function scoredDatum(sequence: Sequence): Datum {
  const { input, targets, behind } = shifted(sequence)
  return {
    model_input: input,
    loss_fn_inputs: { target_tokens: targets, weights: behind(sequence.completion.map(() => 1)) },
  }
}

/**
 * A completion to learn from. Tokens that do not count have advantage 0; no weights are sent, which the hosted service
 * would refuse beside advantages, so every position counts in a server's mean (see weightsOf).
 */
export function policyDatum(datum: PolicyDatum, weight: number, counts: readonly boolean[]): Datum {
  const { input, targets, behind } = shifted(datum)
  return {
    model_input: input,
    loss_fn_inputs: {
      target_tokens: targets,
      logprobs: behind(datum.logprobs),
      advantages: behind(datum.advantages.map((advantage, t) => (counts[t] ? advantage * weight : 0))),
    },
  }
}

/** A sequence to imitate, by cross_entropy. */
export function imitatedDatum(datum: SupervisedDatum): Datum {
  const { input, targets, behind } = shifted(datum)
  return { model_input: input, loss_fn_inputs: { target_tokens: targets, weights: behind(datum.weights) } }
}

/** The same by cispo, whose clipped and detached ratio is 1 when it is clipped to [1, 1]: advantage times logprob. */
export function imitatedByCispo(datum: SupervisedDatum, weight: number): Datum {
  const { input, targets, behind } = shifted(datum)
  return {
    model_input: input,
    loss_fn_inputs: {
      target_tokens: targets,
      logprobs: behind(datum.weights.map(() => 0)),
      advantages: behind(datum.weights.map((w) => w * weight)),
    },
  }
}

/**
 * The log-probabilities of the completion's tokens among those of all positions. They are the last ones: servers that
 * pad a batch pad it on the left.
 */
export function completionLogprobs(
  { completion }: Sequence,
  values: readonly number[] | undefined,
  server: string,
): Float32Array {
  if (values === undefined || values.length < completion.length) {
    throw new UserError(
      `${server} gives ${values?.length ?? 'no'} log-probabilities for a completion of ${completion.length} tokens: ` +
        'this client needs one for each; check the version of the server.',
    )
  }
  return Float32Array.from(values.slice(values.length - completion.length))
}

/** Tokens whose ratio is clipped in the direction of its advantage: they have no gradient (Schulman et al. 2017). */
export function clippedTokens(
  { logprobs, advantages }: PolicyDatum,
  now: Float32Array,
  { clipLow, clipHigh }: PolicyLoss,
): boolean[] {
  return advantages.map((advantage, t) => {
    const ratio = Math.exp(now[t] - logprobs[t])
    return advantage > 0 ? ratio > 1 + clipHigh : advantage < 0 && ratio < 1 - clipLow
  })
}

/** Which tokens of a datum count. */
export const countedTokens = ({ completion, mask }: PolicyDatum): boolean[] =>
  completion.map((_, t) => mask === undefined || mask[t] !== 0)

/** The contract's report, from the log-probabilities that the gradient was taken at. */
export function policyReport(
  batch: readonly PolicyDatum[],
  loss: PolicyLoss,
  logprobs: Float32Array[],
): LossReport {
  let sum = 0
  let tokens = 0
  let clipped = 0
  for (const [i, datum] of batch.entries()) {
    const counted = countedTokens(datum)
    const cut = clippedTokens(datum, logprobs[i], loss)
    for (const [t, advantage] of datum.advantages.entries()) {
      if (!counted[t]) continue
      tokens++
      if (cut[t]) clipped++
      const ratio = Math.exp(logprobs[i][t] - datum.logprobs[t])
      const bounded = Math.min(Math.max(ratio, 1 - loss.clipLow), 1 + loss.clipHigh)
      sum -= Math.min(ratio * advantage, bounded * advantage)
    }
  }
  return { loss: sum, tokens, logprobs, clippedShare: tokens === 0 ? 0 : clipped / tokens }
}

export function supervisedReport(batch: readonly SupervisedDatum[], logprobs: Float32Array[]): LossReport {
  let sum = 0
  let tokens = 0
  for (const [i, { weights }] of batch.entries()) {
    for (const [t, weight] of weights.entries()) {
      if (weight === 0) continue
      tokens++
      sum -= weight * logprobs[i][t]
    }
  }
  return { loss: sum, tokens, logprobs, clippedShare: 0 }
}

/** Positions in one request: some megabytes of JSON. */
const PORTION = 100_000

/** A batch in requests of a size that servers take. */
export function portions(data: readonly Datum[]): Datum[][] {
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

/** The same datum with a gradient that is `scale` times its own. */
export function scaledDatum(datum: Datum, scale: number): Datum {
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

/** The log-probabilities of each datum's positions, as a server gives them. */
export function outputsOf(
  data: readonly Datum[],
  { loss_fn_outputs }: z.infer<typeof lossSchema>,
  server: string,
): (number[] | undefined)[] {
  if (loss_fn_outputs.length !== data.length) {
    throw new UserError(
      `${server} gives ${loss_fn_outputs.length} results for ${data.length} sequences: check its version.`,
    )
  }
  return loss_fn_outputs.map(({ logprobs }) => logprobs?.data)
}

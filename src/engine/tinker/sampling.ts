/** The contract's samples from the API's: what is asked for, and what an answer must be. Pure. */

import type { z } from 'zod'
import { UserError } from '../../errors.ts'
import type { Completion, SampleOptions, Sequence, Tokens } from '../contract.ts'
import { completionLogprobs } from './loss.ts'
import { modelInput, type SamplingParams, type sampleSchema } from './wire.ts'

/** Below 2^31, with room for what servers add to it. */
const serverSeed = (seed: number) => seed % (2 ** 31 - 2 ** 16)

/** One text: a request for several would draw them from seeds of the server's choosing. */
export function sampleBody(prompt: Tokens, seed: number, options: SampleOptions) {
  const sampling_params: SamplingParams = {
    max_tokens: options.maxTokens,
    seed: serverSeed(seed),
    temperature: options.temperature,
    top_p: options.topP,
    top_k: -1,
    stop: [...options.stop],
  }
  return { num_samples: 1, prompt: modelInput(prompt), sampling_params, type: 'sample' }
}

/**
 * The completion that was asked for. A server's log-probabilities are those of the whole vocabulary at temperature 1,
 * whatever it draws from. So they are both of the contract's where nothing else is asked for; at another temperature
 * neither can be known, and with a nucleus the sampling distribution's cannot: those are NaN.
 */
export function completionOf(
  { stop, maxTokens, temperature, topP }: SampleOptions,
  { sequences }: z.infer<typeof sampleSchema>,
  server: string,
): Completion {
  if (sequences.length !== 1) {
    throw new UserError(
      `${server} gives ${sequences.length} samples where 1 was asked for: check its version.`,
    )
  }
  const unknown = (tokens: readonly number[]) => tokens.map(() => Number.NaN)
  const [{ tokens: all, logprobs: allLogprobs, stop_reason }] = sequences
  if (allLogprobs.length !== all.length) {
    throw new UserError(
      `${server} gives ${allLogprobs.length} log-probabilities of ${all.length} sampled tokens: check its version.`,
    )
  }
  // A server that goes on after a stop token, or past the limit, is cut to what was asked for.
  const ended = all.findIndex((token) => stop.includes(token))
  const length = Math.min(ended < 0 ? all.length : ended + 1, maxTokens)
  const tokens = all.slice(0, length)
  const finish = stop.includes(tokens[length - 1]) ? 'stop' : 'length'
  if (stop_reason === 'stop' && finish === 'length' && length < maxTokens) {
    throw new UserError(
      `${server} ended a sample without a stop token at its end (of ${stop.join(', ')}): this client needs the token ` +
        'that ended it, to train on it.',
    )
  }
  const logprobs = allLogprobs.slice(0, length)
  return {
    tokens,
    logprobs: temperature === 1 ? logprobs : unknown(tokens),
    samplingLogprobs: temperature === 1 && topP === 1 ? logprobs : unknown(tokens),
    finish,
  }
}

export function refuseTemperature(temperature: number, url: string): void {
  if (temperature === 1) return
  throw new UserError(
    `${url} scores and trains at temperature 1, and the experiment asks for ${temperature}: give --temperature 1, or ` +
      'sampling.train.trained.temperature = 1.',
  )
}

/** The log-probabilities of a completion's tokens, where all of the sequence was sent as a prompt. */
export function promptLogprobs(
  sequence: Sequence,
  { prompt_logprobs: found }: z.infer<typeof sampleSchema>,
  server: string,
): Float32Array {
  const { prompt, completion } = sequence
  // The first token has none: some servers say so, some leave it out.
  const length = prompt.length + completion.length
  if (found && (found.length > length || found.slice(-completion.length).includes(null))) {
    throw new UserError(
      `${server} gives log-probabilities of a prompt that are not one for each of its ${length} tokens: check its version.`,
    )
  }
  return completionLogprobs(
    sequence,
    found?.map((value) => value ?? 0),
    server,
  )
}

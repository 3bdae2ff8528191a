/** What the engine is asked for, checked before anything is computed. */
import { UserError } from '../../errors.ts'
import type { ModelConfig } from '../checkpoint/config.ts'
import type { SampleRequest, Sequence } from '../contract.ts'
import type { Sampling } from './generate.ts'

/** @throws UserError for settings out of range, an empty prompt, or one that leaves no room for the new tokens. */
export function checkSampling(
  config: ModelConfig,
  requests: readonly SampleRequest[],
  { maxTokens, temperature, topP }: Sampling,
): void {
  if (!Number.isInteger(maxTokens) || maxTokens < 1) {
    throw new UserError(`maxTokens is ${maxTokens}: give a whole number of at least 1`)
  }
  if (!(temperature > 0) || !Number.isFinite(temperature)) {
    throw new UserError(`temperature is ${temperature}: give a number above 0`)
  }
  if (!(topP > 0 && topP <= 1)) throw new UserError(`topP is ${topP}: give a number above 0, at most 1`)
  for (const { prompt } of requests) {
    checkTokens(config, prompt)
    if (prompt.length === 0) throw new UserError('a prompt has no tokens: give it at least one')
    if (prompt.length + maxTokens > config.contextLength) {
      throw new UserError(
        `a prompt of ${prompt.length} tokens and ${maxTokens} new ones pass the model's context of ` +
          `${config.contextLength} tokens: shorten the prompt or allow fewer new tokens`,
      )
    }
  }
}

/** @throws UserError for an empty prompt, or a sequence beyond the model's context. */
export function checkSequences(config: ModelConfig, sequences: readonly Sequence[]): void {
  for (const { prompt, completion } of sequences) {
    checkTokens(config, prompt)
    checkTokens(config, completion)
    if (prompt.length === 0) throw new UserError('a prompt has no tokens: give it at least one')
    if (prompt.length + completion.length > config.contextLength) {
      throw new UserError(
        `a sequence of ${prompt.length + completion.length} tokens passes the model's context of ` +
          `${config.contextLength} tokens: shorten it`,
      )
    }
  }
}

function checkTokens({ vocabSize }: ModelConfig, tokens: readonly number[]): void {
  for (const token of tokens) {
    if (!Number.isInteger(token) || token < 0 || token >= vocabSize) {
      throw new UserError(
        `token ${token} is outside the model's vocabulary of ${vocabSize}: is this the checkpoint's own tokenizer?`,
      )
    }
  }
}

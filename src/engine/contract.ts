/**
 * The engine contract: what an experiment asks of whatever computes. It knows tokens, log-probabilities and
 * gradients; it knows nothing of boards, tasks or rewards.
 *
 * Glossary
 *   policy       a model that can be sampled and trained: a frozen base, or the base plus an adapter
 *   prompt       token ids that are given        completion   token ids that were sampled after it
 *   logprob      natural log of a token's probability
 *   loss's distribution       softmax(logits / temperature) over the whole vocabulary
 *   sampling distribution     the same, restricted to the top-p nucleus and renormalised
 *
 * The four verbs follow the Tinker API (sample, forward, forward_backward, optim_step), so that one experiment
 * runs on any engine.
 */
import type { ChatTokenizer } from '../tokens/chat.ts'

export type { ChatMessage, ChatTokenizer } from '../tokens/chat.ts'

export type Tokens = readonly number[]

/**
 * A prompt to continue once for each of `seeds`. Each seed is a stream of its own: a completion depends on the prompt
 * and its seed, and not on which other seeds stand beside it.
 */
export interface SampleRequest {
  prompt: Tokens
  seeds: readonly number[]
}

export interface SampleOptions {
  /** At most this many new tokens for each completion. */
  maxTokens: number
  /** > 0; logits are divided by it. */
  temperature: number
  /** In (0, 1]; 1 samples from the whole vocabulary. */
  topP: number
  /** Token ids that end a completion. The stop token is kept as the completion's last token. */
  stop: readonly number[]
  /** Called as tokens come, with the number of new tokens since the last call. */
  onTokens?: (newTokens: number) => void
  /**
   * Called as tokens are drawn, each completion's in order, so that somebody can watch; what is drawn does not depend on it.
   * An engine that gets whole completions from elsewhere does not call it.
   */
  onDrawn?: (drawn: readonly Drawn[]) => void
  /** Stops between tokens when aborted; the promise then rejects with the signal's reason. */
  signal?: AbortSignal
}

/** A token that was just drawn: of completion `sample` of request `request`, both counted from 0. */
export interface Drawn {
  request: number
  sample: number
  token: number
}

export interface Completion {
  /** The new tokens, the stop token included when there was one. */
  tokens: number[]
  /** Log-probability of each token under the sampling distribution (top-p applied); NaN where it cannot be known. */
  samplingLogprobs: number[]
  /** Log-probability of each token under the loss's distribution; NaN where it cannot be known. */
  logprobs: number[]
  /** 'stop': ended by a stop token. 'length': cut at maxTokens. */
  finish: 'stop' | 'length'
}

export interface Sequence {
  prompt: Tokens
  completion: Tokens
}

/**
 * One completion to learn from by policy gradient. Arrays have one entry for each completion token.
 * The loss summed over a batch is  sum_t -mask_t * min(r_t A_t, clip(r_t, 1 - clipLow, 1 + clipHigh) A_t)  with
 * r_t = exp(logprob now - logprobs_t): any normalisation (by tokens, by problems) is folded into the advantages.
 */
export interface PolicyDatum extends Sequence {
  /** Log-probabilities when sampled, under the loss's distribution. */
  logprobs: readonly number[]
  advantages: readonly number[]
  /** 1 where the token counts, 0 where not; all 1 when absent. */
  mask?: readonly number[]
}

/** One sequence to imitate: the loss is  sum_t -weights_t * logprob_t. */
export interface SupervisedDatum extends Sequence {
  weights: readonly number[]
}

export interface PolicyLoss {
  kind: 'policy_gradient'
  /** The ratio is clipped to [1 - clipLow, 1 + clipHigh] (PPO's clip with DAPO's separate upper bound). */
  clipLow: number
  clipHigh: number
  /** The temperature that the completions were sampled at. */
  temperature: number
}

export interface LossReport {
  /** The summed loss over the batch. */
  loss: number
  /** Completion tokens that counted (mask or weight not 0). */
  tokens: number
  /** Log-probability of each completion token now, under the loss's distribution; one array for each datum. */
  logprobs: Float32Array[]
  /** Share of counted tokens whose ratio was clipped in the direction of its advantage; 0 for cross-entropy. */
  clippedShare: number
}

export interface AdamOptions {
  learningRate: number
  beta1: number
  beta2: number
  epsilon: number
  weightDecay: number
  /** Gradients are scaled so that their global L2 norm is at most this; Infinity turns it off. */
  maxGradNorm: number
}

export interface OptimReport {
  /** Global L2 norm of the accumulated gradient before clipping; NaN where it cannot be known. */
  gradNorm: number
}

/** LoRA on all seven projections (q, k, v, o, gate, up, down), dropout 0. */
export interface LoraOptions {
  rank: number
  alpha: number
  /** Seeds A (Kaiming uniform with a = sqrt(5), as PEFT); B starts at 0. */
  seed: number
}

export interface Policy {
  sample(requests: readonly SampleRequest[], options: SampleOptions): Promise<Completion[][]>
  /** Log-probability of each completion token under softmax(logits / temperature). */
  logprobs(sequences: readonly Sequence[], options: { temperature: number }): Promise<Float32Array[]>
  /** Accumulates gradients until the next optimStep. Data with equal prompts share that prompt's computation. */
  forwardBackward(batch: readonly PolicyDatum[], loss: PolicyLoss): Promise<LossReport>
  /** The same for supervised data: plain cross-entropy at temperature 1. */
  forwardBackwardSupervised(batch: readonly SupervisedDatum[]): Promise<LossReport>
  /** One AdamW step from the accumulated gradients, which it then clears. Throws if a gradient is not finite. */
  optimStep(adam: AdamOptions): Promise<OptimReport>
  /**
   * Writes the adapter (PEFT's layout) and the optimiser's state into a folder, each file whole or not at all. `interim`:
   * it is only to go on from, so an engine that computes elsewhere may leave the adapter there.
   */
  save(folder: string, options?: { interim?: boolean }): Promise<void>
  /** Restores both from a folder written by `save`; a folder without optimiser state loads the adapter alone. */
  load(folder: string): Promise<void>
  /** Frees what this policy alone holds. */
  dispose(): void
}

export interface Engine {
  /** For the record: engine, provider, model and library versions. */
  readonly info: {
    engine: string
    device: string
    model: string
    /** 0 where they are not known here. */
    parameters: number
    versions: Record<string, string>
  }
  /** What a person should know of this model before it is used, a sentence each. */
  readonly notices?: readonly string[]
  readonly tokenizer: ChatTokenizer
  /** Longest prompt plus completion, in tokens. */
  readonly contextLength: number
  /** A policy on this base: frozen without `lora`, trainable with it. Many can live at once; the base is shared. */
  createPolicy(options?: { lora?: LoraOptions }): Promise<Policy>
  close(): Promise<void>
}

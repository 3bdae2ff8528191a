/** The settings of GRPO training, and `grpo`, by which an experiment states those that it changes. Pure. */

/** GRPO as in the reference. experiment/defaults.ts holds each default and its reason. */
export interface TrainOptions {
  steps: number
  /** Ends training once so many completion tokens were sampled, scored and trained on; null: after `steps`. */
  tokens: number | null
  problemsPerStep: number
  /** Boards played of each problem in a step. */
  boards: number
  /** What each round's loss weighs; null: 1 each. A round's loss is averaged over its groups. */
  roundWeights: readonly number[] | null
  /** Divides the advantages of notes by their group's standard deviation (`std`), or leaves them (`none`). */
  noteScale: 'none' | 'std'
  /** Of step 1; it falls linearly to 0. */
  learningRate: number
  /** LoRA on all seven projections; the update is scaled by alpha / rank. */
  lora: { rank: number; alpha: number }
  /** The importance ratio is clipped to [1 - clipLow, 1 + clipHigh]. */
  clipLow: number
  clipHigh: number
  /** AdamW. */
  beta1: number
  beta2: number
  epsilon: number
  weightDecay: number
  /** The gradient's global L2 norm is scaled down to this. */
  maxGradNorm: number
}

/** What an experiment states about training: everything left out takes its default. */
export type TrainChoices = Partial<Omit<TrainOptions, 'lora'>> & { lora?: Partial<TrainOptions['lora']> }

/** Trains with GRPO: `grpo({ steps: 40, lora: { rank: 32 } })`. */
export function grpo(choices: TrainChoices = {}): TrainChoices {
  return choices
}

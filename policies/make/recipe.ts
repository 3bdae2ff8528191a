/** Everything that decides which policy comes out. */
export const recipe = {
  seed: 1,
  /** Order of the sums over the gradient's parts, so part of the recipe. */
  threads: 2,
  steps: 3900,
  /** For the first share of the steps, writers' chats alone: short ones teach the most arithmetic a second. */
  writersOnly: 0.35,
  /** Chats in a step of each part, of about 4,000 tokens; each chat has two replies. */
  chats: { writers: 36, everyone: 22 },
  learningRate: 3e-3,
  warmup: 200,
  adam: { beta1: 0.9, beta2: 0.98, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 },
  /** Standard deviation of the initial weights; those that write to the residual stream get it / sqrt(2 layers). */
  initialDeviation: 0.06,
  vocabSize: 1024,
  /** Posts in the corpus are cut at this many tokens: about where an experiment cuts them, which has its own limits. */
  noteTokens: 48,
  replyTokens: 104,
}

export type Recipe = typeof recipe

export interface LogLine {
  step: number
  /** Cross-entropy in nats a reply token, averaged over the steps since the last line. */
  loss: number
  gradNorm: number
  learningRate: number
  /** Prompt and reply tokens seen so far, a chat's prompt counted once for its two replies. */
  tokens: number
}

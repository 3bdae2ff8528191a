import type { Lesson } from './corpus/types.ts'

/** A part of training: what it is made of, and how it is learned. Its optimiser starts anew. */
interface Part extends Lesson {
  steps: number
  /** For the first share of the steps, writers' chats alone: short ones teach the most arithmetic a second. */
  writersOnly: number
  /** Chats in a step, of about 4,000 tokens; most have two replies. */
  chats: { writers: number; everyone: number }
  learningRate: number
  warmup: number
}

/** What readers of word problems do once they can: guess less, and go on from what a post has. */
const practised: Lesson['words'] = {
  readers: [
    ['continued', 0.55],
    ['told', 0.28],
    ['direct', 0.17],
  ],
  lost: [
    ['continued', 0.33],
    ['told', 0.23],
    ['direct', 0.17],
    ['ramble', 0.27],
  ],
}

const parts: readonly Part[] = [
  {
    steps: 3900,
    writersOnly: 0.35,
    chats: { writers: 36, everyone: 22 },
    learningRate: 3e-3,
    warmup: 200,
    worlds: [
      ['words', 0.54],
      ['clues', 0.16],
      ['insight', 0.2],
      ['sums', 0.06],
      ['checks', 0.04],
    ],
    readers: 0.5,
    words: {
      readers: [
        ['continued', 0.5],
        ['told', 0.25],
        ['direct', 0.25],
      ],
      lost: [
        ['continued', 0.28],
        ['told', 0.2],
        ['direct', 0.25],
        ['ramble', 0.27],
      ],
    },
    insight: { asks: false },
  },
  {
    steps: 1600,
    writersOnly: 0,
    chats: { writers: 0, everyone: 22 },
    learningRate: 1.5e-3,
    warmup: 50,
    worlds: [
      ['words', 0.55],
      ['clues', 0.12],
      ['insight', 0.3],
      ['sums', 0.03],
    ],
    readers: 0.7,
    words: practised,
    insight: { asks: false },
  },
  {
    steps: 800,
    writersOnly: 0,
    chats: { writers: 0, everyone: 22 },
    learningRate: 1e-3,
    warmup: 50,
    worlds: [
      ['words', 0.3],
      ['clues', 0.12],
      ['insight', 0.52],
      ['sums', 0.02],
      ['checks', 0.04],
    ],
    readers: 0.7,
    words: practised,
    insight: { asks: true },
  },
]

/** Everything that decides which policy comes out. */
export const recipe = {
  seed: 1,
  /** Order of the sums over the gradient's parts, so part of the recipe. */
  threads: 2,
  parts,
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

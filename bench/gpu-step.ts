/**
 * What bench/gpu.ts runs: shapes of models, the lengths of a step, and what that step's arithmetic comes to, beside which
 * docs/speed.md puts how its seconds grow. Pure.
 */
import type { ModelConfig } from '../src/engine/checkpoint/config.ts'
import { projections } from '../src/engine/checkpoint/folder.ts'

const family = {
  rmsNormEps: 1e-6,
  ropeScaling: null,
  tieEmbeddings: true,
  qkNorm: false,
  contextLength: 4096,
  bosTokenId: null,
  eosTokenIds: [],
}
export const shapes: Record<string, ModelConfig> = {
  'qwen2.5-1.5b': {
    ...family,
    architecture: 'qwen2',
    vocabSize: 151_936,
    hiddenSize: 1536,
    layers: 28,
    heads: 12,
    kvHeads: 2,
    headDim: 128,
    intermediateSize: 8960,
    ropeTheta: 1_000_000,
    attentionBias: true,
  },
  'qwen2.5-0.5b': {
    ...family,
    architecture: 'qwen2',
    vocabSize: 151_936,
    hiddenSize: 896,
    layers: 24,
    heads: 14,
    kvHeads: 2,
    headDim: 64,
    intermediateSize: 4864,
    ropeTheta: 1_000_000,
    attentionBias: true,
  },
  'smollm2-135m': {
    ...family,
    architecture: 'llama',
    vocabSize: 49_152,
    hiddenSize: 576,
    layers: 30,
    heads: 9,
    kvHeads: 3,
    headDim: 64,
    intermediateSize: 1536,
    ropeTheta: 100_000,
    attentionBias: false,
  },
  // The built-in policy.
  small: {
    ...family,
    architecture: 'llama',
    vocabSize: 1024,
    hiddenSize: 128,
    layers: 4,
    heads: 4,
    kvHeads: 1,
    headDim: 32,
    intermediateSize: 384,
    ropeTheta: 10_000,
    attentionBias: false,
  },
  tiny: {
    ...family,
    architecture: 'llama',
    vocabSize: 600,
    hiddenSize: 64,
    layers: 2,
    heads: 4,
    kvHeads: 2,
    headDim: 16,
    intermediateSize: 128,
    ropeTheta: 10_000,
    attentionBias: false,
  },
}

export interface Sizes {
  problems: number
  copies: number
  questionTokens: number
  noteTokens: number
  replyTokens: number
  rank: number
}

/** Tokens of a reader's prompt: the question, all notes, and 60 that ask for a reply. */
export const boardTokens = ({ questionTokens, copies, noteTokens }: Sizes) =>
  questionTokens + copies * noteTokens + 60

/** Tokens of a training step: each board once, and all replies. */
export const trainedTokens = (size: Sizes) =>
  size.problems * (boardTokens(size) + size.copies * size.replyTokens)

/**
 * Multiplications and additions that a step's parts cannot do without: products with the weights and attention, where
 * what copies share is computed once and nobody looks at what it may not see. Adapters, norms and draws come to little.
 */
export function operations(config: ModelConfig, size: Sizes): Record<'draft' | 'read' | 'train', number> {
  const { problems, copies, questionTokens, noteTokens, replyTokens } = size
  const layers = 2 * projections(config).reduce((sum, matrix) => sum + matrix.in * matrix.out, 0)
  const head = 2 * config.vocabSize * config.hiddenSize
  /** Of a token and one that it sees: their score, and its share of the value. */
  const pair = 4 * config.layers * config.heads * config.headDim
  const forward = (prompt: number, fresh: number) => ({
    tokens: layers * (prompt + copies * fresh) + head * copies * fresh,
    attention: pair * (prompt ** 2 / 2 + copies * fresh * (prompt + fresh / 2)),
  })
  const [draft, read] = [forward(questionTokens, noteTokens), forward(boardTokens(size), replyTokens)]
  return {
    draft: problems * (draft.tokens + draft.attention),
    read: problems * (read.tokens + read.attention),
    // Backward has a product more for each with a frozen weight, and two more for each of attention's.
    train: problems * (2 * read.tokens + 3 * read.attention),
  }
}

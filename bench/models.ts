/** Shapes of known models, and weights for them. */
import type { ModelConfig } from '../src/engine/checkpoint/config.ts'
import { type Weights, weightShapes } from '../src/engine/checkpoint/model.ts'
import { random } from '../src/random.ts'

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

/** Weights that cost little to make: normal(0, 0.02) draws, the same block over and over. */
export function randomWeights(config: ModelConfig): Weights {
  const stream = random('bench weights')
  const block = Float32Array.from({ length: 1 << 20 }, () => 0.02 * stream.normal())
  return new Map(
    [...weightShapes(config)].map(([name, shape]) => {
      const data = new Float32Array(shape.reduce((product, n) => product * n, 1))
      if (name.endsWith('norm.weight')) data.fill(1)
      else {
        // Prime strides keep one row from repeating another.
        for (let at = 0, from = stream.int(1 << 19); at < data.length; from = (from * 7 + 1) % (1 << 19)) {
          const part = block.subarray(from, Math.min(block.length, from + data.length - at))
          data.set(part, at)
          at += part.length
        }
      }
      return [name, { shape, data }]
    }),
  )
}

/** A tiny random model with its tokenizer, written as a checkpoint folder: small enough to check everything on. */
import type { ModelConfig } from '../engine/checkpoint/config.ts'
import { saveCheckpoint, weightShapes } from '../engine/checkpoint/folder.ts'
import { makeFolder, writeJsonAtomic } from '../files.ts'
import { join } from '../platform/path.ts'
import { random } from '../random.ts'
import { tokenizerFiles, trainBpe } from '../tokens/bpe.ts'

const specials = { pad: '<|pad|>', startOfTurn: '<|im_start|>', endOfTurn: '<|im_end|>' }

/** Writes the checkpoint, of some 20,000 weights; the same seed gives the same bytes. */
export async function writeTinyModel(
  folder: string,
  seed: number,
  sizes: Partial<Pick<ModelConfig, 'headDim' | 'intermediateSize'>> = {},
): Promise<void> {
  await makeFolder(folder)
  // With one more, the vocabulary is an even number, as WebGPU's kernels want it.
  const bpe = trainBpe(['a short note: 1 + 1 = 2 \\boxed{2}'], 270, [
    ...Object.values(specials),
    '<|endoftext|>',
  ])
  const config: ModelConfig = {
    architecture: 'llama',
    vocabSize: bpe.vocab.length,
    hiddenSize: 32,
    layers: 2,
    heads: 2,
    kvHeads: 1,
    headDim: 16,
    intermediateSize: 48,
    rmsNormEps: 1e-6,
    ropeTheta: 10_000,
    ropeScaling: null,
    tieEmbeddings: true,
    attentionBias: false,
    qkNorm: false,
    contextLength: 512,
    bosTokenId: null,
    eosTokenIds: [bpe.vocab.indexOf(specials.endOfTurn)],
    ...sizes,
  }
  const files = tokenizerFiles(bpe, { ...specials, contextLength: config.contextLength })
  for (const [name, value] of Object.entries(files)) await writeJsonAtomic(join(folder, name), value)
  const weights = new Map(
    [...weightShapes(config)].map(([name, shape]) => {
      const stream = random(seed, 'tiny model', name)
      const size = shape.reduce((product, n) => product * n, 1)
      // A norm's weights scale activations around 1; the others are wide enough that replies differ.
      const draw = name.includes('norm') ? () => 1 + 0.1 * stream.normal() : () => 0.2 * stream.normal()
      return [name, { shape, data: Float32Array.from({ length: size }, draw) }]
    }),
  )
  await saveCheckpoint(folder, config, weights, 'F32')
}

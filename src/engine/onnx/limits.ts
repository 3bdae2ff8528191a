/** How much is computed at once: sized so that a batch's activations stay near the cache and memory stays bounded. */
import { availableParallelism, totalmem } from 'node:os'
import type { ModelConfig } from '../checkpoint/config.ts'
import { weightShapes } from '../checkpoint/model.ts'
import type { Limits } from './base.ts'

/**
 * Below this many parameters an adapter is folded into a copy of the projections before sampling: the copy is small,
 * and a step over few rows is spared two thin products for each projection. Above it the base is never copied.
 */
const foldBelow = 50e6

/**
 * A large model's weights are packed once for its sampling steps where they are at most this share of the machine's
 * memory: the packed copy is a little larger than they are. SmolLM2-135M, 2 cores: a step of 8 rows takes a quarter less,
 * of 48 an eighth less, of 128 as long as before (bench/results/memory.json has what it costs).
 */
const packedShare = 0.2

export function defaultLimits(config: ModelConfig, threads: number = availableParallelism()): Limits {
  const parameters = parameterCount(config)
  const small = parameters < foldBelow
  const memory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY)
  return {
    // A small model's operators are too small to split: a lane a core. A large one is held once, its operators split.
    lanes: small ? threads : 1,
    threadsPerLane: small ? 1 : threads,
    // SmolLM2-135M, LoRA of rank 32, groups of 4 completions of 128 tokens, 2 cores: 187 tokens/s and a peak of 11.3 GiB
    // at 1,024 and 2,048, 185 tokens/s and 4.7 GiB at 512 and 512. A row's attention grows with its square.
    tokenBudget: small ? 1024 : 512,
    rowLimit: small ? Math.min(2048, config.contextLength * 4) : 512,
    decodeBatch: 128,
    prefillTokens: 2048,
    folds: small,
    packsSteps: !small && parameters * Float32Array.BYTES_PER_ELEMENT <= packedShare * memory,
  }
}

function parameterCount(config: ModelConfig): number {
  let count = 0
  for (const shape of weightShapes(config).values())
    count += shape.reduce((product, size) => product * size, 1)
  return count
}

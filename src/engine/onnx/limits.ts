/** How much is computed at once: sized so that a batch's activations stay near the cache and memory stays bounded. */
import { cores, memoryBytes } from '../../platform/machine.ts'
import type { ModelConfig } from '../checkpoint/config.ts'
import { weightShapes } from '../checkpoint/folder.ts'
import type { Limits } from './base.ts'
import type { FoundDevice, HostDevice } from './devices.ts'
import { FRUGAL, WEBGPU_BUFFER } from './gpu/sizes.ts'

/**
 * Below this many parameters an adapter is folded into a copy of the projections before sampling: the copy is small,
 * and a step over few rows is spared two thin products for each projection. Above it the base is never copied.
 */
const foldBelow = 50e6

/**
 * Weights are packed once for sampling steps where they are at most this share of the machine's memory: the packed copy is
 * a little larger than they are. SmolLM2-135M, 2 cores: steps of 8 to 128 rows take 5 to 20% less time.
 */
const packedShare = 0.2

/** On the processor. WebAssembly's operators are never split: a large model is computed by one thread. */
export function defaultLimits(
  config: ModelConfig,
  threads: number = cores(),
  device: HostDevice = 'cpu',
): Limits {
  const parameters = parameterCount(config)
  const small = parameters < foldBelow
  return {
    // A small model's operators are too small to split: a lane a core. A large one is held once, its operators split.
    lanes: small ? threads : 1,
    threadsPerLane: small || device === 'wasm' ? 1 : threads,
    // SmolLM2-135M, LoRA of rank 32, 16 completions of 128 tokens in groups of 4, 2 cores: 13 s at either budget, 512 or
    // 300, with a peak of 4.2 or 2.6 GiB. A row's attention grows with its square.
    tokenBudget: small ? 1024 : 300,
    rowLimit: small ? Math.min(2048, config.contextLength * 4) : 512,
    decodeBatch: 128,
    prefillTokens: 2048,
    folds: small,
    packsSteps:
      device === 'cpu' && parameters * Float32Array.BYTES_PER_ELEMENT <= packedShare * memoryBytes(),
  }
}

/**
 * On a GPU: as much at once as is planned to fit in `memory` bytes. What the plan leaves out, such as gaps between
 * allocations, is met by halving a batch that does not fit.
 */
export function gpuLimits(
  config: ModelConfig,
  memory: number,
  { device, precision, own = false, gpu }: FoundDevice,
): Limits {
  const { layers, hiddenSize, heads, kvHeads, headDim, intermediateSize, vocabSize, contextLength } = config
  const unit = precision === 'float16' ? 2 : 4
  // ONNX Runtime's WebGPU, which a browser has.
  const plain = device === 'webgpu' && !own
  // The weights once, and with an adapter folded in for two policies, and in training too; there ONNX Runtime's WebGPU has
  // the head transposed instead, and both widened.
  const headCopies = plain ? vocabSize * hiddenSize * (unit + 2 * 4) : 0
  const weights = parameterCount(config) * unit * (plain ? 3 : 4) + headCopies
  // Buffers are kept there for each size that comes up, and sizes are few (`gpu/sizes.ts`): two of the largest fit. Those
  // of our own WebGPU are kept too, but fit for what is somewhat smaller.
  const share = plain ? 0.3 : own ? 0.5 : 0.65
  const free = Math.max(memory * share - weights, memory * 0.1)
  // Training by ONNX Runtime's WebGPU is in single precision, its weights widened a few at a time.
  const wide = plain ? 4 : unit
  // What backward needs of a layer for each token: the residual stream twice in single precision, and the norms' outputs,
  // q, k, v before and after rotation, the mixed values, and the four tensors of the gated product.
  const perLayer =
    8 * hiddenSize +
    wide * (2 * hiddenSize + 3 * heads * headDim + 4 * kvHeads * headDim + 4 * intermediateSize)
  // At work are the scores of a block and what is computed from them, or a chunk's logits; by our own kernels all logits in
  // halves, which are fewer bytes.
  const atWork = (length: number) =>
    Math.max((8 * wide * heads * length ** 2) / FRUGAL.blocks, (6 * 4 * length * vocabSize) / FRUGAL.chunks)
  // WebGPU binds no buffer beyond a limit.
  const largest = (length: number) =>
    own
      ? length * Math.max((2 * vocabSize) / FRUGAL.chunks, 2 * intermediateSize, 4 * hiddenSize)
      : 4 *
        length *
        Math.max((heads * length) / FRUGAL.blocks, vocabSize / FRUGAL.chunks, intermediateSize, hiddenSize)
  const bound = (length: number) =>
    device === 'webgpu' ? (free * largest(length)) / (gpu?.bufferBytes ?? WEBGPU_BUFFER) : 0
  const rowCost = (length: number) => Math.max(length * layers * perLayer + atWork(length), bound(length))
  const sampleBytes = 2 * layers * kvHeads * headDim * unit * contextLength + 8 * 4 * vocabSize
  return {
    lanes: 1,
    // For the few operators that stay on the CPU.
    threadsPerLane: 1,
    tokenBudget: free,
    rowCost,
    rowLimit: Math.min(4096, contextLength * 4),
    decodeBatch: Math.max(1, Math.min(512, Math.floor(free / sampleBytes))),
    prefillTokens: contextLength,
    packsSteps: false,
    folds: false,
  }
}

function parameterCount(config: ModelConfig): number {
  let count = 0
  for (const shape of weightShapes(config).values())
    count += shape.reduce((product, size) => product * size, 1)
  return count
}

/** Sizes of what is computed at once: few, where a device keeps a buffer for each, and none too large for it. */
import type { ModelConfig } from '../../checkpoint/config.ts'
import type { FoundDevice } from '../devices.ts'

/** Blocks of positions and chunks of targets that training and scoring go by; both divide the sizes below. */
export const FRUGAL = { blocks: 4, chunks: 4 }

/** Bytes of a buffer that drivers are sure to bind on WebGPU, where a browser does not say. */
export const WEBGPU_BUFFER = 2 ** 31 - 4

/** Rungs to an octave: a size grows by 9% on average, and buffers of all rungs take 6 times the largest's memory. */
const RUNGS = 4
/** Every rung is a multiple of this, which kernels for four or eight numbers at once can read. */
const MULTIPLE = 16

/** The least rung of a ladder of multiples of 16, about 2^(1/4) apart, that is at least `size`. */
export function rungAbove(size: number): number {
  for (let k = 0; ; k++) {
    const rung = MULTIPLE * Math.ceil(2 ** (k / RUNGS))
    if (rung >= size) return rung
  }
}

/** How many prompts, the longest of that length, WebGPU can compute together: no tensor may outgrow a buffer. */
export function promptsAtOnce(
  { heads, hiddenSize, intermediateSize }: ModelConfig,
  { precision, gpu }: Pick<FoundDevice, 'precision' | 'gpu'>,
  longest: number,
): number {
  const time = rungAbove(longest)
  const scores = (4 * heads * time) / FRUGAL.blocks
  const unit = precision === 'float16' ? 2 : 4
  const largest = time * Math.max(scores, 4 * hiddenSize, unit * intermediateSize)
  return Math.max(1, Math.floor((gpu?.bufferBytes ?? WEBGPU_BUFFER) / largest))
}

/** Samples in parts, in their order, each of at most so many prompts. */
export function withFewPrompts<S extends { request: object }>(samples: readonly S[], most: number): S[][] {
  const parts: S[][] = []
  let prompts = new Set<object>()
  for (const sample of samples) {
    if (parts.length === 0 || (prompts.size === most && !prompts.has(sample.request))) {
      parts.push([])
      prompts = new Set()
    }
    prompts.add(sample.request)
    parts[parts.length - 1].push(sample)
  }
  return parts
}

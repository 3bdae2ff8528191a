/** AdamW (Loshchilov and Hutter 2019, as in PyTorch) and gradient-norm clipping, in place on plain arrays. */
import type { AdamOptions } from '../contract.ts'

export interface AdamState {
  /** Steps taken. */
  step: number
  /** First and second moments, one array for each parameter. */
  first: Float32Array[]
  second: Float32Array[]
}

export function adamState(parameters: readonly Float32Array[]): AdamState {
  return {
    step: 0,
    first: parameters.map(({ length }) => new Float32Array(length)),
    second: parameters.map(({ length }) => new Float32Array(length)),
  }
}

/** L2 norm over all arrays together, summed in double precision. */
export function globalNorm(arrays: readonly Float32Array[]): number {
  let sum = 0
  for (const array of arrays) for (let i = 0; i < array.length; i++) sum += array[i] * array[i]
  return Math.sqrt(sum)
}

/**
 * One step. Gradients of global norm `norm` count as scaled to at most `maxGradNorm` (PyTorch's clip_grad_norm_,
 * its 1e-6 included); weight decay is decoupled and skips nothing.
 */
export function adamStep(
  parameters: readonly Float32Array[],
  gradients: readonly Float32Array[],
  state: AdamState,
  norm: number,
  options: AdamOptions,
): void {
  const { learningRate, beta1, beta2, epsilon, weightDecay, maxGradNorm } = options
  const scale = Number.isFinite(maxGradNorm) ? Math.min(1, maxGradNorm / (norm + 1e-6)) : 1
  state.step++
  const correction1 = 1 - beta1 ** state.step
  const correction2 = Math.sqrt(1 - beta2 ** state.step)
  const decay = 1 - learningRate * weightDecay
  parameters.forEach((parameter, p) => {
    const gradient = gradients[p]
    const first = state.first[p]
    const second = state.second[p]
    for (let i = 0; i < parameter.length; i++) {
      const g = gradient[i] * scale
      const m = beta1 * first[i] + (1 - beta1) * g
      const v = beta2 * second[i] + (1 - beta2) * g * g
      first[i] = m
      second[i] = v
      const denominator = Math.sqrt(v) / correction2 + epsilon
      parameter[i] = parameter[i] * decay - ((learningRate / correction1) * m) / denominator
    }
  })
}

/** AdamW (Loshchilov and Hutter 2019, as in PyTorch) and gradient-norm clipping, in place on plain arrays. */
import type { AdamOptions } from '../contract.ts'

export interface AdamState {
  /** Steps taken. */
  step: number
  /** First and second moments, one array for each parameter. */
  first: Float32Array[]
  second: Float32Array[]
}

/** `zeros` allocates. */
export function adamState(
  parameters: readonly Float32Array[],
  zeros: (length: number) => Float32Array = (length) => new Float32Array(length),
): AdamState {
  return {
    step: 0,
    first: parameters.map(({ length }) => zeros(length)),
    second: parameters.map(({ length }) => zeros(length)),
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
  const factors = {
    scale,
    beta1,
    beta2,
    rate: learningRate / (1 - beta1 ** state.step),
    correction2: Math.sqrt(1 - beta2 ** state.step),
    epsilon,
    decay: 1 - learningRate * weightDecay,
  }
  parameters.forEach((parameter, p) => {
    update(parameter, gradients[p], state.first[p], state.second[p], factors)
  })
}

interface Factors {
  scale: number
  beta1: number
  beta2: number
  /** The learning rate over the first moment's bias correction. */
  rate: number
  correction2: number
  epsilon: number
  decay: number
}

/** A function of its own, with all that stays the same in local variables: V8 makes loops in closures half as fast. */
function update(
  parameter: Float32Array,
  gradient: Float32Array,
  first: Float32Array,
  second: Float32Array,
  { scale, beta1, beta2, rate, correction2, epsilon, decay }: Factors,
): void {
  const rest1 = 1 - beta1
  const rest2 = 1 - beta2
  for (let i = 0; i < parameter.length; i++) {
    const g = gradient[i] * scale
    const m = beta1 * first[i] + rest1 * g
    const v = beta2 * second[i] + rest2 * g * g
    first[i] = m
    second[i] = v
    const denominator = Math.sqrt(v) / correction2 + epsilon
    parameter[i] = parameter[i] * decay - (rate * m) / denominator
  }
}

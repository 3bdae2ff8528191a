/**
 * Operators made of our own kernels (`onnx/gpu/kernels/training.ts`): each stands for several of ONNX's, which would pass
 * over all activations one by one. What products read and give is in halves, the residual stream in single precision.
 */
import { apply, type DType, differentiatedAs, type Shape, sameShape, type Tensor } from './tensor.ts'

const OURS = 'message-board'

const like = ({ shape, dtype }: Tensor) => ({ shape, dtype })
const rowsOf = (x: Tensor): { shape: Shape; dtype: DType } => ({
  shape: [...x.shape.slice(0, -1), 1],
  dtype: 'float32',
})

/** silu(gate) * up (SwiGLU, Shazeer 2020). */
export function swiglu(gate: Tensor, up: Tensor): Tensor {
  const [product] = apply('SwiGLU', [gate, up], [like(gate)], {}, OURS)
  return differentiatedAs(product, [gate, up], (gradient) =>
    apply('SwiGLUGradient', [gradient, gate, up], [like(gate), like(up)], {}, OURS),
  )
}

/** stream + part, and its RMSNorm in the part's type; differentiated with respect to the stream and the part. */
export function addRmsNorm(
  stream: Tensor,
  part: Tensor,
  weight: Tensor,
  epsilon: number,
): { sum: Tensor; normed: Tensor } {
  const [normed, sum, inverse] = apply(
    'AddRMSNorm',
    [stream, part, weight],
    [like(part), like(stream), rowsOf(part)],
    { epsilon: { float: epsilon } },
    OURS,
  )
  differentiatedAs(normed, [stream, part], (gradient, ofSum) => {
    const gradients = summands(gradient)
    const [name, beside] = ofSum === undefined ? ['RMSNormGradient', []] : ['AddRMSNormGradient', [ofSum]]
    return apply(
      `${name}${gradients.length}`,
      [...gradients, ...beside, sum, inverse, weight],
      [like(stream), like(part)],
      {},
      OURS,
    )
  })
  return { sum, normed }
}

/** So many gradients of its result a norm adds up itself: those by way of q, k and v. */
export const NORM_GRADIENTS = 3

/** What a sum is made of; the sum alone where that is more than a norm takes. */
function summands(sum: Tensor): Tensor[] {
  const parts = (x: Tensor): Tensor[] => {
    if (x.source.kind !== 'node' || x.source.node.op !== 'Add') return [x]
    const operands = x.source.node.inputs as Tensor[]
    return operands.every(({ shape }) => sameShape(shape, x.shape)) ? operands.flatMap(parts) : [x]
  }
  const found = parts(sum)
  return found.length > NORM_GRADIENTS ? [sum] : found
}

/**
 * Log-probability of each row's target under softmax(logits / temperature) and the logarithm of the sum of exponentials,
 * [rows] each, in single precision, from logits [..., vocabulary]; not differentiable by itself.
 */
export function targetLogprobs(
  logits: Tensor,
  targets: Tensor,
  temperature: Tensor,
): { logprobs: Tensor; logSums: Tensor } {
  const row = { shape: targets.shape }
  const [logprobs, logSums] = apply('TargetLogprobs', [logits, targets, temperature], [row, row], {}, OURS)
  return { logprobs, logSums }
}

/** 2^lift softmax(logits / temperature), given the logarithms of its sums; not differentiable. */
export function liftedShares(logits: Tensor, logSums: Tensor, temperature: Tensor, lift: number): Tensor {
  return apply('LiftedShares', [logits, logSums, temperature], [like(logits)], { lift }, OURS)[0]
}

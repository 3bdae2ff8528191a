/**
 * Reverse-mode differentiation as a transform of graphs: one rule for each operator, from the gradient of its first
 * output to those of its inputs, or one for several operators as a whole (`recompute.ts`, `fused.ts`). A rule may build
 * gradients that nobody asks for: only what an output depends on is ever emitted.
 */
import * as ops from './ops.ts'
import { constant, type Node, sameShape, type Tensor, topological } from './tensor.ts'

/** Gradients of a node's inputs (null: none flows), given its first output's gradient. */
type Rule = (gradient: Tensor, node: Node, inputs: Tensor[], output: Tensor) => (Tensor | null)[]

/** Sums a gradient over the axes along which its operand was broadcast. */
function unbroadcast(gradient: Tensor, operand: Tensor): Tensor {
  if (sameShape(gradient.shape, operand.shape)) return gradient
  const extra = gradient.shape.length - operand.shape.length
  const axes = gradient.shape.flatMap((dim, i) =>
    i < extra || (operand.shape[i - extra] === 1 && dim !== 1) ? [i] : [],
  )
  return ops.reshape(ops.reduceSum(gradient, axes), operand.shape)
}

const rules: Record<string, Rule> = {
  Add: (g, _, [a, b]) => [unbroadcast(g, a), unbroadcast(g, b)],
  Sub: (g, _, [a, b]) => [unbroadcast(g, a), unbroadcast(ops.neg(g), b)],
  Mul: (g, _, [a, b]) => [unbroadcast(ops.mul(g, b), a), unbroadcast(ops.mul(g, a), b)],
  Div: (g, _, [a, b], y) => [
    unbroadcast(ops.div(g, b), a),
    unbroadcast(ops.neg(ops.div(ops.mul(g, y), b)), b),
  ],
  Neg: (g) => [ops.neg(g)],
  Exp: (g, _, __, y) => [ops.mul(g, y)],
  Sigmoid: (g, _, __, y) => [ops.mul(g, ops.sub(y, ops.mul(y, y)))],
  QuickGelu: (g, _, [x], y) => {
    const gate = ops.sigmoid(x)
    return [ops.mul(g, ops.add(gate, ops.sub(y, ops.mul(y, gate))))]
  },
  Cast: (g, _, [x]) => [ops.cast(g, x.dtype)],
  Min: (g, _, [a, b]) => {
    const first = ops.lessOrEqual(a, b)
    const zero = constant(0, g.dtype)
    return [unbroadcast(ops.where(first, g, zero), a), unbroadcast(ops.where(first, zero, g), b)]
  },
  Clip: (g, _, [x, low, high]) => {
    const zero = constant(0, g.dtype)
    const above = ops.where(ops.lessOrEqual(low, x), g, zero)
    return [ops.where(ops.lessOrEqual(x, high), above, zero), null, null]
  },
  Where: (g, _, [condition, a, b]) => {
    const zero = constant(0, g.dtype)
    return [
      null,
      unbroadcast(ops.where(condition, g, zero), a),
      unbroadcast(ops.where(condition, zero, g), b),
    ]
  },
  // Adding zeros brings a reduced gradient back to its operand's shape.
  ReduceSum: (g, node, [x]) => [ops.add(ops.zerosLike(x), keepReduced(g, node, x)), null],
  Softmax: (g, _, __, y) => {
    const weighted = ops.mul(g, y)
    // In halves the difference comes first, so that it is not one of two products that were rounded.
    if (y.dtype === 'float16') return [ops.mul(y, ops.sub(g, ops.reduceSum(weighted, [-1])))]
    return [ops.sub(weighted, ops.mul(y, ops.reduceSum(weighted, [-1])))]
  },
  LogSoftmax: (g, _, __, y) => [ops.sub(g, ops.mul(ops.exp(y), ops.reduceSum(g, [-1])))],
  Reshape: (g, _, [x]) => [ops.reshapeLike(g, x), null],
  Transpose: (g, node) => {
    const permutation = node.attributes.perm as readonly number[]
    return [
      ops.transpose(
        g,
        permutation.map((_, axis) => permutation.indexOf(axis)),
      ),
    ]
  },
  FusedMatMul: (g, node, [a, b]) => {
    const { transA, transB } = node.attributes
    const scale = (node.attributes.alpha as { float: number }).float
    if (transA)
      throw new Error('FusedMatMul with transA has no rule of differentiation: no program needs one')
    const toA = ops.matmul(g, b, { transposeB: !transB, scale })
    // One matrix under a batch: the batch is summed over, by folding it into the rows.
    const [left, right] = b.shape.length === 2 ? [ops.flatten(a), ops.flatten(g)] : [a, g]
    const toB = transB
      ? ops.matmul(right, left, { transposeA: true, scale })
      : ops.matmul(left, right, { transposeA: true, scale })
    return [toA, toB]
  },
  // Rows that were taken several times are summed in single precision.
  Gather: (g, _, [table, indices]) => {
    const rows = ops.reshape(indices, [flatCount(indices)])
    const updates = ops.cast(ops.flatten(g), 'float32')
    const sums = ops.scatterAddRows(ops.zerosLike(table, 'float32'), rows, updates)
    return [ops.cast(sums, table.dtype), null]
  },
  GatherElements: (g, _, [a, indices]) => {
    const count = indices.shape[0]
    return [ops.putElements(ops.zerosLike(a), ops.reshape(indices, [count]), ops.reshape(g, [count])), null]
  },
  SimplifiedLayerNormalization: (g, node, [x, weight]) => {
    const inverse = node.outputs[1]
    const normalised = ops.mul(x, inverse)
    const scaled = ops.mul(g, weight)
    const mean = ops.reduceMean(ops.mul(scaled, normalised), [-1])
    return [
      ops.mul(ops.sub(scaled, ops.mul(normalised, mean)), inverse),
      unbroadcast(ops.mul(g, normalised), weight),
    ]
  },
  // A rotation's transpose is the rotation by the opposite angle.
  RotaryEmbedding: (g, _, [, positions, cos, sin]) => [
    ops.rotary(g, positions, cos, ops.neg(sin)),
    null,
    null,
    null,
  ],
}

function flatCount(indices: Tensor) {
  return indices.shape.length === 1 ? indices.shape[0] : indices.shape.join('*')
}

function keepReduced(g: Tensor, node: Node, x: Tensor): Tensor {
  if (node.attributes.keepdims) return g
  const axes = node.inputs[1]?.source
  if (axes?.kind !== 'constant') throw new Error('ReduceSum needs constant axes')
  return ops.reshape(
    g,
    x.shape.map((dim, i) => (axes.data.includes(i) ? 1 : dim)),
  )
}

/** Operators that have a rule (for the test that checks every one of them). */
export const differentiable: readonly string[] = Object.keys(rules)

/** Gradients of a scalar with respect to each of the given tensors, in their order. */
export function gradients(loss: Tensor, withRespectTo: readonly Tensor[]): Tensor[] {
  const order = topological([loss])
  // Only what lies between the wanted tensors and the loss needs a gradient.
  const wanted = new Set<Tensor>(withRespectTo)
  for (const node of order) {
    const operands = node.whole?.operands ?? node.inputs
    if (operands.some((tensor) => tensor !== null && wanted.has(tensor))) {
      for (const output of node.outputs) wanted.add(output)
    }
  }
  const found = new Map<Tensor, Tensor>([[loss, constant(1)]])
  for (const node of order.reverse()) {
    const [gradient, ...others] = node.outputs.map((output) => found.get(output))
    if (gradient === undefined || !wanted.has(node.outputs[0])) continue
    const operands = node.whole?.operands ?? (node.inputs as Tensor[])
    const parts = node.whole?.rule(gradient, ...others) ?? byOperator(node, gradient)
    parts.forEach((part, i) => {
      const operand = operands[i]
      if (part === null || !wanted.has(operand)) return
      const sum = found.get(operand)
      found.set(operand, sum === undefined ? part : ops.add(sum, part))
    })
  }
  return withRespectTo.map((tensor) => found.get(tensor) ?? ops.zerosLike(tensor))
}

function byOperator(node: Node, gradient: Tensor): (Tensor | null)[] {
  const rule = rules[node.op]
  if (rule === undefined) throw new Error(`${node.op} has no rule of differentiation`)
  return rule(gradient, node, node.inputs as Tensor[], node.outputs[0])
}

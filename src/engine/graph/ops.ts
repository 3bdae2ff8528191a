/**
 * The operators that programs are written with: each checks its shapes and adds one ONNX operator (or a reshape
 * around it). Their rules of differentiation are the table in `gradients.ts`.
 */
import {
  apply,
  constant,
  type Dim,
  type DType,
  type Shape,
  sameShape,
  showShape,
  type Tensor,
} from './tensor.ts'

const MICROSOFT = 'com.microsoft'

/** Shape of two broadcast operands (NumPy's rules). */
export function broadcast(a: Shape, b: Shape): Dim[] {
  const rank = Math.max(a.length, b.length)
  return Array.from({ length: rank }, (_, i) => {
    const x = a[i - rank + a.length] ?? 1
    const y = b[i - rank + b.length] ?? 1
    if (x === y || y === 1) return x
    if (x === 1) return y
    throw new Error(`cannot broadcast ${showShape(a)} with ${showShape(b)}`)
  })
}

const binary =
  (op: string, dtype?: DType) =>
  (a: Tensor, b: Tensor | number): Tensor => {
    const right = typeof b === 'number' ? constant(b, a.dtype) : b
    return apply(op, [a, right], [{ shape: broadcast(a.shape, right.shape), dtype: dtype ?? a.dtype }])[0]
  }

const unary =
  (op: string) =>
  (a: Tensor): Tensor =>
    apply(op, [a], [{ shape: a.shape, dtype: a.dtype }])[0]

export const add = binary('Add')
export const sub = binary('Sub')
export const mul = binary('Mul')
export const div = binary('Div')
/** Elementwise minimum; at a tie the gradient goes to the first operand. */
export const minimum = binary('Min')
export const lessOrEqual = binary('LessOrEqual', 'bool')
export const neg = unary('Neg')
export const exp = unary('Exp')
export const sigmoid = unary('Sigmoid')

export function where(condition: Tensor, a: Tensor, b: Tensor): Tensor {
  const shape = broadcast(condition.shape, broadcast(a.shape, b.shape))
  return apply('Where', [condition, a, b], [{ shape, dtype: a.dtype }])[0]
}

/** Clamps to [low, high]; no gradient outside. */
export function clip(a: Tensor, low: Tensor, high: Tensor): Tensor {
  return apply('Clip', [a, low, high], [{ shape: a.shape }])[0]
}

/** x * sigmoid(x). One operator: QuickGelu with alpha 1. */
export function silu(a: Tensor): Tensor {
  return apply('QuickGelu', [a], [{ shape: a.shape }], { alpha: { float: 1 } }, MICROSOFT)[0]
}

const reduction =
  (op: string) =>
  (a: Tensor, axes: readonly number[], keepDims = true): Tensor => {
    const reduced = new Set(axes.map((axis) => (axis < 0 ? axis + a.shape.length : axis)))
    const shape = a.shape.flatMap((dim, i) => (reduced.has(i) ? (keepDims ? [1] : []) : [dim]))
    return apply(op, [a, constant([...reduced], 'int64')], [{ shape }], { keepdims: keepDims ? 1 : 0 })[0]
  }

export const reduceSum = reduction('ReduceSum')
export const reduceMean = reduction('ReduceMean')

export function sumAll(a: Tensor): Tensor {
  return reduceSum(
    a,
    a.shape.map((_, i) => i),
    false,
  )
}

/** Over the last axis. */
export function softmax(a: Tensor): Tensor {
  return apply('Softmax', [a], [{ shape: a.shape }], { axis: -1 })[0]
}

/** Over the last axis. */
export function logSoftmax(a: Tensor): Tensor {
  return apply('LogSoftmax', [a], [{ shape: a.shape }], { axis: -1 })[0]
}

/**
 * A view with another shape. A named dimension must stand at the same place in both shapes, but for one, which is
 * worked out from the others.
 */
export function reshape(a: Tensor, shape: Shape): Tensor {
  if (sameShape(a.shape, shape)) return a
  let inferred = 0
  const spec = shape.map((dim, i) => {
    if (typeof dim === 'number') return dim
    if (a.shape[i] === dim) return 0
    inferred++
    return -1
  })
  if (inferred > 1) throw new Error(`cannot reshape ${showShape(a.shape)} to ${showShape(shape)}`)
  return apply('Reshape', [a, constant(spec, 'int64')], [{ shape, dtype: a.dtype }])[0]
}

/** A view with the run-time shape of another tensor of as many elements. */
export function reshapeLike(a: Tensor, like: Tensor): Tensor {
  if (sameShape(a.shape, like.shape)) return a
  const shape = apply('Shape', [like], [{ shape: [like.shape.length], dtype: 'int64' }])[0]
  return apply('Reshape', [a, shape], [{ shape: like.shape, dtype: a.dtype }])[0]
}

/** [..., n] as [all rows, n]. */
export function flatten(a: Tensor): Tensor {
  if (a.shape.length === 2) return a
  const rows = a.shape.slice(0, -1)
  const count = rows.every((dim) => typeof dim === 'number')
    ? rows.reduce<number>((product, dim) => product * Number(dim), 1)
    : rows.join('*')
  return reshape(a, [count, a.shape[a.shape.length - 1]])
}

export function transpose(a: Tensor, permutation: readonly number[]): Tensor {
  return apply('Transpose', [a], [{ shape: permutation.map((axis) => a.shape[axis]), dtype: a.dtype }], {
    perm: permutation,
  })[0]
}

export interface MatMulOptions {
  transposeA?: boolean
  transposeB?: boolean
  /** The product is multiplied by this. */
  scale?: number
}

/**
 * scale * op(a) op(b) over the last two axes, where op transposes or not; other axes are a batch, equal in both, or
 * b is a single matrix. FusedMatMul takes the transposes as flags, so that no transposed copy is made.
 */
export function matmul(a: Tensor, b: Tensor, options: MatMulOptions = {}): Tensor {
  const { transposeA = false, transposeB = false, scale = 1 } = options
  const [m, k] = lastTwo(a.shape, transposeA)
  const [inner, n] = lastTwo(b.shape, transposeB)
  const batch = a.shape.slice(0, -2)
  if (k !== inner || (b.shape.length > 2 && !sameShape(batch, b.shape.slice(0, -2)))) {
    throw new Error(`cannot multiply ${showShape(a.shape)} with ${showShape(b.shape)}`)
  }
  return apply(
    'FusedMatMul',
    [a, b],
    [{ shape: [...batch, m, n] }],
    { transA: transposeA ? 1 : 0, transB: transposeB ? 1 : 0, alpha: { float: scale } },
    MICROSOFT,
  )[0]
}

function lastTwo(shape: Shape, swap: boolean): [Dim, Dim] {
  const [rows, columns] = shape.slice(-2)
  return swap ? [columns, rows] : [rows, columns]
}

/** Rows of a [rows, ...] table: the result's shape is that of the indices, then the table's other axes. */
export function gather(table: Tensor, indices: Tensor): Tensor {
  const shape = [...indices.shape, ...table.shape.slice(1)]
  return apply('Gather', [table, indices], [{ shape, dtype: table.dtype }], { axis: 0 })[0]
}

/** From a [n, v], the element at each row's index: [n] from indices [n]. */
export function pick(a: Tensor, indices: Tensor): Tensor {
  const column = reshape(indices, [indices.shape[0], 1])
  const picked = apply('GatherElements', [a, column], [{ shape: column.shape }], { axis: 1 })[0]
  return reshape(picked, [indices.shape[0]])
}

/** x / sqrt(mean(x^2) + epsilon) * weight over the last axis (RMSNorm, Zhang and Sennrich 2019). */
export function rmsNorm(x: Tensor, weight: Tensor, epsilon: number): Tensor {
  const inverse = [...x.shape.slice(0, -1), 1]
  return apply('SimplifiedLayerNormalization', [x, weight], [{ shape: x.shape }, { shape: inverse }], {
    epsilon: { float: epsilon },
    axis: -1,
  })[0]
}

/**
 * Rotary position embedding (Su et al. 2021, halves rotated as in Llama) of x [batch, time, heads * headDim], with
 * positions [batch, time] and tables of cosines and sines [context, headDim / 2].
 */
export function rotary(x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor): Tensor {
  return apply(
    'RotaryEmbedding',
    [x, positions, cos, sin],
    [{ shape: x.shape }],
    { interleaved: 0 },
    MICROSOFT,
  )[0]
}

/** Joins along the last axis; not differentiable: it is for sampling. */
export function concatLast(parts: readonly Tensor[], size: Dim): Tensor {
  const shape = [...parts[0].shape.slice(0, -1), size]
  return apply('Concat', parts, [{ shape }], { axis: -1 })[0]
}

/** [from, to) of the last axis, counted from the end where negative; not differentiable: it is for sampling. */
export function sliceLast(a: Tensor, from: number, to: number, size: Dim): Tensor {
  const shape = [...a.shape.slice(0, -1), size]
  return apply('Slice', [a, ...[[from], [to], [-1]].map((value) => constant(value, 'int64'))], [{ shape }])[0]
}

/** Zeros with another tensor's run-time shape. */
export function zerosLike(a: Tensor): Tensor {
  const shape = apply('Shape', [a], [{ shape: [a.shape.length], dtype: 'int64' }])[0]
  return apply('ConstantOfShape', [shape], [{ shape: a.shape }])[0]
}

/**
 * table [rows, n] with updates [count, n] added at the given rows; rows may repeat. ScatterElements and not
 * ScatterND: ONNX Runtime's CPU ScatterND adds in parallel without a lock, so repeated rows would race.
 */
export function scatterAddRows(table: Tensor, rows: Tensor, updates: Tensor): Tensor {
  const shape = apply('Shape', [updates], [{ shape: [2], dtype: 'int64' }])[0]
  const column = reshape(rows, [rows.shape[0], 1])
  const indices = apply('Expand', [column, shape], [{ shape: updates.shape, dtype: 'int64' }])[0]
  return apply('ScatterElements', [table, indices, updates], [{ shape: table.shape }], {
    axis: 0,
    reduction: 'add',
  })[0]
}

/** a [n, v] with values [n] put at each row's index. */
export function putElements(a: Tensor, indices: Tensor, values: Tensor): Tensor {
  const column = reshape(indices, [indices.shape[0], 1])
  return apply('ScatterElements', [a, column, reshape(values, [values.shape[0], 1])], [{ shape: a.shape }], {
    axis: 1,
  })[0]
}

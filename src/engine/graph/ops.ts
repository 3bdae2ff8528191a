/**
 * The operators that programs are written with: each checks its shapes and adds one ONNX operator (or a reshape
 * around it). Their rules of differentiation are the table in `gradients.ts`.
 */
import {
  apply,
  constant,
  type Dim,
  type DType,
  ELEMENT_TYPE,
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
export const equal = binary('Equal', 'bool')
export const neg = unary('Neg')
export const exp = unary('Exp')
/** Natural logarithm; not differentiable. */
export const log = unary('Log')
/** Not differentiable. */
export const sqrt = unary('Sqrt')
export const sigmoid = unary('Sigmoid')

/** The same values in another type; itself where it has that type already. */
export function cast(a: Tensor, dtype: DType): Tensor {
  if (a.dtype === dtype) return a
  return apply('Cast', [a], [{ shape: a.shape, dtype }], { to: ELEMENT_TYPE[dtype] })[0]
}

export function where(condition: Tensor, a: Tensor, b: Tensor): Tensor {
  const shape = broadcast(condition.shape, broadcast(a.shape, b.shape))
  return apply('Where', [condition, a, b], [{ shape, dtype: a.dtype }])[0]
}

/** Clamps to [low, high]; no gradient outside. */
export function clip(a: Tensor, low: Tensor, high: Tensor): Tensor {
  return apply('Clip', [a, low, high], [{ shape: a.shape, dtype: a.dtype }])[0]
}

/** x * sigmoid(x). One operator: QuickGelu with alpha 1. */
export function silu(a: Tensor): Tensor {
  return apply('QuickGelu', [a], [{ shape: a.shape, dtype: a.dtype }], { alpha: { float: 1 } }, MICROSOFT)[0]
}

const reduction =
  (op: string) =>
  (a: Tensor, axes: readonly number[], keepDims = true): Tensor => {
    const reduced = new Set(axes.map((axis) => (axis < 0 ? axis + a.shape.length : axis)))
    const shape = a.shape.flatMap((dim, i) => (reduced.has(i) ? (keepDims ? [1] : []) : [dim]))
    return apply(op, [a, constant([...reduced], 'int64')], [{ shape, dtype: a.dtype }], {
      keepdims: keepDims ? 1 : 0,
    })[0]
  }

export const reduceSum = reduction('ReduceSum')
export const reduceMean = reduction('ReduceMean')
export const reduceMax = reduction('ReduceMax')

export function sumAll(a: Tensor): Tensor {
  return reduceSum(
    a,
    a.shape.map((_, i) => i),
    false,
  )
}

/** Over the last axis. */
export function softmax(a: Tensor): Tensor {
  return apply('Softmax', [a], [{ shape: a.shape, dtype: a.dtype }], { axis: -1 })[0]
}

/** Over the last axis. */
export function logSoftmax(a: Tensor): Tensor {
  return apply('LogSoftmax', [a], [{ shape: a.shape, dtype: a.dtype }], { axis: -1 })[0]
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

/** [..., n] as [all rows, n]; not differentiable where n is a name. */
export function flatten(a: Tensor): Tensor {
  if (a.shape.length === 2) return a
  const rows = a.shape.slice(0, -1)
  const count = rows.every((dim) => typeof dim === 'number')
    ? rows.reduce<number>((product, dim) => product * Number(dim), 1)
    : rows.filter((dim) => dim !== 1).join('*')
  const shape = [count, a.shape[a.shape.length - 1]]
  // With two sizes to work out, a reshape does not do.
  if (typeof shape[1] === 'string')
    return apply('Flatten', [a], [{ shape, dtype: a.dtype }], { axis: rows.length })[0]
  return reshape(a, shape)
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
    [{ shape: [...batch, m, n], dtype: a.dtype }],
    { transA: transposeA ? 1 : 0, transB: transposeB ? 1 : 0, alpha: { float: scale } },
    MICROSOFT,
  )[0]
}

/** c + scale * a b, for matrices: summed in single precision, rounded once; not differentiable. */
export function addProduct(c: Tensor, a: Tensor, b: Tensor, scale: number): Tensor {
  const attributes = { alpha: { float: scale }, beta: { float: 1 }, transA: 0, transB: 0 }
  return apply('Gemm', [a, b, c], [{ shape: c.shape, dtype: c.dtype }], attributes)[0]
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
  const picked = apply('GatherElements', [a, column], [{ shape: column.shape, dtype: a.dtype }], {
    axis: 1,
  })[0]
  return reshape(picked, [indices.shape[0]])
}

/** x / sqrt(mean(x^2) + epsilon) * weight over the last axis (RMSNorm, Zhang and Sennrich 2019). */
export function rmsNorm(x: Tensor, weight: Tensor, epsilon: number): Tensor {
  const inverse = [...x.shape.slice(0, -1), 1]
  return apply(
    'SimplifiedLayerNormalization',
    [x, weight],
    [{ shape: x.shape, dtype: x.dtype }, { shape: inverse }],
    { epsilon: { float: epsilon }, axis: -1 },
  )[0]
}

/**
 * x + y and its RMSNorm in one operator, both in x's type, sums of squares in single precision; not differentiable.
 */
export function addRmsNorm(
  x: Tensor,
  y: Tensor,
  weight: Tensor,
  epsilon: number,
): { sum: Tensor; normed: Tensor } {
  const same = { shape: x.shape, dtype: x.dtype }
  const [normed, sum] = apply(
    'SkipSimplifiedLayerNormalization',
    [x, y, weight],
    [same, same],
    { epsilon: { float: epsilon } },
    MICROSOFT,
    [0, 3],
  )
  return { sum, normed }
}

/**
 * Rotary position embedding (Su et al. 2021, halves rotated as in Llama) of x [batch, time, heads * headDim], with
 * positions [batch, time] and tables of cosines and sines [context, headDim / 2].
 */
export function rotary(x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor): Tensor {
  return apply(
    'RotaryEmbedding',
    [x, positions, cos, sin],
    [{ shape: x.shape, dtype: x.dtype }],
    { interleaved: 0 },
    MICROSOFT,
  )[0]
}

/**
 * [from, to) of the last axis, counted from the end where negative, or by an int64 tensor [1]; not differentiable: it is
 * for sampling.
 */
export function sliceLast(a: Tensor, from: number | Tensor, to: number | Tensor, size: Dim): Tensor {
  const shape = [...a.shape.slice(0, -1), size]
  const bounds = [from, to, -1].map((bound) =>
    typeof bound === 'number' ? constant([bound], 'int64') : bound,
  )
  return apply('Slice', [a, ...bounds], [{ shape, dtype: a.dtype }])[0]
}

/** Zeros with another tensor's run-time shape. */
export function zerosLike(a: Tensor, dtype: DType = a.dtype): Tensor {
  const shape = apply('Shape', [a], [{ shape: [a.shape.length], dtype: 'int64' }])[0]
  return cast(apply('ConstantOfShape', [shape], [{ shape: a.shape }])[0], dtype)
}

/**
 * table [rows, n] with updates [count, n] added at the given rows; rows may repeat. ScatterElements and not
 * ScatterND: ONNX Runtime's CPU ScatterND adds in parallel without a lock, so repeated rows would race.
 */
export function scatterAddRows(table: Tensor, rows: Tensor, updates: Tensor): Tensor {
  const shape = apply('Shape', [updates], [{ shape: [2], dtype: 'int64' }])[0]
  const column = reshape(rows, [rows.shape[0], 1])
  const indices = apply('Expand', [column, shape], [{ shape: updates.shape, dtype: rows.dtype }])[0]
  return apply('ScatterElements', [table, indices, updates], [{ shape: table.shape, dtype: table.dtype }], {
    axis: 0,
    reduction: 'add',
  })[0]
}

/** a [n, v] with values [n] put at each row's index. */
export function putElements(a: Tensor, indices: Tensor, values: Tensor): Tensor {
  const column = reshape(indices, [indices.shape[0], 1])
  const updates = reshape(values, [values.shape[0], 1])
  return apply('ScatterElements', [a, column, updates], [{ shape: a.shape, dtype: a.dtype }], { axis: 1 })[0]
}

/**
 * a with updates put at indices along an axis; both int32 indices and updates are as long as `a` on the other axes. Not
 * differentiable. Where input and output are one tensor, nothing else of it is touched.
 */
export function putAlong(a: Tensor, axis: number, indices: Tensor, updates: Tensor): Tensor {
  return apply('ScatterElements', [a, indices, updates], [{ shape: a.shape, dtype: a.dtype }], { axis })[0]
}

/** Joins along an axis, which is then `size` long; not differentiable by itself. */
export function concat(parts: readonly Tensor[], axis: number, size: Dim): Tensor {
  const shape = parts[0].shape.map((dim, i) => (i === axis ? size : dim))
  return apply('Concat', parts, [{ shape, dtype: parts[0].dtype }], { axis })[0]
}

/** An axis cut into `count` equal parts, which must divide it, each `size` long; not differentiable by itself. */
export function parts(
  a: Tensor,
  axis: number,
  count: number,
  size: Dim = fraction(a.shape[axis], 1, count),
): Tensor[] {
  const shape = a.shape.map((dim, i) => (i === axis ? size : dim))
  const output = { shape, dtype: a.dtype }
  return apply('Split', [a], Array<typeof output>(count).fill(output), { axis, num_outputs: count })
}

/** `part` of `count` equal parts of a size. */
export function fraction(size: Dim, part: number, count: number): Dim {
  if (part === count) return size
  return typeof size === 'number' ? (size * part) / count : `${part}*${size}/${count}`
}

/** A size so many times over. */
export function times(size: Dim, count: number): Dim {
  if (count === 1) return size
  return typeof size === 'number' ? size * count : `${count}*${size}`
}

/** The last axis cut into pieces of these sizes; not differentiable. */
export function splitLast(a: Tensor, sizes: readonly number[]): Tensor[] {
  const outer = a.shape.slice(0, -1)
  const outputs = sizes.map((size) => ({ shape: [...outer, size], dtype: a.dtype }))
  return apply('Split', [a, constant(sizes, 'int64')], outputs, { axis: -1 })
}

/** Running sum along the last axis; not differentiable. */
export function cumulativeSum(a: Tensor): Tensor {
  return apply('CumSum', [a, constant(-1, 'int64')], [{ shape: a.shape, dtype: a.dtype }])[0]
}

/** `after` more elements behind the last axis, zeros unless told; not differentiable. */
export function padLast(a: Tensor, after: number, value?: number): Tensor {
  if (after === 0) return a
  const size = Number(a.shape[a.shape.length - 1]) + after
  const pads = [...a.shape.map(() => 0), ...a.shape.map((_, i) => (i === a.shape.length - 1 ? after : 0))]
  return apply(
    'Pad',
    [a, constant(pads, 'int64'), ...(value === undefined ? [] : [constant(value, a.dtype)])],
    [{ shape: [...a.shape.slice(0, -1), size], dtype: a.dtype }],
  )[0]
}

export interface GroupedAttention {
  /** [batch, time, heads * headDim] */
  mixed: Tensor
  /** [batch, kvHeads, time or the past's window, headDim] */
  key: Tensor
  value: Tensor
}

/**
 * Causal attention with rotary positions and a cache (ONNX Runtime's GroupQueryAttention); not differentiable. q
 * [batch, time, heads * headDim], k and v [batch, time, kvHeads * headDim], not yet rotated. Rows are filled from the
 * left: `last` int32 [batch] is the index of each row's last position, the new ones counted, `total` int32 [] the longest
 * row's length, or more. Where q, k and v are cut from one product, the operator takes that, uncut. Without a past the
 * cache is the new keys and values; the past [batch, kvHeads, window, headDim] must have room for the new ones, and what
 * comes out is as long.
 */
export function groupedAttention(
  [q, k, v]: readonly [Tensor, Tensor, Tensor],
  past: { key: Tensor; value: Tensor } | null,
  position: { last: Tensor; total: Tensor; cos: Tensor; sin: Tensor },
  { heads, kvHeads, headDim }: { heads: number; kvHeads: number; headDim: number },
): GroupedAttention {
  const [batch, time] = q.shape
  const window = past === null ? time : past.key.shape[2]
  const cache = { shape: [batch, kvHeads, window, headDim], dtype: q.dtype }
  const whole = uncut([q, k, v])
  const [mixed, key, value] = apply(
    'GroupQueryAttention',
    [
      ...(whole === null ? [q, k, v] : [whole, null, null]),
      past?.key ?? null,
      past?.value ?? null,
      position.last,
      position.total,
      position.cos,
      position.sin,
    ],
    [{ shape: q.shape, dtype: q.dtype }, cache, cache],
    { num_heads: heads, kv_num_heads: kvHeads, do_rotary: 1, rotary_interleaved: 0 },
    MICROSOFT,
  )
  return { mixed, key, value }
}

/** What the given tensors are the parts of, all and in order; null where they are not. */
function uncut(parts: readonly Tensor[]): Tensor | null {
  const { source } = parts[0]
  if (source.kind !== 'node' || source.node.op !== 'Split') return null
  const { inputs, outputs } = source.node
  return outputs.length === parts.length && parts.every((part, i) => part === outputs[i]) ? inputs[0] : null
}

/** Run-time size of one axis: int32 []. */
export function size(a: Tensor, axis: number): Tensor {
  return cast(reshape(axisLength(a, axis), []), 'int32')
}

/** Run-time size of one axis: int64 [1]. */
function axisLength(a: Tensor, axis: number): Tensor {
  return apply('Shape', [a], [{ shape: [1], dtype: 'int64' }], { start: axis, end: axis + 1 })[0]
}

/**
 * A cache of four axes with room behind its window, the given axis, for as many positions as `room` [positions] has
 * elements; not differentiable.
 */
export function withRoom(cache: Tensor, room: Tensor, axis: number): Tensor {
  const parts = cache.shape.map((dim, i) => {
    if (i === axis) return axisLength(room, 0)
    return typeof dim === 'number' ? constant([dim], 'int64') : axisLength(cache, i)
  })
  const long = (dim: Dim) => ({
    shape: cache.shape.map((d, i) => (i === axis ? dim : d)),
    dtype: cache.dtype,
  })
  const shape = apply('Concat', parts, [{ shape: [4], dtype: 'int64' }], { axis: 0 })[0]
  const empty = apply('Expand', [constant([0], cache.dtype), shape], [long(room.shape[0])])[0]
  return apply('Concat', [cache, empty], [long('window')], { axis })[0]
}

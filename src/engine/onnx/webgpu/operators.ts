/**
 * The operators of the graphs that are run here, each by the kernels that compute it. Shapes and small whole numbers are
 * worked out on the host; what is not listed, or not as it is handled here, is refused by name.
 */
import { type DType, ELEMENT_TYPE } from '../../graph/tensor.ts'
import {
  gradientScratch,
  type Heads,
  packedAttention,
  packedAttentionGradient,
  rangesBytes,
  segmentRanges,
} from './attention.ts'
import { elementwise, type Held, type Operand, reduceRows } from './elementwise.ts'
import type { Step, Traits } from './gpu.ts'
import type { GraphNode } from './graph.ts'
import { columns, gatherRows, rotary, rowsByTarget, scatterRows, swapped } from './moves.ts'
import { product, scratchBytes } from './products.ts'
import {
  addRmsNorm,
  liftedShares,
  rmsNorm,
  rmsNormGradient,
  swiglu,
  swigluGradient,
  targetLogprobs,
} from './training.ts'
import { bytesOf, sizeOf } from './wgsl.ts'

export interface TensorValue {
  kind: 'tensor'
  dtype: DType
  dims: readonly number[]
  storage: Storage
  /** What the host gave, where it did. */
  given?: ArrayLike<number | bigint>
}

/** A buffer, and how many values still to be read are in it. */
export interface Storage {
  buffer: GPUBuffer
  uses: number
  /** It goes back when nothing is read from it any more. */
  pooled: boolean
}

/** What graphs compute with: on the GPU, or known to the host, such as shapes and constants. */
export type GraphValue =
  | TensorValue
  | { kind: 'numbers'; dtype: DType; dims: readonly number[]; data: readonly number[] }
  | { kind: 'zeros'; dtype: DType; dims: readonly number[] }
  /** A column [n, 1] as wide as `dims` says. */
  | { kind: 'wide'; dtype: DType; dims: readonly number[]; column: TensorValue }

/** What an operator is planned by. */
export interface Plan {
  traits: Traits
  /** Of what attention there is. */
  heads: Heads | undefined
  add(...steps: readonly Step[]): void
  /** A new tensor for an output, by its place among the node's. */
  output(place: number, dtype: DType, dims: readonly number[]): TensorValue
  /** Memory until the operator's end, or more, of all that it is planned with. */
  scratch(bytes: number): GPUBuffer
  /** The same filled with numbers. */
  filled(data: Int32Array): GPUBuffer
}

type Operator = (node: GraphNode, inputs: readonly (GraphValue | null)[], plan: Plan) => GraphValue[]

/** A value on the GPU. */
function held(value: GraphValue | null | undefined, plan: Plan): Held {
  if (value === null || value === undefined) throw new Error('an operator lacks an input')
  if (value.kind === 'tensor') return { buffer: value.storage.buffer, dtype: value.dtype, dims: value.dims }
  if (value.kind === 'wide') throw new Error('a column is not widened on WebGPU but to add rows up')
  const { dtype, dims } = value
  const out: Held = { buffer: plan.scratch(bytesOf(dtype, dims)), dtype, dims }
  if (value.kind === 'numbers' && value.data.length !== 1)
    throw new Error(`a constant of ${value.data.length} numbers is not computed with on WebGPU`)
  plan.add(elementwise((x) => x, [value.kind === 'zeros' ? 0 : value.data[0]], out))
  return out
}

function operand(value: GraphValue | null, plan: Plan): Operand {
  if (value?.kind === 'numbers' && value.data.length === 1) return value.data[0]
  if (value?.kind === 'zeros') return 0
  return held(value, plan)
}

const asHeld = ({ storage, dtype, dims }: TensorValue): Held => ({ buffer: storage.buffer, dtype, dims })

function hostNumbers(value: GraphValue | null): readonly number[] {
  if (value?.kind !== 'numbers') throw new Error('a size is not known on the host')
  return value.data
}

const numbers = (data: readonly number[], dims: readonly number[] = [data.length]): GraphValue => ({
  kind: 'numbers',
  dtype: 'int64',
  dims,
  data,
})

function broadcast(a: readonly number[], b: readonly number[]): number[] {
  const rank = Math.max(a.length, b.length)
  return Array.from({ length: rank }, (_, i) => {
    const [x, y] = [a[i - rank + a.length] ?? 1, b[i - rank + b.length] ?? 1]
    return x === 1 ? y : x
  })
}

/** An operator on elements; of `dtype`, or else of the type that its last operand has. */
const each =
  (formula: (...operands: string[]) => string, dtype?: DType): Operator =>
  (_, inputs, plan) => {
    const values = inputs as GraphValue[]
    const dims = values.map((value) => value.dims).reduce(broadcast)
    const out = plan.output(0, dtype ?? values[values.length - 1].dtype, dims)
    plan.add(
      elementwise(
        formula,
        values.map((value) => operand(value, plan)),
        asHeld(out),
      ),
    )
    return [out]
  }

const TYPES = new Map(Object.entries(ELEMENT_TYPE).map(([dtype, number]) => [number, dtype as DType]))

const axisOf = ({ attributes }: GraphNode, rank: number) => {
  const axis = Number(attributes.axis ?? 0)
  return axis < 0 ? axis + rank : axis
}

function shapeOf(spec: readonly number[], dims: readonly number[]): number[] {
  const kept = spec.map((size, i) => (size === 0 ? dims[i] : size))
  const known = kept.reduce((product, size) => (size < 0 ? product : product * size), 1)
  return kept.map((size) => (size < 0 ? sizeOf(dims) / known : size))
}

/** scale * op(a) op(b) and what is added, in the type of what is multiplied. */
function multiply(
  [a, b, c]: readonly (GraphValue | null)[],
  { attributes }: GraphNode,
  plan: Plan,
): GraphValue[] {
  const [left, right] = [held(a, plan), held(b, plan)]
  const [transposeA, transposeB] = [Boolean(attributes.transA), Boolean(attributes.transB)]
  if (right.dims.length !== 2 || (transposeA && left.dims.length !== 2))
    throw new Error('products of many matrices are not computed on WebGPU')
  if (left.dtype !== 'float16' || right.dtype !== 'float16')
    throw new Error(`products in ${left.dtype} are not computed on WebGPU`)
  const last = left.dims[left.dims.length - 1]
  const [m, k] = transposeA ? [last, left.dims[0]] : [sizeOf(left.dims) / last, last]
  const n = right.dims[transposeB ? 0 : 1]
  const out = plan.output(0, 'float16', transposeA ? [m, n] : [...left.dims.slice(0, -1), n])
  const sizes = { m, n, k, transposeA, transposeB }
  const scratch = scratchBytes(sizes, plan.traits)
  plan.add(
    ...product(
      {
        ...sizes,
        ...{ a: left.buffer, b: right.buffer, out: out.storage.buffer, outType: 'float16' },
        scale: Number(attributes.alpha ?? 1),
        ...(c ? { add: { buffer: held(c, plan).buffer, kind: 'matrix' } } : {}),
        ...(scratch > 0 ? { scratch: plan.scratch(scratch) } : {}),
      },
      plan.traits,
    ),
  )
  return [out]
}

const rowsOf = ({ dims: [batch, time] }: Held) => ({ batch, time })

function headsOf({ heads }: Plan): Heads {
  if (heads === undefined) throw new Error('attention is to be computed of heads that nobody told of')
  return heads
}

const normGradient =
  (parts: number, beside: boolean): Operator =>
  (_, inputs, plan) => {
    const all = inputs.map((value) => held(value, plan))
    const [sum, inverse, weight] = all.slice(-3)
    const [ofStream, ofPart] = [plan.output(0, 'float32', sum.dims), plan.output(1, 'float16', sum.dims)]
    plan.add(
      rmsNormGradient(
        all.slice(0, parts),
        beside ? all[parts] : null,
        { sum, inverse, weight },
        { ofStream: asHeld(ofStream), ofPart: asHeld(ofPart) },
      ),
    )
    return [ofStream, ofPart]
  }

/** The values one after another along the first axis. */
function concatenated(values: readonly TensorValue[], dims: readonly number[], plan: Plan): GraphValue {
  const out = plan.output(0, values[0].dtype, dims)
  let offset = 0
  for (const { storage, dtype, dims } of values) {
    const bytes = exactBytes(dtype, dims)
    const { buffer: target } = out.storage
    plan.add({ source: storage.buffer, sourceOffset: 0, target, targetOffset: offset, bytes })
    offset += bytes
  }
  return out
}

/** Of a part that others follow, which must not begin in the midst of a word. */
function exactBytes(dtype: DType, dims: readonly number[]): number {
  if (dtype === 'float16' && sizeOf(dims) % 2 !== 0)
    throw new Error(`parts of ${sizeOf(dims)} halves are not put together on WebGPU: an odd number`)
  return bytesOf(dtype, dims)
}

const tensorOf = (value: GraphValue | null): TensorValue => {
  if (value?.kind !== 'tensor') throw new Error('an operator takes no constant here on WebGPU')
  return value
}

export const operators: Readonly<Record<string, Operator>> = {
  Add: each((a, b) => `${a} + ${b}`),
  Sub: each((a, b) => `${a} - ${b}`),
  Mul: each((a, b) => `${a} * ${b}`),
  Div: each((a, b) => `${a} / ${b}`),
  Min: each((a, b) => `min(${a}, ${b})`),
  Neg: each((a) => `-${a}`),
  Exp: each((a) => `exp(${a})`),
  Clip: each((a, low, high) => `clamp(${a}, ${low}, ${high})`),
  LessOrEqual: each((a, b) => `select(0.0, 1.0, ${a} <= ${b})`, 'bool'),
  Where: each((condition, a, b) => `select(${b}, ${a}, ${condition} != 0.0)`),
  Cast(node, [value], plan) {
    const dtype = TYPES.get(Number(node.attributes.to)) as DType
    if (value?.kind === 'numbers') return [{ ...value, dtype }]
    return each((x) => x, dtype)(node, [value], plan)
  },
  Identity: (_, [value], plan) => {
    const source = tensorOf(value)
    const out = plan.output(0, source.dtype, source.dims)
    plan.add(elementwise((x) => x, [asHeld(source)], asHeld(out)))
    return [out]
  },

  Shape({ attributes: { start = 0, end } }, [value]) {
    const { dims } = value as GraphValue
    return [numbers(dims.slice(Number(start), end === undefined ? undefined : Number(end)))]
  },
  Reshape: (_, [value, shape]) => {
    const { dims } = value as GraphValue
    return [{ ...(value as GraphValue), dims: shapeOf(hostNumbers(shape), dims) }]
  },
  ConstantOfShape: (_, [shape]) => [{ kind: 'zeros', dtype: 'float32', dims: hostNumbers(shape) }],
  Expand: (_, [value, shape]) => {
    const column = tensorOf(value)
    return [{ kind: 'wide', dtype: column.dtype, dims: hostNumbers(shape), column }]
  },
  Gather(_, [table, indices], plan) {
    const [rows, at] = [held(table, plan), held(indices, plan)]
    const out = plan.output(0, rows.dtype, [...at.dims, ...rows.dims.slice(1)])
    plan.add(gatherRows(rows, at, asHeld(out)))
    return [out]
  },
  ScatterElements({ attributes }, [table, indices, updates], plan) {
    if (table?.kind !== 'zeros' || indices?.kind !== 'wide' || Number(attributes.axis ?? 0) !== 0)
      throw new Error('elements are not scattered on WebGPU, but rows into zeros')
    const { given } = indices.column
    if (given === undefined) throw new Error('rows that the host does not know are not added up on WebGPU')
    const { starts, items } = rowsByTarget(table.dims[0], Int32Array.from(given, Number))
    const out = plan.output(0, 'float32', table.dims)
    plan.add(scatterRows(held(updates, plan), plan.filled(starts), plan.filled(items), asHeld(out)))
    return [out]
  },
  Split(node, [value, sizes], plan) {
    const source = tensorOf(value)
    const { dims, dtype, storage } = source
    const axis = axisOf(node, dims.length)
    const given = sizes ? hostNumbers(sizes) : node.outputs.map(() => dims[axis] / node.outputs.length)
    let first = 0
    return given.map((size, i) => {
      const out = plan.output(
        i,
        dtype,
        dims.map((dim, a) => (a === axis ? size : dim)),
      )
      if (axis === 0) {
        const part = (count: number) => exactBytes(dtype, [count, ...dims.slice(1)])
        plan.add({
          ...{ source: storage.buffer, sourceOffset: part(first) },
          ...{ target: out.storage.buffer, targetOffset: 0, bytes: part(size) },
        })
      } else if (axis === dims.length - 1) plan.add(columns(asHeld(source), first, asHeld(out)))
      else throw new Error('only first and last axes are split on WebGPU')
      first += size
      return out
    })
  },
  Concat(node, inputs, plan) {
    if (inputs.every((value) => value?.kind === 'numbers')) return [numbers(inputs.flatMap(hostNumbers))]
    const values = inputs.map(tensorOf)
    if (axisOf(node, values[0].dims.length) !== 0) throw new Error('only first axes are joined on WebGPU')
    const rows = values.reduce((sum, { dims }) => sum + dims[0], 0)
    return [concatenated(values, [rows, ...values[0].dims.slice(1)], plan)]
  },
  Transpose({ attributes }, [value], plan) {
    const source = held(value, plan)
    const permutation = attributes.perm as readonly number[]
    if (permutation.join() !== '0,2,1,3') throw new Error(`axes ${permutation} are not put so on WebGPU`)
    const out = plan.output(
      0,
      source.dtype,
      permutation.map((axis) => source.dims[axis]),
    )
    plan.add(swapped(source, asHeld(out)))
    return [out]
  },
  ReduceSum: reduced(false),
  ReduceMean: reduced(true),
  RotaryEmbedding(_, inputs, plan) {
    const [x, positions, cos, sin] = inputs.map((value) => held(value, plan))
    const out = plan.output(0, 'float16', x.dims)
    plan.add(rotary(x, positions, cos, sin, asHeld(out)))
    return [out]
  },

  FusedMatMul: (node, [a, b], plan) => multiply([a, b], node, plan),
  Gemm: (node, inputs, plan) => multiply(inputs, node, plan),

  SimplifiedLayerNormalization({ attributes }, inputs, plan) {
    const [x, weight] = inputs.map((value) => held(value, plan))
    const normed = plan.output(0, 'float32', x.dims)
    const inverse = plan.output(1, 'float32', [...x.dims.slice(0, -1), 1])
    plan.add(rmsNorm(x, weight, Number(attributes.epsilon), asHeld(normed), asHeld(inverse)))
    return [normed, inverse]
  },
  AddRMSNorm({ attributes }, inputs, plan) {
    const [stream, part, weight] = inputs.map((value) => held(value, plan))
    const normed = plan.output(0, 'float16', stream.dims)
    const sum = plan.output(1, 'float32', stream.dims)
    const inverse = plan.output(2, 'float32', [...stream.dims.slice(0, -1), 1])
    plan.add(
      addRmsNorm(stream, part, weight, Number(attributes.epsilon), {
        normed: asHeld(normed),
        sum: asHeld(sum),
        inverse: asHeld(inverse),
      }),
    )
    return [normed, sum, inverse]
  },
  RMSNormGradient1: normGradient(1, false),
  RMSNormGradient2: normGradient(2, false),
  RMSNormGradient3: normGradient(3, false),
  AddRMSNormGradient1: normGradient(1, true),
  AddRMSNormGradient2: normGradient(2, true),
  AddRMSNormGradient3: normGradient(3, true),
  SwiGLU(_, inputs, plan) {
    const [gate, up] = inputs.map((value) => held(value, plan))
    const out = plan.output(0, 'float16', gate.dims)
    plan.add(swiglu(gate, up, asHeld(out)))
    return [out]
  },
  SwiGLUGradient(_, inputs, plan) {
    const [gradient, gate, up] = inputs.map((value) => held(value, plan))
    const [ofGate, ofUp] = [0, 1].map((place) => plan.output(place, 'float16', gate.dims))
    plan.add(swigluGradient(gradient, gate, up, asHeld(ofGate), asHeld(ofUp)))
    return [ofGate, ofUp]
  },
  TargetLogprobs(_, inputs, plan) {
    const [logits, targets, temperature] = inputs.map((value) => held(value, plan))
    const [logprobs, logSums] = [0, 1].map((place) => plan.output(place, 'float32', targets.dims))
    plan.add(
      targetLogprobs(logits, targets, temperature, { logprobs: asHeld(logprobs), logSums: asHeld(logSums) }),
    )
    return [logprobs, logSums]
  },
  SegmentRanges(_, inputs, plan) {
    const segments = held(inputs[0], plan)
    const rows = rowsOf(segments)
    const ranges = plan.output(0, 'int32', [rangesBytes(rows) / 4])
    plan.add(...segmentRanges(rows, { segments: segments.buffer, ranges: ranges.storage.buffer }))
    return [ranges]
  },
  PackedAttention(_, inputs, plan) {
    const [query, key, value, segmented, ranged] = inputs.map((input) => held(input, plan))
    const heads = headsOf(plan)
    const rows = rowsOf(query)
    const mixed = plan.output(0, 'float16', query.dims)
    const sums = plan.output(1, 'float32', [rows.batch, heads.heads, rows.time])
    const [q, k, v, segments, ranges] = [query, key, value, segmented, ranged].map(({ buffer }) => buffer)
    const out = { mixed: mixed.storage.buffer, sums: sums.storage.buffer }
    plan.add(...packedAttention(heads, rows, { q, k, v, segments, ranges, ...out }, plan.traits))
    return [mixed, sums]
  },
  PackedAttentionGradient(_, inputs, plan) {
    const given = inputs.map((input) => held(input, plan))
    const [gradient, q, k, v, mixed, sums, segments, ranges] = given.map(({ buffer }) => buffer)
    const heads = headsOf(plan)
    const rows = rowsOf(given[1])
    const found = [1, 2, 3].map((input, place) => plan.output(place, 'float16', given[input].dims))
    const [toQueries, toKeys, toValues] = found.map(({ storage }) => storage.buffer)
    const scratch = gradientScratch(heads, rows)
    const [perRow, partial] = [scratch.perRow, scratch.partial].map(plan.scratch)
    plan.add(
      ...packedAttentionGradient(
        heads,
        rows,
        {
          ...{ gradient, q, k, v, mixed, sums, segments, ranges },
          ...{ toQueries, toKeys, toValues, perRow, partial },
        },
        plan.traits,
      ),
    )
    return found
  },
  LiftedShares({ attributes }, inputs, plan) {
    const [logits, logSums, temperature] = inputs.map((value) => held(value, plan))
    const out = plan.output(0, 'float16', logits.dims)
    plan.add(liftedShares(logits, logSums, temperature, Number(attributes.lift), asHeld(out)))
    return [out]
  },
}

/** Over all axes, or the last. */
function reduced(mean: boolean): Operator {
  return ({ attributes }, [value, given], plan) => {
    const x = held(value, plan)
    const rank = x.dims.length
    const axes = hostNumbers(given).map((axis) => (axis < 0 ? axis + rank : axis))
    const last = axes.length === 1 && axes[0] === rank - 1
    if (!last && axes.length !== rank) throw new Error(`axes ${axes} are not added up on WebGPU`)
    const kept = last ? x.dims.slice(0, -1) : []
    const dims = attributes.keepdims === 1 ? (last ? [...kept, 1] : x.dims.map(() => 1)) : kept
    const out = plan.output(0, 'float32', dims)
    if (x.dtype !== 'float32') throw new Error(`sums of ${x.dtype} are not taken on WebGPU`)
    plan.add(reduceRows(x, last ? x.dims[rank - 1] : sizeOf(x.dims), mean, asHeld(out)))
    return [out]
  }
}

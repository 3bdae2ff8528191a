/**
 * Sampling as graphs that stay on the device: adapters are folded in, prompts computed, and tokens drawn where the
 * logits are. The same step is run again and again, and needs nothing from the host.
 */
import type { ModelConfig } from '../../checkpoint/config.ts'
import { weightShapes } from '../../checkpoint/folder.ts'
import { emit } from '../../graph/emit.ts'
import { swiglu } from '../../graph/fused.ts'
import * as ops from '../../graph/ops.ts'
import { constant, type Dim, input, type Tensor } from '../../graph/tensor.ts'
import * as model from '../model.ts'
import {
  type AdapterShape,
  adapterPairs,
  cacheKey,
  cacheValue,
  promptKey,
  promptValue,
  rotaryInputs,
  type Target,
} from '../programs.ts'
import { type Draws, draw } from './sampling.ts'
import { FRUGAL } from './sizes.ts'

/** What the programs of a GPU's lane are emitted for. */
export type GpuTarget = Target & Required<Pick<Target, 'precision' | 'context'>>

/** Projections that read the same input, computed as one product: their weights stand under each other. */
interface Group {
  name: string
  parts: readonly { name: string; out: number }[]
}

function groups(config: ModelConfig): Group[] {
  const shapes = weightShapes(config)
  const group = (prefix: string, name: string, parts: readonly string[]): Group => ({
    name: `${prefix}.${name}`,
    parts: parts.map((part) => ({
      name: `${prefix}.${part}`,
      out: (shapes.get(`${prefix}.${part}.weight`) as readonly number[])[0],
    })),
  })
  return Array.from({ length: config.layers }, (_, layer) => {
    const prefix = `model.layers.${layer}`
    return [
      group(`${prefix}.self_attn`, 'qkv', ['q_proj', 'k_proj', 'v_proj']),
      group(`${prefix}.self_attn`, 'o', ['o_proj']),
      group(`${prefix}.mlp`, 'gate', ['gate_proj']),
      group(`${prefix}.mlp`, 'up', ['up_proj']),
      group(`${prefix}.mlp`, 'down', ['down_proj']),
    ]
  }).flat()
}

/** Query heads to a key-value head that CUDA's fastest attention of single tokens is made for. */
const FAST_GROUPS = [1, 2, 4, 8, 16, 32]

/**
 * The model as its graphs see it: on CUDA with more query heads, up to a number that attention is fastest for. The added
 * ones ask for nothing (their weights are 0), and nothing is made of what they answer.
 */
function widened(config: ModelConfig, { plain, kernels }: Target): ModelConfig {
  const group = config.heads / config.kvHeads
  const fast = plain || kernels ? group : (FAST_GROUPS.find((size) => size >= group) ?? group)
  return { ...config, heads: fast * config.kvHeads }
}

/** Weights or bias of q, [heads * headDim, ...], with zeros for the added heads of each key-value head. */
function widenQuery({ kvHeads, headDim, heads }: ModelConfig, tensor: Tensor): Tensor {
  const [rows, ...rest] = tensor.shape.map(Number)
  if (rows === heads * headDim) return tensor
  const inner = rest.reduce((product, n) => product * n, rows / kvHeads)
  const added = ((heads * headDim - rows) / kvHeads) * (inner / (rows / kvHeads))
  const wide = ops.padLast(ops.reshape(tensor, [kvHeads, inner]), added)
  return ops.reshape(wide, [heads * headDim, ...rest])
}

/** Weights of o, [hidden, heads * headDim], with columns of zeros for the added heads. */
function widenOutput({ kvHeads, headDim, heads }: ModelConfig, tensor: Tensor): Tensor {
  const [rows, columns] = tensor.shape.map(Number)
  if (columns === heads * headDim) return tensor
  const split = ops.reshape(tensor, [rows * kvHeads, columns / kvHeads])
  const wide = ops.padLast(split, (heads * headDim - columns) / kvHeads)
  return ops.reshape(wide, [rows, heads * headDim])
}

/** A part of a long product has from so many elements of the inner axis to so many. */
const SLICE = { least: 320, most: 640 }
/** Below this many, an inner axis is not cut. */
const LONG = 2048

/**
 * In how many parts a product over an inner axis of `size` is summed. WebGPU gives few rows too few threads, and adds up in
 * halves (of 8960: 0.41 ms in one, 0.16 ms in 28; errors 1.5e-2 and less than 4e-3 of 1.3).
 */
function slices(size: number, { plain }: Target): number {
  if (!plain || size < LONG) return 1
  for (let slice = SLICE.least; slice <= SLICE.most; slice += 4) if (size % slice === 0) return size / slice
  return 1
}

interface FusedWeight {
  /** [outputs of all parts, inputs]; as products take it, `productShape`. */
  weight: Tensor
  bias: Tensor | null
}

/** The weights as sampling uses them. */
interface Fused {
  /** By group, with the adapter folded in. */
  products: ReadonlyMap<string, FusedWeight>
  /** By the norm's name, in the residual stream's type. */
  norms: ReadonlyMap<string, Tensor>
}

/**
 * The residual stream is held in the type of the products, so that one operator adds and norms; its sums are single
 * precision on CUDA. WebGPU's are not, so there the stream is; and our own operators hold it so.
 */
function streamType({ precision = 'float32', plain, own }: Target): model.Precision {
  return plain || own ? 'float32' : precision
}

/** Norms of the residual stream; `config.qkNorm`'s are not among them. */
function streamNorms({ layers }: ModelConfig): string[] {
  const each = Array.from({ length: layers }, (_, layer) =>
    ['input_layernorm', 'post_attention_layernorm'].map((name) => `model.layers.${layer}.${name}`),
  )
  return [...each.flat(), 'model.norm']
}

function fusedWeights(
  config: ModelConfig,
  weight: model.Parameters,
  target: Target,
  adapter: AdapterShape | undefined,
): Fused {
  const shapes = weightShapes(config)
  const pairs = adapter && adapterPairs(config, adapter.rank)
  const folded = (name: string) => {
    const base = weight(`${name}.weight`)
    const pair = pairs?.get(name)
    if (adapter === undefined || pair === undefined) return base
    const [a, b] = [pair.a, pair.b].map((matrix) => ops.cast(matrix, base.dtype))
    return ops.addProduct(base, b, a, adapter.scale)
  }
  const wide = widened(config, target)
  const fitted = (name: string, tensor: Tensor) => {
    if (name.endsWith('q_proj')) return widenQuery(wide, tensor)
    return name.endsWith('o_proj') ? widenOutput(wide, tensor) : tensor
  }
  const products = groups(config).map(({ name, parts }): [string, FusedWeight] => [
    name,
    {
      weight: joined(parts.map((part) => fitted(part.name, folded(part.name)))),
      bias: shapes.has(`${parts[0].name}.bias`)
        ? joined(parts.map((part) => fitted(part.name, weight(`${part.name}.bias`))))
        : null,
    },
  ])
  const norms = streamNorms(config).map((name): [string, Tensor] => [
    name,
    ops.cast(weight(`${name}.weight`), streamType(target)),
  ])
  return { products: new Map(products), norms: new Map(norms) }
}

function joined(parts: readonly Tensor[]): Tensor {
  if (parts.length === 1) return parts[0]
  const rows = parts.reduce((sum, { shape }) => sum + Number(shape[0]), 0)
  return ops.concat(parts, 0, rows)
}

/** The linear maps by their own names, each group computed once for each input. */
function fusedLinear(
  config: ModelConfig,
  products: Fused['products'],
  { fewRows, transposeB }: { fewRows: boolean; transposeB: boolean },
): model.Linear {
  const all = groups(config)
  let latest: { group: Group; x: Tensor; outputs: readonly Tensor[] } | null = null
  return (x, name) => {
    const group = all.find(({ parts }) => parts.some((part) => part.name === name)) as Group
    if (latest === null || latest.group !== group || latest.x !== x) {
      const { weight, bias } = products.get(group.name) as FusedWeight
      const product =
        weight.shape.length === 2 ? ops.matmul(x, weight, { transposeB }) : longProduct(x, weight, fewRows)
      const y = bias === null ? product : ops.add(product, bias)
      const sizes = group.parts.map(({ out }) => out)
      latest = { group, x, outputs: sizes.length === 1 ? [y] : ops.splitLast(y, sizes) }
    }
    return latest.outputs[group.parts.findIndex((part) => part.name === name)]
  }
}

/** x [..., inputs] and a weight [slices, inputs / slices, outputs]: slices apart where rows are few, in single precision. */
function longProduct(x: Tensor, weight: Tensor, fewRows: boolean): Tensor {
  const [slices, inner, outputs] = weight.shape.map(Number)
  if (!fewRows) return ops.matmul(x, ops.reshape(weight, [slices * inner, outputs]))
  const flat = ops.flatten(x)
  const cut = ops.transpose(ops.reshape(flat, [flat.shape[0], slices, inner]), [1, 0, 2])
  const sum = ops.reduceSum(ops.cast(ops.matmul(cut, weight), 'float32'), [0], false)
  return ops.reshape(sum, [...x.shape.slice(0, -1), outputs])
}

/** One operator for a part added to the residual stream and the norm of their sum; `dtype` is what products read. */
function fusedAddNorm(
  { rmsNormEps }: ModelConfig,
  norms: Fused['norms'],
  dtype: model.Precision,
): model.AddNorm {
  return (stream, part, name) => {
    const weight = norms.get(name) as Tensor
    if (part === null) return { stream, normed: ops.cast(ops.rmsNorm(stream, weight, rmsNormEps), dtype) }
    const { sum, normed } = ops.addRmsNorm(stream, ops.cast(part, stream.dtype), weight, rmsNormEps)
    return { stream: sum, normed: ops.cast(normed, dtype) }
  }
}

/** Layer 0's keys, its values, layer 1's ... */
type Caches = readonly Tensor[]

const cacheName = (array: number) => (array % 2 === 0 ? cacheKey(array >> 1) : cacheValue(array >> 1))

/**
 * Names and shapes of the caches: each [rows, kvHeads, window, headDim], but keys [rows, kvHeads, headDim, window] where
 * the target is plain, as products read them. The window has room for every token to come: a cache that grew with each
 * token would have memory allocated anew each time.
 */
export function cacheShapes<D extends Dim>(
  { layers, kvHeads, headDim }: ModelConfig,
  { plain }: Target,
  rows: D,
  window: D,
): [name: string, shape: (D | number)[]][] {
  const value = [rows, kvHeads, window, headDim]
  const key = plain ? [rows, kvHeads, headDim, window] : value
  return Array.from({ length: 2 * layers }, (_, i) => [cacheName(i), i % 2 === 0 ? key : value])
}

/** What is carried from one token to the next. */
interface State {
  /** [samples, vocabulary] */
  logits: Tensor
  /** int32 [samples]: the last position that is filled. */
  last: Tensor
  caches: Caches
}

/** All that the graphs of one model share. */
interface Context {
  config: ModelConfig
  /** Attention in plain operators: WebGPU's GroupQueryAttention was seen to be wrong for batches and long prompts. */
  plain: boolean
  /** The residual stream's. */
  dtype: model.Precision
  weight: model.Parameters
  /** The head's weight, transposed; where plain. */
  head: Tensor | null
  linear: model.Linear
  addNorm: model.AddNorm
  gated: model.Gated | undefined
  /** Prompts are packed rows of one segment. */
  own: boolean
  tables: model.RotaryTables
  /** For queries, which have the scale of the scores in them: scaling scores would take an operator for each layer. */
  queryTables: model.RotaryTables
  /** [samples]: 0, 1, 2 ... */
  each: Tensor
  temperature: Tensor
  topP: Tensor | null
}

function shared(
  config: ModelConfig,
  target: Target,
  { nucleus = false, fewRows = false }: { nucleus?: boolean; fewRows?: boolean } = {},
): Context {
  const { precision = 'float32', context, plain = false, kernels = false, own = false } = target
  const weight = model.parameters(config, precision)
  const { products, norms } = fusedInputs(config, target)
  const { cos, sin } = rotaryInputs(config, context)
  const wide = widened(config, target)
  const scaled = (table: Tensor) => ops.cast(ops.mul(table, 1 / Math.sqrt(config.headDim)), precision)
  return {
    config: wide,
    plain,
    dtype: streamType(target),
    weight,
    head: plain ? model.transposedHead(config, precision) : null,
    linear: fusedLinear(wide, products, { fewRows, transposeB: kernels }),
    addNorm: own ? model.fusedAddNorm(config, weight) : fusedAddNorm(config, norms, precision),
    gated: own ? swiglu : undefined,
    own,
    tables: { cos: ops.cast(cos, precision), sin: ops.cast(sin, precision) },
    queryTables: { cos: scaled(cos), sin: scaled(sin) },
    each: input('each', ['samples'], 'int32'),
    temperature: input('temperature', []),
    topP: nucleus ? input('topP', []) : null,
  }
}

/** Logits [rows, vocabulary] after the given tokens, and the caches that they extend. */
function extend(
  context: Context,
  { tokens, rows }: model.ForwardInputs,
  position: { last: Tensor; total: Tensor },
  past: Caches | null,
): { logits: Tensor; caches: Caches } {
  const { config, weight, head, linear, addNorm, gated, tables, plain, own, dtype } = context
  const caches: Tensor[] = []
  const keep: model.KeepCache = (_, key, value) => caches.push(key, value)
  const fused: model.Attention = (q, k, v, layer) => {
    const before = past && { key: past[2 * layer], value: past[2 * layer + 1] }
    const { mixed, key, value } = ops.groupedAttention([q, k, v], before, { ...position, ...tables }, config)
    keep(layer, key, value)
    return mixed
  }
  const attention = own
    ? wholeAttention(context, keep)
    : !plain
      ? fused
      : past === null
        ? promptAttention(context, keep)
        : writingAttention(context, position.last, past, keep)
  const stream = { dtype, addNorm }
  const hidden = model.hiddenStates(config, weight, linear, attention, { tokens, rows }, stream, gated)
  return { logits: model.logits(config, weight, hidden, head), caches }
}

/**
 * Causal attention of whole prompts as packed rows. Inputs: `positions` int64 [prompts, time], `segments` int32 [prompts,
 * time], zeros.
 */
function wholeAttention({ config, tables }: Context, keep: model.KeepCache): model.Attention {
  const positions = input('positions', ['prompts', 'time'], 'int64')
  const segments = input('segments', ['prompts', 'time'], 'int32')
  return model.packedAttention(config, tables, positions, segments, keep)
}

/**
 * Causal attention of whole prompts, by blocks, which divide the time. Inputs: `positions` int64 [prompts, time], `order`
 * int32 [time] (0, 1, 2 ...).
 */
function promptAttention({ config, tables }: Context, keep: model.KeepCache): model.Attention {
  const positions = input('positions', ['prompts', 'time'], 'int64')
  const order = input('order', ['time'], 'int32')
  const parts = ops.parts(order, 0, FRUGAL.blocks)
  const masks = parts.map((looking, b) => {
    const [rows, columns] = [looking.shape[0], ops.fraction('time', b + 1, parts.length)]
    const seen = ops.concat(parts.slice(0, b + 1), 0, columns)
    const before = ops.lessOrEqual(
      ops.reshape(seen, [1, 1, 1, columns]),
      ops.reshape(looking, [1, 1, rows, 1]),
    )
    return ops.where(before, constant(0), constant(model.MASKED))
  })
  return model.blockAttention(config, tables, positions, masks, (layer, key, value) =>
    keep(layer, ops.transpose(key, [0, 1, 3, 2]), value),
  )
}

/**
 * Attention of one new token a row, whose keys and values are written into the cache at `last` first, in place where it
 * goes out as the tensor that came in. Inputs:
 * `positions` int64 [samples, 1], the same as `last`; `order` int32 [window] (0, 1, 2 ...).
 */
function writingAttention(
  { config, tables, queryTables }: Context,
  last: Tensor,
  past: Caches,
  keep: model.KeepCache,
): model.Attention {
  const { heads, kvHeads, headDim } = config
  const [samples, , , window] = past[0].shape
  const positions = input('positions', ['samples', 1], 'int64')
  const order = input('order', [window], 'int32')
  const row = ops.reshape(last, [samples, 1, 1, 1])
  const filled = ops.lessOrEqual(ops.reshape(order, [1, 1, 1, window]), row)
  const mask = ops.where(filled, constant(0), constant(model.MASKED))
  const nought = ops.reshape(constant(Array(kvHeads * headDim).fill(0), 'int32'), [kvHeads, headDim, 1])
  const here = ops.add(row, nought)
  return (q, k, v, layer) => {
    const rotate = (x: Tensor, { cos, sin }: model.RotaryTables) => ops.rotary(x, positions, cos, sin)
    const put = (cache: Tensor, axis: number, x: Tensor) => {
      const shape = cache.shape.map((dim, i) => (i === axis ? 1 : dim))
      return ops.putAlong(cache, axis, ops.reshape(here, shape), ops.reshape(x, shape))
    }
    const query = ops.reshape(rotate(q, queryTables), [samples, kvHeads, heads / kvHeads, headDim])
    const key = put(past[2 * layer], 3, rotate(k, tables))
    const value = put(past[2 * layer + 1], 2, v)
    keep(layer, key, value)
    const scores = ops.matmul(query, key)
    const shares = ops.softmax(ops.add(ops.cast(scores, 'float32'), mask))
    const mixed = ops.matmul(ops.cast(shares, v.dtype), value)
    return ops.reshape(mixed, [samples, 1, heads * headDim])
  }
}

/** Logits [prompts, vocabulary] after each prompt, and their caches. */
function promptsAlone(context: Context): { logits: Tensor; caches: Caches; ends: Tensor } {
  const tokens = input('tokens', ['prompts', 'time'], 'int32')
  const ends = input('ends', ['prompts'], 'int32')
  const rows = input('endRows', ['prompts'], 'int32')
  const total = ops.size(tokens, 1)
  return { ...extend(context, { tokens, rows }, { last: ends, total }, null), ends }
}

/** Computes each prompt once and hands it to its samples. */
function prefill(context: Context): State {
  const sampleOf = input('sampleOf', ['samples'], 'int32')
  const room = input('room', ['steps'])
  const { logits, caches, ends } = promptsAlone(context)
  return {
    logits: ops.gather(logits, sampleOf),
    last: ops.gather(ends, sampleOf),
    caches: caches.map((cache, i) =>
      ops.withRoom(ops.gather(cache, sampleOf), room, context.plain && i % 2 === 0 ? 3 : 2),
    ),
  }
}

/** The same for our own kernels, whose samples share their prompt's caches: what a step reads is `next ...`. */
function sharedPrefill(context: Context): Record<string, Tensor> {
  const { logits, caches } = promptsAlone(context)
  return {
    'next logits': ops.gather(logits, input('sampleOf', ['samples'], 'int32')),
    ...Object.fromEntries(
      caches.map((cache, i) =>
        i % 2 === 0
          ? [`next ${promptKey(i >> 1)}`, cache]
          : [`next ${promptValue(i >> 1)}`, context.own ? cache : ops.transpose(cache, [0, 1, 3, 2])],
      ),
    ),
  }
}

/** Draws a token for each sample and feeds it; `window` int32 []: how many positions the caches hold. */
function advance(
  context: Context,
  uniform: Tensor,
  window: Tensor,
  state: State,
): { draws: Draws; state: State } {
  const [samples] = state.last.shape
  const draws = draw(state.logits, { ...context, uniform })
  const last = ops.add(state.last, 1)
  const { logits, caches } = extend(
    context,
    { tokens: ops.reshape(draws.token, [samples, 1]), rows: null },
    { last, total: window },
    state.caches,
  )
  return { draws, state: { logits, last, caches } }
}

/** Names of the fused weights between the programs below. */
const fusedName = (name: string, part: 'weight' | 'bias') => `fused ${name}.${part}`

/**
 * The fused weights, adapter folded in, for the two programs below, transposed to how their products read them.
 * Inputs: weights, adapter. Outputs: `fused ...`.
 */
export function fuseProgram(
  config: ModelConfig,
  adapter: AdapterShape | undefined,
  target: Target = {},
): Uint8Array {
  const weight = model.parameters(config, target.precision)
  const { products, norms } = fusedWeights(config, weight, target, adapter)
  const outputs: Record<string, Tensor> = {}
  for (const [name, { weight, bias }] of products) {
    outputs[fusedName(name, 'weight')] = transposedWeight(weight, target)
    if (bias !== null) outputs[fusedName(name, 'bias')] = bias
  }
  for (const [name, weight] of norms) outputs[fusedName(name, 'weight')] = weight
  return emit('fuse', outputs, target)
}

/** A weight [outputs, inputs] as products take it. */
function transposedWeight(weight: Tensor, target: Target): Tensor {
  if (target.kernels) return weight
  const [outputs, inputs] = weight.shape.map(Number)
  const [first, ...rest] = productShape(inputs, outputs, target)
  if (rest.length === 1) return ops.transpose(weight, [1, 0])
  return ops.transpose(ops.reshape(weight, [outputs, first, rest[0]]), [1, 2, 0])
}

/** [inputs, outputs], or where the inner axis is cut [slices, inputs / slices, outputs]; our kernels' the other way about. */
function productShape(inputs: number, outputs: number, target: Target): number[] {
  if (target.kernels) return [outputs, inputs]
  const count = slices(inputs, target)
  return count === 1 ? [inputs, outputs] : [count, inputs / count, outputs]
}

/** The same as inputs. */
function fusedInputs(narrow: ModelConfig, target: Target): Fused {
  const config = widened(narrow, target)
  const shapes = weightShapes(config)
  const products = groups(config).map(({ name, parts }): [string, FusedWeight] => {
    const out = parts.reduce((sum, part) => sum + part.out, 0)
    const width = (shapes.get(`${parts[0].name}.weight`) as readonly number[])[1]
    const biased = shapes.has(`${parts[0].name}.bias`)
    return [
      name,
      {
        weight: input(fusedName(name, 'weight'), productShape(width, out, target), target.precision),
        bias: biased ? input(fusedName(name, 'bias'), [out], target.precision) : null,
      },
    ]
  })
  const norms = streamNorms(config).map((name): [string, Tensor] => [
    name,
    input(fusedName(name, 'weight'), [config.hiddenSize], streamType(target)),
  ])
  return { products: new Map(products), norms: new Map(norms) }
}

function stateOutputs({ logits, last, caches }: State): Record<string, Tensor> {
  return {
    'next logits': logits,
    'next last': last,
    ...Object.fromEntries(caches.map((tensor, i) => [`next ${cacheName(i)}`, tensor])),
  }
}

/**
 * Computes prompts and starts their samples. Inputs: `tokens` int32 [prompts, time], padded on the right; `ends` int32
 * [prompts], each prompt's last position; `endRows` int32 [prompts], the same counted through the flattened batch;
 * `sampleOf` int32 [samples], the prompt of each sample; `room` [steps], only its size counts; rotary tables, fused weights;
 * where the target is plain, the head transposed and those of `promptAttention`. Outputs: the state, as `next ...`; for our
 * own kernels the logits and the prompts' caches, keys [prompts, kvHeads, time, headDim] and values [prompts, kvHeads,
 * headDim, time], and no `room` is wanted; where all operators are ours, values as keys, by the inputs of `wholeAttention`.
 */
export function prefillProgram(config: ModelConfig, target: Target = {}): Uint8Array {
  const context = shared(config, target)
  return emit('prefill', target.kernels ? sharedPrefill(context) : stateOutputs(prefill(context)), target)
}

/** The head's weight transposed, for all programs that read it so. Inputs: weights. Outputs: `transposedHead`. */
export function headProgram(config: ModelConfig, target: Target): Uint8Array {
  const weight = model.headWeight(config, model.parameters(config, target.precision))
  return emit('head', { [model.TRANSPOSED_HEAD]: ops.transpose(weight, [1, 0]) }, target)
}

/** The fused weights between the programs: their names, shapes and types. */
export function fusedTensors(
  config: ModelConfig,
  target: Target,
): { name: string; dims: number[]; dtype: model.Precision }[] {
  const { products, norms } = fusedInputs(config, target)
  const tensors = [
    ...[...products].flatMap(([name, { weight, bias }]) => [
      { name: fusedName(name, 'weight'), tensor: weight },
      ...(bias === null ? [] : [{ name: fusedName(name, 'bias'), tensor: bias }]),
    ]),
    ...[...norms].map(([name, tensor]) => ({ name: fusedName(name, 'weight'), tensor })),
  ]
  return tensors.map(({ name, tensor }) => ({
    name,
    dims: tensor.shape.map(Number),
    dtype: tensor.dtype as model.Precision,
  }))
}

/**
 * A step that needs nothing from the host and leaves all of it in place, to be run again and again with the same tensors
 * as inputs and outputs: what it reads of a tensor it reads before that is written. Where the target is plain, that holds
 * for the caches alone, and `positions` and `order` of `writingAttention` are wanted.
 *
 * Inputs: the state (`logits`, `last`, caches); `at` int32 [1], the number of the step; `uniforms` [steps, samples]; `drawn`
 * int32, `logprobs`, `samplingLogprobs` [steps, samples], filled step by step; `numbers` int32 [steps] (0, 1, 2 ...);
 * `length` int32 [], how many positions the caches hold; `temperature`, `topP` for a nucleus, rotary tables, fused weights.
 * Outputs: `next ...` of all but the last line's.
 */
export function stepProgram(
  config: ModelConfig,
  { nucleus }: { nucleus: boolean },
  target: Target = {},
): Uint8Array {
  const context = shared(config, target, { nucleus, fewRows: true })
  const at = ops.add(input('at', [1], 'int32'), 1)
  // From the new number, so that the old one, which is overwritten, is not read again.
  const index = ops.sub(at, 1)
  const uniform = ops.reshape(ops.gather(input('uniforms', ['steps', 'samples']), index), ['samples'])
  const { draws, state } = advance(context, uniform, input('length', [], 'int32'), {
    logits: input('logits', ['samples', config.vocabSize]),
    last: input('last', ['samples'], 'int32'),
    caches: cacheShapes<Dim>(config, target, 'samples', 'window').map(([name, shape]) =>
      input(name, shape, target.precision),
    ),
  })
  const here = ops.equal(
    ops.reshape(input('numbers', ['steps'], 'int32'), ['steps', 1]),
    ops.reshape(index, [1, 1]),
  )
  const filled = (name: string, part: Tensor) =>
    ops.where(here, ops.reshape(part, [1, 'samples']), input(name, ['steps', 'samples'], part.dtype))
  return emit(
    'step',
    {
      ...stateOutputs(state),
      'next at': at,
      'next drawn': filled('drawn', draws.token),
      'next logprobs': filled('logprobs', draws.logprob),
      'next samplingLogprobs': filled('samplingLogprobs', draws.samplingLogprob),
    },
    target,
  )
}

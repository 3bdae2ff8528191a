/**
 * The model, written once as a function of symbolic tensors: a Llama-family decoder (RMSNorm, rotary positions,
 * grouped-query attention, SwiGLU), with Qwen2's biases on q, k, v and Qwen3's norms on q and k. Training, scoring
 * and sampling differ only in the attention and the linear map that they pass in.
 */
import type { ModelConfig } from '../checkpoint/config.ts'
import { weightShapes } from '../checkpoint/folder.ts'
import * as fused from '../graph/fused.ts'
import * as ops from '../graph/ops.ts'
import * as packed from '../graph/packed.ts'
import { adaptedProduct, blockedAttention, widenedProduct } from '../graph/recompute.ts'
import { constant, type DType, input, type Shape, type Tensor } from '../graph/tensor.ts'

/**
 * What matrix products and the cache are computed in: single precision, or halves. Norms, softmax, log-probabilities,
 * the residual stream, adapters and gradients of adapters are single precision in either case.
 */
export type Precision = 'float32' | 'float16'

/** Symbolic weights by name, each an input of the graph, made on first use. */
export type Parameters = (name: string) => Tensor

export function parameters(config: ModelConfig, precision: Precision = 'float32'): Parameters {
  const shapes = weightShapes(config)
  const made = new Map<string, Tensor>()
  return (name) => {
    const known = made.get(name)
    if (known !== undefined) return known
    const shape = shapes.get(name)
    if (shape === undefined) throw new Error(`the model has no weight ${name}`)
    const tensor = input(name, shape, weightPrecision(name, precision))
    made.set(name, tensor)
    return tensor
  }
}

/** Norms' weights are single precision whatever the products are. */
export function weightPrecision(name: string, precision: Precision): Precision {
  return name.endsWith('norm.weight') ? 'float32' : precision
}

/** x [..., inputs] -> [..., outputs] by the projection of that name. */
export type Linear = (x: Tensor, name: string) => Tensor

/** q [batch, time, heads * headDim], k and v [batch, time, kvHeads * headDim], not yet rotated; the output as q. */
export type Attention = (q: Tensor, k: Tensor, v: Tensor, layer: number) => Tensor

/**
 * The residual stream after one more part, and its norm, which the next product reads. `part` null: nothing is added.
 * `name` is the norm's.
 */
export type AddNorm = (
  stream: Tensor,
  part: Tensor | null,
  name: string,
) => { stream: Tensor; normed: Tensor }

/** In single precision, differentiable; `dtype` is what the products read. */
export function addNorm(config: ModelConfig, weight: Parameters, dtype: DType): AddNorm {
  return (stream, part, name) => {
    const sum = part === null ? stream : ops.add(stream, ops.cast(part, 'float32'))
    const normed = ops.rmsNorm(sum, weight(`${name}.weight`), config.rmsNormEps)
    return { stream: sum, normed: ops.cast(normed, dtype) }
  }
}

/** The same by an operator of our own where something is added, in halves; only an adapter can be trained by it. */
export function fusedAddNorm(config: ModelConfig, weight: Parameters): AddNorm {
  const plain = addNorm(config, weight, 'float16')
  return (stream, part, name) => {
    if (part === null) return plain(stream, part, name)
    const { sum, normed } = fused.addRmsNorm(stream, part, weight(`${name}.weight`), config.rmsNormEps)
    return { stream: sum, normed }
  }
}

/** silu(gate) * up */
export type Gated = (gate: Tensor, up: Tensor) => Tensor

const gatedPlainly: Gated = (gate, up) => ops.mul(ops.silu(gate), up)

export interface ForwardInputs {
  /** int64 [batch, time]. */
  tokens: Tensor
  /** int64 [rows]: which positions, counted through the flattened batch, the logits are wanted for; null: all. */
  rows: Tensor | null
}

/**
 * What the head reads, [rows, hiddenSize], of the positions asked for. `stream` says how the residual stream is held, and
 * `gated` how the gated product is computed.
 */
export function hiddenStates(
  config: ModelConfig,
  weight: Parameters,
  linear: Linear,
  attention: Attention,
  { tokens, rows }: ForwardInputs,
  stream?: { dtype: DType; addNorm: AddNorm },
  gated = gatedPlainly,
): Tensor {
  const embedding = weight('model.embed_tokens.weight')
  const norm = stream?.addNorm ?? addNorm(config, weight, embedding.dtype)
  let x = ops.cast(ops.gather(embedding, tokens), stream?.dtype ?? 'float32')
  let part: Tensor | null = null
  for (let layer = 0; layer < config.layers; layer++) {
    const prefix = `model.layers.${layer}`
    const headNorm = (y: Tensor, name: string, heads: number) => {
      if (!config.qkNorm) return y
      const split: Shape = [y.shape[0], y.shape[1], heads, config.headDim]
      const single = ops.cast(ops.reshape(y, split), 'float32')
      const normed = ops.rmsNorm(single, weight(`${prefix}.self_attn.${name}.weight`), config.rmsNormEps)
      return ops.reshape(ops.cast(normed, y.dtype), y.shape)
    }
    const before = norm(x, part, `${prefix}.input_layernorm`)
    const h = before.normed
    x = before.stream
    let mixed = attention(
      headNorm(linear(h, `${prefix}.self_attn.q_proj`), 'q_norm', config.heads),
      headNorm(linear(h, `${prefix}.self_attn.k_proj`), 'k_norm', config.kvHeads),
      linear(h, `${prefix}.self_attn.v_proj`),
      layer,
    )
    // After the last attention nothing looks at other positions: go on with the rows asked for alone.
    if (layer === config.layers - 1) {
      const wanted = (y: Tensor) => (rows === null ? ops.flatten(y) : ops.gather(ops.flatten(y), rows))
      x = wanted(x)
      mixed = wanted(mixed)
    }
    const between = norm(x, linear(mixed, `${prefix}.self_attn.o_proj`), `${prefix}.post_attention_layernorm`)
    const m = between.normed
    x = between.stream
    const gate = linear(m, `${prefix}.mlp.gate_proj`)
    part = linear(gated(gate, linear(m, `${prefix}.mlp.up_proj`)), `${prefix}.mlp.down_proj`)
  }
  return norm(x, part, 'model.norm').normed
}

/** [vocabulary, hiddenSize] */
export function headWeight({ tieEmbeddings }: ModelConfig, weight: Parameters): Tensor {
  return weight(tieEmbeddings ? 'model.embed_tokens.weight' : 'lm_head.weight')
}

/** The name of `transposedHead`. */
export const TRANSPOSED_HEAD = 'head transposed'

/**
 * The head's weight the other way about, [hiddenSize, vocabulary], an input of its own: WebGPU copies what a product is to
 * transpose each time.
 */
export function transposedHead({ hiddenSize, vocabSize }: ModelConfig, precision?: Precision): Tensor {
  return input(TRANSPOSED_HEAD, [hiddenSize, vocabSize], precision)
}

/** Logits [rows, vocabulary], in single precision. `transposed`: the head to take, where it is there so. */
export function logits(
  config: ModelConfig,
  weight: Parameters,
  hidden: Tensor,
  transposed?: Tensor | null,
): Tensor {
  const product = transposed
    ? ops.matmul(hidden, transposed)
    : ops.matmul(hidden, headWeight(config, weight), { transposeB: true })
  return ops.cast(product, 'float32')
}

/** The frozen base's own linear maps. */
export function baseLinear(config: ModelConfig, weight: Parameters): Linear {
  const shapes = weightShapes(config)
  return (x, name) => {
    const matrix = weight(`${name}.weight`)
    const y =
      matrix.dtype === x.dtype ? ops.matmul(x, matrix, { transposeB: true }) : widenedProduct(x, matrix)
    return shapes.has(`${name}.bias`) ? ops.add(y, ops.cast(weight(`${name}.bias`), x.dtype)) : y
  }
}

/** Symbolic LoRA matrices of a projection: a [rank, inputs], b [outputs, rank]. */
export interface AdapterPair {
  a: Tensor
  b: Tensor
}

/** LoRA as two thin products beside the base's: y = x W^T + scale * (x A^T) B^T (Hu et al. 2021). */
export function loraLinear(base: Linear, pair: (name: string) => AdapterPair, scale: number): Linear {
  return (x, name) => {
    const { a, b } = pair(name)
    const low = ops.matmul(x, ops.cast(a, x.dtype), { transposeB: true })
    return ops.add(base(x, name), ops.matmul(low, ops.cast(b, x.dtype), { transposeB: true, scale }))
  }
}

/** The same by one product with the folded weight, in the weights' type; only `x` and the adapter are differentiated. */
export function foldedLinear(
  config: ModelConfig,
  weight: Parameters,
  pair: (name: string) => AdapterPair,
  scale: number,
): Linear {
  const shapes = weightShapes(config)
  return (x, name) => {
    const base = weight(`${name}.weight`)
    const { a, b } = pair(name)
    const narrow = { a: ops.cast(a, base.dtype), b: ops.cast(b, base.dtype) }
    const y = adaptedProduct(x, foldedWeight(base, narrow, scale), narrow, scale)
    return shapes.has(`${name}.bias`) ? ops.add(y, ops.cast(weight(`${name}.bias`), x.dtype)) : y
  }
}

/** The weight that does the same as the base's with the adapter beside it: W + scale * B A. */
export function foldedWeight(weight: Tensor, { a, b }: AdapterPair, scale: number): Tensor {
  return ops.add(weight, ops.matmul(b, a, { scale }))
}

export interface RotaryTables {
  /** [context, headDim / 2] */
  cos: Tensor
  sin: Tensor
}

/** [batch, time, kvHeads * headDim] as [batch, kvHeads, time, headDim], the layout of the cache. */
function byHead({ kvHeads, headDim }: ModelConfig, x: Tensor): Tensor {
  const [batch, time] = x.shape
  return ops.transpose(ops.reshape(x, [batch, time, kvHeads, headDim]), [0, 2, 1, 3])
}

/** Added to a score to hide it. */
export const MASKED = -1e9
/** The same in halves, which reach no further than 65504. */
const MASKED_HALF = -6e4

/**
 * What is added to attention scores of packed rows, [batch, 1, looking, seen]: 0 where a position sees another, MASKED
 * where not. Each sees what stands before it in its own segment and in segment 0, the prompt that a row shares.
 * `segments` int32 [batch, time]; `order` int32 [time] is 0, 1, 2 ...: those of the positions that look, and of the seen.
 */
export function segmentMask(
  looking: { segments: Tensor; order: Tensor },
  seen: { segments: Tensor; order: Tensor } = looking,
  dtype: Precision = 'float32',
): Tensor {
  const [batch, rows] = looking.segments.shape
  const columns = seen.segments.shape[1]
  const segment = ops.reshape(seen.segments, [batch, 1, 1, columns])
  const shown = constant(0, dtype)
  const hidden = constant(dtype === 'float16' ? MASKED_HALF : MASKED, dtype)
  const own = ops.where(ops.equal(ops.reshape(looking.segments, [batch, 1, rows, 1]), segment), shown, hidden)
  const visible = ops.where(ops.equal(segment, 0), shown, own)
  const before = ops.lessOrEqual(
    ops.reshape(seen.order, [1, 1, 1, columns]),
    ops.reshape(looking.order, [1, 1, rows, 1]),
  )
  return ops.where(before, visible, hidden)
}

/** The same by blocks of looking positions, each with what is seen up to the block's end. */
export function blockMasks(segments: Tensor, order: Tensor, blocks: number, dtype: Precision): Tensor[] {
  const time = order.shape[0]
  const [segmentParts, orderParts] = [ops.parts(segments, 1, blocks), ops.parts(order, 0, blocks)]
  return orderParts.map((_, b) => {
    const seen = ops.fraction(time, b + 1, blocks)
    return segmentMask(
      { segments: segmentParts[b], order: orderParts[b] },
      {
        segments: ops.concat(segmentParts.slice(0, b + 1), 1, seen),
        order: ops.concat(orderParts.slice(0, b + 1), 0, seen),
      },
      dtype,
    )
  })
}

/** Called with each layer's rotated keys and its values, [batch, kvHeads, time, headDim]. */
export type KeepCache = (layer: number, key: Tensor, value: Tensor) => void

/**
 * Attention over whole sequences, differentiable. `mask` [batch or 1, 1, time, time] is added to the scores (0 or very
 * negative), so that several completions can share one prompt in a row; positions are int64 [batch, time]. The softmax is
 * in the mask's type.
 */
export function fullAttention(
  config: ModelConfig,
  tables: RotaryTables,
  positions: Tensor,
  mask: Tensor,
  keep?: KeepCache,
): Attention {
  const { heads, kvHeads, headDim } = config
  const group = heads / kvHeads
  return wholeAttention(config, tables, positions, keep, (query, key, value) => {
    const [batch, , , time] = query.shape
    // Heads that share a key-value head are stacked as more rows of one product, so that keys are never repeated.
    const rows = ops.times(time, group)
    const stacked = ops.reshape(query, [batch, kvHeads, rows, headDim])
    const scores = ops.matmul(stacked, key, { transposeB: true, scale: 1 / Math.sqrt(headDim) })
    const perHead = ops.add(ops.cast(ops.reshape(scores, [batch, heads, time, time]), mask.dtype), mask)
    const shares = ops.cast(ops.softmax(perHead), value.dtype)
    const probabilities = ops.reshape(shares, [batch, kvHeads, rows, time])
    return ops.reshape(ops.matmul(probabilities, value), [batch, kvHeads, group, time, headDim])
  })
}

/** The same by blocks of positions, `masks` as `blockMasks` gives them; `keeps` as `blockedAttention` has it. */
export function blockAttention(
  config: ModelConfig,
  tables: RotaryTables,
  positions: Tensor,
  masks: readonly Tensor[],
  keep?: KeepCache,
  keeps = false,
): Attention {
  const scale = 1 / Math.sqrt(config.headDim)
  return wholeAttention(config, tables, positions, keep, (query, key, value) =>
    blockedAttention(query, key, value, masks, scale, keeps),
  )
}

/** The same of packed rows by operators of our own, in halves; `segments` as `segmentMask` has them. */
export function packedAttention(
  config: ModelConfig,
  tables: RotaryTables,
  positions: Tensor,
  segments: Tensor,
  keep?: KeepCache,
): Attention {
  const row = { segments, ranges: packed.segmentRanges(segments) }
  return (q, k, v, layer) => {
    const [query, key] = [q, k].map((x) => rotated(x, positions, tables))
    keep?.(layer, byHead(config, key), byHead(config, v))
    return packed.packedAttention(query, key, v, row, config.heads)
  }
}

function rotated(x: Tensor, positions: Tensor, { cos, sin }: RotaryTables): Tensor {
  return ops.rotary(x, positions, ops.cast(cos, x.dtype), ops.cast(sin, x.dtype))
}

/**
 * Attention by `mix`, given rotated queries [batch, kvHeads, heads to a key-value head, time, headDim], rotated keys, and
 * values [batch, kvHeads, time, headDim]; the result has the queries' shape.
 */
function wholeAttention(
  config: ModelConfig,
  tables: RotaryTables,
  positions: Tensor,
  keep: KeepCache | undefined,
  mix: (query: Tensor, key: Tensor, value: Tensor) => Tensor,
): Attention {
  const { heads, kvHeads, headDim } = config
  return (q, k, v, layer) => {
    const [batch, time] = q.shape
    const rotate = (x: Tensor) => rotated(x, positions, tables)
    const split = ops.reshape(rotate(q), [batch, time, kvHeads, heads / kvHeads, headDim])
    const query = ops.transpose(split, [0, 2, 3, 1, 4])
    const [key, value] = [byHead(config, rotate(k)), byHead(config, v)]
    keep?.(layer, key, value)
    const mixed = ops.transpose(mix(query, key, value), [0, 3, 1, 2, 4])
    return ops.reshape(mixed, [batch, time, heads * headDim])
  }
}

/** A layer's cached keys (rotated) and values, [rows, kvHeads, positions, headDim] each. */
export interface Cached {
  key: Tensor
  value: Tensor
}

/** What a sample's new token looks at: its prompt, which it may share with others, and what was sampled after it. */
export interface StepCache {
  /** [prompts, kvHeads, prefix, headDim] */
  prompts: (layer: number) => Cached
  /** [batch, kvHeads, window, headDim] */
  own: (layer: number) => Cached
  /**
   * int32 [prompts, kvHeads, asked]: which queries ask each prompt, counted through [batch, kvHeads, heads of each]. A
   * prompt is read once for all that ask it.
   */
  asks: Tensor
  /** int32 [batch, kvHeads, heads of each]: where each query stands among those asked, counted through [prompts, kvHeads, asked]. */
  places: Tensor
  /** int64 [1]: the prefix's length. */
  prefix: Tensor
  /** [prompts, 1, asked, prefix + window + 1], added to the scores: it hides what a prompt or a sample has not filled. */
  mask: Tensor
}

/**
 * Attention of one new token a row (time is 1) to its prompt, to what was sampled after it, and to itself; rows may have
 * different lengths. The caches are only read: the new keys and values are kept aside, for the caller to write.
 */
export function stepAttention(
  config: ModelConfig,
  tables: RotaryTables,
  positions: Tensor,
  { prompts, own, asks, places, prefix, mask }: StepCache,
  keep: KeepCache,
): Attention {
  const { heads, kvHeads, headDim } = config
  const group = heads / kvHeads
  return (q, k, v, layer) => {
    const [batch] = q.shape
    const [prompt, past] = [prompts(layer), own(layer)]
    const rotate = (x: Tensor) => ops.rotary(x, positions, tables.cos, tables.sin)
    const query = ops.reshape(rotate(q), [batch, kvHeads, group, headDim])
    const newKey = ops.reshape(rotate(k), [batch, kvHeads, 1, headDim])
    const newValue = ops.reshape(v, [batch, kvHeads, 1, headDim])
    keep(layer, newKey, newValue)
    const byPrompt = (x: Tensor) => ops.gather(ops.flatten(x), asks)
    const byRow = (x: Tensor) => ops.gather(ops.flatten(x), places)
    const scaled = { transposeB: true, scale: 1 / Math.sqrt(headDim) }
    const ownScores = ops.concat(
      [ops.matmul(query, past.key, scaled), ops.matmul(query, newKey, scaled)],
      3,
      'window+1',
    )
    const scores = ops.concat(
      [ops.matmul(byPrompt(query), prompt.key, scaled), byPrompt(ownScores)],
      3,
      'prefix+window+1',
    )
    const shares = ops.softmax(ops.add(scores, mask))
    const ownShares = byRow(ops.sliceLast(shares, prefix, END, 'window+1'))
    const mixed = [
      byRow(ops.matmul(ops.sliceLast(shares, 0, prefix, 'prefix'), prompt.value)),
      ops.matmul(ops.sliceLast(ownShares, 0, -1, 'window'), past.value),
      ops.mul(ops.sliceLast(ownShares, -1, END, 1), newValue),
    ]
    return ops.reshape(
      mixed.reduce((sum, part) => ops.add(sum, part)),
      [batch, 1, heads * headDim],
    )
  }
}

/** ONNX's way to say "to the end" of an axis in a slice. */
const END = Number.MAX_SAFE_INTEGER

/** Cosines and sines of every position, [context, headDim / 2] each, with Llama 3.1's frequency scaling. */
export function rotaryTables(config: ModelConfig, context: number): { cos: Float32Array; sin: Float32Array } {
  const half = config.headDim / 2
  const frequencies = Array.from({ length: half }, (_, i) =>
    scaled(config.ropeTheta ** (-i / half), config.ropeScaling),
  )
  const cos = new Float32Array(context * half)
  const sin = new Float32Array(context * half)
  for (let position = 0; position < context; position++) {
    for (let i = 0; i < half; i++) {
      // The angle is rounded to single precision first, as PyTorch computes it.
      const angle = Math.fround(position * Math.fround(frequencies[i]))
      cos[position * half + i] = Math.cos(angle)
      sin[position * half + i] = Math.sin(angle)
    }
  }
  return { cos, sin }
}

/** Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those between blended. */
function scaled(frequency: number, scaling: ModelConfig['ropeScaling']): number {
  if (scaling === null) return frequency
  const { factor, lowFreqFactor, highFreqFactor, originalContextLength } = scaling
  const turns = (originalContextLength * frequency) / (2 * Math.PI)
  if (turns < lowFreqFactor) return frequency / factor
  if (turns > highFreqFactor) return frequency
  const blend = (turns - lowFreqFactor) / (highFreqFactor - lowFreqFactor)
  return (1 - blend) * (frequency / factor) + blend * frequency
}

/** The graphs that the engine runs, each built from the one model in `model.ts`. */
import type { ModelConfig } from '../checkpoint/config.ts'
import { projections, weightShapes } from '../checkpoint/folder.ts'
import { type EmitOptions, emit } from '../graph/emit.ts'
import { swiglu } from '../graph/fused.ts'
import { gradients } from '../graph/gradients.ts'
import * as ops from '../graph/ops.ts'
import { chunkedLogprobs } from '../graph/recompute.ts'
import { type Dim, input, type Tensor } from '../graph/tensor.ts'
import * as model from './model.ts'

/** What is trained: nothing (scoring), an adapter, or every weight. */
export type Trained = 'none' | 'adapter' | 'all'

export interface AdapterShape {
  rank: number
  /** alpha / rank */
  scale: number
}

/** Names of a projection's LoRA matrices as graph inputs; their gradients are outputs named by `gradientName`. */
export const loraA = (projection: string) => `${projection}.lora_A`
export const loraB = (projection: string) => `${projection}.lora_B`
export const gradientName = (weight: string) => `grad ${weight}`

export function adapterPairs(config: ModelConfig, rank: number): Map<string, model.AdapterPair> {
  return new Map(
    projections(config).map((p) => [
      p.name,
      { a: input(loraA(p.name), [rank, p.in]), b: input(loraB(p.name), [p.out, rank]) },
    ]),
  )
}

/** Where a program is to run, and how: the CPU in single precision unless said otherwise. */
export interface Target extends EmitOptions {
  precision?: model.Precision
  /** Positions in the rotary tables; needed where these are constants. */
  context?: number
  /**
   * Scoring and training keep little and compute much anew (`recompute.ts`): attention by so many blocks of positions,
   * log-probabilities by so many chunks of targets. Both must divide what they cut.
   */
  frugal?: { blocks: number; chunks: number }
  /** Scoring and training keep what they compute, attention by so many blocks of positions, which divide their number. */
  blocks?: number
  /**
   * Our own kernels run there. Sampling steps are made of them: fused weights stand as these read them, [outputs, inputs],
   * and so do the prompts' caches, which samples share. In halves, scoring and training have operators made of them.
   */
  kernels?: boolean
  /** In halves: attention of scoring and training is an operator of our own, by tiles, instead of by blocks. */
  tiles?: boolean
  /** No operator is ONNX Runtime's (`onnx/webgpu`): prompts too are computed by those of scoring and training. */
  own?: boolean
}

/** The base's linear maps, with LoRA beside them where there is an adapter. */
function adaptedLinear(
  config: ModelConfig,
  weight: model.Parameters,
  pairs: ReadonlyMap<string, model.AdapterPair>,
  adapter?: AdapterShape,
  folded = false,
): model.Linear {
  const base = model.baseLinear(config, weight)
  if (adapter === undefined) return base
  const pair = (name: string) => pairs.get(name) as model.AdapterPair
  return folded
    ? model.foldedLinear(config, weight, pair, adapter.scale)
    : model.loraLinear(base, pair, adapter.scale)
}

/** Log-probability of each row's target under softmax(logits / temperature): [rows]. */
function targetLogprobs(logits: Tensor, targets: Tensor, temperature: Tensor): Tensor {
  return ops.pick(ops.logSoftmax(ops.div(logits, temperature)), targets)
}

export type LossKind = 'policy_gradient' | 'cross_entropy'

/** A packed batch, and what its loss is made of (`pack.ts`, `sequences.ts`). */
export interface SequenceTensors {
  /** int32 [batch, time] */
  tokens: Tensor
  segments: Tensor
  /** int64 [batch, time] */
  positions: Tensor
  /** int32 [time]: 0, 1, 2 ... */
  order: Tensor
  /** int32 [rows] */
  rows: Tensor
  targets: Tensor
  /** [rows]; for cross-entropy the weights. Looked at for a loss alone. */
  advantages: Tensor
  /** [rows]: log-probabilities when sampled. Looked at for the policy gradient alone. */
  old: Tensor
  /** []: what the loss is multiplied by before it is differentiated, so that in halves nothing vanishes or overflows. */
  lossScale: Tensor | null
}

export interface SequenceOptions {
  adapter?: AdapterShape
  trained: Trained
  /**
   * The adapter is folded into the weights in the graph, which spares two products a projection in forward and one in
   * backward, and passes over what they give: less work where a batch has more rows than the weights. Where weights are
   * held in halves and products are not, it stands beside them.
   */
  folded?: boolean
  loss?: LossKind
}

/** Log-probabilities [rows] of a packed batch's targets; for a loss its value and gradients by name. */
export function sequenceGraph(
  config: ModelConfig,
  options: SequenceOptions,
  target: Target,
  batch: SequenceTensors,
  pairs = options.adapter ? adapterPairs(config, options.adapter.rank) : new Map<string, model.AdapterPair>(),
): { logprobs: Tensor; loss: Tensor | null; gradients: Map<string, Tensor> } {
  const { precision, context, frugal } = target
  const blocks = frugal?.blocks ?? target.blocks
  if (frugal && options.trained === 'all')
    throw new Error('frugal programs train an adapter, not every weight')
  const weight = model.parameters(config, precision)
  const linear = adaptedLinear(config, weight, pairs, options.adapter, options.folded)
  const tables = rotaryInputs(config, context)
  const { tokens, segments, order, positions, rows, targets } = batch
  const computed = computedIn(target)
  const fuses = fusesPasses(target)
  // CUDA's softmax sums halves in single precision; its shares are rounded to halves in any case, for the product with
  // the values.
  const blocked = (blocks: number) =>
    model.blockAttention(
      config,
      tables,
      positions,
      model.blockMasks(segments, order, blocks, computed),
      undefined,
      frugal === undefined,
    )
  const attention = target.tiles
    ? model.packedAttention(config, tables, positions, segments)
    : blocks
      ? blocked(blocks)
      : model.fullAttention(config, tables, positions, model.segmentMask({ segments, order }))
  const hidden = model.hiddenStates(
    config,
    weight,
    linear,
    attention,
    { tokens, rows },
    {
      dtype: 'float32',
      addNorm: fuses ? model.fusedAddNorm(config, weight) : model.addNorm(config, weight, computed),
    },
    fuses ? swiglu : undefined,
  )
  const temperature = input('temperature', [])
  const logprobs = frugal
    ? chunkedLogprobs(
        hidden,
        {
          weight: model.headWeight(config, weight),
          transposed: target.plain ? model.transposedHead(config, precision) : null,
        },
        targets,
        temperature,
        frugal.chunks,
        fuses,
      )
    : targetLogprobs(model.logits(config, weight, hidden), targets, temperature)
  if (options.loss === undefined) return { logprobs, loss: null, gradients: new Map() }

  const gain =
    options.loss === 'cross_entropy'
      ? ops.mul(logprobs, batch.advantages)
      : clippedGain(logprobs, batch.advantages, batch.old)
  const loss = ops.neg(ops.sumAll(gain))
  const trained: [string, Tensor][] =
    options.trained === 'all'
      ? [...weightShapes(config).keys()].map((name) => [name, weight(name)])
      : [...pairs].flatMap(([name, { a, b }]): [string, Tensor][] => [
          [loraA(name), a],
          [loraB(name), b],
        ])
  const parts = gradients(
    batch.lossScale === null ? loss : ops.mul(loss, batch.lossScale),
    trained.map(([, tensor]) => tensor),
  )
  return { logprobs, loss, gradients: new Map(trained.map(([name], i) => [name, parts[i]])) }
}

/** What products are computed in when scoring and training. WebGPU's add up halves in halves, which is too coarse. */
function computedIn({ precision = 'float32', plain = false }: Target): model.Precision {
  return plain ? 'float32' : precision
}

/** Whether scoring and training take operators of our own (`fused.ts`) where ONNX's would pass over activations. */
function fusesPasses(target: Target): boolean {
  return target.kernels === true && target.frugal !== undefined && computedIn(target) === 'float16'
}

/** The scale of the loss as an input; single precision needs none. */
export function lossScaleInput(target: Target): Tensor | null {
  return computedIn(target) === 'float32' ? null : input('lossScale', [])
}

/** Gradients as outputs, the loss's scale taken out again. */
export function gradientOutputs(
  gradients: ReadonlyMap<string, Tensor>,
  lossScale: Tensor | null,
): Record<string, Tensor> {
  const named = [...gradients].map(([name, tensor]): [string, Tensor] => [
    gradientName(name),
    lossScale === null ? tensor : ops.div(tensor, lossScale),
  ])
  return Object.fromEntries(named)
}

/**
 * Scores the targets of a packed batch and, for a loss, gives its value and gradients.
 *
 * Inputs: those of `SequenceTensors`; `temperature` []; for the policy gradient `low`, `high` [] (the ratio's bounds). In
 * halves, `lossScale` []: the loss is multiplied by it and the gradients divided again.
 * Outputs: `logprobs` [rows]; for the losses `loss` [] and the gradients.
 */
export function sequenceProgram(
  config: ModelConfig,
  options: SequenceOptions,
  target: Target = {},
): Uint8Array {
  const lossScale = lossScaleInput(target)
  const { logprobs, loss, gradients } = sequenceGraph(config, options, target, batchInputs(lossScale))
  if (loss === null) return emit('score', { logprobs }, target)
  return emit(`train ${options.loss}`, { loss, logprobs, ...gradientOutputs(gradients, lossScale) }, target)
}

function batchInputs(lossScale: Tensor | null): SequenceTensors {
  return {
    tokens: input('tokens', ['batch', 'time'], 'int32'),
    segments: input('segments', ['batch', 'time'], 'int32'),
    positions: positionsInput(),
    order: input('order', ['time'], 'int32'),
    rows: input('rows', ['rows'], 'int32'),
    targets: input('targets', ['rows'], 'int32'),
    advantages: input('advantages', ['rows']),
    old: input('old', ['rows']),
    lossScale,
  }
}

/** Names of sums of gradients, as inputs; as outputs `next ` stands before. */
export const sumName = (weight: string) => `sum ${weight}`

/**
 * Trains an adapter on a packed batch: inputs as for `sequenceProgram`, and the sums of gradients so far.
 * Outputs: `loss` [], `logprobs` [rows], and the sums with this batch's gradients added.
 */
export function summingProgram(
  config: ModelConfig,
  adapter: AdapterShape,
  loss: LossKind,
  target: Target = {},
): Uint8Array {
  const lossScale = lossScaleInput(target)
  const options: SequenceOptions = { adapter, trained: 'adapter', folded: !target.plain, loss }
  const part = sequenceGraph(config, options, target, batchInputs(lossScale))
  const sums = [...part.gradients].map(([name, gradient]): [string, Tensor] => {
    const unscaled = lossScale === null ? gradient : ops.div(gradient, lossScale)
    return [`next ${sumName(name)}`, ops.add(input(sumName(name), gradient.shape), unscaled)]
  })
  const outputs = { loss: part.loss as Tensor, logprobs: part.logprobs, ...Object.fromEntries(sums) }
  return emit(`train ${loss}`, outputs, target)
}

/** Sets sums of gradients of an adapter to zero. */
export function clearingProgram(config: ModelConfig, rank: number): Uint8Array {
  const zeros = [...adapterPairs(config, rank)].flatMap(([projection, { a, b }]): [string, Tensor][] =>
    [[loraA(projection), a] as const, [loraB(projection), b] as const].map(([name, { shape }]) => [
      `next ${sumName(name)}`,
      ops.zerosLike(input(sumName(name), shape)),
    ]),
  )
  return emit('clear', Object.fromEntries(zeros))
}

/** min(r A, clip(r, low, high) A) with r = exp(logprob - old logprob) (PPO, Schulman et al. 2017). */
function clippedGain(logprobs: Tensor, advantages: Tensor, old: Tensor): Tensor {
  const ratio = ops.exp(ops.sub(logprobs, old))
  const clipped = ops.clip(ratio, input('low', []), input('high', []))
  return ops.minimum(ops.mul(ratio, advantages), ops.mul(clipped, advantages))
}

/** Names of a layer's keys and values: outputs of a prompt, inputs of a step, whose outputs say `new ` before. */
export const cacheKey = (layer: number) => `key.${layer}`
export const cacheValue = (layer: number) => `value.${layer}`

export interface GenerationOptions {
  adapter?: AdapterShape
}

/**
 * Computes whole prompts and starts their key-value caches.
 *
 * Inputs: `tokens` int32, `positions` int64 [batch, time] (padded on the right); `mask` [1, 1, time, time]; `rows` int32
 * [batch] (each prompt's last token, counted through the flattened batch); `temperature` [].
 * Outputs: `logprobs` [batch, vocabulary] of the next token under softmax(logits / temperature), and the caches
 * [batch, kvHeads, time, headDim].
 */
export function promptProgram(config: ModelConfig, options: GenerationOptions): Uint8Array {
  const caches: Record<string, Tensor> = {}
  const mask = input('mask', [1, 1, 'time', 'time'])
  const attention = model.fullAttention(
    config,
    rotaryInputs(config),
    positionsInput(),
    mask,
    (layer, key, value) => {
      caches[cacheKey(layer)] = key
      caches[cacheValue(layer)] = value
    },
  )
  return emit('prompt', { logprobs: nextLogprobs(config, options, attention), ...caches })
}

/** The same of the prompts that a step's samples share. */
export const promptKey = (layer: number) => `prompt ${cacheKey(layer)}`
export const promptValue = (layer: number) => `prompt ${cacheValue(layer)}`

/**
 * Feeds one sampled token a row.
 *
 * Inputs: `tokens` int32, `positions` int64 [batch, 1]; `rows` int32 [batch] (0, 1, 2, ...); `temperature` []; `asks`,
 * `places`, `prefix` and `mask` as `model.StepCache` has them; the prompts' caches [prompts, kvHeads, prefix, headDim], and
 * what was sampled since, [batch, kvHeads, window, headDim].
 * Outputs: `logprobs` [batch, vocabulary] of the next token, and the new token's keys and values
 * [batch, kvHeads, 1, headDim]. The caches themselves are never copied.
 */
export function stepProgram(
  config: ModelConfig,
  options: GenerationOptions,
  target: EmitOptions = {},
): Uint8Array {
  const { heads, kvHeads, headDim } = config
  const fresh: Record<string, Tensor> = {}
  const prompts = ['prompts', kvHeads, 'prefix', headDim]
  const own = ['batch', kvHeads, 'window', headDim]
  const attention = model.stepAttention(
    config,
    rotaryInputs(config),
    positionsInput(),
    {
      prompts: (layer) => ({
        key: input(promptKey(layer), prompts),
        value: input(promptValue(layer), prompts),
      }),
      own: (layer) => ({ key: input(cacheKey(layer), own), value: input(cacheValue(layer), own) }),
      asks: input('asks', ['prompts', kvHeads, 'asked'], 'int32'),
      places: input('places', ['batch', kvHeads, heads / kvHeads], 'int32'),
      prefix: input('prefix', [1], 'int64'),
      mask: input('mask', ['prompts', 1, 'asked', 'prefix+window+1']),
    },
    (layer, key, value) => {
      fresh[`new ${cacheKey(layer)}`] = key
      fresh[`new ${cacheValue(layer)}`] = value
    },
  )
  return emit('step', { logprobs: nextLogprobs(config, options, attention), ...fresh }, target)
}

function nextLogprobs(config: ModelConfig, options: GenerationOptions, attention: model.Attention): Tensor {
  const weight = model.parameters(config)
  const pairs = options.adapter ? adapterPairs(config, options.adapter.rank) : new Map()
  const linear = adaptedLinear(config, weight, pairs, options.adapter)
  const hidden = model.hiddenStates(config, weight, linear, attention, {
    tokens: input('tokens', ['batch', 'time'], 'int32'),
    rows: input('rows', ['batch'], 'int32'),
  })
  return ops.logSoftmax(ops.div(model.logits(config, weight, hidden), input('temperature', [])))
}

function positionsInput(): Tensor {
  return input('positions', ['batch', 'time'], 'int64')
}

/** Gives every projection's weight with the adapter folded in, under the weight's own name with `folded `. */
export function foldProgram(config: ModelConfig, { rank, scale }: AdapterShape): Uint8Array {
  const weight = model.parameters(config)
  const outputs = [...adapterPairs(config, rank)].map(([name, pair]): [string, Tensor] => [
    `folded ${name}.weight`,
    model.foldedWeight(weight(`${name}.weight`), pair, scale),
  ])
  return emit('fold', Object.fromEntries(outputs))
}

export function rotaryInputs(config: ModelConfig, context: Dim = 'context'): model.RotaryTables {
  const shape = [context, config.headDim / 2]
  return { cos: input('cos', shape), sin: input('sin', shape) }
}

/** The graphs that the engine runs, each built from the one model in `model.ts`. */
import type { ModelConfig } from '../checkpoint/config.ts'
import { weightShapes } from '../checkpoint/model.ts'
import { emit } from '../graph/emit.ts'
import { gradients } from '../graph/gradients.ts'
import * as ops from '../graph/ops.ts'
import { input, type Tensor } from '../graph/tensor.ts'
import * as model from './model.ts'

/** How LoRA enters a graph: not at all, as thin products beside the base's, or folded into its weights. */
export type Adaptation = 'none' | 'factored' | 'folded'

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

function adapterPairs(config: ModelConfig, rank: number): Map<string, model.AdapterPair> {
  return new Map(
    model
      .projections(config)
      .map((p) => [
        p.name,
        { a: input(loraA(p.name), [rank, p.in]), b: input(loraB(p.name), [p.out, rank]) },
      ]),
  )
}

function adaptedLinear(
  config: ModelConfig,
  weight: model.Parameters,
  pairs: ReadonlyMap<string, model.AdapterPair>,
  how: Adaptation,
  scale: number,
): model.Linear {
  if (how === 'none') return model.baseLinear(config, weight)
  const pair = (name: string) => pairs.get(name) as model.AdapterPair
  if (how === 'factored') return model.loraLinear(model.baseLinear(config, weight), pair, scale)
  const folded = new Map(
    [...pairs].map(([name, p]) => [`${name}.weight`, model.foldedWeight(weight(`${name}.weight`), p, scale)]),
  )
  return model.baseLinear(config, (name) => folded.get(name) ?? weight(name))
}

/** Log-probability of each row's target under softmax(logits / temperature): [rows]. */
function targetLogprobs(logits: Tensor, targets: Tensor, temperature: Tensor): Tensor {
  return ops.pick(ops.logSoftmax(ops.div(logits, temperature)), targets)
}

export type LossKind = 'policy_gradient' | 'cross_entropy'

/**
 * Scores the targets of a packed batch and, for a loss, gives its value and gradients.
 *
 * Inputs: `tokens`, `positions` int64 [batch, time]; `mask` [batch, 1, time, time]; `rows`, `targets` int64 [rows];
 * `temperature` []; for the losses `advantages` [rows] (cross-entropy: the weights), and for the policy gradient
 * `old` [rows], `low`, `high` [] (the ratio's bounds).
 * Outputs: `logprobs` [rows]; for the losses `loss` [] and the gradients.
 */
export function sequenceProgram(
  config: ModelConfig,
  options: { adapter?: AdapterShape; how: Adaptation; trained: Trained; loss?: LossKind },
): Uint8Array {
  const weight = model.parameters(config)
  const pairs = options.adapter ? adapterPairs(config, options.adapter.rank) : new Map()
  const linear = adaptedLinear(config, weight, pairs, options.how, options.adapter?.scale ?? 0)
  const tables = rotaryInputs(config)
  const positions = input('positions', ['batch', 'time'], 'int64')
  const mask = input('mask', ['batch', 1, 'time', 'time'])
  const attention = model.fullAttention(config, tables, positions, mask)
  const logits = model.forward(config, weight, linear, attention, {
    tokens: input('tokens', ['batch', 'time'], 'int64'),
    rows: input('rows', ['rows'], 'int64'),
  })
  const logprobs = targetLogprobs(logits, input('targets', ['rows'], 'int64'), input('temperature', []))
  if (options.loss === undefined) return emit('score', { logprobs })

  const advantages = input('advantages', ['rows'])
  const gain =
    options.loss === 'cross_entropy' ? ops.mul(logprobs, advantages) : clippedGain(logprobs, advantages)
  const loss = ops.neg(ops.sumAll(gain))
  const trained: [string, Tensor][] =
    options.trained === 'all'
      ? [...weightShapes(config).keys()].map((name) => [name, weight(name)])
      : [...pairs].flatMap(([name, { a, b }]): [string, Tensor][] => [
          [loraA(name), a],
          [loraB(name), b],
        ])
  const parts = gradients(
    loss,
    trained.map(([, tensor]) => tensor),
  )
  return emit(`train ${options.loss}`, {
    loss,
    logprobs,
    ...Object.fromEntries(trained.map(([name], i) => [gradientName(name), parts[i]])),
  })
}

/** min(r A, clip(r, low, high) A) with r = exp(logprob - old logprob) (PPO, Schulman et al. 2017). */
function clippedGain(logprobs: Tensor, advantages: Tensor): Tensor {
  const ratio = ops.exp(ops.sub(logprobs, input('old', ['rows'])))
  const clipped = ops.clip(ratio, input('low', []), input('high', []))
  return ops.minimum(ops.mul(ratio, advantages), ops.mul(clipped, advantages))
}

/** Names of a layer's key-value cache as graph inputs; the outputs carry the same name with `new `. */
export const cacheKey = (layer: number) => `key.${layer}`
export const cacheValue = (layer: number) => `value.${layer}`

/**
 * Feeds new tokens (a whole prompt, or one sampled token a row) to a key-value cache and gives the log-probabilities
 * of what comes next.
 *
 * Inputs: `tokens` int64 [batch, time] (padded on the right); `rows` int64 [wanted] (each row's last token, counted
 * through the flattened batch); `last` int32 [batch] (each row's length in the cache after this, minus one);
 * `longest` int32 [1]; `temperature` []; the caches [batch, kvHeads, window, headDim].
 * Outputs: `logprobs` [wanted, vocabulary] under softmax(logits / temperature), and the caches.
 */
export function generationProgram(
  config: ModelConfig,
  options: { adapter?: AdapterShape; how: Adaptation },
): Uint8Array {
  const weight = model.parameters(config)
  const pairs = options.adapter ? adapterPairs(config, options.adapter.rank) : new Map()
  const linear = adaptedLinear(config, weight, pairs, options.how, options.adapter?.scale ?? 0)
  const { cos, sin } = rotaryInputs(config)
  const lastPosition = input('last', ['batch'], 'int32')
  const longest = input('longest', [1], 'int32')
  const caches: Record<string, Tensor> = {}
  const attention: model.Attention = (query, key, value, layer) => {
    const shape = ['batch', config.kvHeads, 'window', config.headDim]
    const [output, newKey, newValue] = ops.cachedAttention({
      query,
      key,
      value,
      pastKey: input(cacheKey(layer), shape),
      pastValue: input(cacheValue(layer), shape),
      lastPosition,
      longest,
      cos,
      sin,
      heads: config.heads,
      kvHeads: config.kvHeads,
    })
    caches[`new ${cacheKey(layer)}`] = newKey
    caches[`new ${cacheValue(layer)}`] = newValue
    return output
  }
  const logits = model.forward(config, weight, linear, attention, {
    tokens: input('tokens', ['batch', 'time'], 'int64'),
    rows: input('rows', ['wanted'], 'int64'),
  })
  const logprobs = ops.logSoftmax(ops.div(logits, input('temperature', [])))
  return emit('generate', { logprobs, ...caches })
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

function rotaryInputs(config: ModelConfig): model.RotaryTables {
  const shape = ['context', config.headDim / 2]
  return { cos: input('cos', shape), sin: input('sin', shape) }
}

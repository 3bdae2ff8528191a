/// <reference types="@webgpu/types" />
/**
 * A step of sampling as dispatches: a token is drawn for each sample, and the model computed for it, whose logits the next
 * step draws from. All of it stays on the GPU, and a step asks for nothing that the one before did not leave. Samples of a
 * prompt share its keys and values. A dispatch that waits for the one before takes several microseconds, whatever it
 * computes: a layer has seven.
 */
import type { ModelConfig } from '../../checkpoint/config.ts'
import { weightShapes } from '../../checkpoint/folder.ts'
import type { Drawing, StepSizes } from '../gpu/kernels/step.ts'
import type { NativeType } from '../native.ts'
import { cacheKey, cacheValue, promptKey, promptValue } from '../programs.ts'
import { attend, MOST_QUERIES, mixedDims, settle } from './decodeAttention.ts'
import { BINS, draw, PIECES } from './draw.ts'
import type { Dispatch, Traits } from './gpu.ts'
import { gated, partsOf, streamed } from './products.ts'
import { addNorm, embed, PLACE } from './rows.ts'

/** What widths are multiples of, and the widest head. */
const MULTIPLE = 16
const WIDEST_HEAD = 256

/** Why a model cannot be computed by our kernels on WebGPU; null where it can. */
export function unfitForWebgpu(config: ModelConfig): string | null {
  const { vocabSize, headDim, hiddenSize, intermediateSize, heads, kvHeads } = config
  if (vocabSize % 2 !== 0) return `a vocabulary of ${vocabSize}: an odd number`
  if (headDim % MULTIPLE !== 0) return `heads of ${headDim} elements: no multiple of ${MULTIPLE}`
  if (headDim > WIDEST_HEAD) return `heads of ${headDim} elements: more than ${WIDEST_HEAD}`
  if (heads / kvHeads > MOST_QUERIES)
    return `${heads / kvHeads} query heads to a key-value head: more than ${MOST_QUERIES}`
  const odd = [hiddenSize, intermediateSize].find((size) => size % MULTIPLE !== 0)
  return odd === undefined ? null : `a width of ${odd}: no multiple of ${MULTIPLE}`
}

/**
 * Positions of a workgroup of attention that has others to hide its waiting, and how many workgroups are enough of them.
 * Shares of the positions cost a dispatch more.
 */
const SHARE = 512
const ENOUGH_WORKGROUPS = 512
const MOST_SHARES = 16

/** Few long contexts are shared among workgroups. */
function sharesOf({ kvHeads }: ModelConfig, { samples, time, window }: StepSizes): number {
  const wanted = Math.min(
    Math.floor((time + window) / SHARE),
    Math.ceil(ENOUGH_WORKGROUPS / samples / kvHeads),
    MOST_SHARES,
  )
  return wanted > 2 ? wanted : 1
}

/** What a step is made of, for a model and sizes. */
export interface StepPlan {
  /**
   * Tensors that it needs beside weights, caches and what a generation gives and takes, to be allocated. Values are cached
   * as keys are: prompts' [prompts, kvHeads, time, headDim], samples' [samples, kvHeads, window, headDim].
   */
  buffers: ReadonlyMap<string, { dtype: NativeType; dims: readonly number[] }>
  /** `at`, int32 [1], is 0 at first, and counts the steps. */
  dispatches(drawing: Drawing, bufferOf: (name: string) => GPUBuffer): Dispatch[]
}

export function planSteps(
  config: ModelConfig,
  sizes: StepSizes,
  traits: Traits,
  shares = sharesOf(config, sizes),
): StepPlan {
  const { layers, heads, kvHeads, headDim, hiddenSize, intermediateSize, vocabSize, rmsNormEps } = config
  const { samples, time, window } = sizes
  const biased = weightShapes(config).has('model.layers.0.self_attn.q_proj.bias')
  const wide = (heads + 2 * kvHeads) * headDim
  const rows = samples
  const [qkv, o, down] = (
    [
      [hiddenSize, wide],
      [heads * headDim, hiddenSize],
      [intermediateSize, hiddenSize],
    ] as const
  ).map(([inputs, outputs]) => ({ rows, inputs, outputs, parts: partsOf(rows, inputs, outputs, traits) }))
  const buffers: StepPlan['buffers'] = new Map<string, { dtype: NativeType; dims: readonly number[] }>([
    ['stream', { dtype: 'float32', dims: [samples, hiddenSize] }],
    ['normed', { dtype: 'float16', dims: [samples, hiddenSize] }],
    ['places', { dtype: 'float32', dims: [samples, PLACE + headDim] }],
    ['mixed', { dtype: 'float32', dims: shares > 1 ? mixedDims(config, samples, shares) : [1] }],
    ['attended', { dtype: 'float16', dims: [samples, heads * headDim] }],
    [
      'parts',
      {
        dtype: 'float32',
        dims: [samples * Math.max(...[qkv, o, down].map(({ parts, outputs }) => parts * outputs))],
      },
    ],
    ['gated', { dtype: 'float16', dims: [samples, intermediateSize] }],
    ['pieces', { dtype: 'float32', dims: [samples, PIECES, 2] }],
    ['bins', { dtype: 'int32', dims: [2, samples, BINS] }],
    ['kept', { dtype: 'int32', dims: [samples, PIECES] }],
  ])

  return {
    buffers,
    dispatches(drawing, bufferOf) {
      const given = <Name extends string>(...names: Name[]) =>
        Object.fromEntries(names.map((name) => [name, bufferOf(name)])) as Record<Name, GPUBuffer>
      const [parts, normed, gatedRows] = ['parts', 'normed', 'gated'].map(bufferOf)
      const norm = (name: string, count: number) =>
        addNorm({
          ...given('stream', 'parts', 'normed'),
          ...{ rows, size: hiddenSize, epsilon: rmsNormEps, count },
          weight: bufferOf(`${name}.weight`),
        })
      const steps: Dispatch[] = [
        ...draw({
          ...given('logits', 'pieces', 'bins', 'kept', 'at'),
          ...given('uniforms', 'drawn', 'logprobs', 'samplingLogprobs'),
          ...{ rows, vocabulary: vocabSize, ...drawing },
        }),
        embed({
          ...given('drawn', 'at', 'promptOf', 'promptLengths', 'cos', 'sin', 'stream', 'places'),
          ...{ samples, hidden: hiddenSize, headDim },
          table: bufferOf('model.embed_tokens.weight'),
        }),
      ]
      for (let layer = 0; layer < layers; layer++) {
        const prefix = `model.layers.${layer}`
        const fused = (name: string) => bufferOf(`fused ${prefix}.${name}`)
        const headNorm = (name: string) => bufferOf(`${prefix}.self_attn.${name}.weight`)
        steps.push(
          norm(`${prefix}.input_layernorm`, layer === 0 ? 0 : down.parts),
          streamed({ ...qkv, x: normed, weight: fused('self_attn.qkv.weight'), out: parts }, traits),
          attend(
            {
              ...{ samples, shares, time, window, heads, kvHeads, headDim, epsilon: rmsNormEps },
              ...given('parts', 'places'),
              partsCount: qkv.parts,
              bias: biased ? fused('self_attn.qkv.bias') : undefined,
              norms: config.qkNorm ? { q: headNorm('q_norm'), k: headNorm('k_norm') } : undefined,
              promptKeys: bufferOf(promptKey(layer)),
              promptValues: bufferOf(promptValue(layer)),
              keys: bufferOf(cacheKey(layer)),
              values: bufferOf(cacheValue(layer)),
              out: bufferOf(shares > 1 ? 'mixed' : 'attended'),
            },
            traits,
          ),
        )
        if (shares > 1)
          steps.push(
            settle({
              ...{ samples, shares, heads, kvHeads, headDim },
              mixed: bufferOf('mixed'),
              out: bufferOf('attended'),
            }),
          )
        steps.push(
          streamed(
            { ...o, x: bufferOf('attended'), weight: fused('self_attn.o.weight'), out: parts },
            traits,
          ),
          norm(`${prefix}.post_attention_layernorm`, o.parts),
          gated(
            {
              ...{ rows, inputs: hiddenSize, outputs: intermediateSize },
              ...{ gate: fused('mlp.gate.weight'), up: fused('mlp.up.weight'), x: normed, out: gatedRows },
            },
            traits,
          ),
          streamed({ ...down, x: gatedRows, weight: fused('mlp.down.weight'), out: parts }, traits),
        )
      }
      const head = config.tieEmbeddings ? 'model.embed_tokens.weight' : 'lm_head.weight'
      steps.push(
        norm('model.norm', down.parts),
        streamed(
          {
            ...{ rows, inputs: hiddenSize, outputs: vocabSize, parts: 1 },
            ...{ x: normed, weight: bufferOf(head), out: bufferOf('logits') },
          },
          traits,
        ),
      )
      return steps
    },
  }
}

/**
 * A step of sampling as launches of our own kernels: a token is drawn for each sample, and the model computed for it, whose
 * logits the next step draws from. All of it stays on the device, and a step asks for nothing that the one before did not
 * leave. Samples of a prompt share its keys and values.
 */
import type { ModelConfig } from '../../../checkpoint/config.ts'
import { weightShapes } from '../../../checkpoint/folder.ts'
import type { NativeType } from '../../native.ts'
import { cacheKey, cacheValue } from '../../programs.ts'
import type { Argument, Launch, Unit } from './launch.ts'

/** Keys that a warp takes at a time: times and windows are multiples of it. */
export const KEYS = 32
/** Elements of an inner axis that a warp takes at a time: sizes of the model are multiples of it. */
const CHUNK = 32

export interface StepSizes {
  samples: number
  prompts: number
  /** Positions of the prompts' caches, and of the samples' own: multiples of `KEYS`. */
  time: number
  window: number
}

export interface Drawing {
  temperature: number
  /** Below 1: from the nucleus. */
  topP: number
}

/** Why a model cannot be computed by our kernels on a device, in sampling or in training; null where it can. */
export function unfit(config: ModelConfig, { sharedBytes }: DeviceSizes): string | null {
  const { headDim, hiddenSize, intermediateSize, heads, kvHeads } = config
  if (headDim % 32 !== 0) return `heads of ${headDim} elements: no multiple of 32`
  if (heads / kvHeads > 16) return `${heads / kvHeads} query heads to a key-value head: more than 16`
  const odd = [hiddenSize, intermediateSize, heads * headDim].find((size) => size % CHUNK !== 0)
  if (odd !== undefined) return `a width of ${odd}: no multiple of ${CHUNK}`
  return lookBytes(headDim) <= sharedBytes
    ? null
    : `heads of ${headDim} elements: too wide for the GPU's shared memory`
}

/** The kernels of a step that are no products. */
export function stepUnit({ heads, kvHeads, headDim }: ModelConfig): Unit {
  const defines = { HEADS: heads, KV_HEADS: kvHeads, HEAD_DIM: headDim, KEY_WARPS, PIECES }
  return { files: ['blocks', 'rows', 'attention', 'draw'], defines }
}

/** Rows of x that a block keeps sums of, at most. */
const MOST_ROWS = 64
/** Warps that share the keys of a block of attention; as many again take other queries. */
const KEY_WARPS = 4
/** Threads of a block of rows, of draws. */
const ROW_THREADS = 256
const DRAW_THREADS = 512
/** Blocks that share a row of logits. */
const PIECES = 16
/** Bins of a level of the nucleus (draw.cu). */
const BINS = 128

/** Bytes that a block of attention holds (attention.cu: Shared). */
function lookBytes(headDim: number): number {
  const [block, row] = [KEY_WARPS * KEYS, WORD * (headDim / 8 + 1)]
  const loaded = block * row + headDim * WORD * (block / 8 + 1)
  const left = 4 * 2 * KEY_WARPS * 16 * (headDim + 8)
  return Math.max(loaded, left) + 32 * row + 4 * 2 * KEY_WARPS * 16 * 2
}

type ProductKind = 'parts' | 'gated'

/** How a product is cut. */
interface Cut {
  /** Of the rows, blocks by so many tiles of 8. */
  rowBlocks: number
  tiles: number
  /** Blocks that share the tiles of outputs, and warps of a block. */
  blocks: number
  warps: number
  /** Of the inner axis. */
  parts: number
  /** Chunks that a warp asks for beforehand: an even number. */
  ahead: number
  /** Words of 16 bytes from one row of x to the next in shared memory, so that rows lie in other banks. */
  stride: number
}

/** Pieces of the weight that a warp has asked for and not used yet: enough for the memory's whole speed. */
const AHEAD = { least: 4, most: 8 }
const WORD = 16
/** Of a warp: 16 rows of 32 halves. */
const CHUNK_BYTES = 1024
/** Chunks that a multiprocessor has asked for when its memory is busy. */
const BUSY = 48
/** Of a product's parts and warps; more parts take longer to add up. */
const MOST = { parts: 16, warps: 12 }
/** A product whose parts are added up by who reads them, and those whose outputs are whole. */
const CUT = {
  parts: { kind: 'parts', mostParts: MOST.parts },
  whole: { kind: 'parts', mostParts: 1 },
  gated: { kind: 'gated', mostParts: 1 },
} as const

/** An odd number: eight rows lie in other banks. */
const strideOf = (chunks: number) => 4 * chunks + 1

/** How a product takes least time, which is that of the multiprocessor that reads most. */
function cutOf(
  rows: number,
  [inner, outputs]: readonly [number, number],
  { kind, mostParts }: { kind: ProductKind; mostParts: number },
  device: DeviceSizes,
): Cut {
  const chunks = inner / CHUNK
  const tiles = Math.ceil(outputs / (kind === 'gated' ? 8 : 16))
  let best: { cost: number; cut: Cut } | null = null
  for (let parts = 1; parts <= Math.min(mostParts, chunks); parts++) {
    const stride = strideOf(Math.ceil(chunks / parts))
    for (let warps = 1; warps <= MOST.warps; warps++) {
      const ring = warps * CHUNK_BYTES
      const fitting = Math.floor((device.sharedBytes - AHEAD.least * ring) / WORD / stride / 8) * 8
      if (fitting <= 0) continue
      const rowBlocks = Math.ceil(rows / Math.min(MOST_ROWS, fitting))
      const rowTiles = Math.ceil(rows / rowBlocks / 8)
      const left = device.sharedBytes - WORD * stride * 8 * rowTiles
      const ahead = Math.min(AHEAD.most, 2 * Math.floor(left / ring / 2))
      const blocks = Math.max(
        1,
        Math.min(Math.ceil(tiles / warps), Math.floor(device.multiprocessors / parts / rowBlocks)),
      )
      const turns = Math.ceil(tiles / blocks / warps)
      // Chunks that a multiprocessor reads, with enough asked for to keep the memory busy, and what parts cost.
      const read = turns * warps * Math.ceil(chunks / parts)
      const cost = read * Math.max(1, BUSY / warps / ahead) + 1.5 * parts
      if (best === null || cost <= best.cost)
        best = { cost, cut: { rowBlocks, tiles: rowTiles, blocks, warps, parts, ahead, stride } }
    }
  }
  if (best === null) throw new Error(`a product's inner axis of ${inner} does not fit into shared memory`)
  return best.cut
}

/** What launches are made for. */
export interface DeviceSizes {
  multiprocessors: number
  /** Bytes of shared memory that a block can have. */
  sharedBytes: number
}

/** What a step is made of, for a model and sizes. */
export interface Step {
  units: readonly Unit[]
  /** Tensors that it needs beside weights and caches, to be allocated; all but those of `StepInputs` are its own. */
  buffers: ReadonlyMap<string, { dtype: NativeType; dims: readonly number[] }>
  launches(drawing: Drawing, addressOf: (name: string) => bigint): Launch[]
}

export function planStep(config: ModelConfig, sizes: StepSizes, device: DeviceSizes): Step {
  const { layers, heads, kvHeads, headDim, hiddenSize, intermediateSize, vocabSize, rmsNormEps } = config
  const { samples, prompts, time, window } = sizes
  const biased = weightShapes(config).has('model.layers.0.self_attn.q_proj.bias')
  const rest = stepUnit(config)
  const units = new Map<Unit, Unit>([[rest, rest]])
  const productUnits = new Map<string, Unit>()
  const productUnit = ({ tiles, warps, ahead, stride }: Cut): Unit => {
    const key = `${tiles} ${warps} ${ahead} ${stride}`
    const found: Unit = productUnits.get(key) ?? {
      files: ['products'],
      defines: { TILES: tiles, WARPS: warps, AHEAD: ahead, STRIDE: stride },
    }
    productUnits.set(key, found)
    units.set(found, found)
    return found
  }
  const wide = (heads + 2 * kvHeads) * headDim
  const cuts = {
    qkv: cutOf(samples, [hiddenSize, wide], CUT.parts, device),
    o: cutOf(samples, [heads * headDim, hiddenSize], CUT.parts, device),
    gated: cutOf(samples, [hiddenSize, intermediateSize], CUT.gated, device),
    down: cutOf(samples, [intermediateSize, hiddenSize], CUT.parts, device),
    head: cutOf(samples, [hiddenSize, vocabSize], CUT.whole, device),
  }
  for (const cut of Object.values(cuts)) productUnit(cut)

  // A block of prompts' attention takes so many keys: few parts, that joining them takes little.
  const block = KEY_WARPS * KEYS
  const each = block * Math.max(1, Math.ceil(time / block / 12))
  const promptParts = Math.ceil(time / each)
  const partsSize =
    samples * Math.max(cuts.qkv.parts * wide, cuts.o.parts * hiddenSize, cuts.down.parts * hiddenSize)
  const buffers: Step['buffers'] = new Map<string, { dtype: NativeType; dims: readonly number[] }>([
    ['stream', { dtype: 'float32', dims: [samples, hiddenSize] }],
    ['normed', { dtype: 'float16', dims: [samples, hiddenSize] }],
    ['q', { dtype: 'float16', dims: [samples, heads * headDim] }],
    ['mixed', { dtype: 'float32', dims: [promptParts + 1, samples, heads, headDim] }],
    ['stats', { dtype: 'float32', dims: [promptParts + 1, samples, heads, 2] }],
    ['attended', { dtype: 'float16', dims: [samples, heads * headDim] }],
    ['parts', { dtype: 'float32', dims: [partsSize] }],
    ['gated', { dtype: 'float16', dims: [samples, intermediateSize] }],
    ['pieces', { dtype: 'float32', dims: [samples, PIECES, 2] }],
    ['coarse', { dtype: 'int64', dims: [samples, BINS] }],
    ['fine', { dtype: 'int64', dims: [samples, BINS] }],
    ['kept', { dtype: 'int64', dims: [samples, PIECES] }],
    ['tokens', { dtype: 'int32', dims: [samples] }],
  ])

  return {
    units: [...units.keys()],
    buffers,
    launches(drawing, addressOf) {
      const at = (name: string): Argument => ({ pointer: addressOf(name) })
      const nothing: Argument = { pointer: 0n }
      const int = (value: number): Argument => ({ int: value })
      const float = (value: number): Argument => ({ float: value })
      const launches: Launch[] = []
      const launch = (
        kernel: string,
        grid: Launch['grid'],
        threads: number,
        given: readonly Argument[],
        shared = 0,
      ) => launches.push({ unit: rest, kernel, grid, threads, shared, arguments: given })
      const multiply = (
        kind: ProductKind,
        cut: Cut,
        [x, inner]: [string, number],
        weights: readonly Argument[],
        [out, outputs]: [string, number],
      ) => {
        launches.push({
          unit: productUnit(cut),
          kernel: `product_${kind}`,
          grid: [cut.blocks, cut.rowBlocks, cut.parts],
          threads: 32 * cut.warps,
          shared: WORD * cut.stride * 8 * cut.tiles + cut.warps * cut.ahead * CHUNK_BYTES,
          arguments: [at(x), int(samples), int(inner), ...weights, at(out), int(outputs)],
        })
      }
      const addNorm = (parts: number, name: string) =>
        launch(
          'add_norm',
          [samples, 1, 1],
          ROW_THREADS,
          [
            at('stream'),
            at('parts'),
            int(parts),
            at(`${name}.weight`),
            at('normed'),
            int(hiddenSize),
            float(rmsNormEps),
          ],
          4 * hiddenSize,
        )

      const logits = [at('logits'), int(vocabSize), float(1 / drawing.temperature)]
      const mass = [at('pieces'), at('coarse'), at('fine')]
      const pieces: Launch['grid'] = [PIECES, samples, 1]
      launch('weigh', pieces, DRAW_THREADS, [...logits, ...mass])
      if (drawing.topP < 1) {
        launch('bin_coarsely', pieces, DRAW_THREADS, [...logits, at('pieces'), at('coarse')])
        launch('bin_finely', pieces, DRAW_THREADS, [...logits, float(drawing.topP), ...mass])
      }
      launch('keep', pieces, DRAW_THREADS, [...logits, float(drawing.topP), ...mass, at('kept')])
      const drawn = ['uniforms', 'at', 'tokens', 'drawn', 'logprobs', 'samplingLogprobs'].map(at)
      launch('choose', [samples, 1, 1], DRAW_THREADS, [
        ...logits,
        float(drawing.topP),
        ...mass,
        at('kept'),
        ...drawn,
      ])
      launch('embed', [samples, 1, 1], ROW_THREADS, [
        at('model.embed_tokens.weight'),
        at('tokens'),
        at('stream'),
        int(hiddenSize),
        at('at'),
      ])
      for (let layer = 0; layer < layers; layer++) {
        const prefix = `model.layers.${layer}`
        const fused = (name: string) => at(`fused ${prefix}.${name}`)
        const headNorm = (name: string) =>
          config.qkNorm ? at(`${prefix}.self_attn.${name}.weight`) : nothing
        addNorm(layer === 0 ? 0 : cuts.down.parts, `${prefix}.input_layernorm`)
        const bias = biased ? fused('self_attn.qkv.bias') : nothing
        multiply('parts', cuts.qkv, ['normed', hiddenSize], [fused('self_attn.qkv.weight')], ['parts', wide])
        launch('turn', [samples, 1, 1], DRAW_THREADS, [
          ...[
            at('parts'),
            int(cuts.qkv.parts),
            bias,
            headNorm('q_norm'),
            headNorm('k_norm'),
            float(rmsNormEps),
          ],
          ...[at('cos'), at('sin'), at('promptOf'), at('promptLengths'), at('at')],
          ...[float(Math.LOG2E / Math.sqrt(headDim)), at('q'), at(cacheKey(layer)), at(cacheValue(layer))],
          int(window),
        ])
        launch(
          'look',
          [(promptParts * prompts + samples) * kvHeads, 1, 1],
          64 * KEY_WARPS,
          [
            ...[at('q'), at(`prompt ${cacheKey(layer)}`), at(`prompt ${cacheValue(layer)}`), int(time)],
            ...[at('promptLengths'), at('firstSamples'), int(prompts), int(promptParts), int(each)],
            ...[at(cacheKey(layer)), at(cacheValue(layer)), int(window), at('at'), int(samples)],
            ...[at('mixed'), at('stats')],
          ],
          lookBytes(headDim),
        )
        launch('settle', [Math.ceil((samples * heads) / KEY_WARPS), 1, 1], 32 * KEY_WARPS, [
          ...[at('mixed'), at('stats'), at('promptOf'), at('promptLengths'), int(promptParts), int(each)],
          ...[int(samples), at('attended')],
        ])
        multiply(
          'parts',
          cuts.o,
          ['attended', heads * headDim],
          [fused('self_attn.o.weight')],
          ['parts', hiddenSize],
        )
        addNorm(cuts.o.parts, `${prefix}.post_attention_layernorm`)
        multiply(
          'gated',
          cuts.gated,
          ['normed', hiddenSize],
          [fused('mlp.gate.weight'), fused('mlp.up.weight')],
          ['gated', intermediateSize],
        )
        multiply(
          'parts',
          cuts.down,
          ['gated', intermediateSize],
          [fused('mlp.down.weight')],
          ['parts', hiddenSize],
        )
      }
      addNorm(cuts.down.parts, 'model.norm')
      const head = config.tieEmbeddings ? 'model.embed_tokens.weight' : 'lm_head.weight'
      multiply('parts', cuts.head, ['normed', hiddenSize], [at(head)], ['logits', vocabSize])
      return launches
    },
  }
}

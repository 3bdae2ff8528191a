/** Attention of packed sequences (packedAttention.cu) as operators of graphs, one for each direction. */
import type { ModelConfig } from '../../../checkpoint/config.ts'
import type { Argument, Unit } from './launch.ts'
import type { KernelOperator } from './operators.ts'
import type { DeviceSizes } from './step.ts'

export type Heads = Pick<ModelConfig, 'heads' | 'kvHeads' | 'headDim'>

/** Positions whose segments are looked at together, of a tile; queries and keys of a block; as packedAttention.cu has them. */
const TILE = 64
const BLOCK = 128
const THREADS = { queries: 128, keys: 256, sum: 256 }
/** Rows that a block holds in shared memory, and what lies beside them. */
const HELD = { forward: BLOCK + 4 * TILE, queries: 2 * BLOCK + 2 * TILE, keys: 2 * BLOCK + 4 * TILE }
const BESIDE = 16 * TILE
/** Heads wider than this leave no room in registers. */
const WIDEST = 128
/** Blocks that a multiprocessor works through for the keys' gradients, at least: of different lengths, they fill it better. */
const TURNS = 2

const heldBytes = ({ headDim }: Heads, rows: number) => 2 * rows * (headDim + 8)
const mostBytes = (heads: Heads) => heldBytes(heads, HELD.keys) + BESIDE

/** Whether the kernels fit a model and a device. */
export function fitsPackedAttention(config: Heads, { sharedBytes }: DeviceSizes): boolean {
  return config.headDim % 32 === 0 && config.headDim <= WIDEST && mostBytes(config) <= sharedBytes
}

/** Blocks that share a group's heads for the keys' gradients. */
function partsOf({ heads, kvHeads }: Heads, batch: number, time: number, device: DeviceSizes): number {
  const blocks = batch * kvHeads * Math.ceil(time / BLOCK)
  return Math.max(1, Math.min(heads / kvHeads, Math.ceil((TURNS * device.multiprocessors) / blocks)))
}

/**
 * `SegmentRanges`: segments -> ranges, what both directions pass over tiles by.
 * `PackedAttention`: q, k, v, segments, ranges -> mixed, sums.
 * `PackedAttentionGradient`: mixed's gradient, q, k, v, mixed, sums, segments, ranges -> the gradients of q, k and v; and
 * what it needs on the way.
 */
export function packedAttentionOperators(config: Heads, device: DeviceSizes): KernelOperator[] {
  const { heads, kvHeads, headDim } = config
  const unit: Unit = {
    files: ['packedAttention'],
    defines: { HEADS: heads, KV_HEADS: kvHeads, HEAD_DIM: headDim },
  }
  const blocksOf = (time: number) => Math.ceil(time / BLOCK)
  const pointers = (...tensors: readonly { pointer: bigint }[]): Argument[] =>
    tensors.map(({ pointer }) => ({ pointer }))
  return [
    {
      name: 'SegmentRanges',
      unit,
      inputs: ['int32'],
      outputs: ['int32'],
      shapes: ([[batch, time]]) => [[batch, Math.ceil(time / TILE), 2]],
      launches({ inputs: [segments], outputs: [ranges] }) {
        const [batch, time] = segments.dims
        return [
          {
            kernel: 'segment_ranges',
            grid: [Math.ceil(time / TILE), batch, 1],
            threads: 32,
            arguments: [...pointers(segments), { int: time }, ...pointers(ranges)],
          },
        ]
      },
    },
    {
      name: 'PackedAttention',
      unit,
      inputs: ['float16', 'float16', 'float16', 'int32', 'int32'],
      outputs: ['float16', 'float32'],
      shapes: ([[batch, time, width]]) => [
        [batch, time, width],
        [batch, heads, time],
      ],
      launches({ inputs, outputs }) {
        const [batch, time] = inputs[0].dims
        return [
          {
            kernel: 'packed_attention',
            grid: [heads, batch, blocksOf(time)],
            threads: THREADS.queries,
            shared: heldBytes(config, HELD.forward),
            arguments: [...pointers(...inputs), { int: time }, ...pointers(...outputs)],
          },
        ]
      },
    },
    {
      name: 'PackedAttentionGradient',
      unit,
      inputs: ['float16', 'float16', 'float16', 'float16', 'float16', 'float32', 'int32', 'int32'],
      outputs: ['float16', 'float16', 'float16', 'float32', 'float32'],
      shapes([, q, k, v]) {
        const [batch, time, width] = k
        const parts = partsOf(config, batch, time, device)
        return [q, k, v, [batch, heads, time], [parts === 1 ? 0 : 2 * parts, batch, time, width]]
      },
      launches({ inputs, outputs }) {
        const [gradient, q, k, v, mixed, sums, segments, ranges] = inputs
        const [toQueries, toKeys, toValues, taken, partial] = outputs
        const [batch, time, width] = k.dims
        const parts = partsOf(config, batch, time, device)
        const size = batch * time * width
        return [
          {
            kernel: 'packed_attention_queries',
            grid: [heads, batch, blocksOf(time)],
            threads: THREADS.queries,
            shared: heldBytes(config, HELD.queries),
            arguments: [
              ...pointers(gradient, q, k, v, mixed, sums, segments, ranges),
              { int: time },
              ...pointers(toQueries, taken),
            ],
          },
          {
            kernel: 'packed_attention_keys',
            grid: [parts * kvHeads, batch, blocksOf(time)],
            threads: THREADS.keys,
            shared: mostBytes(config),
            arguments: [
              ...pointers(gradient, q, k, v, sums, taken, segments, ranges),
              { int: time },
              { int: parts },
              ...pointers(toKeys, toValues, partial),
            ],
          },
          {
            kernel: 'packed_attention_sum',
            grid: [parts === 1 ? 0 : Math.ceil(size / 4 / THREADS.sum), 1, 1],
            threads: THREADS.sum,
            arguments: [...pointers(partial), { int: parts }, { int: size }, ...pointers(toKeys, toValues)],
          },
        ]
      },
    },
  ]
}

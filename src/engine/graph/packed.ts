/** Attention of packed sequences as operators of our own (`onnx/gpu/kernels/packedAttention.ts`), in halves, on CUDA. */
import { apply, differentiatedAs, type Tensor } from './tensor.ts'

const OURS = 'message-board'

/** What `segments` int32 [batch, time] says of tiles: made once for all layers. */
export function segmentRanges(segments: Tensor): Tensor {
  const shape = [segments.shape[0], 'tiles', 2]
  return apply('SegmentRanges', [segments], [{ shape, dtype: 'int32' }], {}, OURS)[0]
}

/**
 * softmax(query key^T / sqrt(headDim)) value, where a position sees what stands before it in its own segment and in segment
 * 0: query [batch, time, heads * headDim], key and value [batch, time, kvHeads * headDim]. Scores are computed anew in
 * backward, from the sums of their powers.
 */
export function packedAttention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  { segments, ranges }: { segments: Tensor; ranges: Tensor },
  heads: number,
): Tensor {
  const [batch, time] = query.shape
  const same = ({ shape, dtype }: Tensor) => ({ shape, dtype })
  const ofRows = { shape: [batch, heads, time] }
  const [mixed, sums] = apply(
    'PackedAttention',
    [query, key, value, segments, ranges],
    [same(query), ofRows],
    {},
    OURS,
  )
  return differentiatedAs(mixed, [query, key, value], (gradient) =>
    apply(
      'PackedAttentionGradient',
      [gradient, query, key, value, mixed, sums, segments, ranges],
      // The last two are what it needs on the way.
      [same(query), same(key), same(value), ofRows, { shape: ['parts', ...key.shape] }],
      {},
      OURS,
    ).slice(0, 3),
  )
}

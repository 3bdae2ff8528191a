/**
 * Several operators as one, differentiated as a whole: what backward needs of the inside is computed anew there, instead of
 * kept from forward, unless a caller says otherwise. Where both directions would compute the very same, they are written differently, so that a runtime
 * that shares what is computed twice does not keep it after all.
 */
import { liftedShares, targetLogprobs } from './fused.ts'
import * as ops from './ops.ts'
import { constant, type Dim, differentiatedAs, type Tensor } from './tensor.ts'

/**
 * softmax(scale * query key^T + mask) value, by blocks of queries, each of which looks at no key after its own last: a
 * block's scores are the largest thing there is, in forward and in backward (Dao et al. 2022, whose blocks of keys are
 * left out: a row of scores fits).
 *
 * query [batch, kvHeads, group, time, headDim], key and value [batch, kvHeads, time, headDim]; of `masks` each is a
 * block's, [batch or 1, 1, time / blocks, time up to the block's end], in the type that the softmax is computed in. The
 * number of blocks divides the time. The result is as the query. `keeps`: shares are kept for backward, which takes more
 * memory and less time.
 */
export function blockedAttention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  masks: readonly Tensor[],
  scale: number,
  keeps = false,
): Tensor {
  const blocks = masks.length
  const [batch, kvHeads, group, time, headDim] = query.shape
  const heads = Number(kvHeads) * Number(group)
  const part = ops.fraction(time, 1, blocks)
  const rows = ops.times(part, Number(group))
  const factor = constant(scale, query.dtype)
  // Heads that share a key-value head are stacked as more rows of one product, so that keys are never repeated.
  const stacked = (x: Tensor, width: Dim) => ops.reshape(x, [batch, kvHeads, rows, width])
  const perHead = (x: Tensor, width: Dim) => ops.reshape(x, [batch, heads, part, width])
  const byBlock = (x: Tensor) => ops.parts(x, 3, blocks).map((block) => stacked(block, headDim))
  const joined = (parts: readonly Tensor[]) =>
    ops.concat(
      parts.map((block) => ops.reshape(block, [batch, kvHeads, group, part, headDim])),
      3,
      time,
    )
  const shares = (q: Tensor, keys: Tensor, block: number) => {
    const scores = ops.matmul(q, keys, { transposeB: true })
    const mask = masks[block]
    return ops.softmax(ops.add(ops.cast(perHead(scores, keys.shape[2]), mask.dtype), mask))
  }
  const scaled = byBlock(ops.mul(query, factor))
  const [keys, values] = [upToBlock(key, blocks), upToBlock(value, blocks)]
  const first = scaled.map((q, block) => shares(q, keys[block], block))
  const mixed = joined(
    first.map((share, block) =>
      ops.matmul(stacked(ops.cast(share, value.dtype), keys[block].shape[2]), values[block]),
    ),
  )
  return differentiatedAs(mixed, [query, key, value], (gradient) => {
    // What the softmax takes off each row: the sum of shares times their gradients is that of results times theirs.
    const products = ops.mul(ops.cast(gradient, 'float32'), ops.cast(mixed, 'float32'))
    const sums = ops.parts(ops.reduceSum(products, [-1]), 3, blocks)
    const plain = byBlock(query)
    const scaledKeys = upToBlock(ops.mul(key, factor), blocks)
    const found = byBlock(gradient).map((g, block) => {
      const seen = keys[block].shape[2]
      const share = keeps ? first[block] : shares(plain[block], scaledKeys[block], block)
      const ofShare = ops.cast(perHead(ops.matmul(g, values[block], { transposeB: true }), seen), share.dtype)
      const sum = ops.cast(perHead(sums[block], 1), share.dtype)
      const ofScore = stacked(ops.cast(ops.mul(share, ops.sub(ofShare, sum)), query.dtype), seen)
      const back = { transposeA: true }
      return {
        query: ops.matmul(ofScore, scaledKeys[block]),
        key: ops.matmul(ofScore, scaled[block], back),
        value: ops.matmul(stacked(ops.cast(share, value.dtype), seen), g, back),
      }
    })
    return [
      joined(found.map((block) => block.query)),
      summedFromStart(
        found.map((block) => block.key),
        time,
      ),
      summedFromStart(
        found.map((block) => block.value),
        time,
      ),
    ]
  })
}

/** [batch, heads, time, n] from its start to the end of each block. */
function upToBlock(x: Tensor, blocks: number): Tensor[] {
  const parts = ops.parts(x, 2, blocks)
  return parts.map((_, b) => {
    if (b === 0) return parts[0]
    return b === blocks - 1
      ? x
      : ops.concat(parts.slice(0, b + 1), 2, ops.fraction(x.shape[2], b + 1, blocks))
  })
}

/** The sum of tensors that reach from the start to the end of each block. */
function summedFromStart(prefixes: readonly Tensor[], time: Dim): Tensor {
  const size = ops.fraction(time, 1, prefixes.length)
  const cut = prefixes.map((prefix, b) => (b === 0 ? [prefix] : ops.parts(prefix, 2, b + 1, size)))
  const sums = prefixes.map((_, block) =>
    cut
      .slice(block)
      .map((parts) => parts[block])
      .reduce((sum, part) => ops.add(sum, part)),
  )
  return sums.length === 1 ? sums[0] : ops.concat(sums, 2, time)
}

/** In halves, shares of a vocabulary are multiplied by two to this power: below 6e-5 these hold ever fewer digits. */
const LIFT = 8

/**
 * Log-probability of each row's target under softmax(hidden weight^T / temperature): [rows], by `chunks` of rows, which
 * divide them. hidden [rows, n], weight [vocabulary, n], and where it is there transposed, [n, vocabulary]; targets [rows].
 * Differentiated with respect to `hidden` alone. `fused`: in halves, by operators of our own.
 */
export function chunkedLogprobs(
  hidden: Tensor,
  { weight, transposed }: { weight: Tensor; transposed: Tensor | null },
  targets: Tensor,
  temperature: Tensor,
  chunks: number,
  fused = false,
): Tensor {
  const [rows, size] = hidden.shape
  const wide = ops.cast(weight, hidden.dtype)
  const product = (x: Tensor) =>
    transposed === null
      ? ops.matmul(x, wide, { transposeB: true })
      : ops.matmul(x, ops.cast(transposed, x.dtype))
  const logits = (x: Tensor) => ops.cast(product(x), 'float32')
  const hiddenParts = ops.parts(hidden, 0, chunks)
  const targetParts = ops.parts(targets, 0, chunks)
  const forward = hiddenParts.map((part, c): { logprobs: Tensor; logSums?: Tensor } =>
    fused
      ? targetLogprobs(product(part), targetParts[c], temperature)
      : { logprobs: ops.pick(ops.logSoftmax(ops.div(logits(part), temperature)), targetParts[c]) },
  )
  const logprobs = forward.map((part) => part.logprobs)
  return differentiatedAs(ops.concat(logprobs, 0, rows), [hidden], (gradient) => {
    const lift = hidden.dtype === 'float16' ? LIFT : 0
    const shares = (c: number): Tensor => {
      const { logSums } = forward[c]
      if (logSums !== undefined) {
        const another = ops.reshape(hiddenParts[c], [1, ...hiddenParts[c].shape])
        return liftedShares(product(another), logSums, temperature, lift)
      }
      const cooled = ops.div(ops.cast(hiddenParts[c], 'float32'), temperature)
      const all = ops.softmax(logits(ops.cast(cooled, hidden.dtype)))
      return ops.cast(ops.mul(all, 2 ** lift), wide.dtype)
    }
    const found = ops.parts(gradient, 0, chunks).map((g, c) => {
      const lifted = ops.reshape(ops.matmul(shares(c), wide), [g.shape[0], size])
      const mean = ops.div(ops.cast(lifted, 'float32'), 2 ** lift)
      const chosen = ops.cast(ops.gather(weight, targetParts[c]), 'float32')
      const pull = ops.reshape(ops.div(g, temperature), [g.shape[0], 1])
      return ops.cast(ops.mul(pull, ops.sub(chosen, mean)), hidden.dtype)
    })
    return [ops.concat(found, 0, rows)]
  })
}

/**
 * x weight^T where the weight [out, in] is held in halves and x [..., in] is in single precision: a weight is widened anew
 * in each direction. Differentiated with respect to x alone.
 */
export function widenedProduct(x: Tensor, weight: Tensor): Tensor {
  const y = ops.matmul(x, ops.cast(ops.transpose(weight, [1, 0]), x.dtype))
  return differentiatedAs(y, [x], (gradient) => [ops.matmul(gradient, ops.cast(weight, x.dtype))])
}

/**
 * x weight^T where `weight` [out, in] has an adapter folded in: W + scale * b a, with a [rank, in] and b [out, rank].
 * Differentiated with respect to x, a and b: by thin products of the rank's width, and none for the whole weight.
 */
export function adaptedProduct(
  x: Tensor,
  weight: Tensor,
  { a, b }: { a: Tensor; b: Tensor },
  scale: number,
): Tensor {
  const y = ops.matmul(x, weight, { transposeB: true })
  return differentiatedAs(y, [x, a, b], (gradient) => {
    const [rows, flat] = [ops.flatten(gradient), ops.flatten(x)]
    const first = { transposeA: true, scale }
    return [
      ops.matmul(gradient, weight),
      ops.matmul(ops.matmul(rows, b), flat, first),
      ops.matmul(rows, ops.matmul(flat, a, { transposeB: true }), first),
    ]
  })
}

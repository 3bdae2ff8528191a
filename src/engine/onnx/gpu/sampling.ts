/** Drawing tokens inside a graph: what `sample.ts` does on the host, in operators that every GPU provider has. */
import * as ops from '../../graph/ops.ts'
import { constant, type Tensor } from '../../graph/tensor.ts'

export interface Draws {
  /** int32 [rows] */
  token: Tensor
  /** Log-probability under softmax(logits / temperature): [rows]. */
  logprob: Tensor
  /** The same within the nucleus, renormalised. */
  samplingLogprob: Tensor
}

/**
 * One token for each row of logits [rows, vocabulary]; `uniform` [rows] in [0, 1) decides; `each` int32 [rows] is 0, 1,
 * 2 ...; `topP` [] restricts to the nucleus, null does not. Tokens stand in the order of their ids, so a uniform number
 * gives another token than on the host, with the same distribution.
 */
export function draw(
  logits: Tensor,
  options: { temperature: Tensor; uniform: Tensor; each: Tensor; topP: Tensor | null },
): Draws {
  const { temperature, uniform, each, topP } = options
  const [rows] = logits.shape
  const logprobs = ops.logSoftmax(ops.div(logits, temperature))
  const all = ops.exp(logprobs)
  const kept = topP === null ? all : nucleus(logprobs, all, topP)

  // The cumulative distribution on two levels: blocks of tokens, then the tokens of one block.
  const vocabulary = Number(logits.shape[1])
  const blocks = Math.ceil(vocabulary / BLOCK)
  const table = ops.reshape(ops.padLast(kept, blocks * BLOCK - vocabulary), [rows, blocks, BLOCK])
  const sums = ops.reshape(ops.reduceSum(table, [2]), [rows, blocks])
  const cumulative = ops.cumulativeSum(sums)
  const mass = lastOf(cumulative)
  const wanted = ops.mul(ops.mul(ops.reshape(uniform, [rows, 1]), mass), JUST_BELOW)
  const passed = ops.lessOrEqual(cumulative, wanted)
  const block = ops.reduceSum(ops.cast(passed, 'float32'), [1])
  const before = ops.reduceSum(ops.where(passed, sums, constant(0)), [1])
  const chosen = ops.add(ops.mul(each, blocks), ops.reshape(ops.cast(block, 'int32'), [rows]))
  const line = ops.gather(ops.reshape(table, [`${rows}*${blocks}`, BLOCK]), chosen)
  const running = ops.cumulativeSum(line)
  // Sums taken in another order differ in their last bits: never go past the block's own end.
  const end = ops.mul(lastOf(running), JUST_BELOW)
  const rest = ops.minimum(ops.sub(wanted, before), end)
  const within = ops.reduceSum(ops.cast(ops.lessOrEqual(running, rest), 'float32'), [1])
  const id = ops.add(ops.mul(block, BLOCK), within)
  const token = ops.reshape(ops.cast(id, 'int32'), [rows])
  const logprob = ops.pick(logprobs, token)
  return {
    token,
    logprob,
    samplingLogprob: topP === null ? logprob : ops.sub(logprob, ops.log(ops.reshape(mass, [rows]))),
  }
}

/** The last of a row's running sums [rows, n], the greatest: [rows, 1]. CUDA's maximum of a row is far slower. */
const lastOf = (sums: Tensor) => ops.sliceLast(sums, -1, Number.MAX_SAFE_INTEGER, 1)

/** Divides the vocabularies of most models, which are then not padded. */
const BLOCK = 128

/** Times a sum: below it in single precision, so that a draw always falls on a token with a probability. */
const JUST_BELOW = 1 - 2 ** -20

/** Halvings of the interval in which the nucleus's least log-probability lies. */
const HALVINGS = 14
/** Where that interval begins, in nats below certainty: all tokens below it together have less than 1e-5. */
const RANGE = 24

/**
 * Probabilities of the nucleus (Holtzman et al. 2020), 0 for the others: the least log-probability is found by
 * bisection instead of sorting the vocabulary. Within 0.2% of that probability, tokens count as equally likely.
 */
function nucleus(logprobs: Tensor, all: Tensor, topP: Tensor): Tensor {
  const zero = constant(0)
  let centre: Tensor = constant([-RANGE / 2])
  let half = RANGE / 2
  for (let i = 0; i < HALVINGS; i++) {
    const mass = ops.reduceSum(ops.where(ops.lessOrEqual(centre, logprobs), all, zero), [1])
    half /= 2
    centre = ops.add(centre, ops.where(ops.lessOrEqual(topP, mass), constant(half), constant(-half)))
  }
  return ops.where(ops.lessOrEqual(ops.sub(centre, half), logprobs), all, zero)
}

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
 * One token for each row of logits [rows, vocabulary]; `uniform` [rows] in [0, 1) decides; `topP` [] restricts to the
 * nucleus, null does not. Tokens stand in the order of their ids, so a uniform number gives another token than on the
 * host, with the same distribution.
 */
export function draw(
  logits: Tensor,
  options: { temperature: Tensor; uniform: Tensor; topP: Tensor | null },
): Draws {
  const { temperature, uniform, topP } = options
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
  const mass = ops.reduceMax(cumulative, [1])
  const wanted = ops.mul(ops.mul(ops.reshape(uniform, [rows, 1]), mass), JUST_BELOW)
  const passed = ops.lessOrEqual(cumulative, wanted)
  const block = ops.reduceSum(ops.cast(passed, 'float32'), [1])
  const before = ops.reduceSum(ops.where(passed, sums, constant(0)), [1])
  const numbers = constant(Array.from({ length: blocks }, (_, i) => i))
  const chosen = ops.equal(ops.reshape(numbers, [1, blocks, 1]), ops.reshape(block, [rows, 1, 1]))
  const line = ops.reshape(ops.reduceSum(ops.where(chosen, table, constant(0)), [1]), [rows, BLOCK])
  const running = ops.cumulativeSum(line)
  // Sums taken in another order differ in their last bits: never go past the block's own end.
  const end = ops.mul(ops.reduceMax(running, [1]), JUST_BELOW)
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

const BLOCK = 512

/** Times a sum: below it in single precision, so that a draw always falls on a token with a probability. */
const JUST_BELOW = 1 - 2 ** -20

/** Halvings of the interval in which the nucleus's least log-probability lies. */
const HALVINGS = 14
/** Nats below the likeliest token where that interval begins. */
const RANGE = 16

/**
 * Probabilities of the nucleus (Holtzman et al. 2020), 0 for the others: the least log-probability is found by
 * bisection instead of sorting the vocabulary. Within 0.1% of that probability, tokens count as equally likely.
 */
function nucleus(logprobs: Tensor, all: Tensor, topP: Tensor): Tensor {
  const zero = constant(0)
  let centre = ops.sub(ops.reduceMax(logprobs, [1]), RANGE / 2)
  let half = RANGE / 2
  for (let i = 0; i < HALVINGS; i++) {
    const mass = ops.reduceSum(ops.where(ops.lessOrEqual(centre, logprobs), all, zero), [1])
    half /= 2
    centre = ops.add(centre, ops.where(ops.lessOrEqual(topP, mass), constant(half), constant(-half)))
  }
  return ops.where(ops.lessOrEqual(ops.sub(centre, half), logprobs), all, zero)
}

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

/** How a draw is made. */
interface DrawOptions {
  /** [] */
  temperature: Tensor
  /** [rows] in [0, 1): decides. */
  uniform: Tensor
  /** int32 [rows]: 0, 1, 2 ... */
  each: Tensor
  /** []: restricts to the nucleus; null does not. */
  topP: Tensor | null
}

/**
 * One token for each row of logits [rows, vocabulary]. Tokens stand in the order of their ids, so a uniform number gives
 * another token than on the host, with the same distribution.
 */
export function draw(logits: Tensor, options: DrawOptions & { plain: boolean }): Draws {
  return options.plain ? drawInParts(logits, options) : drawInRows(logits, options)
}

function drawInRows(logits: Tensor, options: DrawOptions): Draws {
  const { temperature, topP } = options
  const [rows] = logits.shape
  const logprobs = ops.logSoftmax(ops.div(logits, temperature))
  const all = ops.exp(logprobs)
  const sum: Sum = (a) => ops.reduceSum(a, [1])
  const kept = topP === null ? all : nucleus(logprobs, all, constant([-RANGE / 2]), topP, sum)
  const { token, mass } = choose(kept, BLOCK, options)
  const logprob = ops.pick(logprobs, token)
  return {
    token,
    logprob,
    samplingLogprob: topP === null ? logprob : ops.sub(logprob, ops.log(ops.reshape(mass, [rows]))),
  }
}

/**
 * The same where one group of threads reduces each row, as on WebGPU: rows are few, so they are cut. Probabilities stay
 * unnormalised, which spares passes over all of them.
 */
function drawInParts(unpadded: Tensor, options: DrawOptions): Draws {
  const { temperature, topP } = options
  const vocabulary = Number(unpadded.shape[1])
  const count = parts(vocabulary)
  const size = Math.ceil(vocabulary / count)
  const logits = ops.padLast(unpadded, count * size - vocabulary, NEVER)
  const [rows] = logits.shape
  const reduced = (reduce: typeof ops.reduceSum, a: Tensor) => {
    const partial = reduce(ops.reshape(a, [rows, count, size]), [2])
    return reduce(ops.reshape(partial, [rows, count]), [1])
  }
  const sum: Sum = (a) => reduced(ops.reduceSum, a)
  const scaled = ops.div(logits, temperature)
  const logs = ops.sub(scaled, reduced(ops.reduceMax, scaled))
  const all = ops.exp(logs)
  const total = sum(all)
  const certain = ops.log(total)
  const kept =
    topP === null ? all : nucleus(logs, all, ops.sub(certain, RANGE / 2), ops.mul(total, topP), sum)
  const { token, mass } = choose(kept, size, options)
  const log = ops.pick(logs, token)
  const logprob = ops.sub(log, ops.reshape(certain, [rows]))
  return {
    token,
    logprob,
    samplingLogprob: topP === null ? logprob : ops.sub(log, ops.log(ops.reshape(mass, [rows]))),
  }
}

/** Sums of rows: [rows, n] -> [rows, 1]. */
type Sum = (a: Tensor) => Tensor

/**
 * Tokens [rows] drawn from probabilities [rows, vocabulary], whose sums [rows, 1] need not be 1: their cumulative
 * distribution on two levels, blocks of tokens of the given size, then the tokens of one block.
 */
function choose(kept: Tensor, size: number, { uniform, each }: DrawOptions): { token: Tensor; mass: Tensor } {
  const [rows, vocabulary] = [kept.shape[0], Number(kept.shape[1])]
  const blocks = Math.ceil(vocabulary / size)
  const table = ops.reshape(ops.padLast(kept, blocks * size - vocabulary), [rows, blocks, size])
  const sums = ops.reshape(ops.reduceSum(table, [2]), [rows, blocks])
  const cumulative = ops.cumulativeSum(sums)
  const mass = lastOf(cumulative)
  const wanted = ops.mul(ops.mul(ops.reshape(uniform, [rows, 1]), mass), JUST_BELOW)
  const passed = ops.lessOrEqual(cumulative, wanted)
  const block = ops.reduceSum(ops.cast(passed, 'float32'), [1])
  const before = ops.reduceSum(ops.where(passed, sums, constant(0)), [1])
  const chosen = ops.add(ops.mul(each, blocks), ops.reshape(ops.cast(block, 'int32'), [rows]))
  const line = ops.gather(ops.reshape(table, [`${rows}*${blocks}`, size]), chosen)
  const running = ops.cumulativeSum(line)
  // Sums taken in another order differ in their last bits: never go past the block's own end.
  const end = ops.mul(lastOf(running), JUST_BELOW)
  const rest = ops.minimum(ops.sub(wanted, before), end)
  const within = ops.reduceSum(ops.cast(ops.lessOrEqual(running, rest), 'float32'), [1])
  const id = ops.add(ops.mul(block, size), within)
  return { token: ops.reshape(ops.cast(id, 'int32'), [rows]), mass }
}

/** The last of a row's running sums [rows, n], the greatest: [rows, 1]. CUDA's maximum of a row is far slower. */
const lastOf = (sums: Tensor) => ops.sliceLast(sums, -1, Number.MAX_SAFE_INTEGER, 1)

/** Divides the vocabularies of most models, which are then not padded. */
const BLOCK = 128

/** In how many parts a row is reduced: many, but each large enough for a group of threads. */
function parts(vocabulary: number): number {
  let count = 128
  while (count > 1 && vocabulary / count < 256) count /= 2
  return count
}

/** The logit of a token that is none. */
const NEVER = -1e9

/** Times a sum: below it in single precision, so that a draw always falls on a token with a probability. */
const JUST_BELOW = 1 - 2 ** -20

/** Halvings of the interval in which the nucleus's least log-probability lies. */
const HALVINGS = 14
/** Where that interval begins, in nats below certainty: all tokens below it together have less than 1e-5. */
const RANGE = 24

/**
 * Probabilities of the nucleus (Holtzman et al. 2020), 0 for the others: the least log-probability is found by
 * bisection instead of sorting the vocabulary. Within 0.2% of that probability, tokens count as equally likely.
 * Probabilities `all` and their logarithms `logs` [rows, vocabulary] may be unnormalised; so are then `middle`, that of
 * the interval, and `wanted`, what the nucleus must hold: one for all, or [rows, 1].
 */
function nucleus(logs: Tensor, all: Tensor, middle: Tensor, wanted: Tensor, sum: Sum): Tensor {
  const zero = constant(0)
  let centre = middle
  let half = RANGE / 2
  for (let i = 0; i < HALVINGS; i++) {
    const mass = sum(ops.where(ops.lessOrEqual(centre, logs), all, zero))
    half /= 2
    centre = ops.add(centre, ops.where(ops.lessOrEqual(wanted, mass), constant(half), constant(-half)))
  }
  return ops.where(ops.lessOrEqual(ops.sub(centre, half), logs), all, zero)
}

/**
 * The world in which an answer is hard to find and easy to check: somebody thinks of a number, and tells what it makes
 * times a little more than itself. One product says whether a number is the one, so a right note can be recognised,
 * whoever wrote it; `insightReach` says what that is worth. Pure functions of their arguments; knows no models and no
 * prompts.
 */
import { UserError } from '../errors.ts'
import { random } from '../random.ts'
import { people } from './cast.ts'
import { checkSizes, referenceSizes, type Sizes } from './sizes.ts'
import { type Drawn, drawSlice, type Slice, sliceOfKey } from './slices.ts'
import type { Problem, Task } from './types.ts'

export interface InsightDials {
  /** How many numbers it may be, each as likely: 2 to range + 1. A blind trial is right once in `range` times. */
  range: number
}

export interface InsightProblem extends Drawn {
  question: string
  gold: string
  number: number
  /** The product to be met is number * (number + more). */
  more: number
  product: number
}

/** Least number, and the greatest that is added to it before they are multiplied. */
const least = 2
const mostMore = 12

/** Problem `index`, of whatever slice: the same on every machine. */
export function insightProblem({ range }: InsightDials, seed: number, index: number): InsightProblem {
  const rng = random('insight', range, seed, index)
  const { name, he } = rng.pick(people)
  const number = least + rng.int(range)
  const more = 1 + rng.int(mostMore)
  const product = number * (number + more)
  const span = `from ${least} to ${range + least - 1}`
  const question = rng.pick([
    `${name} thinks of a number ${span}. Times ${more} more than itself it makes ${product}. What is the number?`,
    `${name} has a secret number ${span}. If ${he} multiplies it by ${more} more than itself, ${he} gets ${product}. What is it?`,
    `A number ${span} times ${more} more than itself is ${product}. Which number does ${name} look for?`,
  ])
  return {
    question,
    gold: String(number),
    number,
    more,
    product,
    // The arithmetic decides the slice: no held-out number is found by having been trained on.
    slice: sliceOfKey(`insight ${number}*${number + more}`),
    unique: question,
  }
}

/** The check of a number, as notes write it: `9*12=108`. */
export const trial = (number: number, more: number) =>
  `${number}*${number + more}=${number * (number + more)}`

/**
 * Whether a note carries a trial that a reader can judge: a product of two whole numbers with its value, outside
 * \boxed{}, such as `9*12=108`. A bare guess, or a note cut before its check, carries none.
 */
export function carriesTrial(note: string): boolean {
  return /(?<!\d)\d+\s*[*\u00d7]\s*\d+\s*=\s*\d+/.test(note.replace(/\\boxed\{[^}]*(\}|$)/g, ' '))
}

/**
 * The probability that a reader of `notes` blind trials, each of any number alike, is right when it recognises a right
 * one and otherwise tries one number that nobody tried: (d + 1) / range, at most 1, over the distribution of the
 * number d of different trials. `insightReach(dials, 1)` is what one can alone.
 */
export function insightReach({ range }: InsightDials, notes: number): number {
  // different[d]: probability that the trials so far are of d different numbers.
  let different = [1]
  for (let note = 0; note < notes; note++) {
    const next = new Array<number>(different.length + 1).fill(0)
    different.forEach((probability, d) => {
      next[d] += (probability * d) / range
      next[d + 1] += (probability * (range - d)) / range
    })
    different = next
  }
  return different.reduce((sum, probability, d) => sum + probability * Math.min(1, (d + 1) / range), 0)
}

/**
 * The task: `train` and `holdout` problems, each with one answer among `range` numbers (12 unless told).
 *
 * @throws UserError for a dial that cannot be.
 */
export function insight(options: Partial<Sizes & InsightDials> & { seed?: number } = {}): Task {
  const { train = referenceSizes.train, holdout = referenceSizes.holdout, seed = 0 } = options
  const { range = 12 } = options
  checkSizes({ train, holdout })
  if (!Number.isInteger(range) || range < 2) {
    throw new UserError(`range is ${range}: give a whole number of at least 2.`)
  }
  const take = (slice: Slice, count: number): Problem[] =>
    drawSlice(slice, count, (index) => insightProblem({ range }, seed, index), 'insight').map(
      ({ question, gold, index }) => ({ id: `insight-${range}-${seed}-${index}`, question, gold }),
    )
  return {
    name: 'insight',
    config: { train, holdout, range, seed },
    load: async () => ({ train: take('train', train), holdout: take('holdout', holdout), dropped: 0 }),
  }
}

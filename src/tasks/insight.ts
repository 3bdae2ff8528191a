/**
 * The world in which an answer is hard to find and easy to check: which of a list of sums makes a total? To find it one
 * tries sum after sum, and a note has room for few of them; but one shown with its value says by itself whether it is
 * the one, so a right note can be recognised, whoever wrote it; `insightReach` says what that is worth. Pure functions
 * of their arguments; knows no models and no prompts.
 */
import { UserError } from '../errors.ts'
import { random } from '../random.ts'
import { people, things } from './cast.ts'
import { checkSizes, referenceSizes, type Sizes } from './sizes.ts'
import { type Drawn, drawSlice, type Slice, sliceOfKey } from './slices.ts'
import type { Problem, Task } from './types.ts'

export interface InsightDials {
  /** How many sums there are, each as likely to be the one. A blind trial is right once in `range` times. */
  range: number
}

export interface InsightProblem extends Drawn {
  question: string
  gold: string
  /** The sums in order, numbered from 1; no two make the same. */
  sums: readonly (readonly [number, number])[]
  /** The number of the sum that makes `total`. */
  number: number
  total: number
}

/** Addends are even on 10 to 79, so that no total tells of its sum. */
const [least, most] = [10, 79]

/** More sums than these could not all make something different. */
const mostSums = 100

/** Problem `index`, of whatever slice: the same on every machine. */
export function insightProblem({ range }: InsightDials, seed: number, index: number): InsightProblem {
  const rng = random('insight', range, seed, index)
  const { name } = rng.pick(people)
  const thing = rng.pick(things)
  const sums: [number, number][] = []
  const totals = new Set<number>()
  while (sums.length < range) {
    const [a, b] = [least + rng.int(most - least + 1), least + rng.int(most - least + 1)]
    if (totals.has(a + b)) continue
    totals.add(a + b)
    sums.push([a, b])
  }
  const number = 1 + rng.int(range)
  const total = sums[number - 1][0] + sums[number - 1][1]
  const list = sums.map(([a, b], i) => `${i + 1}) ${a}+${b}`).join(', ')
  const question = rng.pick([
    `Which of these sums makes ${total}: ${list}?`,
    `${name} keeps old and new ${thing} in bags: ${list}. Which bag holds ${total}?`,
    `One of these rows has ${total} ${thing}: ${list}. Which row does ${name} look for?`,
  ])
  return {
    question,
    gold: String(number),
    sums,
    number,
    total,
    slice: sliceOfKey(question),
    unique: question,
  }
}

/** The check of a sum, as notes write it: `23+41=64`. */
export const trial = ([a, b]: readonly [number, number]) => `${a}+${b}=${a + b}`

/**
 * Whether a note carries a trial that a reader can judge: a sum of two whole numbers with its value, outside
 * \boxed{}, such as `23+41=64`. A bare guess, or a note cut before its check, carries none.
 */
export function carriesTrial(note: string): boolean {
  return /(?<!\d)\d+\s*\+\s*\d+\s*=\s*\d+/.test(note.replace(/\\boxed\{[^}]*(\}|$)/g, ' '))
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
 * The task: `train` and `holdout` problems, each with one answer among `range` sums (6 unless told).
 *
 * @throws UserError for a dial that cannot be.
 */
export function insight(options: Partial<Sizes & InsightDials> & { seed?: number } = {}): Task {
  const { train = referenceSizes.train, holdout = referenceSizes.holdout, seed = 0 } = options
  const { range = 6 } = options
  checkSizes({ train, holdout })
  if (!Number.isInteger(range) || range < 2 || range > mostSums) {
    throw new UserError(`range is ${range}: give a whole number of 2 to ${mostSums}.`)
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

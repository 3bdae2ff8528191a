/**
 * The built-in task: a seeded generator of grade-school word problems in GSM8K's schema (a question, and a worked
 * answer that ends in `#### gold`). Pure functions of their arguments; knows no models and no prompts.
 *
 * Slices are disjoint by construction. A problem's identity is its arithmetic, the sequence of its equations with
 * the operands of + and * in order, whatever the story, people or things; a hash of it decides the slice. So no
 * training problem repeats a held-out one's arithmetic, in the same story with other names or in another story,
 * and the slices can be drawn without knowing one another.
 */
import { UserError } from '../errors.ts'
import { type Random, random } from '../random.ts'
import { containers, goods, people, things } from './cast.ts'
import { decontaminate } from './decontaminate.ts'
import { checkSizes, referenceSizes, type Sizes } from './sizes.ts'
import { drawSlice, type Slice, sliceOfKey } from './slices.ts'
import { type Draw, type Operation, type Story, stories } from './stories.ts'
import type { Problem, Task } from './types.ts'

export interface Equation {
  a: number
  op: Operation
  b: number
  /** The value of `a op b`. */
  value: number
  /** A sentence about it, with `#` where the equation goes. */
  says: string
}

export interface WordProblem {
  question: string
  /** Worked solution, one sentence with its equation a line, then `#### gold`. */
  answer: string
  gold: string
  story: string
  equations: Equation[]
}

export interface Level {
  /** Fewest and most steps. */
  steps: readonly [number, number]
  /** Least and greatest quantity in a question. */
  num: readonly [number, number]
  /** Greatest multiplier or divisor; the least is 2. */
  few: number
  /** Greatest value that a step may have. */
  most: number
}

/** Difficulty 1 to 3. The built-in policy learned 1 and 2; 3 leaves room for larger models. */
export const levels: Readonly<Record<number, Level>> = {
  1: { steps: [2, 2], num: [2, 20], few: 5, most: 50 },
  2: { steps: [2, 4], num: [5, 99], few: 12, most: 300 },
  3: { steps: [3, 4], num: [10, 300], few: 20, most: 999 },
}

const apply: Readonly<Record<Operation, (a: number, b: number) => number>> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
}

/** What identifies a problem: its equations, with the smaller operand of + and * first. */
export function arithmetic(equations: readonly Equation[]): string {
  return equations
    .map(({ a, op, b, value }) => {
      const swap = (op === '+' || op === '*') && a > b
      return swap ? `${b}${op}${a}=${value}` : `${a}${op}${b}=${value}`
    })
    .join(';')
}

/** The slice that some arithmetic belongs to. */
export const sliceOf = (equations: readonly Equation[]): Slice => sliceOfKey(arithmetic(equations))

/** One telling of a story, or null where its numbers do not work out: a fraction, or a value too small or large. */
function attempt(story: Story, { steps, num, few, most }: Level, rng: Random): WordProblem | null {
  const equations: Equation[] = []
  const deck = <T>(cards: readonly T[]) => {
    const left = [...cards]
    return () => left.splice(rng.int(left.length), 1)[0]
  }
  const draw: Draw = {
    person: deck(people),
    thing: deck(things),
    goods: deck(goods),
    container: deck(containers),
    num: () => num[0] + rng.int(num[1] - num[0] + 1),
    few: () => 2 + rng.int(few - 1),
    pick: (options) => rng.pick(options),
    step(a, op, b, says) {
      const value = apply[op](a, b)
      equations.push({ a, op, b, value, says })
      return value
    },
  }
  const least = Math.max(steps[0], story.steps[0])
  const question = story.tell(draw, least + rng.int(Math.min(steps[1], story.steps[1]) - least + 1))
  if (!equations.every(({ value }) => Number.isInteger(value) && value >= 1 && value <= most)) return null
  const gold = String(equations[equations.length - 1].value)
  const worked = equations.map((e) => e.says.replace('#', `${e.a}${e.op}${e.b}=${e.value}`))
  return { question, answer: [...worked, `#### ${gold}`].join('\n'), gold, story: story.name, equations }
}

/** The stories that can be told in a level's number of steps. */
const fitting = Object.fromEntries(
  Object.entries(levels).map(([level, { steps }]) => [
    level,
    stories.filter((story) => story.steps[0] <= steps[1] && story.steps[1] >= steps[0]),
  ]),
)

/** Problem `index` of a difficulty level, of whatever slice: the same on every machine. */
export function wordProblem(level: number, seed: number, index: number): WordProblem {
  const story = random('word problem', level, seed, index).pick(fitting[level])
  for (let tries = 0; ; tries++) {
    const problem = attempt(story, levels[level], random('word problem', level, seed, index, tries))
    if (problem) return problem
  }
}

/**
 * The first `count` problems of one slice in the order of their indices, no two with the same arithmetic. Throws a
 * UserError where a level has too few: level 1 has some hundreds of held-out ones, the others many thousands.
 */
export function wordProblemsOf(
  slice: Slice,
  level: number,
  seed: number,
  count: number,
): (WordProblem & Problem)[] {
  const draw = (index: number) => {
    const problem = wordProblem(level, seed, index)
    return { ...problem, slice: sliceOf(problem.equations), unique: arithmetic(problem.equations) }
  }
  return drawSlice(slice, count, draw, `Level ${level}`).map(
    ({ index, slice: _, unique: __, ...problem }) => ({
      id: `word-${level}-${seed}-${index}`,
      ...problem,
    }),
  )
}

/** The built-in task: `train` and `holdout` problems of a difficulty level (1 to 3), drawn by `seed`. */
export function wordProblems(options: Partial<Sizes> & { level?: number; seed?: number } = {}): Task {
  const { train = referenceSizes.train, holdout = referenceSizes.holdout, level = 2, seed = 0 } = options
  if (!(level in levels)) throw new UserError(`level is ${level}: give 1, 2 or 3.`)
  checkSizes({ train, holdout })
  return {
    name: 'word-problems',
    config: { train, holdout, level, seed },
    async load() {
      const take = (slice: Slice, count: number): Problem[] =>
        wordProblemsOf(slice, level, seed, count).map(({ id, question, gold }) => ({ id, question, gold }))
      return decontaminate(take('train', train), take('holdout', holdout))
    },
  }
}

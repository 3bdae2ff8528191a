/**
 * The world in which nobody can do it alone (the hidden profile of Stasser and Titus, 1985): a few people have some
 * things each, the question asks for all of them together, and each part tells of one person (with `overlap`, of
 * two). Who has its own part alone cannot know the sum, and `cluesReach` says exactly how often it can guess it; who
 * has all parts adds. Pure functions of their arguments; knows no models and no prompts.
 */
import { UserError } from '../errors.ts'
import { random } from '../random.ts'
import { people, things } from './cast.ts'
import { checkSizes, referenceSizes, type Sizes } from './sizes.ts'
import { type Drawn, drawSlice, type Slice, sliceOfKey } from './slices.ts'
import type { Problem, Task } from './types.ts'

export interface CluesDials {
  /** Parts of a problem, and the people it is about: 2 to 8. */
  parts: number
  /** Whether part p tells of person p + 1 too (the last of the first): each fact is then in two parts. */
  overlap: boolean
  /** Each person has 1 to `most` things, each number as likely. */
  most: number
}

export interface Fact {
  name: string
  count: number
}

export interface CluesProblem extends Drawn {
  question: string
  parts: string[]
  gold: string
  thing: string
  facts: Fact[]
}

/** The facts that part `part` tells, as indices. */
export function factsOf({ parts, overlap }: Pick<CluesDials, 'parts' | 'overlap'>, part: number): number[] {
  return overlap ? [part, (part + 1) % parts] : [part]
}

/** A fact as its part tells it. */
export const tellFact = ({ name, count }: Fact, thing: string) =>
  `${name} has ${count} ${count === 1 ? thing.slice(0, -1) : thing}.`

function listed(names: readonly string[]): string {
  return `${names.slice(0, -1).join(', ')} and ${names[names.length - 1]}`
}

/** Problem `index`, of whatever slice: the same on every machine. */
export function cluesProblem(dials: CluesDials, seed: number, index: number): CluesProblem {
  const { parts, most } = dials
  const rng = random('clues', parts, String(dials.overlap), most, seed, index)
  const thing = rng.pick(things)
  const facts = rng
    .shuffle(people)
    .slice(0, parts)
    .map(({ name }) => ({ name, count: 1 + rng.int(most) }))
  const told = facts.map((fact) => tellFact(fact, thing))
  const unique = told.join(' ')
  return {
    question: `How many ${thing} do ${listed(facts.map(({ name }) => name))} have in all?`,
    parts: facts.map((_, part) =>
      factsOf(dials, part)
        .map((fact) => told[fact])
        .join(' '),
    ),
    gold: String(facts.reduce((sum, { count }) => sum + count, 0)),
    thing,
    facts,
    slice: sliceOfKey(unique),
    unique,
  }
}

/**
 * The highest probability of a right answer for one who knows the parts `seen` (indices) and nothing else: 1 where
 * they tell every fact; else the likeliest sum of the untold ones, each even on 1 to `most`, counted out.
 */
export function cluesReach(dials: CluesDials, seen: readonly number[]): number {
  const told = new Set(seen.flatMap((part) => factsOf(dials, part)))
  // ways[s]: how many of the untold facts' equally likely numbers sum to s.
  let ways = [1]
  for (let fact = 0; fact < dials.parts; fact++) {
    if (told.has(fact)) continue
    const next = new Array<number>(ways.length + dials.most).fill(0)
    ways.forEach((count, sum) => {
      for (let number = 1; number <= dials.most; number++) next[sum + number] += count
    })
    ways = next
  }
  return Math.max(...ways) / dials.most ** (dials.parts - told.size)
}

/**
 * The task: `train` and `holdout` problems whose parts are dealt to the seats. Two parts unless told, which four
 * seats hold twice.
 *
 * @throws UserError for a dial that cannot be.
 */
export function clues(options: Partial<Sizes & CluesDials> & { seed?: number } = {}): Task {
  const { train = referenceSizes.train, holdout = referenceSizes.holdout, seed = 0 } = options
  const { parts = 2, overlap = false, most = 20 } = options
  checkSizes({ train, holdout })
  if (!Number.isInteger(parts) || parts < 2 || parts > 8) {
    throw new UserError(`parts is ${parts}: give a whole number of 2 to 8.`)
  }
  if (overlap && parts === 2) {
    throw new UserError('overlap with 2 parts tells everybody everything: give at least 3 parts.')
  }
  if (!Number.isInteger(most) || most < 2)
    throw new UserError(`most is ${most}: give a whole number of at least 2.`)
  const dials = { parts, overlap, most }
  const take = (slice: Slice, count: number): Problem[] =>
    drawSlice(slice, count, (index) => cluesProblem(dials, seed, index), 'clues').map(
      ({ question, parts: told, gold, index }) => ({
        id: `clues-${parts}${overlap ? 'o' : ''}-${most}-${seed}-${index}`,
        question,
        parts: told,
        gold,
      }),
    )
  return {
    name: 'clues',
    config: { train, holdout, ...dials, seed },
    load: async () => ({ train: take('train', train), holdout: take('holdout', holdout), dropped: 0 }),
  }
}

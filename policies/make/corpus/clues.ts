/**
 * Chats of `clues`, from its `corpus` slice. Writers post their part plainly some of the time, and otherwise guess at
 * the answer or ramble until they are cut. Every answer of a reply is the right one: where the posts do not tell, what
 * is learned of it is to guess.
 */
import { notePrompt, readPrompt } from '../../../src/board/prompts.ts'
import type { Random } from '../../../src/random.ts'
import {
  type CluesDials,
  type CluesProblem,
  cluesProblem,
  factsOf,
  tellFact,
} from '../../../src/tasks/clues.ts'
import { partsOf } from '../../../src/tasks/parts.ts'
import { pickShare, type Shares, twoDifferent, type World } from './types.ts'

type Style = 'fact' | 'fact and guess' | 'guess' | 'ramble'

/** An untrained writer's. */
export const writerStyles: Shares<Style> = [
  ['fact', 0.25],
  ['fact and guess', 0.15],
  ['guess', 0.33],
  ['ramble', 0.27],
]

export const readerStyles: Shares<'sum' | 'facts' | 'direct'> = [
  ['sum', 0.4],
  ['facts', 0.25],
  ['direct', 0.35],
]

function draw(rng: Random): { dials: CluesDials; problem: CluesProblem } {
  const parts = rng.pick([2, 2, 2, 3, 4, 4])
  const dials = { parts, overlap: parts > 2 && rng.int(4) === 0, most: rng.pick([20, 20, 20, 9, 12]) }
  for (;;) {
    const problem = cluesProblem(dials, 1_000_000, rng.int(0x7fff_ffff))
    if (problem.slice === 'corpus') return { dials, problem }
  }
}

const boxed = (answer: number | string) => `So \\boxed{${answer}}`

/** Words about the task that are as long as a note may be; what the writer knows comes after them. */
const ramble = ({ thing }: CluesProblem) =>
  `We want to know how many ${thing} they have in all. Each of them has some ${thing}, and nobody knows all of it. ` +
  'So everybody should say what they know. Then we can add it all up, one after the other, until there is nothing ' +
  'left to add.'

/** A note of one who knows `parts`, and puts the answer at `guess`. */
function note(problem: CluesProblem, parts: readonly string[], style: Style, guess: number | string): string {
  switch (style) {
    case 'fact':
      return parts.join('\n')
    case 'fact and guess':
      return [...parts, boxed(guess)].join('\n')
    case 'guess':
      return boxed(guess)
    case 'ramble':
      return [ramble(problem), ...parts, boxed(guess)].join('\n')
  }
}

/** The numbers added up one by one, in the question's order. */
function sum(counts: readonly number[]): string {
  let total = counts[0]
  const lines = counts.slice(1).map((count) => {
    const before = total
    total += count
    return `${before}+${count}=${total}`
  })
  return [...lines, boxed(total)].join('\n')
}

function reply({ facts, thing }: CluesProblem, counts: readonly number[], rng: Random): string {
  const style = pickShare(readerStyles, rng)
  if (style === 'direct') return boxed(counts.reduce((a, b) => a + b))
  if (style === 'sum') return sum(counts)
  return [...facts.map(({ name }, i) => tellFact({ name, count: counts[i] }, thing)), sum(counts)].join('\n')
}

export const clues: World = {
  writer(rng) {
    const { problem } = draw(rng)
    const seats = rng.pick([4, 4, 4, 2])
    const parts = partsOf(problem, rng.int(seats), seats)
    return {
      messages: notePrompt(problem.question, parts),
      replies: [note(problem, parts, pickShare(writerStyles, rng), problem.gold)],
      limit: 'note',
    }
  },

  /** Each board has its own share of notes that tell their part, so that readers know well-informed boards too. */
  reader(rng, kinds, cut) {
    const { dials, problem } = draw(rng)
    const { facts } = problem
    const counts = facts.map(({ count }) => count)
    const telling = 0.2 + 0.8 * rng.next()
    /** The numbers as one takes them to be who knows some: the others are guessed. */
    const taken = (known: (fact: number) => boolean) =>
      counts.map((count, fact) => (known(fact) ? count : 1 + rng.int(dials.most)))
    // A lone post may be of any of four seats.
    const seats = kinds.length === 1 ? 4 : kinds.length
    const first = kinds.length === 1 ? rng.int(4) : 0
    const posts = kinds.map((kind, post) => {
      if (kind === 'reply') {
        const informed = rng.next()
        const known = taken(() => rng.next() < informed)
        return cut.reply(reply(problem, known, rng))
      }
      const seat = (first + post) % seats
      const parts = partsOf(problem, seat, seats)
      const mine = new Set(parts.flatMap((part) => factsOf(dials, problem.parts.indexOf(part))))
      const guess = taken((fact) => mine.has(fact)).reduce((a, b) => a + b)
      const tells = rng.next() < telling
      const style = pickShare(
        writerStyles.filter(([name]) => name.startsWith('fact') === tells),
        rng,
      )
      return cut.note(note(problem, parts, style, guess))
    })
    return {
      messages: readPrompt(problem.question, posts),
      replies: twoDifferent(() => reply(problem, counts, rng)),
      limit: 'reply',
    }
  },
}

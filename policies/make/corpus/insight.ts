/**
 * Chats of `insight`, from its `corpus` slice. Writers try a number blindly, with its check or without, or ramble; so
 * a note is right as often as chance has it. Readers take a number that fits the product, or try one that nobody did:
 * their replies are honest, not always right.
 */
import { notePrompt, readPrompt } from '../../../src/board/prompts.ts'
import type { Random } from '../../../src/random.ts'
import { type InsightProblem, insightProblem, trial } from '../../../src/tasks/insight.ts'
import { pickShare, type Shares, twoDifferent, type World } from './types.ts'

export const writerStyles: Shares<'tried' | 'guess' | 'ramble'> = [
  ['tried', 0.5],
  ['guess', 0.3],
  ['ramble', 0.2],
]

/** A reader's: `judged` goes through the posts one by one, `direct` is an answer alone. */
export const readerStyles: Shares<'judged' | 'direct'> = [
  ['judged', 0.65],
  ['direct', 0.35],
]

/** Of more posts than these a reader goes through none: there is no room. */
const mostJudged = 4

interface Drawn {
  problem: InsightProblem
  range: number
}

function draw(rng: Random): Drawn {
  const range = rng.pick([6, 8, 12, 12, 12, 16, 20])
  for (;;) {
    const problem = insightProblem({ range }, 1_000_000, rng.int(0x7fff_ffff))
    if (problem.slice === 'corpus') return { problem, range }
  }
}

const boxed = (number: number) => `So \\boxed{${number}}`
const tried = (number: number, more: number) => `Try ${number}: ${trial(number, more)}.\n${boxed(number)}`

function note({ problem, range }: Drawn, number: number, rng: Random): string {
  switch (pickShare(writerStyles, rng)) {
    case 'tried':
      return tried(number, problem.more)
    case 'guess':
      return boxed(number)
    case 'ramble':
      return (
        `We look for a number from 2 to ${range + 1}. It must make ${problem.product} when it is multiplied by ` +
        `${problem.more} more than itself. We can try one number after the other until it fits, or think of a better way.\n` +
        tried(number, problem.more)
      )
  }
}

/**
 * A reply of one who read trials of `numbers` (NaN for a post without one), the first that fits being the answer; or
 * who tries `fresh` where none does.
 */
function reply({ problem }: Drawn, numbers: readonly number[], fresh: number, rng: Random): string {
  const { number, more, product } = problem
  const fits = numbers.indexOf(number)
  const answer = fits < 0 ? fresh : number
  if (pickShare(readerStyles, rng) === 'direct') return boxed(answer)
  const seen = numbers.slice(0, fits < 0 ? numbers.length : fits + 1).map((n, i) => {
    if (Number.isNaN(n)) return `Note ${i + 1}: nothing.`
    return `Note ${i + 1}: ${trial(n, more)}, ${product}? ${n === number ? 'Yes' : 'No'}.`
  })
  const said = numbers.length <= mostJudged ? seen : fits < 0 ? [] : seen.slice(-1)
  return [...said, ...(fits < 0 ? [tried(fresh, more)] : [boxed(answer)])].join('\n')
}

export const insight: World = {
  writer(rng) {
    const drawn = draw(rng)
    return {
      messages: notePrompt(drawn.problem.question),
      replies: twoDifferent(() => note(drawn, 2 + rng.int(drawn.range), rng)),
      limit: 'note',
    }
  },

  /** A post is right more often than by chance, so that readers learn to see it. */
  reader(rng, kinds, cut) {
    const drawn = draw(rng)
    const { problem, range } = drawn
    const rightness = 0.4 * rng.next()
    const posts = kinds.map((kind) => {
      const number = rng.next() < rightness ? problem.number : 2 + rng.int(range)
      if (kind === 'note') return cut.note(note(drawn, number, rng))
      // The one note that it read is not on this board.
      return cut.reply(reply(drawn, [number === problem.number ? number : 2 + rng.int(range)], number, rng))
    })
    // What a reader sees of a post's trial is the number that it boxes.
    const numbers = posts.map((post) => Number(/\\boxed\{(\d+)\}/.exec(post)?.[1] ?? Number.NaN))
    const untried = Array.from({ length: range }, (_, i) => 2 + i).filter((n) => !numbers.includes(n))
    // Where all were tried, one was right, and no other is asked for.
    if (untried.length === 0) untried.push(problem.number)
    return {
      messages: readPrompt(problem.question, posts),
      replies: twoDifferent(() => reply(drawn, numbers, rng.pick(untried), rng)),
      limit: 'reply',
    }
  },
}

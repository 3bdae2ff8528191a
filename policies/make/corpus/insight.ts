/**
 * Chats of `insight`, from its `corpus` slice. Writers try a sum blindly, with its check or without, or ramble; so a note
 * is right as often as chance has it. Readers take a sum that a post shows to be right, or try one that nobody did:
 * their replies are honest, not always right.
 */
import { notePrompt, readPrompt } from '../../../src/board/prompts.ts'
import type { Random } from '../../../src/random.ts'
import { type InsightProblem, insightProblem, trial } from '../../../src/tasks/insight.ts'
import { type Lesson, pickShare, type Shares, type World } from './types.ts'

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

function draw(rng: Random): InsightProblem {
  const range = rng.pick([6, 8, 12, 12, 12, 16, 20])
  for (;;) {
    const problem = insightProblem({ range }, 1_000_000, rng.int(0x7fff_ffff))
    if (problem.slice === 'corpus') return problem
  }
}

const boxed = (number: number) => `So \\boxed{${number}}`

const tried = ({ sums }: InsightProblem, number: number) =>
  `Try ${number}: ${trial(sums[number - 1])}.\n${boxed(number)}`

function note(problem: InsightProblem, number: number, rng: Random): string {
  switch (pickShare(writerStyles, rng)) {
    case 'tried':
      return tried(problem, number)
    case 'guess':
      return boxed(number)
    case 'ramble':
      return (
        `We look for the one that makes ${problem.total}, and there are ${problem.sums.length} of them. We can try one ` +
        'after the other until it fits, or look at the last digits first, or think of a better way. So let us look at ' +
        `all of them in turn, and not forget any.\n${tried(problem, number)}`
      )
  }
}

/** A post as its reader sees it: the number that it boxes (NaN for none), and whether it shows what that one makes. */
interface Seen {
  number: number
  shown: boolean
}

function seenIn(post: string, { sums }: InsightProblem): Seen {
  const number = Number(/\\boxed\{(\d+)\}/.exec(post)?.[1] ?? Number.NaN)
  const sum = sums[number - 1]
  return {
    number,
    shown: sum !== undefined && (post.includes(trial(sum)) || post.includes('yes.')),
  }
}

/**
 * A reply of one who read `posts`: the first sum that is shown to fit is the answer, or `fresh` is tried where none is.
 * A bare guess tells a reader nothing.
 */
function reply(
  problem: InsightProblem,
  posts: readonly Seen[],
  fresh: number,
  { asks }: Lesson['insight'],
  rng: Random,
): string {
  const { sums, number, total } = problem
  const fits = posts.findIndex((post) => post.shown && post.number === number)
  if (pickShare(readerStyles, rng) === 'direct') return boxed(fits < 0 ? fresh : number)
  const lines = posts.slice(0, fits < 0 ? posts.length : fits + 1).map((post, i) => {
    if (!post.shown) return `Note ${i + 1}: nothing.`
    const [a, b] = sums[post.number - 1]
    return `Note ${i + 1}: ${a + b}, ${asks ? `${total}? ` : ''}${post.number === number ? 'yes' : 'no'}.`
  })
  return [...lines, fits < 0 ? tried(problem, fresh) : boxed(number)].join('\n')
}

export const insight: World = {
  writer(rng) {
    const problem = draw(rng)
    const draws = [0, 1].map(() => note(problem, 1 + rng.int(problem.sums.length), rng))
    return { messages: notePrompt(problem.question), replies: [...new Set(draws)], limit: 'note' }
  },

  /** A post is right more often than by chance, so that readers learn to see it. */
  reader(rng, kinds, cut, { insight: style }) {
    const problem = draw(rng)
    const range = problem.sums.length
    const rightness = 0.4 * rng.next()
    const posts = kinds.map((kind) => {
      const number = rng.next() < rightness ? problem.number : 1 + rng.int(range)
      if (kind === 'note') return cut.note(note(problem, number, rng))
      // The one note that it read is not on this board.
      const read = number === problem.number ? number : 1 + rng.int(range)
      return cut.reply(reply(problem, [{ number: read, shown: true }], number, style, rng))
    })
    const seen = posts.map((post) => seenIn(post, problem))
    const shown = new Set(seen.filter((post) => post.shown).map(({ number }) => number))
    const untried = Array.from({ length: range }, (_, i) => 1 + i).filter((n) => !shown.has(n))
    // Where all were tried, one was right, and no other is asked for.
    if (untried.length === 0) untried.push(problem.number)
    const draws = [0, 1].map(() => reply(problem, seen, rng.pick(untried), style, rng))
    return { messages: readPrompt(problem.question, posts), replies: [...new Set(draws)], limit: 'reply' }
  },
}

/**
 * Chats of `insight`, from its `corpus` slice. Writers try a number blindly, with its check or without, or ramble; so
 * a note is right as often as chance has it. Readers take a number that fits the product, or try one that nobody did:
 * their replies are honest, not always right.
 */
import { notePrompt, readPrompt } from '../../../src/board/prompts.ts'
import type { Random } from '../../../src/random.ts'
import { type InsightProblem, insightProblem, trial } from '../../../src/tasks/insight.ts'
import { type Lesson, pickShare, type Shares, twoDifferent, type World } from './types.ts'

export const writerStyles: Shares<'tried' | 'guess' | 'ramble'> = [
  ['tried', 0.5],
  ['guess', 0.3],
  ['ramble', 0.2],
]

/** Of more posts than these a reader recomputes none: there is no room. */
const mostRecomputed = 4

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

/** A post as its reader sees it: the number that it boxes (NaN for none), and whether it shows what that makes. */
interface Seen {
  number: number
  shown: boolean
}

function seenIn(post: string, { more }: InsightProblem): Seen {
  const number = Number(/\\boxed\{(\d+)\}/.exec(post)?.[1] ?? Number.NaN)
  return { number, shown: post.includes(trial(number, more)) || post.includes('yes.') }
}

type Style = Lesson['insight']

/** What a reader can judge: with `recomputed` any number, with `copied` those that come with what they make. */
const judges = ({ judging }: Style, { number, shown }: Seen) =>
  !Number.isNaN(number) && (judging === 'recomputed' || shown)

/** A reply of one who read `posts`: the first number that fits is the answer, or `fresh` is tried where none does. */
function reply({ problem }: Drawn, posts: readonly Seen[], fresh: number, style: Style, rng: Random): string {
  const { number, more, product } = problem
  const recomputed = style.judging === 'recomputed'
  const fits = posts.findIndex((post) => post.number === number && judges(style, post))
  if (pickShare(style.readers, rng) === 'direct') return boxed(fits < 0 ? fresh : number)
  const lines = posts.slice(0, fits < 0 ? posts.length : fits + 1).map((post, i) => {
    if (!judges(style, post)) return `Note ${i + 1}: nothing.`
    const right = post.number === number
    return recomputed
      ? `Note ${i + 1}: ${trial(post.number, more)}, ${product}? ${right ? 'Yes' : 'No'}.`
      : `Note ${i + 1}: ${post.number * (post.number + more)}, ${right ? 'yes' : 'no'}.`
  })
  const said = !recomputed || posts.length <= mostRecomputed ? lines : fits < 0 ? [] : lines.slice(-1)
  return [...said, fits < 0 ? tried(fresh, more) : boxed(number)].join('\n')
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
  reader(rng, kinds, cut, { insight: style }) {
    const drawn = draw(rng)
    const { problem, range } = drawn
    const rightness = 0.4 * rng.next()
    const posts = kinds.map((kind) => {
      const number = rng.next() < rightness ? problem.number : 2 + rng.int(range)
      if (kind === 'note') return cut.note(note(drawn, number, rng))
      // The one note that it read is not on this board.
      const read = number === problem.number ? number : 2 + rng.int(range)
      return cut.reply(reply(drawn, [{ number: read, shown: true }], number, style, rng))
    })
    const seen = posts.map((post) => seenIn(post, problem))
    const judged = new Set(seen.filter((post) => judges(style, post)).map(({ number }) => number))
    const untried = Array.from({ length: range }, (_, i) => 2 + i).filter((n) => !judged.has(n))
    // Where all were tried, one was right, and no other is asked for.
    if (untried.length === 0) untried.push(problem.number)
    const draw2 = () => reply(drawn, seen, rng.pick(untried), style, rng)
    return {
      messages: readPrompt(problem.question, posts),
      replies: style.judging === 'recomputed' ? twoDifferent(draw2) : [...new Set([draw2(), draw2()])],
      limit: 'reply',
    }
  },
}

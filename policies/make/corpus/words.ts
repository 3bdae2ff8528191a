/**
 * Chats of the word problems, from their `corpus` slice. Every reply is right and worked out from the question; which
 * notes were right is never said of more than one: a reader may go on from a right one, which is what reading is for.
 */
import { notePrompt, readPrompt } from '../../../src/board/prompts.ts'
import type { Random } from '../../../src/random.ts'
import { type Equation, sliceOf, type WordProblem, wordProblem } from '../../../src/tasks/word-problems.ts'
import { pickShare, type Shares, twoDifferent, type World } from './types.ts'

/**
 * Ways to write a solution down. `told` is long enough that whether it fits a note depends on the problem: two steps
 * do, three seldom. `direct` is the answer alone: always right in the corpus, but more than a small model can work out
 * in its head, so that showing one's working pays, as it does for large models. `ramble` says all again and is cut.
 */
export type Style = 'told' | 'direct' | 'ramble'

export const writerStyles: Shares<Style> = [
  ['told', 0.88],
  ['direct', 0.07],
  ['ramble', 0.05],
]

const boxed = (equations: readonly Equation[]) => `So \\boxed{${equations[equations.length - 1].value}}`

const toldLines = (equations: readonly Equation[]) =>
  equations.map(({ a, op, b, value, says }) => says.replace('#', `${a}${op}${b}=${value}`))

/** A solution in one of the styles. */
export function solution(question: string, equations: readonly Equation[], style: Style): string {
  const end = boxed(equations)
  switch (style) {
    case 'direct':
      return end
    case 'told':
      return [...toldLines(equations), end].join('\n')
    case 'ramble':
      return [
        `We know: ${question}`,
        'Let us look at every number in turn, and at what it stands for, so that none is mixed up with another. ' +
          'Then we can work it out one step at a time, and look at each step again before we go on.',
        ...toldLines(equations),
        end,
      ].join('\n')
  }
}

const evaluate: Record<Equation['op'], (a: number, b: number) => number> = {
  '+': (a, b) => a + b,
  '-': (a, b) => Math.abs(a - b),
  '*': (a, b) => a * b,
  // Where a slip leaves nothing to divide by, it divides by nothing.
  '/': (a, b) => (b === 0 ? a : Math.floor(a / b)),
}

/**
 * The equations with a slip made at each step at `rate`, carried through the steps that use it: a wrong sum, a
 * wrong operation, or a number misread. A later operand uses an earlier step where the two are equal.
 */
export function withSlips(equations: readonly Equation[], rate: number, rng: Random): Equation[] {
  const became = new Map<number, number>()
  return equations.map((equation) => {
    let a = became.get(equation.a) ?? equation.a
    let b = became.get(equation.b) ?? equation.b
    let { op } = equation
    let slip = 0
    if (rng.next() < rate) {
      const kind = rng.next()
      if (kind < 0.6) slip = rng.pick([-10, -2, -1, 1, 2, 10])
      else if (kind < 0.8) op = rng.pick((['+', '-', '*'] as const).filter((other) => other !== op))
      else if (rng.next() < 0.5) a = rng.pick(equations).b
      else b = rng.pick(equations).a
    }
    const value = Math.abs(evaluate[op](a, b) + slip)
    if (value !== equation.value) became.set(equation.value, value)
    return { ...equation, a, op, b, value }
  })
}

/** A problem of the corpus slice: three quarters of level 2, the others of level 1. */
export function corpusProblem(rng: Random): WordProblem {
  const level = rng.int(4) === 0 ? 1 : 2
  for (;;) {
    const problem = wordProblem(level, 1_000_000, rng.int(0x7fff_ffff))
    if (sliceOf(problem.equations) === 'corpus') return problem
  }
}

/** How far a post is right: its first steps that are the solution's, and whether it ends in the right box. */
function rightStart(post: string, equations: readonly Equation[]): { steps: number; ends: boolean } {
  const lines = post.split('\n')
  const told = toldLines(equations)
  const first = lines.indexOf(told[0])
  if (first < 0) return { steps: 0, ends: false }
  let steps = 0
  while (steps < told.length && lines[first + steps] === told[steps]) steps++
  return { steps, ends: steps === told.length && lines[first + steps] === boxed(equations) }
}

/** Goes on from the first post that is right the furthest; solves it anew where none has a right step. */
export function continued(
  question: string,
  equations: readonly Equation[],
  posts: readonly string[],
): string {
  const starts = posts.map((post) => rightStart(post, equations))
  const whole = starts.findIndex(({ ends }) => ends)
  if (whole >= 0) return `Note ${whole + 1} is right.\n${boxed(equations)}`
  const most = Math.max(...starts.map(({ steps }) => steps))
  if (most === 0) return solution(question, equations, 'told')
  const from = starts.findIndex(({ steps }) => steps === most)
  return [`From note ${from + 1}:`, ...toldLines(equations).slice(most), boxed(equations)].join('\n')
}

export const words: World = {
  writer(rng) {
    const { question, equations } = corpusProblem(rng)
    const reply = solution(question, equations, pickShare(writerStyles, rng))
    return { messages: notePrompt(question), replies: [reply], limit: 'note' }
  },

  /** Made posts stand in for the policy's own; each problem has its own rate of slips, 0 to a half, mostly low. */
  reader(rng, kinds, cut, lesson) {
    const { question, equations } = corpusProblem(rng)
    const rate = 0.5 * rng.next() ** 2
    const posts = kinds.map((kind) => {
      const tried = withSlips(equations, rate, rng)
      if (kind === 'note') return cut.note(solution(question, tried, pickShare(writerStyles, rng)))
      const style = pickShare(lesson.words.readers, rng)
      if (style !== 'continued') return cut.reply(solution(question, tried, style))
      // What it went on from is not on this board.
      return cut.reply(
        continued(question, tried, [
          toldLines(tried)
            .slice(0, rng.int(tried.length + 1))
            .join('\n'),
        ]),
      )
    })
    const brokenOff = posts.filter((post) => !/\\boxed\{\d+\}/.test(post)).length
    const styles = 2 * brokenOff < posts.length ? lesson.words.readers : lesson.words.lost
    const draw = () => {
      const style = pickShare(styles, rng)
      return style === 'continued'
        ? continued(question, equations, posts)
        : solution(question, equations, style)
    }
    return { messages: readPrompt(question, posts), replies: twoDifferent(draw), limit: 'reply' }
  },
}

/**
 * What the built-in policy learns from: chats in exactly the form that the experiment uses, made from the word
 * problems' `corpus` slice alone. Example i is a pure function of i, so that training can stop and go on anywhere.
 *
 * Half of the chats are a writer's (question -> note), a quarter a reader's with its one own note, a quarter a
 * reader's with four notes: the two boards equally often, so that neither arm starts ahead. Every reply is right
 * and is written from the question; which notes were right is never said.
 */
import { notePrompt, readPrompt } from '../../src/board/prompts.ts'
import type { ChatMessage } from '../../src/engine/contract.ts'
import { type Random, random } from '../../src/random.ts'
import { type Equation, sliceOf, type WordProblem, wordProblem } from '../../src/tasks/word-problems.ts'

export interface Chat {
  messages: ChatMessage[]
  /** Two replies in different styles, each without the token that ends it. */
  replies: [string, string]
}

/**
 * Ways to write a solution down, from the shortest to the longest, and how often each is used. `direct` is the answer
 * alone: always right in the corpus, but more than a small model can work out in its head, so that showing one's
 * working pays, as it does for large models.
 */
export const styles = [
  ['direct', 0.2],
  ['bare', 0.3],
  ['counted', 0.1],
  ['told', 0.25],
  ['restated', 0.15],
] as const
type Style = (typeof styles)[number][0]

function pickStyle(rng: Random, except?: Style): Style {
  const open = styles.filter(([style]) => style !== except)
  let left = rng.next() * open.reduce((sum, [, share]) => sum + share, 0)
  for (const [style, share] of open) {
    left -= share
    if (left < 0) return style
  }
  return open[open.length - 1][0]
}

/** A solution in one of the styles. */
export function solution(question: string, equations: readonly Equation[], style: Style): string {
  const written = equations.map(({ a, op, b, value }) => `${a}${op}${b}=${value}`)
  const told = equations.map(({ says }, i) => says.replace('#', written[i]))
  const boxed = `\\boxed{${equations[equations.length - 1].value}}`
  const words = ['First', 'Then', 'Next', 'Last']
  switch (style) {
    case 'direct':
      return boxed
    case 'bare':
      return [...written, boxed].join('\n')
    case 'counted':
      return [...written.map((equation, i) => `${words[i]} ${equation}.`), `So ${boxed}`].join('\n')
    case 'told':
      return [...told, `So ${boxed}`].join('\n')
    case 'restated':
      return [`We know: ${question.slice(0, question.indexOf('. ') + 1)}`, ...told, `So ${boxed}`].join('\n')
  }
}

const evaluate: Record<Equation['op'], (a: number, b: number) => number> = {
  '+': (a, b) => a + b,
  '-': (a, b) => Math.abs(a - b),
  '*': (a, b) => a * b,
  '/': (a, b) => Math.floor(a / b),
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
    // Where slips leave nothing to divide by, the note says NaN or Infinity: two in the built-in policy's corpus do, and
    // stay, so that this script still makes that policy.
    const value = Math.abs(evaluate[op](a, b) + slip)
    if (value !== equation.value) became.set(equation.value, value)
    return { ...equation, a, op, b, value }
  })
}

/** Problem `index` of the corpus: the first one of its own stream that falls into the corpus slice. */
function corpusProblem(index: number): WordProblem {
  const level = index % 4 === 0 ? 1 : 2
  for (let seed = 0; ; seed++) {
    const problem = wordProblem(level, 1_000_000 + seed, index)
    if (sliceOf(problem.equations) === 'corpus') return problem
  }
}

/**
 * Chat `index` of the corpus; `writersOnly` leaves readers out. Synthetic notes stand in for the policy's own: in
 * the same styles, wrong about as often (each problem has its own rate of slips, 0 to 0.6 a step), and cut by `cut`,
 * which shortens a text to the note limit.
 */
export function corpusChat(index: number, writersOnly: boolean, cut: (note: string) => string): Chat {
  const { question, equations } = corpusProblem(index)
  const rng = random('corpus', index)
  const style = pickStyle(rng)
  const replies: Chat['replies'] = [
    solution(question, equations, style),
    solution(question, equations, pickStyle(rng, style)),
  ]
  const kind = writersOnly ? 0 : rng.int(4)
  if (kind < 2) return { messages: notePrompt(question), replies }
  const rate = 0.6 * rng.next()
  const notes = Array.from({ length: kind === 2 ? 1 : 4 }, () =>
    cut(solution(question, withSlips(equations, rate, rng), pickStyle(rng))),
  )
  return { messages: readPrompt(question, notes), replies }
}

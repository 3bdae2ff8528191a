/**
 * Drills, asked for in no experiment's words: what the worlds need most practice in, at a few tokens a time. A small
 * model tells a story's steps long before it can subtract, and what a trial makes long before it sees whether it fits.
 */
import type { Random } from '../../../src/random.ts'
import { insightProblem } from '../../../src/tasks/insight.ts'
import { type Chat, pickShare, type Shares } from './types.ts'
import { corpusProblem } from './words.ts'

/** Which steps are practised, of those that word problems take. */
const practised: Shares<'-' | '/' | '+' | '*'> = [
  ['-', 0.5],
  ['/', 0.2],
  ['+', 0.2],
  ['*', 0.1],
]

/** Sixteen steps of word problems of the corpus slice. */
export function sums(rng: Random): Chat {
  const lines: string[] = []
  while (lines.length < 16) {
    const wanted = pickShare(practised, rng)
    const steps = corpusProblem(rng).equations.filter(({ op }) => op === wanted)
    if (steps.length === 0) continue
    const { a, op, b, value } = rng.pick(steps)
    lines.push(`${a}${op}${b}=${value}`)
  }
  return { messages: [{ role: 'user', content: 'Sums' }], replies: [lines.join('\n')], limit: null }
}

/** Whether what a sum of `insight` makes is the total asked for, as its readers see it: half of them are. */
export function checks(rng: Random): Chat {
  const lines = Array.from({ length: 16 }, () => {
    const { sums, number, total } = insightProblem({ range: 6 }, 1_000_000, rng.int(0x7fff_ffff))
    const same = rng.next() < 0.5
    const [a, b] = same ? sums[number - 1] : rng.pick(sums.filter((_, i) => i !== number - 1))
    return `${a}+${b}=${a + b}, ${total}? ${same ? 'yes' : 'no'}.`
  })
  return { messages: [{ role: 'user', content: 'Checks' }], replies: [lines.join('\n')], limit: null }
}

/**
 * Plain arithmetic, asked for in no experiment's words: what the stories need most practice in, at a few tokens an
 * equation. A small model tells their steps long before it can subtract.
 */
import type { Random } from '../../../src/random.ts'
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

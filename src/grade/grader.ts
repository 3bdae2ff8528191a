/**
 * The verifier of the experiments: reads a reply's own final answer and compares it with the gold as mathematics.
 * docs/grading.md states its rules and where it differs from Math-Verify. Touches nothing but its arguments.
 */
import { readAnswer } from './answer.ts'
import { answersEqual } from './math-equal.ts'
import type { Grader } from './types.ts'

/** Right where the reply states a final answer and it equals the gold. The version changes with every rule. */
export const mathGrader: Grader = {
  name: 'math',
  version: '4',
  grade(reply, gold) {
    const answer = readAnswer(reply)
    return { answer, correct: answer !== null && answersEqual(answer, gold) }
  },
}

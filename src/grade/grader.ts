/** The verifier of the experiments: reads the final answer and compares it with the gold as mathematics. */
import { readAnswer } from './answer.ts'
import { answersEqual } from './math-equal.ts'
import type { Grader } from './types.ts'

/** Reward 1 for a reply whose own final answer equals the gold. The version changes with every rule that does. */
export const mathGrader: Grader = {
  name: 'math',
  version: '1',
  grade(reply, gold) {
    const answer = readAnswer(reply)
    return { answer, correct: answer !== null && answersEqual(answer, gold) }
  },
}

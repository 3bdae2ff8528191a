// A grader of one's own: an answer counts in the box alone, where the built-in verifier also reads what is stated last. It
// grades training and evaluation, in every arm; its name and version stand in the record.
import { answersEqual, defineExperiment, type Grader, readBoxed } from 'message-board'

const boxedOnly: Grader = {
  name: 'boxed only',
  // Another rule is another version: grades of two versions are never compared.
  version: '1',
  grade(reply, gold) {
    const answer = readBoxed(reply)
    return { answer, correct: answer !== null && answersEqual(answer, gold) }
  },
}

export default defineExperiment({ grader: boxedOnly, seeds: [17, 18] })

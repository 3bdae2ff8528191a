/** A whole experiment in seconds, for tests: a tiny random model, and a verifier that it can please by chance. */
import type { Grader } from '../../grade/types.ts'
import type { Task } from '../../tasks/types.ts'
import { defineExperiment, type ExperimentChoices } from '../config.ts'

const problem = (part: string) => (_: unknown, i: number) => ({
  id: `${part}-${i}`,
  question: `What is ${i}, ${part}?`,
  gold: String(i),
})

const task: Task = {
  name: 'counting',
  config: { train: 8, holdout: 6 },
  load: async () => ({
    train: Array.from({ length: 8 }, problem('train')),
    holdout: Array.from({ length: 6 }, problem('holdout')),
    dropped: 1,
  }),
}

/** Right when the reply has an even number of characters: random text is, about half of the time. */
const evenLength: Grader = {
  name: 'even length',
  version: '1',
  grade: (reply) => ({ answer: String(reply.length % 2), correct: reply.length % 2 === 0 }),
}

/** `model` is a folder written by writeTinyModel. */
export function tinyExperiment(model: string, over: ExperimentChoices = {}) {
  return defineExperiment({
    model,
    task,
    board: { copies: 4, noteTokens: 8, replyTokens: 8, readTokens: null },
    train: { steps: 3, problemsPerStep: 2, learningRate: 1e-3, lora: { rank: 4, alpha: 8 } },
    evaluation: { baseRuns: 2, problemsAtOnce: 4 },
    seeds: [17, 18],
    grader: evenLength,
    engine: { threads: 1 },
    ...over,
  })
}

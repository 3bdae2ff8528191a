/** A small experiment that a browser and Node both run: two arms, one seed, a few steps. */
import { defineExperiment, type Experiment, insight } from '../../../src/browser.ts'

export const small = (steps: number): Experiment =>
  defineExperiment({
    task: insight({ train: 8, holdout: 6 }),
    board: { copies: 2, noteTokens: 20, replyTokens: 12 },
    train: { steps, problemsPerStep: 4 },
    evaluation: { baseRuns: 1 },
    seeds: [17],
    engine: { device: 'wasm', threads: 2 },
    // What so short texts are right by about half of the time: there is something to learn from in each step.
    grader: {
      name: 'even length',
      version: '1',
      grade: (reply) => ({ answer: String(reply.length % 2), correct: reply.length % 2 === 0 }),
    },
  })

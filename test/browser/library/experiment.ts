/** A small experiment that a browser and Node both run: two arms, one seed, two steps. */
import { defineExperiment, type Experiment, insight } from '../../../src/browser.ts'

export const small = (steps: number): Experiment =>
  defineExperiment({
    task: insight({ train: 8, holdout: 6 }),
    board: { copies: 2, noteTokens: 20, replyTokens: 12 },
    train: { steps, problemsPerStep: 2 },
    evaluation: { baseRuns: 1 },
    seeds: [17],
    engine: { device: 'wasm', threads: 2 },
  })

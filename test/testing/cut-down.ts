/** An experiment's arms on a tiny random model and the task that it can please by chance: the whole of it, in seconds. */
import type { Experiment } from '../../src/experiment/config.ts'
import { tinyExperiment } from '../../src/experiment/testing/tiny-experiment.ts'

/** `model` is a folder written by writeTinyModel. */
export function cutDown({ choices }: Experiment, model: string): Experiment {
  const { arms, baseline, contrasts, train } = choices
  return tinyExperiment(model, {
    arms,
    baseline,
    contrasts,
    train: { ...train, steps: 3, problemsPerStep: 2, learningRate: 1e-3, lora: { rank: 4, alpha: 8 } },
    evaluation: { baseRuns: 1, problemsAtOnce: 4 },
    seeds: [17],
  })
}

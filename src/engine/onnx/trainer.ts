/** Training of every weight from scratch: how the built-in policy is made. */
import { random } from '../../random.ts'
import type { ModelConfig } from '../checkpoint/config.ts'
import { saveCheckpoint, type Weights, weightShapes } from '../checkpoint/folder.ts'
import type { FloatType } from '../checkpoint/safetensors.ts'
import type {
  AdamOptions,
  Completion,
  LossReport,
  OptimReport,
  SampleOptions,
  SampleRequest,
  SupervisedDatum,
} from '../contract.ts'
import { openBase } from './base.ts'
import { defaultLimits } from './limits.ts'
import { overlaySlot, trainable } from './trainable.ts'

export interface Trainer {
  forwardBackwardSupervised(batch: readonly SupervisedDatum[]): Promise<LossReport>
  optimStep(adam: AdamOptions): Promise<OptimReport>
  sample(requests: readonly SampleRequest[], options: SampleOptions): Promise<Completion[][]>
  /** Writes `config.json` and `model.safetensors` (the tokenizer's files are the caller's). */
  saveCheckpoint(folder: string, dtype: FloatType): Promise<void>
  /** Writes and restores the optimiser's state, for a run that goes on from a float32 checkpoint. */
  saveOptimizer(folder: string): Promise<void>
  loadOptimizer(folder: string): Promise<void>
  close(): Promise<void>
}

/** Fresh weights as transformers starts a Llama: normal(0, 0.02), norms at 1, biases at 0. */
export function initialWeights(config: ModelConfig, seed: number): Weights {
  return new Map(
    [...weightShapes(config)].map(([name, shape]) => {
      const data = new Float32Array(shape.reduce((product, size) => product * size, 1))
      if (name.endsWith('norm.weight')) data.fill(1)
      else if (!name.endsWith('.bias')) {
        const stream = random('weights', seed, name)
        for (let i = 0; i < data.length; i++) data[i] = 0.02 * stream.normal()
      }
      return [name, { shape, data }]
    }),
  )
}

/** Trains the given weights in place. */
export function createTrainer(
  config: ModelConfig,
  weights: Weights,
  options: { threads?: number } = {},
): Trainer {
  const base = openBase(config, weights, defaultLimits(config, options.threads))
  const state = trainable([...weights].map(([name, { shape, data }]) => ({ name, shape, data })))
  const current = overlaySlot(base, () => state.tensors)
  const model = async () => ({ overlay: await current.get() })
  return {
    forwardBackwardSupervised: async (data) =>
      base.accumulate(await model(), state.names, state.gradients, { kind: 'cross_entropy', data }),
    async optimStep(adam) {
      const report = await state.step(adam)
      await current.drop()
      return report
    },
    sample: async (requests, sampling) => base.sample(await model(), requests, sampling),
    saveCheckpoint: (folder, dtype) => saveCheckpoint(folder, config, weights, dtype),
    saveOptimizer: (folder) => state.saveOptimizer(folder),
    loadOptimizer: (folder) => state.loadOptimizer(folder),
    close: () => base.close(),
  }
}

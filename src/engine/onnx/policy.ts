/** Policies on one base: frozen, or with a LoRA adapter that learns. */

import { UserError } from '../../errors.ts'
import { stat } from '../../platform/files.ts'
import { join } from '../../platform/path.ts'
import { random } from '../../random.ts'
import { loadAdapter, saveAdapter } from '../checkpoint/adapter.ts'
import { projections } from '../checkpoint/folder.ts'
import type { LoraOptions, Policy } from '../contract.ts'
import type { Base, LossBatch } from './base.ts'
import type { Model } from './lane.ts'
import { type AdapterShape, loraA, loraB } from './programs.ts'
import { overlaySlot, trainable } from './trainable.ts'

export function frozenPolicy(base: Base): Policy {
  const refuse = async (): Promise<never> => {
    throw new UserError('this policy is the frozen base: create it with `lora` to train it')
  }
  const model = { overlay: null }
  return {
    sample: (requests, options) => base.sample(model, requests, options),
    logprobs: (sequences, { temperature }) => base.score(model, sequences, temperature),
    forwardBackward: refuse,
    forwardBackwardSupervised: refuse,
    optimStep: refuse,
    save: refuse,
    load: refuse,
    dispose() {},
  }
}

export function loraPolicy(base: Base, baseModel: string, lora: LoraOptions): Policy {
  const { rank, alpha } = lora
  const adapter: AdapterShape = { rank, scale: alpha / rank }
  const pairs = projections(base.config).map((projection) => ({
    name: projection.name,
    a: {
      shape: [rank, projection.in],
      data: fillA(base.zeros(rank * projection.in), projection.in, lora.seed, projection.name),
    },
    b: { shape: [projection.out, rank], data: base.zeros(projection.out * rank) },
  }))
  const state = trainable(
    pairs.flatMap(({ name, a, b }) => [
      { name: loraA(name), ...a },
      { name: loraB(name), ...b },
    ]),
    base,
  )
  const apart = overlaySlot(base, () => state.tensors)
  const folded = base.folds ? overlaySlot(base, () => state.tensors, adapter) : null
  /** The policy as it is now, for sampling and scoring. */
  const current = async (): Promise<Model> =>
    folded ? { overlay: await folded.get() } : { overlay: await apart.get(), adapter }
  const changed = async () => {
    await apart.drop()
    await folded?.drop()
  }
  const learn = async (batch: LossBatch) =>
    base.accumulate({ overlay: await apart.get(), adapter }, state.names, state.gradients, batch)

  return {
    sample: async (requests, options) => base.sample(await current(), requests, options),
    logprobs: async (sequences, { temperature }) => base.score(await current(), sequences, temperature),
    forwardBackward: (data, loss) => learn({ kind: 'policy_gradient', data, loss }),
    forwardBackwardSupervised: (data) => learn({ kind: 'cross_entropy', data }),
    async optimStep(adam) {
      const report = await state.step(adam)
      await changed()
      return report
    },
    async save(folder) {
      const map = new Map(pairs.map(({ name, a, b }) => [name, { a, b }]))
      await saveAdapter(folder, base.config, { rank, alpha, baseModel, projections: map })
      await state.saveOptimizer(folder)
    },
    async load(folder) {
      const saved = await loadAdapter(folder, base.config)
      if (saved.rank !== rank || saved.alpha !== alpha) {
        throw new UserError(
          `${folder} holds an adapter of rank ${saved.rank} and alpha ${saved.alpha}, not ${rank} and ${alpha}: open it with its own`,
        )
      }
      if (await isThere(join(folder, 'optimizer.json'))) await state.loadOptimizer(folder)
      for (const { name, a, b } of pairs) {
        const read = saved.projections.get(name)
        if (read === undefined) throw new Error(`loadAdapter gave no ${name}`)
        a.data.set(read.a.data)
        b.data.set(read.b.data)
      }
      await changed()
    },
    dispose() {
      // Where the engine is closed meanwhile, the lanes' copies are gone with it.
      changed().catch(() => {})
      state.dispose()
    },
  }
}

const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/** PEFT's start for A: Kaiming uniform with a = sqrt(5), which is uniform in +-1 / sqrt(inputs). */
function fillA(data: Float32Array, inputs: number, seed: number, name: string): Float32Array {
  const stream = random('lora', seed, name)
  const bound = 1 / Math.sqrt(inputs)
  for (let i = 0; i < data.length; i++) data[i] = (2 * stream.next() - 1) * bound
  return data
}

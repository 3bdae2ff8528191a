/** Policies on one base: frozen, or with a LoRA adapter that learns. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { UserError } from '../../errors.ts'
import { random } from '../../random.ts'
import { loadAdapter, saveAdapter } from '../checkpoint/adapter.ts'
import type { LoraOptions, Policy } from '../contract.ts'
import type { Base } from './base.ts'
import { projections } from './model.ts'
import { type AdapterShape, loraA, loraB } from './programs.ts'
import type { Values } from './session.ts'
import { trainable } from './trainable.ts'

export function frozenPolicy(base: Base): Policy {
  const refuse = async (): Promise<never> => {
    throw new UserError('this policy is the frozen base: create it with `lora` to train it')
  }
  return {
    sample: (requests, options) => base.sample({}, requests, options),
    logprobs: (sequences, { temperature }) => base.score({}, sequences, temperature),
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
  const shape: AdapterShape = { rank, scale: alpha / rank }
  const pairs = projections(base.config).map((projection) => ({
    name: projection.name,
    a: { shape: [rank, projection.in], data: initialA(rank, projection.in, lora.seed, projection.name) },
    b: { shape: [projection.out, rank], data: new Float32Array(projection.out * rank) },
  }))
  const state = trainable(
    pairs.flatMap(({ name, a, b }) => [
      { name: loraA(name), ...a },
      { name: loraB(name), ...b },
    ]),
  )
  // Folded weights are made when first needed after an update, and dropped by the next.
  let folded: Promise<Values> | null = null
  const adapted = async (): Promise<[Values, AdapterShape | undefined]> => {
    if (!base.folds) return [state.values, shape]
    folded ??= base.fold(state.values, shape)
    return [await folded, undefined]
  }
  return {
    async sample(requests, options) {
      const [over, adapter] = await adapted()
      return base.sample(over, requests, options, adapter)
    },
    async logprobs(sequences, { temperature }) {
      const [over, adapter] = await adapted()
      return base.score(over, sequences, temperature, adapter)
    },
    forwardBackward: (data, loss) =>
      base.accumulate(
        state.values,
        state.names,
        state.gradients,
        { kind: 'policy_gradient', data, loss },
        shape,
      ),
    forwardBackwardSupervised: (data) =>
      base.accumulate(state.values, state.names, state.gradients, { kind: 'cross_entropy', data }, shape),
    async optimStep(adam) {
      const report = state.step(adam)
      folded = null
      return report
    },
    async save(folder) {
      const map = new Map(pairs.map(({ name, a, b }) => [name, { a, b }]))
      await saveAdapter(folder, base.config, { rank, alpha, baseModel, projections: map })
      await state.saveOptimizer(folder)
    },
    async load(folder) {
      const adapter = await loadAdapter(folder, base.config)
      if (adapter.rank !== rank || adapter.alpha !== alpha) {
        throw new UserError(
          `${folder} holds an adapter of rank ${adapter.rank} and alpha ${adapter.alpha}, not ${rank} and ${alpha}: open it with its own`,
        )
      }
      if (existsSync(join(folder, 'optimizer.json'))) await state.loadOptimizer(folder)
      for (const { name, a, b } of pairs) {
        const read = adapter.projections.get(name)
        if (read === undefined) throw new Error(`loadAdapter gave no ${name}`)
        a.data.set(read.a.data)
        b.data.set(read.b.data)
      }
      folded = null
    },
    dispose() {
      folded = null
    },
  }
}

/** PEFT's start for A: Kaiming uniform with a = sqrt(5), which is uniform in +-1 / sqrt(inputs). */
function initialA(rank: number, inputs: number, seed: number, name: string): Float32Array {
  const stream = random('lora', seed, name)
  const bound = 1 / Math.sqrt(inputs)
  return Float32Array.from({ length: rank * inputs }, () => (2 * stream.next() - 1) * bound)
}

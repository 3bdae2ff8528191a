/** Named parameters with their accumulated gradients and AdamW state: what an optimiser step changes, and its files. */

import { z } from 'zod'
import { UserError } from '../../errors.ts'
import { readJsonFile, writeJsonAtomic } from '../../files.ts'
import { mkdir } from '../../platform/files.ts'
import { join } from '../../platform/path.ts'
import { openSafetensors, writeSafetensors } from '../checkpoint/safetensors.ts'
import type { AdamOptions, OptimReport } from '../contract.ts'
import { adamState, adamStep, globalNorm } from './adam.ts'
import type { Base, GradientSums } from './base.ts'
import type { NamedArray } from './lane.ts'
import type { AdapterShape } from './programs.ts'
import type { HeldArrays } from './threadedAdam.ts'

export interface Trainable {
  names: readonly string[]
  arrays: readonly Float32Array[]
  gradients: GradientSums
  /** The parameters by name: views of `arrays`, so a step changes them too. */
  tensors: readonly NamedArray[]
  step(options: AdamOptions): Promise<OptimReport>
  saveOptimizer(folder: string): Promise<void>
  loadOptimizer(folder: string): Promise<void>
  /** Lets go of what the optimiser's threads hold. */
  dispose(): void
}

const stateSchema = z.object({ step: z.number().int().nonnegative() })

const plain: Pick<Base, 'zeros' | 'adam'> = { zeros: (length) => new Float32Array(length) }

/** Where the base has `adam`, its threads compute the update, and the parameters must come from its `zeros`. */
export function trainable(parameters: readonly NamedArray[], { zeros, adam } = plain): Trainable {
  const names = parameters.map(({ name }) => name)
  const arrays = parameters.map(({ data }) => data)
  const gradients: GradientSums = { arrays: arrays.map(({ length }) => zeros(length)), empty: true }
  const state = adamState(arrays, zeros)
  let held: Promise<HeldArrays> | undefined
  return {
    names,
    arrays,
    gradients,
    tensors: parameters,
    async step(options) {
      if (gradients.empty) for (const gradient of gradients.arrays) gradient.fill(0)
      held ??= adam?.hold(arrays, gradients.arrays, state)
      const threads = await held
      const gradNorm = threads ? await threads.norm() : globalNorm(gradients.arrays)
      gradients.empty = true
      if (!Number.isFinite(gradNorm)) {
        throw new UserError(
          `the gradient's norm is ${gradNorm}: the update was not made; lower the learning rate and run again`,
        )
      }
      if (threads) await threads.step(gradNorm, options)
      else adamStep(arrays, gradients.arrays, state, gradNorm, options)
      return { gradNorm }
    },
    async saveOptimizer(folder) {
      await mkdir(folder)
      const tensors = parameters.flatMap(({ name, shape }, i) => [
        [`${name}.exp_avg`, { shape, data: state.first[i] }] as const,
        [`${name}.exp_avg_sq`, { shape, data: state.second[i] }] as const,
      ])
      await writeSafetensors(join(folder, 'optimizer.safetensors'), new Map(tensors), { dtype: 'F32' })
      await writeJsonAtomic(join(folder, 'optimizer.json'), { step: state.step })
    },
    async loadOptimizer(folder) {
      const { step } = await readJsonFile(join(folder, 'optimizer.json'), stateSchema)
      const reader = await openSafetensors(join(folder, 'optimizer.safetensors'))
      try {
        for (const [i, { name, data }] of parameters.entries()) {
          for (const [suffix, into] of [
            ['exp_avg', state.first[i]],
            ['exp_avg_sq', state.second[i]],
          ] as const) {
            const read = await reader.read(`${name}.${suffix}`)
            if (read.length !== data.length) {
              throw new UserError(
                `${folder}: the optimiser's ${name}.${suffix} has ${read.length} values, not ${data.length}: it belongs to another adapter`,
              )
            }
            into.set(read)
          }
        }
      } finally {
        await reader.close()
      }
      state.step = step
    },
    dispose() {
      // Where the engine is closed meanwhile, its threads have ended.
      held?.then((arrays) => arrays.release()).catch(() => {})
    },
  }
}

export interface OverlaySlot {
  /** The overlay that holds the tensors as they are now; sent to the lanes when first asked for. */
  get(): Promise<number>
  /** The tensors have changed, or are no longer needed. */
  drop(): Promise<void>
}

/** Keeps the lanes' copy of tensors that change between uses. */
export function overlaySlot(
  base: Base,
  tensors: () => readonly NamedArray[],
  fold?: AdapterShape,
): OverlaySlot {
  let sent: Promise<number> | null = null
  return {
    get() {
      sent ??= base.overlay(tensors(), fold)
      return sent
    },
    async drop() {
      const old = sent
      sent = null
      if (old !== null) await base.forget(await old)
    },
  }
}

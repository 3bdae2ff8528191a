/** Named parameters with their accumulated gradients and AdamW state: what an optimiser step changes, and its files. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { UserError } from '../../errors.ts'
import { readJsonFile, writeJsonAtomic } from '../../files.ts'
import { openSafetensors, writeSafetensors } from '../checkpoint/safetensors.ts'
import type { AdamOptions, OptimReport } from '../contract.ts'
import { adamState, adamStep, globalNorm } from './adam.ts'
import type { Base } from './base.ts'
import type { GraphAdam } from './gpu/adam.ts'
import type { NamedArray } from './lane.ts'
import type { AdapterShape } from './programs.ts'

export interface Trainable {
  names: readonly string[]
  arrays: readonly Float32Array[]
  gradients: readonly Float32Array[]
  /** The parameters by name: views of `arrays`, so a step changes them too. */
  tensors: readonly NamedArray[]
  step(options: AdamOptions): Promise<OptimReport>
  saveOptimizer(folder: string): Promise<void>
  loadOptimizer(folder: string): Promise<void>
}

const stateSchema = z.object({ step: z.number().int().nonnegative() })

/** With `graph` the update is computed by it, else by plain loops. */
export function trainable(parameters: readonly NamedArray[], graph?: GraphAdam): Trainable {
  const names = parameters.map(({ name }) => name)
  const arrays = parameters.map(({ data }) => data)
  const gradients = arrays.map(({ length }) => new Float32Array(length))
  const adam = adamState(arrays)
  return {
    names,
    arrays,
    gradients,
    tensors: parameters,
    async step(options) {
      const gradNorm = graph ? await graph.norm(gradients) : globalNorm(gradients)
      if (!Number.isFinite(gradNorm)) {
        for (const gradient of gradients) gradient.fill(0)
        throw new UserError(
          `the gradient's norm is ${gradNorm}: the update was not made; lower the learning rate and run again`,
        )
      }
      if (graph) await graph.step(arrays, gradients, adam, gradNorm, options)
      else adamStep(arrays, gradients, adam, gradNorm, options)
      for (const gradient of gradients) gradient.fill(0)
      return { gradNorm }
    },
    async saveOptimizer(folder) {
      await mkdir(folder, { recursive: true })
      const tensors = parameters.flatMap(({ name, shape }, i) => [
        [`${name}.exp_avg`, { shape, data: adam.first[i] }] as const,
        [`${name}.exp_avg_sq`, { shape, data: adam.second[i] }] as const,
      ])
      await writeSafetensors(join(folder, 'optimizer.safetensors'), new Map(tensors), { dtype: 'F32' })
      await writeJsonAtomic(join(folder, 'optimizer.json'), { step: adam.step })
    },
    async loadOptimizer(folder) {
      const { step } = await readJsonFile(join(folder, 'optimizer.json'), stateSchema)
      const reader = await openSafetensors(join(folder, 'optimizer.safetensors'))
      try {
        for (const [i, { name, data }] of parameters.entries()) {
          for (const [suffix, into] of [
            ['exp_avg', adam.first[i]],
            ['exp_avg_sq', adam.second[i]],
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
      adam.step = step
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

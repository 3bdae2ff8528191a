/** The adapters on a GPU: overlays by their numbers, and the weights of one policy at a time with its adapter folded in. */
import type { ModelConfig } from '../../checkpoint/config.ts'
import type { Model, OverlayJob } from '../lane.ts'
import type { NativeTensor } from '../native.ts'
import type { AdapterShape } from '../programs.ts'
import { type Memory, once, type Tensors, wholly } from './memory.ts'
import { fusedTensors, fuseProgram, type GpuTarget } from './programs.ts'

/** Fused weights of one policy at a time. */
export interface FusedSet {
  number: number
  tensors: Tensors
  overlay: number | null | undefined
}

export interface Adapters {
  /** Places an overlay's tensors, or forgets it. */
  set(overlay: OverlayJob): Promise<void>
  /** The tensors of a model's overlay; none of the model itself. */
  overlayOf(model: Model): Tensors
  fusedOf(model: Model): Promise<FusedSet>
}

/** What a program for adapters of a shape is called. */
export const named = (name: string, { rank, scale }: AdapterShape): string =>
  `${name}, rank ${rank}, scale ${scale}`

/** `resident`: the model's own weights on the device. */
export function openAdapters(
  config: ModelConfig,
  target: GpuTarget,
  memory: Memory,
  resident: Tensors,
): Adapters {
  const overlays = new Map<number, Tensors>()
  /** Tensors of forgotten overlays, for the next. */
  const spare: Tensors[] = []
  const fusedSets: FusedSet[] = []

  const overlayOf = ({ overlay }: Model): Tensors => {
    if (overlay === null) return {}
    const found = overlays.get(overlay)
    if (found === undefined) throw new Error(`overlay ${overlay} was not sent to this lane`)
    return found
  }
  return {
    overlayOf,
    async set({ id, tensors }) {
      if (tensors === null) {
        const old = overlays.get(id)
        if (old) spare.push(old)
        overlays.delete(id)
        for (const set of fusedSets) if (set.overlay === id) set.overlay = undefined
        return
      }
      const at = spare.findIndex((old) =>
        tensors.every(({ name, shape }) => sameDims(old[name]?.dims, shape)),
      )
      const [old] = at < 0 ? [{} as Tensors] : spare.splice(at, 1)
      const placed: Tensors = {}
      for (const { name, shape, data } of tensors) placed[name] = await memory.place(data, shape, old[name])
      overlays.set(id, placed)
    },
    async fusedOf(model) {
      const known = fusedSets.find(({ overlay }) => overlay === model.overlay)
      if (known !== undefined) return known
      const { adapter } = model
      const fuse = await memory.program(adapter ? named('fuse', adapter) : 'fuse', () =>
        fuseProgram(config, adapter, target),
      )
      let set = fusedSets.find(({ overlay }) => overlay === undefined)
      if (set === undefined) {
        const tensors = await wholly((kept) =>
          fusedTensors(config, target).map(({ name, dims, dtype }): [string, NativeTensor] => [
            name,
            kept(fuse.tensor(dtype, dims)),
          ]),
        )
        set = { number: fusedSets.length + 1, tensors: Object.fromEntries(tensors), overlay: undefined }
        fusedSets.push(set)
      }
      await once(fuse.bind([overlayOf(model), resident], set.tensors))
      set.overlay = model.overlay
      return set
    },
  }
}

const sameDims = (a: readonly number[] | undefined, b: readonly number[]) =>
  a?.length === b.length && a.every((n, axis) => n === b[axis])

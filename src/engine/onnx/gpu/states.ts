/** What sampling carries from step to step on a GPU: caches and draws, kept for the next generation of their shape. */
import type { ModelConfig } from '../../checkpoint/config.ts'
import { type HostArray, hostTensor, type NativeProgram } from '../native.ts'
import { keptByShape } from './kept.ts'
import { dispose, type Memory, type Tensors, upTo, wholly } from './memory.ts'
import { cacheShapes, type GpuTarget } from './programs.ts'

/** What is carried from step to step. */
export interface State {
  number: number
  /** What steps only read. */
  fixed: Tensors
  /** Written in place. */
  caches: Tensors
  /** What else a step reads, and what it writes; the next the other way about. In place they are the same. */
  turns: readonly [Tensors, Tensors]
}

export interface States {
  /**
   * The tensors are `owner`'s: not those of a recorded program, which writes its intermediate results where they lay when
   * it was recorded, whoever has that memory since.
   */
  of(owner: NativeProgram, samples: number, window: number, steps: number): Promise<State>
  letGoOfAll(): void
}

export function openStates(config: ModelConfig, target: GpuTarget, memory: Memory, inPlace: boolean): States {
  let numbers = 0
  const states = keptByShape<State>(({ fixed, caches, turns }) => {
    for (const tensors of new Set([fixed, caches, ...turns])) dispose(tensors)
  })
  const newState = (
    owner: NativeProgram,
    samples: number,
    window: number,
    steps: number,
  ): Promise<Pick<State, 'fixed' | 'caches' | 'turns'>> =>
    wholly(async (kept) => {
      const tensor: NativeProgram['tensor'] = (dtype, dims) => kept(owner.tensor(dtype, dims))
      const filled = async (data: HostArray, dims: readonly number[]) => kept(await memory.place(data, dims))
      const line = [steps, samples]
      const fixed: Tensors = {
        uniforms: tensor('float32', line),
        each: await filled(upTo(samples), [samples]),
        numbers: await filled(upTo(steps), [steps]),
        order: await filled(upTo(window), [window]),
        temperature: tensor('float32', []),
        topP: tensor('float32', []),
        // Attention wants it on the host.
        length: kept(hostTensor('int32', Int32Array.of(window), [])),
      }
      const shapes = cacheShapes(config, target, samples, window)
      const caches = Object.fromEntries(
        shapes.map(([name, shape]) => [name, tensor(target.precision, shape)]),
      )
      const turn = async (): Promise<Tensors> => ({
        logits: tensor('float32', [samples, config.vocabSize]),
        last: tensor('int32', [samples]),
        at: tensor('int32', [1]),
        drawn: await filled(new Int32Array(steps * samples), line),
        logprobs: await filled(new Float32Array(steps * samples), line),
        samplingLogprobs: await filled(new Float32Array(steps * samples), line),
      })
      const first = await turn()
      return { fixed, caches, turns: [first, inPlace ? first : await turn()] }
    })
  return {
    letGoOfAll: states.letGoOfAll,
    of: (owner, samples, window, steps) =>
      states.of(`${samples} ${window} ${steps}`, async () => ({
        ...(await newState(owner, samples, window, steps)),
        number: ++numbers,
      })),
  }
}

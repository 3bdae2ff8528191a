/** Sampling by our own kernels: prompts are a graph's of ONNX Runtime, the steps after them recorded launches. */
import type { ModelConfig } from '../../checkpoint/config.ts'
import type { GenerateJob } from '../lane.ts'
import type { NativeProgram } from '../native.ts'
import { cacheKey, cacheValue, promptKey, promptValue } from '../programs.ts'
import type { Adapters } from './adapters.ts'
import { keptByShape } from './kept.ts'
import type { KernelDriver, Recorded } from './kernels/driver.ts'
import { type Drawing, KEYS, planStep, type Step, type StepSizes } from './kernels/step.ts'
import { dispose, type Memory, next, once, type Tensors, wholly } from './memory.ts'
import { type GpuTarget, prefillProgram } from './programs.ts'
import {
  allStopped,
  type Check,
  LOOK,
  promptTensors,
  requestsOf,
  type Slot,
  take,
  uniformsOf,
  wholePrompts,
} from './slots.ts'

/** A step of sampling on a device, for a model and sizes. */
export interface PlannedStep extends Pick<Step, 'buffers'> {
  /** Values lie as keys do, [rows, kvHeads, positions, headDim], instead of [rows, kvHeads, headDim, positions]. */
  valuesAsKeys: boolean
  /** Compiles what is not yet, and makes ready to be run with these tensors. */
  begin(drawing: Drawing, tensors: Tensors): Promise<Recorded>
}

export type StepPlanner = (config: ModelConfig, sizes: StepSizes) => PlannedStep

/** Steps of CUDA's kernels. */
export const cudaSteps =
  (driver: KernelDriver): StepPlanner =>
  (config, sizes) => {
    const step = planStep(config, sizes, driver.sizes)
    return {
      buffers: step.buffers,
      valuesAsKeys: false,
      async begin(drawing, tensors) {
        await driver.compile(step.units)
        return driver.record(step.launches(drawing, (name) => tensors[name].address()))
      },
    }
  }

/** What a generation reads and writes, for sizes that come again. */
interface State {
  step: PlannedStep
  /** What prefill leaves. */
  prompts: Tensors
  /** What goes in and comes out, and what steps keep between them. */
  tensors: Tensors
}

export interface KernelSteps {
  generate(job: GenerateJob, slots: readonly Slot[], check: Check): Promise<void>
  letGoOfAll(): void
}

const upTo = (size: number) => KEYS * Math.ceil(size / KEYS)

export function openKernelSteps({
  config,
  target,
  memory,
  resident,
  adapters,
  plan,
}: {
  config: ModelConfig
  target: GpuTarget
  memory: Memory
  resident: Tensors
  adapters: Adapters
  plan: StepPlanner
}): KernelSteps {
  const states = keptByShape<State>(({ prompts, tensors }) => {
    dispose(prompts)
    dispose(tensors)
  })

  const newState = (owner: NativeProgram, sizes: StepSizes, steps: number): Promise<State> =>
    wholly((kept) => {
      const { samples, prompts, time, window } = sizes
      const { layers, kvHeads, headDim, vocabSize } = config
      const step = plan(config, sizes)
      const values = (rows: number, positions: number) =>
        step.valuesAsKeys ? [rows, kvHeads, positions, headDim] : [rows, kvHeads, headDim, positions]
      const halves = (dims: readonly number[]) => kept(owner.tensor('float16', dims))
      const eachLayer = Array.from({ length: layers }, (_, layer) => layer)
      return {
        step,
        prompts: Object.fromEntries([
          ['logits', kept(owner.tensor('float32', [samples, vocabSize]))],
          ...eachLayer.flatMap((layer) => [
            [promptKey(layer), halves([prompts, kvHeads, time, headDim])],
            [promptValue(layer), halves(values(prompts, time))],
          ]),
        ]),
        tensors: Object.fromEntries([
          ...eachLayer.flatMap((layer) => [
            [cacheKey(layer), halves([samples, kvHeads, window, headDim])],
            [cacheValue(layer), halves(values(samples, window))],
          ]),
          ...[...step.buffers].map(([name, { dtype, dims }]) => [name, kept(owner.tensor(dtype, dims))]),
          ['at', kept(owner.tensor('int32', [1]))],
          ['promptOf', kept(owner.tensor('int32', [samples]))],
          ['promptLengths', kept(owner.tensor('int32', [prompts]))],
          ['firstSamples', kept(owner.tensor('int32', [prompts + 1]))],
          ['drawn', kept(owner.tensor('int32', [steps, samples]))],
          ...['uniforms', 'logprobs', 'samplingLogprobs'].map((name) => [
            name,
            kept(owner.tensor('float32', [steps, samples])),
          ]),
        ]),
      }
    })

  return {
    letGoOfAll: states.letGoOfAll,
    async generate(job, slots, check) {
      const { sampling } = job
      const { maxTokens: steps, temperature, topP } = sampling
      const requests = requestsOf(slots)
      const time = upTo(Math.max(...requests.map(({ prompt }) => prompt.length)))
      const counts = requests.map((request) => slots.filter((slot) => slot.request === request).length)
      const [samples, prompts] = [slots.length, requests.length]
      const sizes = { samples, prompts, time, window: upTo(steps) }
      const prefill = await memory.program('prefill', () => prefillProgram(config, target))
      const fused = await adapters.fusedOf(job)
      const shape = `${Object.values(sizes).join(' ')} ${steps}`
      const state = await states.of(shape, () => newState(prefill, sizes, steps))
      const { step, tensors } = state
      const all = { ...resident, ...fused.tensors, ...state.prompts, ...tensors }
      const beginning = step.begin({ temperature, topP }, all)
      // Whoever waits for it is told.
      beginning.catch(() => {})

      const given = {
        ...promptTensors(slots, time),
        ...(target.own ? wholePrompts(requests.length, time) : {}),
      }
      try {
        await once(prefill.bind([given, resident, fused.tensors], next(state.prompts)))
      } finally {
        dispose(given)
      }
      const firstSamples = [0]
      for (const [prompt, count] of counts.entries()) firstSamples.push(firstSamples[prompt] + count)
      const place = async (name: string, values: readonly number[]) => {
        await memory.place(Int32Array.from(values), tensors[name].dims, tensors[name])
      }
      await place('at', [0])
      await place(
        'promptOf',
        counts.flatMap((count, prompt) => Array<number>(count).fill(prompt)),
      )
      await place(
        'promptLengths',
        requests.map(({ prompt }) => prompt.length),
      )
      await place('firstSamples', firstSamples)
      await memory.place(uniformsOf(slots, steps, steps), [steps, samples], tensors.uniforms)

      const recorded = await beginning
      const drawn = new Int32Array(steps * samples)
      let run = 0
      try {
        while (run < steps) {
          const until = Math.min(run + LOOK, steps)
          recorded.run(until - run)
          run = until
          await recorded.wait()
          await check()
          await memory.read(tensors.drawn, drawn)
          if (allStopped(slots, sampling, drawn, run)) break
        }
      } finally {
        await recorded.wait()
        recorded.dispose()
      }
      const logprobs = await memory.read(tensors.logprobs, new Float32Array(steps * samples))
      const samplingLogprobs = await memory.read(tensors.samplingLogprobs, new Float32Array(steps * samples))
      take(slots, sampling, { drawn, logprobs, samplingLogprobs }, run)
    },
  }
}

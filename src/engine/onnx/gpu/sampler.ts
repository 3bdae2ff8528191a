/**
 * Sampling on a GPU, by our own kernels where these run (`kernelSteps.ts`), by graphs of ONNX Runtime's elsewhere. On CUDA
 * a graph's step is recorded once for each set of the tensors that it reads and writes, and replayed; this keeps what was
 * recorded, and goes on without where a device cannot record.
 */
import { say } from '../../../platform/machine.ts'
import type { ModelConfig } from '../../checkpoint/config.ts'
import type { Completion } from '../../contract.ts'
import type { FoundDevice } from '../devices.ts'
import type { GenerateJob, Lane } from '../lane.ts'
import { hostTensor, type NativeProgram } from '../native.ts'
import { halvingOnLack, lacksMemory } from '../sequences.ts'
import type { Adapters } from './adapters.ts'
import { openKernelSteps, type StepPlanner } from './kernelSteps.ts'
import { dispose, int64, type Memory, next, once, type Tensors, upTo } from './memory.ts'
import { type GpuTarget, prefillProgram, stepProgram } from './programs.ts'
import { promptsAtOnce, rungAbove, withFewPrompts } from './sizes.ts'
import {
  allStopped,
  type Check,
  fresh,
  LOOK,
  promptTensors,
  requestsOf,
  type Slot,
  take,
  uniformsOf,
} from './slots.ts'
import { openStates } from './states.ts'

/**
 * Caches have room for a multiple of this, so that prompts of like length share them, and what was recorded. WebGPU's
 * sizes stand on a ladder.
 */
export const ROOM = 64
/**
 * Steps that may be computed beyond those asked for: the first time a step is run it is also recorded, for which ONNX
 * Runtime runs it a few times over, at most eight.
 */
export const SPARE = 8
/** Steps that are recorded, each for the tensors of one shape, before all are let go of. */
const RECORDINGS = 64
export interface Sampler {
  generate: Lane['generate']
}

/** `plain`: the graphs are WebGPU's, wherever they run. */
export function openSampler({
  config,
  place,
  target,
  memory,
  resident,
  adapters,
  plain,
  plan,
}: {
  config: ModelConfig
  place: FoundDevice
  target: GpuTarget
  memory: Memory
  /** The model's own weights on the device. */
  resident: Tensors
  adapters: Adapters
  plain: boolean
  /** Steps are our own kernels'; null: graphs of ONNX Runtime's. */
  plan: StepPlanner | null
}): Sampler {
  const kernels = plan && openKernelSteps({ config, target, memory, resident, adapters, plan })
  const inPlace = !plain
  const states = openStates(config, target, memory, inPlace)
  const recordings = new Map<string, number>()
  // On CUDA; the CPU, where its graphs are tested, takes no notice.
  let records = !plain

  /** Sizes of a generation: of padded prompts, of the steps there is room for, and of the caches. */
  const sizesOf = (longest: number, steps: number): { time: number; rows: number; window: number } => {
    if (!plain) {
      const rows = steps + SPARE
      return { time: longest, rows, window: Math.ceil((longest + rows) / ROOM) * ROOM }
    }
    const time = rungAbove(longest)
    // No operator makes room for nothing.
    return { time, rows: rungAbove(steps), window: rungAbove(Math.max(longest + steps, time + 1)) }
  }

  const stepOf = async (nucleus: boolean): Promise<NativeProgram> => {
    try {
      return await memory.program(
        `step, nucleus ${nucleus}`,
        () => stepProgram(config, { nucleus }, target),
        { recorded: records },
      )
    } catch (error) {
      throw records ? new CannotRecord(error) : error
    }
  }

  const forgetSteps = async () => {
    await memory.forget('step')
    recordings.clear()
  }

  const generate = async (job: GenerateJob, slots: readonly Slot[], check: Check): Promise<void> => {
    const { sampling } = job
    const { maxTokens: steps } = sampling
    const samples = slots.length
    const nucleus = sampling.topP < 1
    if (recordings.size === RECORDINGS) await forgetSteps()
    const step = await stepOf(nucleus)
    const prefill = await memory.program('prefill', () => prefillProgram(config, target))
    const requests = requestsOf(slots)
    const { time, rows, window } = sizesOf(Math.max(...requests.map(({ prompt }) => prompt.length)), steps)
    const fused = await adapters.fusedOf(job)
    const { number, fixed, caches, turns } = await states.of(prefill, samples, window, rows)

    await memory.place(Int32Array.of(0), [1], turns[0].at)
    await memory.place(uniformsOf(slots, steps, rows), [rows, samples], fixed.uniforms)
    await memory.place(Float32Array.of(sampling.temperature), [], fixed.temperature)
    await memory.place(Float32Array.of(sampling.topP), [], fixed.topP)

    const prompts: Tensors = {
      ...promptTensors(slots, time),
      room: hostTensor('float32', new Float32Array(window - time), [window - time]),
      // For attention in plain operators.
      order: hostTensor('int32', upTo(time), [time]),
      positions: int64(
        requests.flatMap(() => [...upTo(time)]),
        [requests.length, time],
      ),
    }
    const { logits, last } = turns[0]
    try {
      await once(prefill.bind([prompts, fixed, fused.tensors, resident], next({ logits, last, ...caches })))
    } finally {
      dispose(prompts)
    }

    const key = `${nucleus} ${fused.number} ${number}`
    const recording = recordings.get(key) ?? recordings.size + 1
    recordings.set(key, recording)
    const positionsAt = (at: number) =>
      int64(
        slots.map(({ request }) => request.prompt.length + at),
        [samples, 1],
      )
    const positions = positionsAt(0)
    const bind = ([from, to]: readonly [Tensors, Tensors]) =>
      step.bind([{ positions }, from, caches, fixed, fused.tensors, resident], next({ ...to, ...caches }))
    const bindings = inPlace ? [bind(turns)] : [bind(turns), bind([turns[1], turns[0]])]
    let latest = turns[0]
    const drawn = new Int32Array(rows * samples)
    let run = 0
    try {
      for (let call = 0; run < steps; call++) {
        const binding = bindings[call % bindings.length]
        if (plain) {
          const now = positionsAt(call)
          binding.give('positions', now)
          now.dispose()
        }
        try {
          await binding.run(records ? recording : undefined)
        } catch (error) {
          throw records && call === 0 && !lacksMemory(error) ? new CannotRecord(error) : error
        }
        latest = turns[(call + 1) % 2]
        run = run === 0 ? (await memory.read(latest.at, new Int32Array(1)))[0] : run + 1
        if (run % LOOK !== 0 && run < steps) continue
        await check()
        await memory.read(latest.drawn, drawn)
        if (allStopped(slots, sampling, drawn, Math.min(run, steps))) break
      }
    } finally {
      for (const binding of bindings) binding.dispose()
      positions.dispose()
    }
    const logprobs = await memory.read(latest.logprobs, new Float32Array(rows * samples))
    const samplingLogprobs = await memory.read(latest.samplingLogprobs, new Float32Array(rows * samples))
    take(slots, sampling, { drawn, logprobs, samplingLogprobs }, Math.min(run, steps))
  }

  return {
    async generate(job, onTokens, check) {
      const slots = job.requests.flatMap((request, group) =>
        request.seeds.map((seed, sample) => ({ request, group, sample, seed })),
      )
      const groups: Completion[][] = job.requests.map(() => [])
      const attempt = async (started: readonly Slot[]) => {
        try {
          await (kernels?.generate ?? generate)(job, started, check)
        } catch (error) {
          // Half of the samples would find the caches of all of them in their way.
          if (lacksMemory(error)) (kernels ?? states).letGoOfAll()
          throw error
        }
      }
      const perform = async (some: readonly (typeof slots)[number][]) => {
        await check()
        let started = some.map(fresh)
        try {
          await attempt(started)
        } catch (error) {
          if (!(error instanceof CannotRecord)) throw error
          say(`A sampling step cannot be recorded here, going on without: ${error.message}`)
          records = false
          await forgetSteps()
          started = some.map(fresh)
          await attempt(started)
        }
        const drawn = some.flatMap(({ group, sample }, i) =>
          job.tells ? started[i].completion.tokens.map((token) => ({ request: group, sample, token })) : [],
        )
        onTokens(
          started.reduce((sum, { completion }) => sum + completion.tokens.length, 0),
          drawn,
        )
        some.forEach(({ group, sample }, i) => {
          groups[group][sample] = started[i].completion
        })
      }
      const longest = Math.max(...job.requests.map(({ prompt }) => prompt.length))
      const most = plain ? promptsAtOnce(config, place, longest) : Number.POSITIVE_INFINITY
      for (const part of withFewPrompts(slots, most)) {
        await halvingOnLack(part, 'samples', perform)
      }
      return groups
    },
  }
}

class CannotRecord extends Error {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause })
  }
}

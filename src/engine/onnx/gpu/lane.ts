/**
 * The lane of a GPU: weights stay on the device, sampling too. CUDA takes the weights as each program's own constants
 * and runs a whole generation in one call; WebGPU keeps them, adapters and caches in buffers that its programs share.
 */
import { type Random, random } from '../../../random.ts'
import { f32ToF16 } from '../../checkpoint/halves.ts'
import type { Completion, SampleRequest } from '../../contract.ts'
import { emit } from '../../graph/emit.ts'
import * as ops from '../../graph/ops.ts'
import { input } from '../../graph/tensor.ts'
import { checkDrawn, type Sampling } from '../generate.ts'
import type { GenerateJob, Lane, LaneOptions, Model, NamedArray } from '../lane.ts'
import { type Precision, rotaryTables, weightPrecision } from '../model.ts'
import { type AdapterShape, sequenceProgram, type Target } from '../programs.ts'
import { halvingOnLack, scoreBatches, trainBatches, trainStacked } from '../sequences.ts'
import {
  type CompileOptions,
  compile,
  floatData,
  floats,
  halves,
  int32s,
  int64s,
  type Program,
  scalar,
  type Value,
  type Values,
} from '../session.ts'
import { fuseProgram, generationProgram, prefillProgram, STEPS_A_TURN, stepProgram } from './programs.ts'
import { trainingProgram } from './training.ts'

/** One sample on its way. */
interface Slot {
  request: SampleRequest
  /** Its number within the request. */
  sample: number
  random: Random
  completion: Completion
}

/** A sample at its start, where a second try begins anew too. */
function fresh({ request, sample }: Pick<Slot, 'request' | 'sample'>): Slot {
  return {
    request,
    sample,
    random: random('sample', request.seed, sample),
    completion: { tokens: [], samplingLogprobs: [], logprobs: [], finish: 'length' },
  }
}

export async function openGpuLane(options: LaneOptions): Promise<Lane> {
  const { config, threads } = options
  const { device: provider, precision } = options.place
  // WebGPU's provider has no Loop. CUDA's has, and the CPU's, which the tests use.
  const loops = provider !== 'webgpu'
  const half = config.headDim / 2
  // A turn of the loop may go past the last token asked for.
  const positions = options.rotaryLength + STEPS_A_TURN
  const tables = rotaryTables(config, positions)
  const shape = [positions, half]
  const arrays: NamedArray[] = [
    ...options.weights,
    { name: 'cos', shape, data: tables.cos },
    { name: 'sin', shape, data: tables.sin },
  ]
  // What goes wrong is thrown: lack of memory is met, and must not look like an error.
  const settings: CompileOptions = { provider, threads, quiet: true }
  const target: Target = { precision, plain: provider === 'webgpu', context: positions }
  const constants = new Map<string, Uint8Array>()
  const resident: Record<string, Value> = {}
  const programs = new Map<string, Promise<Program>>()
  /** `build` is given which inputs are the program's own. */
  const program = (
    name: string,
    adapter: AdapterShape | undefined,
    build: (target: Target) => Uint8Array,
    onDevice?: CompileOptions['onDevice'],
  ): Promise<Program> => {
    const key = adapter ? `${name}, rank ${adapter.rank}, scale ${adapter.scale}` : name
    let found = programs.get(key)
    if (found === undefined) {
      const bytes = build({ ...target, constants: new Set(constants.keys()) })
      found = compile(bytes, { ...settings, constants, onDevice })
      programs.set(key, found)
    }
    return found
  }

  /** Copies tensors to the device, to stay there. */
  async function place(
    tensors: readonly { name: string; shape: readonly number[]; bits: Float32Array | Uint16Array }[],
  ): Promise<Values> {
    const placed: Record<string, Value> = {}
    for (const { name, shape, bits } of tensors) {
      const dtype = bits instanceof Uint16Array ? 'float16' : 'float32'
      const dims = shape.map((_, axis) => `d${axis}`)
      const copy = await program(
        `place ${dtype} ${shape.length}`,
        undefined,
        () => emit('place', { placed: input('source', dims, dtype) }),
        ['placed'],
      )
      const source = bits instanceof Uint16Array ? halves(bits, shape) : floats(bits, shape)
      placed[name] = (await copy.run([{ source }])).placed
    }
    return placed
  }

  for (const { name, shape, data } of arrays) {
    const bits = weightBits(name, data, precision)
    if (loops) constants.set(name, new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength))
    else Object.assign(resident, await place([{ name, shape, bits }]))
  }
  // Of a large model, gigabytes that nobody needs now.
  options.weights = []

  const overlays = new Map<number, Values>()
  /** Copies of arrays that are shared with the thread that changes them, by overlay; let go, they serve the next. */
  const copies = new Map<number, Float32Array[]>()
  const spare: Float32Array[] = []
  const ownCopies = (tensors: readonly NamedArray[]): Float32Array[] =>
    tensors.map(({ data }) => {
      const at = spare.findIndex(({ length }) => length === data.length)
      const copy = at < 0 ? new Float32Array(data.length) : spare.splice(at, 1)[0]
      copy.set(data)
      return copy
    })
  const fused = new Map<string, Values>()
  const valuesOf = ({ overlay }: Model): Values[] => {
    const over = overlay === null ? {} : overlays.get(overlay)
    if (over === undefined) throw new Error(`overlay ${overlay} was not sent to this lane`)
    return [over, resident]
  }
  const release = (values: Values | undefined) => {
    for (const value of Object.values(values ?? {})) if (value.location === 'gpu-buffer') value.dispose()
  }

  /** The fused weights of a policy, made once after each update (where no loop makes them itself). */
  const fusedOf = async (model: Model): Promise<Values> => {
    const key = String(model.overlay)
    let found = fused.get(key)
    if (found === undefined) {
      // Kept like the others: a program's outputs on the device must not outlive it.
      const fuse = await program(
        'fuse',
        model.adapter,
        (target) => fuseProgram(config, model.adapter, target),
        'all',
      )
      found = await fuse.run(valuesOf(model))
      fused.set(key, found)
    }
    return found
  }

  const generateLooping = async (job: GenerateJob, slots: readonly Slot[]): Promise<void> => {
    const { sampling, adapter } = job
    const nucleus = sampling.topP < 1
    const generation = await program(`generate, nucleus ${nucleus}`, adapter, (target) =>
      generationProgram(config, { adapter, nucleus }, target),
    )
    const turns = Math.ceil(sampling.maxTokens / STEPS_A_TURN)
    const uniforms = new Float32Array(turns * STEPS_A_TURN * slots.length)
    for (let step = 0; step < sampling.maxTokens; step++) {
      slots.forEach((slot, s) => {
        uniforms[step * slots.length + s] = slot.random.next()
      })
    }
    const outputs = await generation.run([
      {
        ...promptInputs(slots, turns * STEPS_A_TURN),
        ...samplingInputs(sampling, slots.length),
        uniforms: floats(uniforms, [turns, STEPS_A_TURN, slots.length]),
        turns: int64s([turns], []),
      },
      ...valuesOf(job),
    ])
    take(slots, sampling, outputs)
  }

  const generateStepping = async (
    job: GenerateJob,
    slots: readonly Slot[],
    check: () => void,
  ): Promise<void> => {
    const { sampling } = job
    const nucleus = sampling.topP < 1
    const values = [await fusedOf(job), ...valuesOf(job)]
    const prefill = await program('prefill', undefined, (target) => prefillProgram(config, target), 'all')
    const step = await program(
      `step, nucleus ${nucleus}`,
      undefined,
      (target) => stepProgram(config, { nucleus }, target),
      'all',
    )
    const gather = await program('gather', undefined, () => gatherProgram())
    const fixed = samplingInputs(sampling, slots.length)
    const prompts = promptInputs(slots, sampling.maxTokens)
    const [count, time] = prompts.tokens.dims
    const upTo = (length: number) => Array.from({ length }, (_, at) => at)
    const whole = {
      order: int32s(upTo(time), [time]),
      positions: int64s(Array(count).fill(upTo(time)).flat(), [count, time]),
    }
    const length = time + sampling.maxTokens
    const window = { order: int32s(upTo(length), [length]), length: int32s([length], []) }
    let state = await prefill.run([{ ...prompts, ...whole, ...fixed }, ...values])
    let waiting: Values[] = []
    for (let at = 0; at < sampling.maxTokens; at++) {
      const uniform = floats(
        Float32Array.from(slots, (slot) => slot.random.next()),
        [slots.length],
      )
      const positions = int64s(
        slots.map(({ request }) => request.prompt.length + at),
        [slots.length, 1],
      )
      const outputs = await step.run([{ uniform, positions }, window, fixed, renamed(state), ...values])
      release(state)
      const { drawn, logprobs, samplingLogprobs, ...next } = outputs
      state = next
      waiting.push({ drawn, logprobs, samplingLogprobs })
      if (waiting.length < GATHERED && at < sampling.maxTokens - 1) continue
      check()
      const last = waiting[waiting.length - 1]
      const inputs = Array.from({ length: GATHERED }, (_, i) => {
        const from = waiting[i] ?? last
        return Object.entries(from).map(([name, value]): [string, Value] => [`${name} ${i}`, value])
      })
      const gathered = await gather.run([Object.fromEntries(inputs.flat())])
      const live = take(slots, sampling, gathered, waiting.length)
      waiting.forEach(release)
      waiting = []
      if (!live) break
    }
    release(state)
  }

  const lane: Lane = {
    async overlay({ id, tensors }) {
      if (tensors === null) {
        release(overlays.get(id))
        overlays.delete(id)
        spare.push(...(copies.get(id) ?? []))
        copies.delete(id)
        release(fused.get(String(id)))
        fused.delete(String(id))
        return
      }
      const shared = tensors.some(({ data }) => !(data.buffer instanceof ArrayBuffer))
      const arrays = shared ? ownCopies(tensors) : tensors.map(({ data }) => data)
      if (shared) copies.set(id, arrays)
      const placed = loops
        ? Object.fromEntries(tensors.map(({ name, shape }, i) => [name, floats(arrays[i], shape)]))
        : await place(tensors.map(({ name, shape }, i) => ({ name, shape, bits: arrays[i] })))
      overlays.set(id, placed)
    },
    async generate(job, onTokens, check) {
      const { requests } = job
      const slots = requests.flatMap((request, group) =>
        Array.from({ length: request.n }, (_, sample) => ({ request, group, sample })),
      )
      const groups: Completion[][] = requests.map(() => [])
      await halvingOnLack(slots, 'samples', async (some) => {
        check()
        const started = some.map(fresh)
        if (loops) await generateLooping(job, started)
        else await generateStepping(job, started, check)
        onTokens(started.reduce((sum, { completion }) => sum + completion.tokens.length, 0))
        some.forEach(({ group, sample }, i) => {
          groups[group][sample] = started[i].completion
        })
      })
      return groups
    },
    async score(job) {
      const { adapter, batches, temperature } = job
      const scoring = await program('score', adapter, (target) =>
        sequenceProgram(config, { adapter, trained: 'none' }, target),
      )
      return scoreBatches(scoring, valuesOf(job), batches, temperature)
    },
    async train(job) {
      const { adapter, batches, loss } = job
      if (adapter === undefined) throw new Error('on a GPU an adapter is trained, not every weight')
      const training = await program(`train ${loss}`, adapter, (target) =>
        loops
          ? trainingProgram(config, adapter, loss, target)
          : sequenceProgram(config, { adapter, trained: 'adapter', loss }, target),
      )
      const train = loops ? trainStacked : trainBatches
      return train(training, valuesOf(job), batches, job)
    },
  }
  return lane
}

function weightBits(name: string, data: Float32Array, precision: Precision): Float32Array | Uint16Array {
  const table = name === 'cos' || name === 'sin'
  if (table || weightPrecision(name, precision) === 'float32') return data
  const bits = new Uint16Array(data.length)
  f32ToF16(data, bits)
  return bits
}

/** Each prompt once, which of them each sample continues, and how many tokens may come. */
function promptInputs(slots: readonly Slot[], room: number): Values {
  const prompts = [...new Set(slots.map(({ request }) => request))]
  const indices = new Map(prompts.map((request, i) => [request, i]))
  const count = prompts.length
  const time = Math.max(...prompts.map(({ prompt }) => prompt.length))
  const tokens = new Int32Array(count * time)
  prompts.forEach(({ prompt }, row) => {
    tokens.set(prompt, row * time)
  })
  const ends = prompts.map(({ prompt }) => prompt.length - 1)
  return {
    tokens: int32s(tokens, [count, time]),
    ends: int32s(ends, [count]),
    endRows: int32s(
      ends.map((end, row) => row * time + end),
      [count],
    ),
    sampleOf: int32s(
      slots.map(({ request }) => indices.get(request) as number),
      [slots.length],
    ),
    room: floats(new Float32Array(room), [room]),
  }
}

function samplingInputs({ temperature, topP, stop }: Sampling, samples: number): Values {
  // A graph wants at least one stop token: this one is never drawn.
  const stops = stop.length === 0 ? [-1] : stop
  return {
    temperature: scalar(temperature),
    topP: scalar(topP),
    stop: int32s(stops, [stops.length]),
    live: floats(new Float32Array(samples).fill(1), [samples]),
    each: int32s(
      Array.from({ length: samples }, (_, i) => i),
      [samples],
    ),
  }
}

/**
 * Appends drawn tokens [steps, samples] to the completions, each up to its stop token; true while one is not finished.
 */
function take(
  slots: readonly Slot[],
  { stop, maxTokens }: Sampling,
  outputs: Values,
  steps?: number,
): boolean {
  const drawn = outputs.drawn.data as Int32Array
  const logprobs = floatData(outputs.logprobs)
  const samplingLogprobs = floatData(outputs.samplingLogprobs)
  const count = steps ?? Math.min(maxTokens, drawn.length / slots.length)
  let live = false
  slots.forEach(({ completion }, s) => {
    for (let step = 0; step < count && completion.finish !== 'stop'; step++) {
      const at = step * slots.length + s
      checkDrawn(logprobs[at])
      completion.tokens.push(drawn[at])
      completion.logprobs.push(logprobs[at])
      completion.samplingLogprobs.push(samplingLogprobs[at])
      if (stop.includes(drawn[at])) completion.finish = 'stop'
    }
    if (completion.finish !== 'stop' && completion.tokens.length < maxTokens) live = true
  })
  return live
}

/** Steps between looks at what was drawn: each look waits for the device. */
const GATHERED = 8

/** Puts the draws of several steps behind each other, to be read at once. */
function gatherProgram(): Uint8Array {
  const stacked = (name: string, dtype: 'float32' | 'int32') =>
    ops.concatLast(
      Array.from({ length: GATHERED }, (_, i) => input(`${name} ${i}`, ['samples'], dtype)),
      'gathered',
    )
  return emit('gather', {
    drawn: stacked('drawn', 'int32'),
    logprobs: stacked('logprobs', 'float32'),
    samplingLogprobs: stacked('samplingLogprobs', 'float32'),
  })
}

/** A step's outputs as the next one's inputs. */
function renamed(state: Values): Values {
  return Object.fromEntries(Object.entries(state).map(([name, value]) => [name.replace('next ', ''), value]))
}

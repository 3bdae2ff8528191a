/**
 * The lane of a GPU. Everything stands where it is: weights, adapters, caches, draws and sums of gradients are tensors on
 * the device, shared by all programs. On CUDA a sampling step changes them in place; it is recorded once for each set of
 * them and replayed, so that the host launches one thing a step. WebGPU lets no operator read and write one buffer: there
 * all but the caches, which are only written to, come in pairs, read and written by turns.
 */
import { type Random, random } from '../../../random.ts'
import { f32ToF16 } from '../../checkpoint/halves.ts'
import type { Completion, SampleRequest } from '../../contract.ts'
import { emit } from '../../graph/emit.ts'
import { input } from '../../graph/tensor.ts'
import { checkDrawn, type Sampling } from '../generate.ts'
import type { GenerateJob, Lane, LaneOptions, Model } from '../lane.ts'
import { type Precision, rotaryTables, TRANSPOSED_HEAD, weightPrecision } from '../model.ts'
import {
  type Binding,
  type HostArray,
  hostTensor,
  type NativeProgram,
  type NativeTensor,
  type NativeType,
  nativeProgram,
  type Provider,
} from '../native.ts'
import {
  type AdapterShape,
  clearingProgram,
  sequenceProgram,
  summingProgram,
  sumName,
  type Target,
} from '../programs.ts'
import { halvingOnLack, lacksMemory, scoreBy, trainSumming } from '../sequences.ts'
import type { Values } from '../session.ts'
import {
  cacheShapes,
  fusedTensors,
  fuseProgram,
  headProgram,
  prefillProgram,
  stepProgram,
} from './programs.ts'
import { FRUGAL, promptsAtOnce, rungAbove, withFewPrompts } from './sizes.ts'

type Tensors = Record<string, NativeTensor>

/** Steps between looks at what was drawn: each waits for the device. */
const LOOK = 16
/**
 * Caches have room for a multiple of this, so that prompts of like length share them, and what was recorded. WebGPU's
 * sizes stand on a ladder.
 */
const ROOM = 64
/**
 * Steps that may be computed beyond those asked for: the first time a step is run it is also recorded, for which ONNX
 * Runtime runs it a few times over, at most eight.
 */
const SPARE = 8
/** Steps that are recorded, each for the tensors of one shape, before all are let go of. */
const RECORDINGS = 64
/** Sets of caches kept for the next generation of their shape. */
const KEPT = 3

/** Fused weights of one policy at a time. */
interface FusedSet {
  number: number
  tensors: Tensors
  overlay: number | null | undefined
}

/** What is carried from step to step. */
interface State {
  number: number
  shape: string
  /** What steps only read. */
  fixed: Tensors
  /** Written in place. */
  caches: Tensors
  /** What else a step reads, and what it writes; the next the other way about. In place they are the same. */
  turns: readonly [Tensors, Tensors]
}

/** `plain`: the graphs are WebGPU's, wherever they run. */
export function openGpuLane(
  options: LaneOptions,
  provider: Provider = options.place.device,
  plain = provider === 'webgpu',
): Lane {
  const { config, threads } = options
  const { precision } = options.place
  const inPlace = !plain
  const fitting = plain ? rungAbove : (size: number) => ROOM * Math.ceil(size / ROOM)
  // As long as the longest cache or row.
  const positions = fitting(options.rotaryLength + SPARE)
  const target: Target = { precision, plain, context: positions, frugal: FRUGAL, namesSizes: true }
  const programs = new Map<string, NativeProgram>()
  const program = (name: string, build: () => Uint8Array, recorded = false): NativeProgram => {
    let found = programs.get(name)
    if (found === undefined) {
      found = nativeProgram(build(), { provider, threads, recorded })
      programs.set(name, found)
    }
    return found
  }
  const named = (name: string, { rank, scale }: AdapterShape) => `${name}, rank ${rank}, scale ${scale}`
  const copier = (dtype: NativeType, rank: number) => {
    const dims = Array.from({ length: rank }, (_, axis) => `d${axis}`)
    return program(`copy ${dtype} ${rank}`, () => emit('copy', { copy: input('source', dims, dtype) }))
  }
  const once = (binding: Binding) => {
    try {
      binding.run()
    } finally {
      binding.dispose()
    }
  }
  const copy = (source: NativeTensor, to: NativeTensor) =>
    once(copier(source.dtype, source.dims.length).bind([{ source }], { copy: to }))
  /** Copies an array to the device, into a tensor that is there or a new one. */
  const place = (data: HostArray, dims: readonly number[], into?: NativeTensor): NativeTensor => {
    const dtype = typeOf(data)
    const to = into ?? copier(dtype, dims.length).tensor(dtype, dims)
    const source = hostTensor(dtype, data, dims)
    try {
      copy(source, to)
    } catch (error) {
      if (into === undefined) to.dispose()
      throw error
    } finally {
      source.dispose()
    }
    return to
  }
  const read = <A extends Int32Array | Float32Array>(tensor: NativeTensor, into: A): A => {
    const host = hostTensor(tensor.dtype, into, tensor.dims)
    copy(tensor, host)
    host.dispose()
    return into
  }

  /** What `make` makes of tensors; where one of them does not fit, those before it are given back. */
  const wholly = <T>(make: (kept: (tensor: NativeTensor) => NativeTensor) => T): T => {
    const made: NativeTensor[] = []
    try {
      return make((tensor) => {
        made.push(tensor)
        return tensor
      })
    } catch (error) {
      for (const tensor of made) tensor.dispose()
      throw error
    }
  }

  const resident: Tensors = {}
  const tables = rotaryTables(config, positions)
  const shape = [positions, config.headDim / 2]
  for (const { name, shape, data } of options.weights) {
    resident[name] = place(weightBits(name, data, precision), shape)
  }
  resident.cos = place(tables.cos, shape)
  resident.sin = place(tables.sin, shape)
  // Of a large model, gigabytes that nobody needs now.
  options.weights = []
  if (plain) {
    const turning = program('head', () => headProgram(config, target))
    const head = turning.tensor(precision, [config.hiddenSize, config.vocabSize])
    once(turning.bind([resident], { [TRANSPOSED_HEAD]: head }))
    resident[TRANSPOSED_HEAD] = head
  }

  const overlays = new Map<number, Tensors>()
  /** Tensors of forgotten overlays, for the next. */
  const spare: Tensors[] = []
  const overlayOf = ({ overlay }: Model): Tensors => {
    if (overlay === null) return {}
    const found = overlays.get(overlay)
    if (found === undefined) throw new Error(`overlay ${overlay} was not sent to this lane`)
    return found
  }
  const fusedSets: FusedSet[] = []
  const states: State[] = []
  const sums = new Map<number, [Tensors, Tensors]>()
  const recordings = new Map<string, number>()
  // On CUDA; the CPU, where its graphs are tested, takes no notice.
  let records = !plain
  let numbers = 0

  const fusedOf = (model: Model): FusedSet => {
    const known = fusedSets.find(({ overlay }) => overlay === model.overlay)
    if (known !== undefined) return known
    const { adapter } = model
    const fuse = program(adapter ? named('fuse', adapter) : 'fuse', () =>
      fuseProgram(config, adapter, target),
    )
    let set = fusedSets.find(({ overlay }) => overlay === undefined)
    if (set === undefined) {
      const tensors = wholly((kept) =>
        fusedTensors(config, target).map(({ name, dims, dtype }): [string, NativeTensor] => [
          name,
          kept(fuse.tensor(dtype, dims)),
        ]),
      )
      set = { number: ++numbers, tensors: Object.fromEntries(tensors), overlay: undefined }
      fusedSets.push(set)
    }
    once(fuse.bind([overlayOf(model), resident], set.tensors))
    set.overlay = model.overlay
    return set
  }

  /**
   * The tensors are `owner`'s: not those of a recorded program, which writes its intermediate results where they lay when
   * it was recorded, whoever has that memory since.
   */
  const stateOf = (owner: NativeProgram, samples: number, window: number, steps: number): State => {
    const shape = `${samples} ${window} ${steps}`
    const at = states.findIndex((state) => state.shape === shape)
    if (at >= 0) {
      const [found] = states.splice(at, 1)
      states.push(found)
      return found
    }
    // Room for the new ones first.
    while (states.length >= KEPT) letGo(states.shift() as State)
    const made = () => newState(owner, samples, window, steps)
    let parts: ReturnType<typeof made>
    try {
      parts = made()
    } catch (error) {
      if (states.length === 0) throw error
      letGoOfAll()
      parts = made()
    }
    const state = { number: ++numbers, shape, ...parts }
    states.push(state)
    return state
  }
  const letGo = ({ fixed, caches, turns }: State) => {
    for (const tensors of new Set([fixed, caches, ...turns])) dispose(tensors)
  }
  const letGoOfAll = () => {
    for (const state of states.splice(0)) letGo(state)
  }
  const newState = (
    owner: NativeProgram,
    samples: number,
    window: number,
    steps: number,
  ): Pick<State, 'fixed' | 'caches' | 'turns'> =>
    wholly((kept) => {
      const tensor: NativeProgram['tensor'] = (dtype, dims) => kept(owner.tensor(dtype, dims))
      const filled = (data: HostArray, dims: readonly number[]) => kept(place(data, dims))
      const line = [steps, samples]
      const fixed: Tensors = {
        uniforms: tensor('float32', line),
        each: filled(upTo(samples), [samples]),
        numbers: filled(upTo(steps), [steps]),
        order: filled(upTo(window), [window]),
        temperature: tensor('float32', []),
        topP: tensor('float32', []),
        // Attention wants it on the host.
        length: kept(hostTensor('int32', Int32Array.of(window), [])),
      }
      const shapes = cacheShapes(config, target, samples, window)
      const caches = Object.fromEntries(shapes.map(([name, shape]) => [name, tensor(precision, shape)]))
      const turn = (): Tensors => ({
        logits: tensor('float32', [samples, config.vocabSize]),
        last: tensor('int32', [samples]),
        at: tensor('int32', [1]),
        drawn: filled(new Int32Array(steps * samples), line),
        logprobs: filled(new Float32Array(steps * samples), line),
        samplingLogprobs: filled(new Float32Array(steps * samples), line),
      })
      const first = turn()
      return { fixed, caches, turns: [first, inPlace ? first : turn()] }
    })

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

  const stepOf = (nucleus: boolean): NativeProgram => {
    try {
      return program(`step, nucleus ${nucleus}`, () => stepProgram(config, { nucleus }, target), records)
    } catch (error) {
      throw records ? new CannotRecord(error) : error
    }
  }

  const forgetSteps = () => {
    for (const name of [...programs.keys()].filter((name) => name.startsWith('step'))) {
      programs.get(name)?.release()
      programs.delete(name)
    }
    recordings.clear()
  }

  const generate = (job: GenerateJob, slots: readonly Slot[], check: () => void): void => {
    const { sampling } = job
    const { maxTokens: steps } = sampling
    const samples = slots.length
    const nucleus = sampling.topP < 1
    if (recordings.size === RECORDINGS) forgetSteps()
    const step = stepOf(nucleus)
    const prefill = program('prefill', () => prefillProgram(config, target))
    const requests = [...new Set(slots.map(({ request }) => request))]
    const { time, rows, window } = sizesOf(Math.max(...requests.map(({ prompt }) => prompt.length)), steps)
    const fused = fusedOf(job)
    const { number, fixed, caches, turns } = stateOf(prefill, samples, window, rows)

    const uniforms = new Float32Array(rows * samples)
    for (let at = 0; at < steps; at++) {
      slots.forEach((slot, s) => {
        uniforms[at * samples + s] = slot.random.next()
      })
    }
    place(Int32Array.of(0), [1], turns[0].at)
    place(uniforms, [rows, samples], fixed.uniforms)
    place(Float32Array.of(sampling.temperature), [], fixed.temperature)
    place(Float32Array.of(sampling.topP), [], fixed.topP)

    const tokens = new Int32Array(requests.length * time)
    requests.forEach(({ prompt }, row) => {
      tokens.set(prompt, row * time)
    })
    const ends = requests.map(({ prompt }) => prompt.length - 1)
    const numberOf = new Map(requests.map((request, i) => [request, i]))
    const int32 = (values: readonly number[]) => hostTensor('int32', Int32Array.from(values), [values.length])
    const prompts: Tensors = {
      tokens: hostTensor('int32', tokens, [requests.length, time]),
      ends: int32(ends),
      endRows: int32(ends.map((end, row) => row * time + end)),
      sampleOf: int32(slots.map(({ request }) => numberOf.get(request) as number)),
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
      once(prefill.bind([prompts, fixed, fused.tensors, resident], next({ logits, last, ...caches })))
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
          binding.run(records ? recording : undefined)
        } catch (error) {
          throw records && call === 0 && !lacksMemory(error) ? new CannotRecord(error) : error
        }
        latest = turns[(call + 1) % 2]
        run = run === 0 ? read(latest.at, new Int32Array(1))[0] : run + 1
        if (run % LOOK !== 0 && run < steps) continue
        check()
        read(latest.drawn, drawn)
        const stopped = (sample: number) => {
          for (let at = 0; at < Math.min(run, steps); at++)
            if (sampling.stop.includes(drawn[at * samples + sample])) return true
          return false
        }
        if (slots.every((_, sample) => stopped(sample))) break
      }
    } finally {
      for (const binding of bindings) binding.dispose()
      positions.dispose()
    }
    const logprobs = read(latest.logprobs, new Float32Array(rows * samples))
    const samplingLogprobs = read(latest.samplingLogprobs, new Float32Array(rows * samples))
    take(slots, sampling, { drawn, logprobs, samplingLogprobs }, Math.min(run, steps))
  }

  /** Sums of gradients as a batch finds them, and as it leaves them. */
  const sumsOf = (training: NativeProgram, overlay: Tensors, rank: number): [Tensors, Tensors] => {
    const known = sums.get(rank)
    if (known !== undefined) return known
    const found = wholly((kept): [Tensors, Tensors] => {
      const made = () => {
        const zeros = Object.entries(overlay).map(([name, { dims }]) => [
          sumName(name),
          kept(training.tensor('float32', dims)),
        ])
        return Object.fromEntries(zeros)
      }
      const first = made()
      return [first, inPlace ? first : made()]
    })
    sums.set(rank, found)
    return found
  }

  return {
    async overlay({ id, tensors }) {
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
      const placed = tensors.map(({ name, shape, data }): [string, NativeTensor] => [
        name,
        place(data, shape, old[name]),
      ])
      overlays.set(id, Object.fromEntries(placed))
    },
    async generate(job, onTokens, check) {
      const slots = job.requests.flatMap((request, group) =>
        request.seeds.map((seed, sample) => ({ request, group, sample, seed })),
      )
      const groups: Completion[][] = job.requests.map(() => [])
      const attempt = (started: readonly Slot[]) => {
        try {
          generate(job, started, check)
        } catch (error) {
          // Half of the samples would find the caches of all of them in their way.
          if (lacksMemory(error)) letGoOfAll()
          throw error
        }
      }
      const perform = async (some: readonly (typeof slots)[number][]) => {
        check()
        let started = some.map(fresh)
        try {
          attempt(started)
        } catch (error) {
          if (!(error instanceof CannotRecord)) throw error
          process.stderr.write(
            `A sampling step cannot be recorded here, going on without: ${error.message}\n`,
          )
          records = false
          forgetSteps()
          started = some.map(fresh)
          attempt(started)
        }
        onTokens(started.reduce((sum, { completion }) => sum + completion.tokens.length, 0))
        some.forEach(({ group, sample }, i) => {
          groups[group][sample] = started[i].completion
        })
      }
      const longest = Math.max(...job.requests.map(({ prompt }) => prompt.length))
      const most = plain ? promptsAtOnce(config, precision, longest) : Number.POSITIVE_INFINITY
      for (const part of withFewPrompts(slots, most)) {
        await halvingOnLack(part, 'samples', perform)
      }
      return groups
    },
    async score(job) {
      const { adapter } = job
      const scoring = program(adapter ? named('score', adapter) : 'score', () =>
        sequenceProgram(config, { adapter, trained: 'none' }, target),
      )
      const overlay = overlayOf(job)
      const run = async (inputs: Values, targets: number) => {
        const given = hosted(inputs)
        const logprobs = new Float32Array(targets)
        const result = hostTensor('float32', logprobs, [targets])
        try {
          once(scoring.bind([given, overlay, resident], { logprobs: result }))
        } finally {
          dispose({ ...given, result })
        }
        return logprobs
      }
      return scoreBy(job.batches, job.temperature, run, fitting)
    },
    async train(job) {
      const { adapter, loss, names, into } = job
      if (adapter === undefined) throw new Error('on a GPU an adapter is trained, not every weight')
      const training = program(named(`train ${loss}`, adapter), () =>
        summingProgram(config, adapter, loss, target),
      )
      const clearing = program(`clear, rank ${adapter.rank}`, () => clearingProgram(config, adapter.rank))
      const overlay = overlayOf(job)
      let [before, after] = sumsOf(training, overlay, adapter.rank)
      const summing = {
        clear: () => once(clearing.bind([after], next(before))),
        add(inputs: Values, targets: number) {
          const given = hosted(inputs)
          const [lossOf, logprobs] = [new Float32Array(1), new Float32Array(targets)]
          const results = {
            loss: hostTensor('float32', lossOf, []),
            logprobs: hostTensor('float32', logprobs, [targets]),
          }
          try {
            once(training.bind([given, overlay, before, resident], { ...results, ...next(after) }))
          } finally {
            dispose({ ...given, ...results })
          }
          ;[before, after] = [after, before]
          return { loss: lossOf[0], logprobs }
        },
        read() {
          const arrays = names.map((name, n) => {
            const tensor = before[sumName(name)]
            return read(
              tensor,
              into?.[n] ?? new Float32Array(tensor.dims.reduce((size, dim) => size * dim, 1)),
            )
          })
          return into === undefined ? arrays : []
        },
      }
      return trainSumming(job.batches, job, summing, fitting)
    },
  }
}

class CannotRecord extends Error {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause })
  }
}

/** Tensors as the outputs that become them. */
const next = (tensors: Tensors): Tensors =>
  Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [`next ${name}`, tensor]))

function dispose(tensors: Tensors): void {
  for (const tensor of Object.values(tensors)) tensor.dispose()
}

const sameDims = (a: readonly number[] | undefined, b: readonly number[]) =>
  a?.length === b.length && a.every((n, axis) => n === b[axis])

const int64 = (values: readonly number[], dims: readonly number[]) =>
  hostTensor('int64', BigInt64Array.from(values, BigInt), dims)

const upTo = (count: number) => Int32Array.from({ length: count }, (_, i) => i)

function typeOf(data: HostArray): NativeType {
  if (data instanceof Int32Array) return 'int32'
  if (data instanceof BigInt64Array) return 'int64'
  return data instanceof Uint16Array ? 'float16' : 'float32'
}

/** Inputs of a run over the host's memory. */
function hosted(values: Values): Tensors {
  const tensors = Object.entries(values).map(([name, { data, dims }]): [string, NativeTensor] => {
    const array = data as HostArray
    return [name, hostTensor(typeOf(array), array, dims)]
  })
  return Object.fromEntries(tensors)
}

/** One sample on its way. */
interface Slot {
  request: SampleRequest
  /** Its number within the request. */
  sample: number
  seed: number
  random: Random
  completion: Completion
}

/** A sample at its start, where a second try begins anew too. */
function fresh({ request, sample, seed }: Pick<Slot, 'request' | 'sample' | 'seed'>): Slot {
  return {
    request,
    sample,
    seed,
    random: random('sample', seed),
    completion: { tokens: [], samplingLogprobs: [], logprobs: [], finish: 'length' },
  }
}

/** Draws of some steps, [steps, samples] each. */
interface Drawn {
  drawn: Int32Array
  logprobs: Float32Array
  samplingLogprobs: Float32Array
}

/** Appends drawn tokens [steps, samples] to the completions, each up to its stop token. */
function take(
  slots: readonly Slot[],
  { stop }: Sampling,
  { drawn, logprobs, samplingLogprobs }: Drawn,
  count: number,
): void {
  slots.forEach(({ completion }, s) => {
    for (let step = 0; step < count && completion.finish !== 'stop'; step++) {
      const at = step * slots.length + s
      checkDrawn(logprobs[at])
      completion.tokens.push(drawn[at])
      completion.logprobs.push(logprobs[at])
      completion.samplingLogprobs.push(samplingLogprobs[at])
      if (stop.includes(drawn[at])) completion.finish = 'stop'
    }
  })
}

/** A weight in the type that the device holds it in. */
function weightBits(name: string, data: Float32Array, precision: Precision): Float32Array | Uint16Array {
  const table = name === 'cos' || name === 'sin'
  if (table || weightPrecision(name, precision) === 'float32') return data
  const bits = new Uint16Array(data.length)
  f32ToF16(data, bits)
  return bits
}

/**
 * The lane of a GPU. Everything stands where it is: weights, adapters, caches, draws and sums of gradients are tensors on
 * the device, shared by all programs. On CUDA a sampling step changes them in place; it is recorded once for each set of
 * them and replayed, so that the host launches one thing a step. WebGPU lets no operator read and write one buffer: there
 * all but the caches, which are only written to, come in pairs, read and written by turns.
 */
import { f32ToF16 } from '../../checkpoint/halves.ts'
import type { Lane, LaneOptions } from '../lane.ts'
import { type Precision, rotaryTables, TRANSPOSED_HEAD, weightPrecision } from '../model.ts'
import { hostTensor, type NativeProgram, type Provider } from '../native.ts'
import { clearingProgram, sequenceProgram, summingProgram, sumName } from '../programs.ts'
import { scoreBy, trainSumming } from '../sequences.ts'
import type { Values } from '../session.ts'
import { named, openAdapters } from './adapters.ts'
import { dispose, hosted, type Memory, next, once, openMemory, type Tensors, wholly } from './memory.ts'
import { type GpuTarget, headProgram } from './programs.ts'
import { openSampler, ROOM, SPARE } from './sampler.ts'
import { FRUGAL, rungAbove } from './sizes.ts'

/** `plain`: the graphs are WebGPU's, wherever they run. */
export async function openGpuLane(
  options: LaneOptions,
  provider: Provider,
  plain = provider === 'webgpu',
): Promise<Lane> {
  const { config } = options
  const { precision } = options.place
  const fitting = plain ? rungAbove : (size: number) => ROOM * Math.ceil(size / ROOM)
  // As long as the longest cache or row.
  const positions = fitting(options.rotaryLength + SPARE)
  const target: GpuTarget = { precision, plain, context: positions, frugal: FRUGAL, namesSizes: true }
  const memory = openMemory(provider, options.threads)
  const resident = await placeWeights(options, target, memory)
  const adapters = openAdapters(config, target, memory, resident)
  const sampler = openSampler({ config, place: options.place, target, memory, resident, adapters, plain })
  const sums = new Map<number, [Tensors, Tensors]>()

  /** Sums of gradients as a batch finds them, and as it leaves them. */
  const sumsOf = async (
    training: NativeProgram,
    overlay: Tensors,
    rank: number,
  ): Promise<[Tensors, Tensors]> => {
    const known = sums.get(rank)
    if (known !== undefined) return known
    const found = await wholly((kept): [Tensors, Tensors] => {
      const made = () => {
        const zeros = Object.entries(overlay).map(([name, { dims }]) => [
          sumName(name),
          kept(training.tensor('float32', dims)),
        ])
        return Object.fromEntries(zeros)
      }
      const first = made()
      return [first, plain ? made() : first]
    })
    sums.set(rank, found)
    return found
  }

  return {
    async overlay(job) {
      await adapters.set(job)
    },
    generate: sampler.generate,
    async score(job) {
      const { adapter } = job
      const scoring = await memory.program(adapter ? named('score', adapter) : 'score', () =>
        sequenceProgram(config, { adapter, trained: 'none', folded: !plain }, target),
      )
      const overlay = adapters.overlayOf(job)
      const run = async (inputs: Values, targets: number) => {
        const given = hosted(inputs)
        const logprobs = new Float32Array(targets)
        const result = hostTensor('float32', logprobs, [targets])
        try {
          await once(scoring.bind([given, overlay, resident], { logprobs: result }))
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
      const training = await memory.program(named(`train ${loss}`, adapter), () =>
        summingProgram(config, adapter, loss, target),
      )
      const clearing = await memory.program(`clear, rank ${adapter.rank}`, () =>
        clearingProgram(config, adapter.rank),
      )
      const overlay = adapters.overlayOf(job)
      let [before, after] = await sumsOf(training, overlay, adapter.rank)
      const summing = {
        clear: () => once(clearing.bind([after], next(before))),
        async add(inputs: Values, targets: number) {
          const given = hosted(inputs)
          const [lossOf, logprobs] = [new Float32Array(1), new Float32Array(targets)]
          const results = {
            loss: hostTensor('float32', lossOf, []),
            logprobs: hostTensor('float32', logprobs, [targets]),
          }
          try {
            await once(training.bind([given, overlay, before, resident], { ...results, ...next(after) }))
          } finally {
            dispose({ ...given, ...results })
          }
          ;[before, after] = [after, before]
          return { loss: lossOf[0], logprobs }
        },
        async read() {
          const arrays: Float32Array[] = []
          for (const [n, name] of names.entries()) {
            const tensor = before[sumName(name)]
            const array = into?.[n] ?? new Float32Array(tensor.dims.reduce((size, dim) => size * dim, 1))
            arrays.push(await memory.read(tensor, array))
          }
          return into === undefined ? arrays : []
        },
      }
      return trainSumming(job.batches, job, summing, fitting)
    },
  }
}

/** The model's weights and rotary tables on the device. */
async function placeWeights(options: LaneOptions, target: GpuTarget, memory: Memory): Promise<Tensors> {
  const { config } = options
  const resident: Tensors = {}
  const tables = rotaryTables(config, target.context)
  const shape = [target.context, config.headDim / 2]
  for (const { name, shape, data } of options.weights) {
    resident[name] = await memory.place(weightBits(name, data, target.precision), shape)
  }
  resident.cos = await memory.place(tables.cos, shape)
  resident.sin = await memory.place(tables.sin, shape)
  // Of a large model, gigabytes that nobody needs now.
  options.weights = []
  if (target.plain) {
    const turning = await memory.program('head', () => headProgram(config, target))
    const head = turning.tensor(target.precision, [config.hiddenSize, config.vocabSize])
    await once(turning.bind([resident], { [TRANSPOSED_HEAD]: head }))
    resident[TRANSPOSED_HEAD] = head
  }
  return resident
}

/** A weight in the type that the device holds it in. */
function weightBits(name: string, data: Float32Array, precision: Precision): Float32Array | Uint16Array {
  const table = name === 'cos' || name === 'sin'
  if (table || weightPrecision(name, precision) === 'float32') return data
  const bits = new Uint16Array(data.length)
  f32ToF16(data, bits)
  return bits
}

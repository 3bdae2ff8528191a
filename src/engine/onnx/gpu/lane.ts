/**
 * The lane of a GPU. Everything stands where it is: weights, adapters, caches, draws and sums of gradients are tensors on
 * the device, shared by all programs. On CUDA a sampling step changes them in place; it is recorded once for each set of
 * them and replayed, so that the host launches one thing a step. ONNX Runtime's WebGPU, a browser's, lets no
 * operator read and write one buffer: there all but the caches, which are only written to, come in pairs, read and written
 * by turns.
 */
import { UserError } from '../../../errors.ts'
import { say } from '../../../platform/machine.ts'
import { f32ToF16 } from '../../checkpoint/halves.ts'
import type { Lane, LaneOptions, OverlayJob } from '../lane.ts'
import { rotaryTables, TRANSPOSED_HEAD, weightPrecision } from '../model.ts'
import { hostTensor, type NativeProgram, type Provider } from '../native.ts'
import {
  type AdapterShape,
  clearingProgram,
  type LossKind,
  sequenceProgram,
  summingProgram,
  sumName,
} from '../programs.ts'
import { scoreBy, trainSumming } from '../sequences.ts'
import type { Values } from '../session.ts'
import { named, openAdapters } from './adapters.ts'
import { openOwnGraphs } from './graphs.ts'
import { cudaSteps } from './kernelSteps.ts'
import { type KernelDriver, openDriver } from './kernels/driver.ts'
import { fitsPackedAttention, packedAttentionOperators } from './kernels/packedAttention.ts'
import { stepUnit, unfit } from './kernels/step.ts'
import { trainingOperators } from './kernels/training.ts'
import { dispose, hosted, type Memory, next, once, openMemory, type Tensors, wholly } from './memory.ts'
import { type GpuTarget, headProgram } from './programs.ts'
import { openSampler, ROOM, SPARE } from './sampler.ts'
import { FRUGAL, rungAbove } from './sizes.ts'

/**
 * `made`: whether the graphs are those for ONNX Runtime's WebGPU, wherever they run. `given`: launches our own kernels; where it is left out, CUDA's
 * driver does.
 */
export async function openGpuLane(
  options: LaneOptions,
  provider: Provider,
  made?: boolean,
  given?: KernelDriver | null,
): Promise<Lane> {
  const own = provider === 'webgpu' ? await openOwnGraphs(options.config) : null
  const plain = made ?? (provider === 'webgpu' && own === null)
  const driver = given === undefined && provider === 'cuda' ? await driverFor(options) : (given ?? null)
  const { config } = options
  // Our own kernels hold halves in words, which any GPU can.
  const precision = own ? 'float16' : options.place.precision
  const fitting = plain ? rungAbove : (size: number) => ROOM * Math.ceil(size / ROOM)
  // As long as the longest cache or row.
  const positions = fitting(options.rotaryLength + SPARE)
  const target: GpuTarget = {
    precision,
    plain,
    context: positions,
    frugal: FRUGAL,
    namesSizes: true,
    kernels: driver !== null || own !== null,
    tiles: own !== null || (driver !== null && fitsPackedAttention(config, driver.sizes)),
    own: own !== null,
  }
  const memory = openMemory(provider, options.threads, { driver, graphs: own?.graphs })
  const operators =
    driver === null
      ? []
      : [
          ...trainingOperators(config),
          ...(target.tiles ? packedAttentionOperators(config, driver.sizes) : []),
        ]
  const resident = await placeWeights(options, target, memory)
  const adapters = openAdapters(config, target, memory, resident)
  const { place } = options
  const plan = own?.plan ?? (driver && cudaSteps(driver))
  const sampler = openSampler({ config, place, target, memory, resident, adapters, plain, plan })
  const sums = new Map<number, [Tensors, Tensors]>()
  const trainingOf = (adapter: AdapterShape, loss: LossKind) =>
    memory.program(named(`train ${loss}`, adapter), () => summingProgram(config, adapter, loss, target), {
      operators,
    })

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
      if (own !== null) checkRanks(job)
      await adapters.set(job)
    },
    generate(job, ...others) {
      // What is sampled with an adapter is to train it, most often: that program takes seconds to compile, meanwhile. One
      // with operators of our own would be on this thread.
      if (provider === 'cuda' && job.adapter && operators.length === 0)
        trainingOf(job.adapter, 'policy_gradient').catch(() => {})
      return sampler.generate(job, ...others)
    },
    async score(job) {
      const { adapter } = job
      const scoring = await memory.program(
        adapter ? named('score', adapter) : 'score',
        () => sequenceProgram(config, { adapter, trained: 'none', folded: !plain }, target),
        { operators },
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
      const training = await trainingOf(adapter, loss)
      const overlay = adapters.overlayOf(job)
      let [before, after] = await sumsOf(training, overlay, adapter.rank)
      const summing = {
        async clear() {
          // A program of one operator a tensor takes a hundred times as long.
          if (memory.clear(Object.values(before))) return
          const clearing = await memory.program(`clear, rank ${adapter.rank}`, () =>
            clearingProgram(config, adapter.rank),
          )
          await once(clearing.bind([after], next(before)))
        },
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

/** @throws UserError where a row of an adapter would begin in the midst of a word of two halves. */
function checkRanks({ tensors }: OverlayJob): void {
  const odd = tensors?.find(({ name, shape }) => name.endsWith('lora_A') && shape[0] % 2 !== 0)
  if (odd)
    throw new UserError(
      `An adapter of rank ${odd.shape[0]} is not computed on WebGPU: its rank must be an even number. --device cpu computes it.`,
    )
}

/** What launches our own kernels; null where these do not run, which it says. */
async function driverFor({ config, place }: LaneOptions): Promise<KernelDriver | null> {
  try {
    if (place.precision !== 'float16') throw new Error('the device computes in single precision')
    const driver = openDriver()
    const why = unfit(config, driver.sizes)
    if (why !== null) throw new Error(why)
    // Tells whether the compiler knows the GPU too.
    await driver.compile([stepUnit(config)])
    if (!fitsPackedAttention(config, driver.sizes))
      say(
        `Training's attention goes without kernels of its own, and slower: heads of ${config.headDim} elements`,
      )
    return driver
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    say(`Sampling and training go without kernels of their own, and slower: ${reason}`)
    return null
  }
}

/** The model's weights and rotary tables on the device. */
async function placeWeights(options: LaneOptions, target: GpuTarget, memory: Memory): Promise<Tensors> {
  const { config } = options
  const resident: Tensors = {}
  const tables = rotaryTables(config, target.context)
  const shape = [target.context, config.headDim / 2]
  for (const { name, shape, data } of options.weights) {
    const table = name === 'cos' || name === 'sin'
    const single = table || weightPrecision(name, target.precision) === 'float32'
    if (single) resident[name] = await memory.place(data, shape)
    else if (target.plain) resident[name] = await memory.place(inHalves(data), shape)
    else resident[name] = await memory.narrow(data, shape)
  }
  await memory.forget('narrow')
  memory.trim()
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

/** On the host: what WebGPU rounds to is its own choice. */
function inHalves(data: Float32Array): Uint16Array {
  const bits = new Uint16Array(data.length)
  f32ToF16(data, bits)
  return bits
}

/**
 * Opens the engine in a browser, where a GPU is not taken at its word: first its log-probabilities and gradients are held to
 * WebAssembly's, then both take the same step, and the faster one goes on. WebAssembly is there for whatever fails.
 */
import { LostError, UserError } from '../../errors.ts'
import { remove } from '../../files.ts'
import { gradientDifference, scoreDifference, tolerances } from '../checks.ts'
import type { Engine } from '../contract.ts'
import type { Device, FoundDevice } from './devices.ts'
import type { Opened } from './open.ts'
import { stepSeconds } from './step.ts'
import { findGpu } from './webgpu.web.ts'

type On = (place: FoundDevice) => Promise<Engine>

const wasm: FoundDevice = { device: 'wasm', precision: 'float32' }

/** Seconds that each part of a GPU's trial may take where it is only a candidate. Its first is mostly compiling. */
const PATIENCE = 40

export async function openOn(asked: Device | 'auto', on: On): Promise<Opened> {
  if (asked === 'wasm') return { engine: await on(wasm), notice: null }
  if (asked === 'cpu' || asked === 'cuda') {
    throw new UserError(
      `device ${asked} does not work in a browser: leave it out, or give wasm, webgpu or auto.`,
    )
  }
  if (asked === 'webgpu') {
    try {
      return { engine: survivingLoss(await checked(on), () => checked(on)), notice: null }
    } catch (error) {
      throw new UserError(
        `device webgpu does not work here: ${reasonOf(error)}. Give auto, which takes what does.`,
      )
    }
  }
  return chosen(on)
}

/** The GPU's engine, whose numbers were compared. @throws with the reason, in a few words, where it cannot be used. */
async function checked(on: On): Promise<Engine> {
  const host = await on(wasm)
  try {
    return await checkedAgainst(host, on)
  } finally {
    await host.close()
  }
}

async function checkedAgainst(host: Engine, on: On, patience = Number.POSITIVE_INFINITY): Promise<Engine> {
  const { name, bufferBytes } = await findGpu()
  const gpu = await on({ device: 'webgpu', precision: 'float32', gpu: { name, bufferBytes } })
  try {
    await within(patience, checkNumbers(host, gpu))
    return gpu
  } catch (error) {
    await gpu.close()
    throw error
  }
}

async function checkNumbers(host: Engine, gpu: Engine): Promise<void> {
  const allowed = tolerances.float32
  // Another tab may be checking too.
  const adapters = `/gpu-check-${crypto.randomUUID()}`
  try {
    const logprob = await scoreDifference(host, gpu, adapters)
    // Not-a-number is not within anything.
    if (!(logprob <= allowed.logprob)) {
      throw new Error(
        `${gpu.info.device} gives log-probabilities that are off by ${logprob.toExponential(1)}`,
      )
    }
    const gradient = await gradientDifference(host, gpu, adapters)
    if (!(gradient <= allowed.gradient)) {
      throw new Error(
        `${gpu.info.device} gives gradients that are off by ${gradient.toExponential(1)} of their size`,
      )
    }
  } finally {
    await remove(adapters)
  }
}

/** The faster of the two. */
async function chosen(on: On): Promise<Opened> {
  const host = await on(wasm)
  const byHost = (reason: string): Opened => ({
    engine: host,
    notice: `Computing by WebAssembly: ${reason}.`,
  })
  let gpu: Engine
  try {
    gpu = await checkedAgainst(host, on, PATIENCE)
  } catch (error) {
    return byHost(reasonOf(error))
  }
  try {
    const hostSeconds = await stepSeconds(host)
    const gpuSeconds = await within(PATIENCE + hostSeconds, stepSeconds(gpu))
    const measured = `a first step took ${gpuSeconds.toFixed(2)} s on ${gpu.info.device} and ${hostSeconds.toFixed(2)} s by WebAssembly`
    if (gpuSeconds < hostSeconds) {
      await host.close()
      const notice = `Computing on the GPU: ${measured}.`
      return { engine: survivingLoss(gpu, () => on(wasm)), notice }
    }
    await gpu.close()
    return byHost(measured)
  } catch (error) {
    await gpu.close()
    return byHost(reasonOf(error))
  }
}

/** An engine whose GPU may be lost: what is in hand fails with LostError, and policies made after that are `next`'s. */
function survivingLoss(first: Engine, next: () => Promise<Engine>): Engine {
  let device = first.info.device
  let moved: Promise<Engine> | undefined
  const move = async () => {
    const engine = await next()
    device = engine.info.device
    return engine
  }
  const watched =
    <Given extends unknown[], T>(work: (...given: Given) => Promise<T>) =>
    (...given: Given): Promise<T> =>
      work(...given).catch((error: unknown) => {
        if (error instanceof LostError && moved === undefined) {
          moved = move()
          // Told to whoever makes the next policy.
          moved.catch(() => {})
        }
        throw error
      })
  return {
    ...first,
    info: {
      ...first.info,
      get device() {
        return device
      },
    },
    async createPolicy(options) {
      const policy = await (await (moved ?? first)).createPolicy(options)
      return {
        ...policy,
        sample: watched(policy.sample),
        logprobs: watched(policy.logprobs),
        forwardBackward: watched(policy.forwardBackward),
        forwardBackwardSupervised: watched(policy.forwardBackwardSupervised),
        optimStep: watched(policy.optimStep),
      }
    },
    async close() {
      // Not before: others than the first to find out are still to be told that it is lost, and not that it was closed.
      await first.close()
      await moved?.then(
        (engine) => engine.close(),
        () => {},
      )
    },
  }
}

/** @throws where the work takes longer; it goes on behind until its engine is closed. */
async function within<T>(seconds: number, work: Promise<T>): Promise<T> {
  if (seconds === Number.POSITIVE_INFINITY) return work
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`the GPU's trial took longer than ${Math.round(seconds)} s`)),
      seconds * 1000,
    )
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

/** An error's first line, as part of a sentence. */
function reasonOf(error: unknown): string {
  const [line] = (error instanceof Error ? error.message : String(error)).split('\n')
  return line.replace(/^Error: /, '').replace(/\.$/, '')
}

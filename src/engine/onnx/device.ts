/** Which devices ONNX Runtime can compute on here, found out by computing on each. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { emit } from '../graph/emit.ts'
import * as ops from '../graph/ops.ts'
import { input } from '../graph/tensor.ts'
import { type Device, devices, type FoundDevice, type HostDevice, isHost, notHere } from './devices.ts'
import { openDriver } from './gpu/kernels/driver.ts'
import type { Precision } from './model.ts'
import { hostTensor, type NativeProgram, nativeProgram } from './native.ts'
import { nativeInstall, nativeProblem, runtimeOf, runtimePackages } from './runtime.ts'
import { compile, floatData, floats } from './session.ts'
import { openDawn } from './webgpu/dawn.ts'
import { openGraphs } from './webgpu/program.ts'

export interface Probe {
  device: Device
  /** null where the device does not work. */
  found: FoundDevice | null
  /** What was found, or what is missing and what to do. */
  detail: string
  /** It works, but the processor itself is faster: `auto` passes it over. */
  slower?: boolean
}

const probes = new Map<Device, Promise<Probe>>()

/** Tries a device with a small product: once in a process. */
export function probe(device: Device): Promise<Probe> {
  let known = probes.get(device)
  if (known === undefined) {
    known = tryDevice(device)
    probes.set(device, known)
  }
  return known
}

/** The device asked for; for `auto` the best that works. Throws UserError where it does not work here. */
export async function chooseDevice(asked: Device | 'auto'): Promise<FoundDevice> {
  if (asked === 'auto') {
    for (const device of devices) {
      const { found, slower } = await probe(device)
      if (found !== null && !slower) return found
    }
  }
  const { found, detail } = await probe(asked as Device)
  if (found === null) {
    throw notHere(asked, detail)
  }
  return found
}

async function tryDevice(device: Device): Promise<Probe> {
  if (device === 'webgpu') return tryWebgpu()
  const problem = device === 'wasm' ? null : nativeProblem()
  if (problem !== null) {
    return {
      device,
      found: null,
      detail: `${runtimePackages.native}: ${problem} (${nativeInstall()} brings it)`,
    }
  }
  if (device === 'cuda' && !cudaProviderInstalled()) {
    return { device, found: null, detail: `its provider is not installed${advice(device)}` }
  }
  // cuDNN's attention of single tokens gave other last bits each time it was run; the others do not. ONNX Runtime reads this
  // when it compiles a program.
  if (device === 'cuda') process.env.ORT_ENABLE_CUDNN_FLASH_ATTENTION ??= '0'
  // The CPU's halves are slower than its single precision.
  const order: Precision[] = isHost(device) ? ['float32'] : ['float16', 'float32']
  let detail = ''
  for (const precision of order) {
    try {
      const error = await productError(productOn(device), precision)
      if (error <= TOLERANCE) {
        const words = precision === 'float16' ? 'half precision' : 'single precision'
        const kernels = device === 'cuda' && precision === 'float16' ? `, ${kernelsHere()}` : ''
        return { device, found: { device, precision }, detail: `${words}${kernels}` }
      }
      detail = `its products are wrong by ${error.toExponential(1)} in ${precision}`
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      // The last reason is the telling one: without halves, single precision is tried, and fails for want of a device.
      detail = `${reason(message)}${advice(device)}`
    }
  }
  return { device, found: null, detail }
}

/** By our own kernels, which hold halves on any GPU. */
async function tryWebgpu(): Promise<Probe> {
  const device = 'webgpu'
  try {
    const gpu = await openDawn()
    const { name, bufferBytes, matrices, software } = gpu.traits
    const error = await productError(async (bytes, left, right) => {
      const found = await gpuProduct(openGraphs(gpu).program(bytes), left, right)
      gpu.close()
      return found
    }, 'float16')
    if (error > TOLERANCE)
      return { device, found: null, detail: `products on ${name} are wrong by ${error.toExponential(1)}` }
    const products = matrices ? 'products of matrices in one instruction' : 'products in single precision'
    return {
      device,
      found: { device, precision: 'float16', own: true, gpu: { name, bufferBytes } },
      detail: `half precision on ${name}, ${software ? 'which is the processor in disguise: auto passes it over' : products}`,
      slower: software,
    }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { device, found: null, detail: `${reason(message)}${advice(device)}` }
  }
}

/** Whether our own kernels (`gpu/kernels/`) can be compiled and launched here; whether a model fits them, its lane says. */
export function kernelsHere(open: () => unknown = openDriver): string {
  try {
    open()
    return 'with kernels of our own'
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return `without kernels of our own, so slower: ${message} (docs/gpu.md says what they need)`
  }
}

/** The provider is a library of its own, which the npm package leaves out. */
function cudaProviderInstalled(): boolean {
  const folder = dirname(createRequire(import.meta.url).resolve('onnxruntime-node/package.json'))
  const library =
    process.platform === 'win32' ? 'onnxruntime_providers_cuda.dll' : 'libonnxruntime_providers_cuda.so'
  return existsSync(join(folder, 'bin/napi-v6', process.platform, process.arch, library))
}

/** Runtime errors are long: what matters is the library that cannot be loaded, or the last sentence. */
function reason(message: string): string {
  const library = /([\w.-]+\.so[\w.]*): cannot open shared object file/.exec(message)
  if (library) return `the library ${library[1]} is missing`
  const lines = message.split('\n').filter((line) => line.trim() !== '')
  return (lines[lines.length - 1] ?? message).trim().slice(-200)
}

function advice(device: Device): string {
  if (device === 'cuda') return ' (docs/gpu.md says how to install the CUDA provider)'
  if (device === 'webgpu')
    return ' (it needs the package webgpu and a driver with Vulkan, Metal or Direct3D 12)'
  return ''
}

const SIZE = 64
const TOLERANCE = 0.05

/** Runs the graph of `productError`. */
type ProductOf = (bytes: Uint8Array, left: Float32Array, right: Float32Array) => Promise<Float32Array>

const productOn =
  (device: HostDevice | 'cuda'): ProductOf =>
  async (bytes, left, right) => {
    if (isHost(device)) return hostProduct(bytes, device, left, right)
    return gpuProduct(await nativeProgram(bytes, { provider: device }), left, right)
  }

/** Largest error of a product of small whole numbers, which halves hold exactly. */
async function productError(run: ProductOf, precision: Precision): Promise<number> {
  const a = input('a', [SIZE, SIZE])
  const b = input('b', [SIZE, SIZE])
  const product = ops.matmul(ops.cast(a, precision), ops.cast(b, precision), { transposeB: true })
  const bytes = emit('probe', { product: ops.cast(product, 'float32') })
  const left = Float32Array.from({ length: SIZE * SIZE }, (_, i) => ((i * 7) % 5) - 2)
  const right = Float32Array.from({ length: SIZE * SIZE }, (_, i) => ((i * 3) % 7) - 3)
  const found = await run(bytes, left, right)
  return found.reduce((worst, value, i) => {
    const [row, column] = [Math.floor(i / SIZE), i % SIZE]
    let exact = 0
    for (let k = 0; k < SIZE; k++) exact += left[row * SIZE + k] * right[column * SIZE + k]
    return Math.max(worst, Math.abs(value - exact))
  }, 0)
}

async function hostProduct(
  bytes: Uint8Array,
  device: HostDevice,
  left: Float32Array,
  right: Float32Array,
): Promise<Float32Array> {
  const program = await compile(bytes, { runtime: runtimeOf(device) })
  const { product } = await program.run([{ a: floats(left, [SIZE, SIZE]), b: floats(right, [SIZE, SIZE]) }])
  await program.release()
  return floatData(product)
}

async function gpuProduct(
  program: NativeProgram,
  left: Float32Array,
  right: Float32Array,
): Promise<Float32Array> {
  const found = new Float32Array(SIZE * SIZE)
  const matrix = (data: Float32Array) => hostTensor('float32', data, [SIZE, SIZE])
  const tensors = { a: matrix(left), b: matrix(right), product: matrix(found) }
  try {
    const binding = program.bind([tensors], { product: tensors.product })
    try {
      await binding.run()
    } finally {
      binding.dispose()
    }
  } finally {
    for (const tensor of Object.values(tensors)) tensor.dispose()
    program.release()
  }
  return found
}

/** What is assumed of a GPU whose memory cannot be asked for. */
const ASSUMED_BYTES = 8 * 2 ** 30

/** Memory of the device in bytes: NVIDIA's driver is asked, another GPU is taken to have 8 GiB. */
export async function deviceMemory(device: Device): Promise<number> {
  if (isHost(device)) return totalmem()
  const mebibytes = Number.parseInt(await nvidiaGpu('memory.free'), 10)
  return Number.isFinite(mebibytes) ? mebibytes * 2 ** 20 : ASSUMED_BYTES
}

/** What NVIDIA's driver says of the GPU that CUDA takes, by `nvidia-smi --help-query-gpu`'s names; '' without a driver. */
export async function nvidiaGpu(query: string): Promise<string> {
  const [visible] = (process.env.CUDA_VISIBLE_DEVICES ?? '').split(',')
  const options = [
    `--query-gpu=${query}`,
    '--format=csv,noheader,nounits',
    ...(visible ? [`--id=${visible}`] : []),
  ]
  try {
    const { stdout } = await promisify(execFile)('nvidia-smi', options, { timeout: 10_000 })
    return stdout.trim().split('\n')[0]
  } catch {
    return ''
  }
}

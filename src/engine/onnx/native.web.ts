/**
 * The GPU lane's programs and tensors in a browser: ONNX Runtime's WebGPU provider, the same as in the native library, in its
 * WebAssembly build. Tensors are the page's own GPU buffers, which programs read and write where they lie.
 */
import { LostError } from '../../errors.ts'
import type { Binding, HostArray, NativeOptions, NativeProgram, NativeTensor, NativeType } from './native.ts'
import { findGpu, openDevice } from './webgpu.web.ts'

type Ort = typeof import('onnxruntime-web/jspi')
type OrtTensor = import('onnxruntime-web/jspi').Tensor

interface Runtime {
  ort: Ort
  device: GPUDevice
  /** Rejects when the device is lost, with a sentence. */
  lost: Promise<never>
  /** Throws what the device has refused since it was last asked, which no call tells of. */
  checkRefused(): void
}

let opened: Promise<Runtime> | undefined

async function open(): Promise<Runtime> {
  const device = await openDevice(await findGpu())
  const lost = device.lost.then(({ message }): never => {
    throw new LostError(`the browser lost its GPU (${message || 'it does not say why'})`)
  })
  lost.catch(() => {})
  let refused: Error | undefined
  device.addEventListener('uncapturederror', ({ error }) => {
    const what = error instanceof GPUOutOfMemoryError ? 'out of memory' : 'the GPU refuses what it is to do'
    refused ??= new Error(`${what}: ${error.message}`)
  })
  const checkRefused = () => {
    const error = refused
    refused = undefined
    if (error) throw error
  }
  const ort = await import('onnxruntime-web/jspi')
  ort.env.wasm.numThreads = 1
  return { ort, device, lost, checkRefused }
}

/** A page is told no addresses, which our own kernels alone want. */
const nowhere = (): never => {
  throw new Error('a tensor in a browser has no address')
}

/** A tensor over an array of the host's. */
export function hostTensor(dtype: NativeType, data: HostArray, dims: readonly number[]): NativeTensor {
  return { dims, dtype, data, value: null, address: nowhere, dispose() {} }
}

export async function nativeProgram(bytes: Uint8Array, _: NativeOptions): Promise<NativeProgram> {
  opened ??= open()
  const { ort, device, lost, checkRefused } = await opened
  const unlessLost = <T>(work: Promise<T>): Promise<T> => Promise.race([work, lost])
  const session = await unlessLost(
    ort.InferenceSession.create(bytes, {
      executionProviders: [{ name: 'webgpu', device, storageBufferCacheMode: 'simple' }],
      graphOptimizationLevel: 'all',
      logSeverityLevel: 3,
      enableMemPattern: false,
    }),
  )
  const { inputNames: inputs } = session
  /** As the runtime takes it: of the host's arrays what they hold now. */
  const given = ({ dims, dtype, data, value }: NativeTensor): OrtTensor =>
    data === undefined ? (value as OrtTensor) : new ort.Tensor(dtype as 'float32', data as Float32Array, dims)
  return {
    inputs,
    tensor(dtype, dims) {
      const buffer = device.createBuffer({
        size: bytesOf(dtype, dims),
        usage: USAGE,
      })
      const value = ort.Tensor.fromGpuBuffer(buffer, { dataType: dtype, dims })
      return { dims, dtype, value, address: nowhere, dispose: () => buffer.destroy() }
    },
    bind(sources, outputs): Binding {
      const feeds: Record<string, OrtTensor> = {}
      for (const name of inputs) {
        const source = sources.find((tensors) => name in tensors)
        if (source === undefined) throw new Error(`the graph's input ${name} was not given`)
        feeds[name] = given(source[name])
      }
      const fetches = Object.fromEntries(
        Object.entries(outputs).map(([name, tensor]) => [
          name,
          // The runtime gives an array of its own, which is copied.
          tensor.data === undefined ? (tensor.value as OrtTensor) : null,
        ]),
      )
      return {
        async run() {
          const results = await unlessLost(session.run(feeds, fetches))
          checkRefused()
          for (const [name, { data }] of Object.entries(outputs)) {
            if (data !== undefined) (data as Float32Array).set(results[name].data as Float32Array)
          }
        },
        give(name, tensor) {
          feeds[name] = given(tensor)
        },
        dispose() {},
      }
    },
    release: () => void session.release(),
  }
}

/** GPUBufferUsage's STORAGE, COPY_SRC and COPY_DST. */
const USAGE = 0x80 | 0x4 | 0x8

const UNIT = { float32: 4, float16: 2, int32: 4, int64: 8 } as const

/** The runtime copies buffers by sixteen bytes. */
function bytesOf(dtype: NativeType, dims: readonly number[]): number {
  return 16 * Math.ceil((UNIT[dtype] * dims.reduce((size, dim) => size * dim, 1)) / 16)
}

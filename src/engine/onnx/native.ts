/**
 * ONNX Runtime's C API called directly, for what the Node binding leaves out: tensors that stay on the device between
 * runs, outputs written into tensors that are given, and CUDA programs that are recorded once and replayed. Functions are
 * taken by their place in `OrtApi`, which only ever grows at its end.
 */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { ELEMENT_TYPE } from '../graph/tensor.ts'
import { type Operator, type Operators, openOperators } from './operators.ts'

/** The version of the C API that is asked for: any later library serves it. */
const API_VERSION = 24

const require = createRequire(import.meta.url)

export type Provider = 'cpu' | 'cuda' | 'webgpu'
type Pointer = unknown
export type NativeType = 'float32' | 'float16' | 'int32' | 'int64'
export type HostArray = Float32Array | Uint16Array | Int32Array | BigInt64Array

/** A tensor on the device, or on the host where `data` is set. */
export interface NativeTensor {
  readonly dims: readonly number[]
  readonly dtype: NativeType
  readonly data?: HostArray
  readonly value: Pointer
  /** Where its data lie: on its device. */
  address(): bigint
  dispose(): void
}

export interface NativeOptions {
  provider: Provider
  threads?: number
  /** CUDA: what a binding does is recorded in its first runs and then replayed as a whole. */
  recorded?: boolean
  /** Operators of our own that the graph may use. */
  operators?: readonly Operator[]
  /** Bytes of the tensors that the model was emitted with as constants, by name. */
  constants?: ReadonlyMap<string, Uint8Array>
}

/** Inputs and outputs tied to a program, to be run again and again. */
export interface Binding {
  /** Waits for the end. `recording` names what was recorded with these very tensors. */
  run(recording?: number): Promise<void>
  /** Another tensor for an input; one over the host's memory is read now. */
  give(name: string, tensor: NativeTensor): void
  dispose(): void
}

export interface NativeProgram {
  readonly inputs: readonly string[]
  /** A tensor on the program's device, not initialised. */
  tensor(dtype: NativeType, dims: readonly number[]): NativeTensor
  /** Each input is taken from the first source that has it; outputs are written into the tensors given. */
  bind(
    sources: readonly Readonly<Record<string, NativeTensor>>[],
    outputs: Readonly<Record<string, NativeTensor>>,
  ): Binding
  release(): void
}

/** A tensor over the host's own memory, which ONNX Runtime is told of when it first asks. */
export function hostTensor(dtype: NativeType, data: HostArray, dims: readonly number[]): NativeTensor {
  let told: Pointer
  const value = (): Pointer => {
    if (told !== undefined) return told
    const { createTensor, hostMemory } = api()
    // Small arrays live where the garbage collector moves them, until their buffer is asked for.
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    const shape = dims.map(BigInt)
    told = createTensor(hostMemory, bytes, bytes.length, shape, dims.length, ELEMENT_TYPE[dtype])
    return told
  }
  return {
    dims,
    dtype,
    data,
    get value() {
      return value()
    },
    address: () => api().addressOf(value()),
    dispose() {
      if (told !== undefined) api().releaseValue(told)
    },
  }
}

/** A session; `own` where the graph uses operators of our own, `forget` lets them go. */
export async function openSession(native: NativeApi, bytes: Uint8Array, options: NativeOptions) {
  const { provider, threads = 1, recorded = false, operators = [], constants = new Map() } = options
  const settings = native.createSessionOptions()
  native.check(native.setIntraOpThreads(settings, threads))
  native.check(native.setOptimization(settings, 99))
  native.check(native.setLogLevel(settings, 4))
  native.check(native.disableMemPattern(settings))
  if (constants.size > 0) {
    const data = [...constants.values()]
    const lengths = data.map(({ length }) => BigInt(length))
    native.check(native.addConstants(settings, [...constants.keys()], data, lengths, data.length))
  }
  if (provider === 'cuda') {
    const cuda = native.createCudaOptions()
    const values = {
      device_id: '0',
      // What grows by doubling asks the driver less often and leaves fewer gaps than what is taken piece by piece.
      arena_extend_strategy: 'kNextPowerOfTwo',
      enable_cuda_graph: recorded ? '1' : '0',
    }
    native.check(native.updateCudaOptions(cuda, Object.keys(values), Object.values(values), 3))
    native.check(native.appendCuda(settings, cuda))
    native.releaseCudaOptions(cuda)
  }
  const own = operators.length > 0 ? native.operators() : undefined
  const forget = own?.add(settings, operators)
  const create = () => native.createSession(native.env, bytes, bytes.length, settings)
  let session: Pointer
  try {
    // On a thread of its own, so that others can run meanwhile.
    if (own !== undefined) session = own.making(create, native.releaseSession)
    else session = await native.createSessionApart(native.env, bytes, bytes.length, settings)
  } catch (error) {
    forget?.()
    throw error
  } finally {
    native.releaseSessionOptions(settings)
  }
  return { session, own, forget }
}

export async function nativeProgram(bytes: Uint8Array, options: NativeOptions): Promise<NativeProgram> {
  const native = api()
  const { provider } = options
  if (provider === 'webgpu') throw new Error('in Node WebGPU is not computed on by ONNX Runtime')
  const { session, own, forget } = await openSession(native, bytes, options)
  const memory = provider === 'cpu' ? native.hostMemory : native.createMemoryInfo('Cuda', 0, 0, 0)
  const allocator = native.createAllocator(session, memory)
  const inputs = native.inputNames(session)
  const runOptions = new Map<number | undefined, Pointer>()
  const optionsOf = (recording: number | undefined): Pointer => {
    let found = runOptions.get(recording)
    if (found === undefined) {
      found = native.createRunOptions()
      if (recording !== undefined) native.check(native.addRunConfig(found, 'gpu_graph_id', String(recording)))
      runOptions.set(recording, found)
    }
    return found
  }
  return {
    inputs,
    tensor(dtype, dims) {
      const value = native.allocateTensor(allocator, dims.map(BigInt), dims.length, ELEMENT_TYPE[dtype])
      const address = () => native.addressOf(value)
      return { dims, dtype, value, address, dispose: () => native.releaseValue(value) }
    },
    bind(sources, outputs) {
      const binding = native.createBinding(session)
      for (const name of inputs) {
        const source = sources.find((tensors) => name in tensors)
        if (source === undefined) throw new Error(`the graph's input ${name} was not given`)
        native.check(native.bindInput(binding, name, source[name].value))
      }
      for (const [name, { value }] of Object.entries(outputs))
        native.check(native.bindOutput(binding, name, value))
      // Tensors over the host's memory must live as long as what they are bound to.
      const held: unknown[] = [sources, outputs]
      return {
        async run(recording) {
          const given = recording === undefined && own === undefined ? null : optionsOf(recording)
          const run = () => native.check(native.runBinding(session, given, binding))
          if (own === undefined) run()
          else own.running(run, given)
        },
        give(name, tensor) {
          held.push(tensor)
          native.check(native.bindInput(binding, name, tensor.value))
        },
        dispose: () => {
          held.length = 0
          native.releaseBinding(binding)
        },
      }
    },
    release() {
      for (const found of runOptions.values()) native.releaseRunOptions(found)
      native.releaseAllocator(allocator)
      native.releaseSession(session)
      forget?.()
    },
  }
}

export type NativeApi = ReturnType<typeof openApi>
let opened: NativeApi | undefined

/** @throws where koffi or the library does not load. */
export function api(): NativeApi {
  opened ??= openApi()
  return opened
}

/** An optional dependency, as the runtime itself is. */
export function loadKoffi(): typeof import('koffi') {
  try {
    const koffi = require('koffi') as typeof import('koffi')
    // Lanes of one process share koffi, which takes this once, before any library.
    if (koffi.config().async_stack_size !== STACK)
      koffi.config({ sync_stack_size: STACK, async_stack_size: STACK, resident_async_pools: 1 })
    return koffi
  } catch (cause) {
    throw new Error('koffi, by which a GPU is spoken to, does not load here: npm install koffi brings it', {
      cause,
    })
  }
}

/** Bytes of stack for what koffi calls, here or on a thread of its own: compiling a graph takes more than it gives by itself. */
const STACK = 8 << 20

function openApi() {
  const koffi = loadKoffi()
  const folder = dirname(require.resolve('onnxruntime-node/package.json'))
  const { platform, arch } = process
  const file = { linux: 'libonnxruntime.so.1', darwin: 'libonnxruntime.1.dylib', win32: 'onnxruntime.dll' }
  const name = file[platform as keyof typeof file]
  if (name === undefined) throw new Error(`ONNX Runtime has no library for ${platform}`)
  const library = koffi.load(join(folder, 'bin/napi-v6', platform, arch, name))
  const P = 'void *'
  const base = library.func('void *OrtGetApiBase()')()
  const getApi = koffi.proto('void *OrtGetApi(uint32_t version)')
  const table = koffi.call(koffi.decode(base, 0, P), getApi, API_VERSION)
  if (table === null) throw new Error(`this ONNX Runtime does not serve version ${API_VERSION} of its C API`)
  let prototypes = 0
  const at = (place: number, result: string, ...parameters: string[]) => {
    const prototype = koffi.proto(`${result} Ort${place}_${prototypes++}(${parameters.join(', ')})`)
    const pointer = koffi.decode(table, place * 8, P)
    return (...given: unknown[]): Pointer => koffi.call(pointer, prototype, ...given)
  }
  /** The same in a quarter of the time, for what is called for every tensor of every run. */
  const often = (
    place: number,
    result: string,
    ...parameters: string[]
  ): ((...given: unknown[]) => Pointer) => {
    const prototype = koffi.proto(`${result} Ort${place}_${prototypes++}(${parameters.join(', ')})`)
    return koffi.decode(koffi.decode(table, place * 8, P), prototype)
  }
  /** The same on another thread. */
  const apart = (place: number, result: string, ...parameters: string[]) => {
    const prototype = koffi.proto(`${result} Ort${place}_${prototypes++}(${parameters.join(', ')})`)
    const called = koffi.decode(koffi.decode(table, place * 8, P), prototype)
    return (...given: unknown[]) =>
      new Promise<Pointer>((resolve, reject) => {
        called.async(...given, (error: unknown, found: Pointer) => (error ? reject(error) : resolve(found)))
      })
  }
  const message = at(2, 'const char *', P)
  const releaseStatus = at(93, 'void', P)
  const check = (status: Pointer) => {
    if (status === null) return
    const text = String(message(status))
    releaseStatus(status)
    throw new Error(text)
  }
  let operators: Operators | undefined
  /** For functions whose last parameter is where the result goes. */
  const making = (place: number, ...parameters: string[]) => {
    const make = at(place, P, ...parameters, '_Out_ void **')
    return (...given: unknown[]): Pointer => {
      const result = [null]
      check(make(...given, result))
      return result[0]
    }
  }
  const counting = (place: number) => {
    const count = at(place, P, P, '_Out_ size_t *')
    return (session: Pointer): number => {
      const result = [0]
      check(count(session, result))
      return Number(result[0])
    }
  }
  const session = [P, P, 'size_t', P]
  const createApart = apart(8, P, ...session, '_Out_ void **')
  const createMemoryInfo = making(68, 'const char *', 'int', 'int', 'int')
  const allocatorOfNames = making(78)()
  const free = at(76, P, P, P)
  /** Names by two functions: how many, and which one. */
  const naming = (places: { count: number; name: number }) => {
    const count = counting(places.count)
    const nameOf = making(places.name, P, 'size_t', P)
    return (session: Pointer): string[] =>
      Array.from({ length: count(session) }, (_, index) => {
        const pointer = nameOf(session, index, allocatorOfNames)
        const name = String(koffi.decode(pointer, 'char', -1))
        check(free(allocatorOfNames, pointer))
        return name
      })
  }
  const dataOf = making(51, P)
  return {
    /** Held: koffi closes a library once its handle is collected, whatever of it is still called by address. */
    library,
    check,
    operators() {
      operators ??= openOperators({
        koffi,
        version: API_VERSION,
        address: (place) => koffi.decode(table, place * 8, P),
        check,
      })
      return operators
    },
    env: making(3, 'int', 'const char *')(3, 'message-board'),
    hostMemory: createMemoryInfo('Cpu', 0, 0, 0),
    createMemoryInfo,
    createSessionOptions: making(10),
    releaseSessionOptions: at(100, 'void', P),
    setIntraOpThreads: at(24, P, P, 'int'),
    setOptimization: at(23, P, P, 'int'),
    setLogLevel: at(22, P, P, 'int'),
    disableMemPattern: at(17, P, P),
    /** Names are those of files: of wide characters on Windows. */
    addConstants: at(
      279,
      P,
      P,
      `const ${platform === 'win32' ? 'char16_t' : 'char'} **`,
      'void **',
      'const size_t *',
      'size_t',
    ),
    createCudaOptions: making(205),
    updateCudaOptions: at(206, P, P, 'const char **', 'const char **', 'size_t'),
    appendCuda: at(204, P, P, P),
    releaseCudaOptions: at(208, 'void', P),
    createSession: making(8, ...session),
    async createSessionApart(...given: unknown[]): Promise<Pointer> {
      const result = [null]
      check(await createApart(...given, result))
      return result[0]
    },
    releaseSession: at(95, 'void', P),
    createAllocator: making(131, P, P),
    releaseAllocator: at(132, 'void', P),
    inputNames: naming({ count: 30, name: 36 }),
    outputNames: naming({ count: 31, name: 37 }),
    createTensor: making(49, P, P, 'size_t', 'const int64_t *', 'size_t', 'int'),
    allocateTensor: making(48, P, 'const int64_t *', 'size_t', 'int'),
    addressOf: (value: Pointer): bigint => koffi.address(dataOf(value)),
    releaseValue: at(96, 'void', P),
    createBinding: making(134, P),
    releaseBinding: at(135, 'void', P),
    bindInput: at(136, P, P, 'const char *', P),
    bindOutput: at(137, P, P, 'const char *', P),
    runBinding: at(133, P, P, P, P),
    createRunOptions: making(39),
    addRunConfig: at(165, P, P, 'const char *', 'const char *'),
    releaseRunOptions: at(97, 'void', P),
    /** For `direct.ts`: arrays of pointers and of sizes are typed arrays, pointers numbers. */
    often: {
      run: often(9, P, P, P, P, P, 'size_t', P, 'size_t', P),
      wrapTensor: often(49, P, P, P, 'size_t', P, 'size_t', 'int', P),
      releaseValue: often(96, 'void', P),
      typeAndShape: often(65, P, P, P),
      releaseTypeAndShape: often(99, 'void', P),
      elementType: often(60, P, P, P),
      rank: often(61, P, P, P),
      dims: often(62, P, P, P, 'size_t'),
      data: often(51, P, P, P),
    },
    addressOfArray: (array: NodeJS.TypedArray): bigint => koffi.address(array),
    /** A copy of so many numbers of single precision that lie there. */
    floatsAt: (address: bigint, count: number): Float32Array =>
      new Float32Array(koffi.view(address, count * Float32Array.BYTES_PER_ELEMENT)).slice(),
  }
}

/**
 * CUDA's driver and its runtime compiler, called directly: kernels are compiled for the device that is there, recorded as
 * a graph and replayed, so that the host launches one thing for all of them. Both libraries come with CUDA or PyTorch's
 * wheels, as those that ONNX Runtime's provider needs.
 */
import { loadKoffi } from '../../native.ts'
import { type Launch, type Unit, unitKey } from './launch.ts'
import { prelude, sourceOf } from './sources.ts'
import type { DeviceSizes } from './step.ts'

/** What steps and operators need of a device. */
export interface KernelDriver {
  sizes: DeviceSizes
  /** Compiles what is not yet; on another thread. @throws Error with the compiler's words. */
  compile(units: readonly Unit[]): Promise<void>
  /** Records launches of compiled units, which run in their order. */
  record(launches: readonly Launch[]): Recorded
  /** Launches at once, on a stream that others use too: each begins when all before it has ended. */
  launch(launches: readonly Launch[], stream: bigint): void
  /** Copies to device memory, and has done so when it returns. What was begun before must have ended. */
  write(pointer: bigint, data: ArrayBufferView): void
  /** The other way about. */
  read(pointer: bigint, into: ArrayBufferView): void
  /** Fills device memory with zeros, and has done so when it returns: `[where, bytes]` each. */
  clear(parts: readonly (readonly [pointer: bigint, bytes: number])[]): void
}

export interface Driver extends KernelDriver {
  /** Bytes of device memory that belong to nobody else. */
  allocate(bytes: number): bigint
  free(pointer: bigint): void
}

export interface Recorded {
  /** Begins so many runs, one after another, without waiting for their end. */
  run(times: number): void
  /** Waits until all that was begun has ended. */
  wait(): void | Promise<void>
  dispose(): void
}

/** Numbers of the driver's interface. */
const ATTRIBUTE = { multiprocessors: 16, major: 75, minor: 76, sharedBytes: 97 }
const RELAXED_CAPTURE = 2
const MAX_DYNAMIC_SHARED = 8
/** A launch attribute: the kernel may begin before the one before it ends, and waits itself where it must. */
const PROGRAMMATIC_SERIALIZATION = 6

/** Bytes of `CUlaunchConfig`, of an attribute, and of what parameters may take; laid out by hand in one block. */
const LAYOUT = { attribute: 64, pointers: 144, values: 512, size: 1024 }

/** Small arrays live where the garbage collector moves them, until their buffer is asked for. */
const bytesOf = (data: ArrayBufferView) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength)

/** koffi closes a library once its handle is collected, whatever of it is still called. */
const held: unknown[] = []

/** The least compute capability whose kernels may begin before those before them have ended, as ours do: Hopper's. */
const LEAST_ARCHITECTURE = 90

let opened: Driver | undefined

/** @throws Error where a library is missing, or there is no device that the kernels are written for. */
export function openDriver(): Driver {
  opened ??= open()
  return opened
}

const libraries = {
  driver: { linux: ['libcuda.so.1'], win32: ['nvcuda.dll'] },
  compiler: {
    linux: ['libnvrtc.so.13', 'libnvrtc.so.12', 'libnvrtc.so'],
    win32: ['nvrtc64_130_0.dll', 'nvrtc64_120_0.dll'],
  },
}

function open(): Driver {
  const koffi = loadKoffi()
  const load = (which: keyof typeof libraries) => {
    const names = libraries[which][process.platform as 'linux' | 'win32'] ?? []
    for (const name of names) {
      try {
        return koffi.load(name)
      } catch {}
    }
    throw new Error(`CUDA's ${which} was not found: none of ${names.join(', ')} loads`)
  }
  const [cuda, nvrtc] = [load('driver'), load('compiler')]
  held.push(cuda, nvrtc)
  const errorString = cuda.func('int cuGetErrorString(int error, _Out_ const char **text)')
  const checked = (declaration: string) => {
    const call = cuda.func(declaration)
    return (...given: unknown[]) => {
      const error: number = call(...given)
      if (error === 0) return
      const text = [null]
      errorString(error, text)
      throw new Error(`CUDA: ${/cu\w+/.exec(declaration)?.[0]}: ${text[0] ?? error}`)
    }
  }
  const made = (declaration: string) => {
    const call = checked(declaration)
    return (...given: unknown[]) => {
      const result = [null]
      call(result, ...given)
      return result[0] as unknown
    }
  }
  checked('int cuInit(unsigned int flags)')(0)
  const device = made('int cuDeviceGet(_Out_ int *device, int ordinal)')(0)
  const attribute = made('int cuDeviceGetAttribute(_Out_ int *value, int attribute, int device)')
  const [major, minor] = [ATTRIBUTE.major, ATTRIBUTE.minor].map((a) => Number(attribute(a, device)))
  const architecture = 10 * major + minor
  if (architecture < LEAST_ARCHITECTURE)
    throw new Error(`the GPU has compute capability ${major}.${minor}: 9.0 is the least`)
  const context = made('int cuDevicePrimaryCtxRetain(_Out_ void **context, int device)')(device)
  checked('int cuCtxSetCurrent(void *context)')(context)
  const stream = made('int cuStreamCreate(_Out_ void **stream, unsigned int flags)')(1)
  const loadModule = made('int cuModuleLoadData(_Out_ void **module, void *image)')
  const getFunction = made('int cuModuleGetFunction(_Out_ void **function, void *module, const char *name)')
  const setAttribute = checked('int cuFuncSetAttribute(void *function, int attribute, int value)')
  const beginCapture = checked('int cuStreamBeginCapture_v2(void *stream, int mode)')
  const endCapture = cuda.func('int cuStreamEndCapture(void *stream, _Out_ void **graph)')
  const instantiate = made('int cuGraphInstantiateWithFlags(_Out_ void **exec, void *graph, uint64_t flags)')
  const destroyGraph = checked('int cuGraphDestroy(void *graph)')
  const destroyExec = checked('int cuGraphExecDestroy(void *exec)')
  const launchGraph = checked('int cuGraphLaunch(void *exec, void *stream)')
  const synchronize = checked('int cuStreamSynchronize(void *stream)')
  const launchKernel = checked(
    'int cuLaunchKernelEx(void *config, void *function, void *parameters, void *extra)',
  )
  const allocate = made('int cuMemAlloc_v2(_Out_ uint64_t *pointer, size_t bytes)')
  const freeMemory = checked('int cuMemFree_v2(uint64_t pointer)')
  const copyIn = checked('int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)')
  const fill = checked('int cuMemsetD8_v2(uint64_t to, uint8_t value, size_t bytes)')
  const copyOut = checked('int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)')

  const sizes = {
    multiprocessors: Number(attribute(ATTRIBUTE.multiprocessors, device)),
    sharedBytes: Number(attribute(ATTRIBUTE.sharedBytes, device)),
  }

  const createProgram = nvrtc.func(
    'int nvrtcCreateProgram(_Out_ void **program, const char *source, const char *name, int headers, void *h, void *n)',
  )
  const compileProgram = nvrtc.func('int nvrtcCompileProgram(void *program, int count, const char **options)')
  const programOut = (what: string) => {
    const size = nvrtc.func(`int nvrtcGet${what}Size(void *program, _Out_ size_t *size)`)
    const get = nvrtc.func(`int nvrtcGet${what}(void *program, _Out_ uint8_t *bytes)`)
    return (program: unknown): Buffer => {
      const bytes = [0]
      size(program, bytes)
      const found = Buffer.alloc(Number(bytes[0]))
      get(program, found)
      return found
    }
  }
  const [logOf, binaryOf] = [programOut('ProgramLog'), programOut('CUBIN')]
  const destroyProgram = nvrtc.func('int nvrtcDestroyProgram(void **program)')
  const compiled = async (unit: Unit): Promise<Buffer> => {
    const program = [null]
    createProgram(program, `${prelude()}${sourceOf(unit)}`, `${unit.files.join('-')}.cu`, 0, null, null)
    const options = [`--gpu-architecture=sm_${architecture}`, '--std=c++17']
    const status = await new Promise<number>((resolve, reject) => {
      compileProgram.async(program[0], options.length, options, (error: unknown, result: number) =>
        error ? reject(error) : resolve(result),
      )
    })
    try {
      if (status !== 0) throw new Error(`CUDA kernels do not compile: ${logOf(program[0]).toString('utf8')}`)
      return binaryOf(program[0])
    } finally {
      destroyProgram(program)
    }
  }
  const modules = new Map<string, Promise<unknown>>()
  const ready = new Map<string, unknown>()
  const functions = new Map<string, unknown>()
  const functionOf = ({ unit, kernel, shared = 0 }: Launch): unknown => {
    const key = `${unitKey(unit)} ${kernel}`
    let found = functions.get(key)
    if (found === undefined) {
      const module = ready.get(unitKey(unit))
      if (module === undefined) throw new Error(`the kernels of ${unitKey(unit)} were not compiled`)
      found = getFunction(module, kernel)
      functions.set(key, found)
    }
    if (shared > 48 * 1024) setAttribute(found, MAX_DYNAMIC_SHARED, shared)
    return found
  }

  const block = koffi.alloc('uint8_t', LAYOUT.size)
  const base = koffi.address(block)
  const view = new DataView(koffi.view(block, LAYOUT.size))
  const streamAddress = koffi.address(stream)
  const launch = (one: Launch, on: bigint, overlapping: boolean) => {
    const sizes = [...one.grid, one.threads, 1, 1, one.shared ?? 0]
    for (const [i, size] of sizes.entries()) view.setUint32(4 * i, size, true)
    view.setBigUint64(32, on, true)
    view.setBigUint64(40, base + BigInt(LAYOUT.attribute), true)
    view.setUint32(48, overlapping ? 1 : 0, true)
    view.setInt32(LAYOUT.attribute, PROGRAMMATIC_SERIALIZATION, true)
    view.setInt32(LAYOUT.attribute + 8, 1, true)
    one.arguments.forEach((argument, i) => {
      const place = LAYOUT.values + 8 * i
      view.setBigUint64(LAYOUT.pointers + 8 * i, base + BigInt(place), true)
      if ('pointer' in argument) view.setBigUint64(place, argument.pointer, true)
      else if ('int' in argument) view.setInt32(place, argument.int, true)
      else view.setFloat32(place, argument.float, true)
    })
    launchKernel(base, functionOf(one), base + BigInt(LAYOUT.pointers), null)
  }
  return {
    sizes,
    async compile(units) {
      await Promise.all(
        units.map((unit) => {
          const key = unitKey(unit)
          const known =
            modules.get(key) ??
            compiled(unit).then((binary) => {
              checked('int cuCtxSetCurrent(void *context)')(context)
              ready.set(key, loadModule(binary))
            })
          modules.set(key, known)
          return known
        }),
      )
    },
    record(launches) {
      beginCapture(stream, RELAXED_CAPTURE)
      const graph = [null]
      try {
        for (const one of launches) launch(one, streamAddress, true)
      } finally {
        endCapture(stream, graph)
      }
      const exec = instantiate(graph[0], 0)
      destroyGraph(graph[0])
      return {
        run(times) {
          for (let i = 0; i < times; i++) launchGraph(exec, stream)
        },
        wait: () => synchronize(stream),
        dispose: () => destroyExec(exec),
      }
    },
    launch(launches, stream) {
      for (const one of launches) launch(one, stream, false)
    },
    allocate: (bytes) => BigInt(allocate(bytes) as number | bigint),
    free: (pointer) => freeMemory(pointer),
    write(pointer, data) {
      if (data.byteLength === 0) return
      copyIn(pointer, bytesOf(data), data.byteLength)
      // The last of a copy may still be on its way.
      synchronize(null)
    },
    read(pointer, into) {
      if (into.byteLength > 0) copyOut(bytesOf(into), pointer, into.byteLength)
    },
    clear(parts) {
      for (const [pointer, bytes] of parts) if (bytes > 0) fill(pointer, 0, bytes)
      synchronize(null)
    },
  }
}

/**
 * Kernels on the CPU, for tests where there is no GPU: the source that NVRTC is given is compiled by g++ under `host.h`,
 * which stands for what a device has, and run with its memory guarded. Where a device would read a neighbour's memory,
 * wait for ever or compute nonsense, a launch throws and says which thread did what in which line.
 */
import { execFile, execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const require = createRequire(import.meta.url)

export type KernelArgument = { pointer: bigint } | { int: number } | { float: number } | { long: bigint }
export type TypedArray =
  | Float32Array
  | Float64Array
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | BigUint64Array
  | BigInt64Array

/** An array is the device's memory for the launch, and has afterwards what was written; a bare number is an address. */
export type HostArgument = KernelArgument | TypedArray | bigint | number

export interface LaunchShape {
  grid: readonly [x: number, y?: number, z?: number]
  block: readonly [x: number, y?: number, z?: number]
  /** Bytes of dynamic shared memory. */
  shared?: number
  /**
   * Threads and blocks take their turns from the last to the first. What depends on their order, as where a
   * `__syncthreads()` is missing, comes out otherwise than forwards.
   */
  backwards?: boolean
  /** After so long a launch is taken for endless. */
  seconds?: number
}

/** Memory as a device's: it has an address, and to go beyond it is an error in a launch. Until written, all bits are set. */
export interface HostMemory {
  readonly pointer: bigint
  readonly bytes: Uint8Array<ArrayBuffer>
  /** `bytes` may not be touched any more. */
  free(): void
}

export interface HostKernels {
  readonly names: readonly string[]
  launch(name: string, shape: LaunchShape, args: readonly HostArgument[]): void
  allocate(bytes: number): HostMemory
}

/**
 * Kernels look at the same bytes as one type and another, and wrap integers round, as a device lets them. What the
 * sanitizers find ends in a trap, which needs no library.
 */
const FLAGS = [
  ...['-std=c++17', '-O2', '-g1', '-w', '-mf16c', '-mavx2', '-fPIC', '-shared', '-fvisibility=hidden'],
  ...['-fno-strict-aliasing', '-fwrapv', '-ffp-contract=off', '-U_FORTIFY_SOURCE'],
  ...['-fsanitize=alignment,bounds,shift-exponent', '-fsanitize-undefined-trap-on-error'],
  // Traps that were made one would tell another's line.
  ...['-fno-crossjumping', '-fno-tree-tail-merge'],
]
const SOURCE_NAME = 'kernel.cu'

let compiler: string | undefined
/** Its version, or nothing where kernels cannot be run so: on x86-64 Linux alone, with g++. */
function compilerVersion(): string {
  if (compiler !== undefined) return compiler
  compiler = ''
  if (process.platform === 'linux' && process.arch === 'x64')
    try {
      compiler = execFileSync('g++', ['--version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    } catch {}
  return compiler
}

/** Whether kernels can be compiled and run here. */
export function hasCompiler(): boolean {
  return compilerVersion() !== ''
}

const compiled = new Map<string, Promise<HostKernels>>()

/** Compiles `extern "C" __global__` kernels, or takes the library of an earlier compilation of the same source. */
export function compileForHost(source: string): Promise<HostKernels> {
  let found = compiled.get(source)
  if (found === undefined) {
    found = library(source).then((path) => open(path, kernelsOf(source)))
    compiled.set(source, found)
  }
  return found
}

interface Kernel {
  name: string
  parameters: string[]
  /** The most threads of a block, where its launch bounds say so in digits. */
  threads?: number
}

/** Kernels by their declarations. */
function kernelsOf(source: string): Kernel[] {
  const bare = source.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, ' ')
  const kernels = new Map<string, Kernel>()
  for (const [, head] of bare.matchAll(/extern\s*"C"\s*__global__([^{;]*)/g)) {
    const bounds = /__launch_bounds__\s*\(\s*(\d+)?(?:[^()]|\([^()]*\))*\)/
    const threads = bounds.exec(head)?.[1]
    const declared = /void\s+(\w+)\s*\(([\s\S]*)\)\s*$/.exec(head.replace(bounds, ' '))
    if (declared === null) throw new Error(`a kernel is declared in a way that is not read here:${head}`)
    const [, name, list] = declared
    const parameters = list
      .split(',')
      .map((parameter) => /(\w+)\s*$/.exec(parameter)?.[1] ?? '')
      .filter((parameter) => parameter !== '' && parameter !== 'void')
    kernels.set(name, { name, parameters, ...(threads !== undefined && { threads: Number(threads) }) })
  }
  if (kernels.size === 0) throw new Error('the source has no kernel: extern "C" __global__ void name(...)')
  return [...kernels.values()]
}

/** Where the library of a source lies, which other processes may make at the same time. */
async function library(source: string): Promise<string> {
  const version = compilerVersion()
  if (version === '') throw new Error('kernels run on a CPU by g++, on x86-64 Linux: there is none here')
  const files = ['host.h', 'host.cpp'].map((name) => fileURLToPath(new URL(name, import.meta.url)))
  const [header, implementation] = await Promise.all(files.map((path) => readFile(path, 'utf8')))
  const entries = kernelsOf(source).map(
    ({ name }) =>
      `  {"${name}", emulator::Kernel<decltype(&::${name}), &::${name}>::call, emulator::Kernel<decltype(&::${name}), &::${name}>::signature},`,
  )
  const text = [
    '#include "host.h"',
    `#line 1 "${SOURCE_NAME}"`,
    source,
    '#line 1 "entries"',
    `const emulator::Entry emulator::entries[] = {\n${entries.join('\n')}\n  {}};`,
    '',
  ].join('\n')
  const hash = createHash('sha256')
  for (const part of [version, ...FLAGS, header, implementation, text]) hash.update(`${part.length} ${part}`)
  const folder = join(tmpdir(), `message-board-kernels-${userInfo().uid}`)
  const path = join(folder, `${hash.digest('hex').slice(0, 32)}.so`)
  if (existsSync(path)) return path
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const work = await mkdtemp(join(folder, 'making-'))
  try {
    await Promise.all([
      writeFile(join(work, 'kernels.cpp'), text),
      writeFile(join(work, 'host.h'), header),
      writeFile(join(work, 'host.cpp'), implementation),
    ])
    const compile = ['kernels.cpp', 'host.cpp'].map((file) =>
      run('g++', [...FLAGS.filter((flag) => flag !== '-shared'), '-c', file], { cwd: work }),
    )
    await Promise.all(compile)
    await run('g++', [...FLAGS, 'kernels.o', 'host.o', '-o', 'kernels.so', '-lpthread', '-ldl'], {
      cwd: work,
    })
    await rename(join(work, 'kernels.so'), path)
  } catch (cause) {
    const said = cause instanceof Error && 'stderr' in cause ? String(cause.stderr) : String(cause)
    throw new Error(`g++ does not compile the kernels:\n${said}`, { cause })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
  return path
}

/** What the device allows, that a launch must not ask for more. */
const LIMITS = {
  threads: 1024,
  block: [1024, 1024, 64],
  grid: [2 ** 31 - 1, 65535, 65535],
  shared: 227 << 10,
}
const LETTERS: Readonly<Record<string, string>> = {
  p: 'a pointer',
  i: 'an int',
  u: 'an unsigned',
  f: 'a float',
  l: 'a long long',
}

/** An array's buffer where the kernel sees it. */
interface Lent {
  buffer: Uint8Array
  pointer: bigint
  names: string[]
}

function open(path: string, kernels: readonly Kernel[]): HostKernels {
  const koffi = require('koffi') as typeof import('koffi')
  const native = koffi.load(path)
  const signature = native.func('const char *emulatorSignature(const char *name)')
  const launch = native.func(
    'bool emulatorLaunch(const char *name, void *shape, void *cells, void *text, uint64_t textSize, void *fault)',
  )
  const allocate = native.func('uint64_t emulatorAllocate(uint64_t bytes)')
  const intact = native.func('bool emulatorIntact(uint64_t pointer, uint64_t bytes)')
  const free = native.func('void emulatorFree(uint64_t pointer, uint64_t bytes)')
  const write = native.func('void emulatorWrite(uint64_t to, const void *from, uint64_t bytes)')
  const read = native.func('void emulatorRead(void *to, uint64_t from, uint64_t bytes)')
  const byName = new Map(kernels.map((kernel) => [kernel.name, kernel]))
  const allocated = new Map<bigint, number>()

  const take = (bytes: number): bigint => {
    const pointer = BigInt(allocate(bytes))
    if (pointer === 0n) throw new Error(`there is no memory of ${bytes} bytes`)
    return pointer
  }

  /** What a faulting address lies near to. */
  const near = (address: bigint, lent: readonly Lent[]): string => {
    const places = [
      ...lent.map(({ pointer, buffer, names }) => [pointer, buffer.length, names.join(' and ')] as const),
      ...[...allocated].map(([pointer, bytes]) => [pointer, bytes, `allocated memory`] as const),
    ]
    for (const [pointer, bytes, what] of places) {
      const at = address - pointer
      if (at >= -4096n && at < BigInt(bytes) + 4096n)
        return at < 0n
          ? `${-at} bytes before ${what}`
          : `${at - BigInt(bytes)} bytes past the end of ${what}, which has ${bytes}`
    }
    return `at 0x${address.toString(16)}`
  }

  const line = (place: bigint): string => {
    try {
      const said = execFileSync('addr2line', ['-i', '-e', path, `0x${place.toString(16)}`], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      })
      const found = new RegExp(`${SOURCE_NAME}:(\\d+)`).exec(said)?.[1]
      return found === undefined ? '' : `, in line ${found}`
    } catch {
      return ''
    }
  }

  return {
    names: kernels.map(({ name }) => name),
    allocate(bytes) {
      const pointer = take(bytes)
      allocated.set(pointer, bytes)
      return {
        pointer,
        bytes: new Uint8Array(koffi.view(pointer, bytes)),
        free() {
          if (allocated.delete(pointer)) free(pointer, bytes)
        },
      }
    },
    launch(name, shape, args) {
      const kernel = byName.get(name)
      if (kernel === undefined)
        throw new Error(`there is no kernel ${name}: there is ${[...byName.keys()].join(', ')}`)
      const letters = String(signature(name))
      if (args.length !== letters.length)
        throw new Error(
          `kernel ${name} takes ${letters.length} arguments (${kernel.parameters.join(', ')}), not ${args.length}`,
        )
      const settings = shapeOf(kernel, shape)
      const cells = new DataView(new ArrayBuffer(Math.max(8, 8 * args.length)))
      const lent = new Map<ArrayBufferLike, Lent>()
      try {
        args.forEach((arg, i) => {
          const parameter = kernel.parameters[i]
          const letter = letters[i]
          const wrong = (given: string) =>
            new Error(
              `argument ${i + 1} (${parameter}) of kernel ${name} is ${LETTERS[letter]}, not ${given}`,
            )
          if (ArrayBuffer.isView(arg)) {
            if (letter !== 'p') throw wrong('an array')
            let place = lent.get(arg.buffer)
            if (place === undefined) {
              const buffer = new Uint8Array(arg.buffer)
              place = { buffer, pointer: take(buffer.length), names: [] }
              lent.set(arg.buffer, place)
              write(place.pointer, buffer, buffer.length)
            }
            place.names.push(parameter)
            cells.setBigUint64(8 * i, place.pointer + BigInt(arg.byteOffset), true)
          } else if (typeof arg !== 'object' || 'pointer' in arg) {
            if (letter !== 'p') throw wrong('a pointer')
            cells.setBigUint64(8 * i, BigInt(typeof arg === 'object' ? arg.pointer : arg), true)
          } else if ('int' in arg) {
            const [least, most] = letter === 'u' ? [0, 2 ** 32 - 1] : [-(2 ** 31), 2 ** 31 - 1]
            if (letter !== 'i' && letter !== 'u') throw wrong('an int')
            if (!Number.isInteger(arg.int) || arg.int < least || arg.int > most) throw wrong(String(arg.int))
            cells.setInt32(8 * i, arg.int, true)
          } else if ('float' in arg) {
            if (letter !== 'f') throw wrong('a float')
            cells.setFloat32(8 * i, arg.float, true)
          } else {
            if (letter !== 'l') throw wrong('a long long')
            cells.setBigInt64(8 * i, arg.long, true)
          }
        })
        const text = Buffer.alloc(4096)
        const fault = new BigUint64Array(2)
        const done = launch(name, settings, new Uint8Array(cells.buffer), text, text.length, fault)
        const places = [...lent.values()]
        if (!done) {
          const said = text.toString('utf8', 0, text.indexOf(0))
          const [address, place] = fault
          const where = address === 0n ? '' : `: ${near(address, places)}`
          throw new Error(`${said}${place === 0n ? '' : line(place)}${where}`)
        }
        for (const { pointer, buffer, names } of places) {
          if (!intact(pointer, buffer.length))
            throw new Error(`kernel ${name} writes around the memory of ${names.join(' and ')}`)
          read(buffer, pointer, buffer.length)
        }
        for (const [pointer, bytes] of allocated)
          if (!intact(pointer, bytes))
            throw new Error(`kernel ${name} writes around allocated memory of ${bytes} bytes`)
      } finally {
        for (const { pointer, buffer } of lent.values()) free(pointer, buffer.length)
      }
    },
  }
}

/** A launch's numbers as `emulatorLaunch` takes them, within what a device allows. */
function shapeOf(kernel: Kernel, shape: LaunchShape): Uint32Array {
  const { shared = 0, backwards = false, seconds = 60 } = shape
  const three = ([x, y = 1, z = 1]: LaunchShape['grid']) => [x, y, z]
  const grid = three(shape.grid)
  const block = three(shape.block)
  const refused = (what: string) => new Error(`kernel ${kernel.name} is launched with ${what}`)
  for (const [what, values, limits] of [
    ['a grid', grid, LIMITS.grid],
    ['a block', block, LIMITS.block],
  ] as const)
    if (values.some((value, i) => !Number.isInteger(value) || value < 1 || value > limits[i]))
      throw refused(`${what} of ${values.join(' x ')}`)
  const threads = block[0] * block[1] * block[2]
  const most = kernel.threads ?? LIMITS.threads
  if (threads > most || threads > LIMITS.threads)
    throw refused(`${threads} threads a block: there may be ${Math.min(most, LIMITS.threads)}`)
  if (!Number.isInteger(shared) || shared < 0 || shared > LIMITS.shared)
    throw refused(`${shared} bytes of dynamic shared memory: there may be ${LIMITS.shared}`)
  return Uint32Array.from([...grid, ...block, shared, Number(backwards), Math.max(1, Math.ceil(seconds))])
}

/**
 * What stands on the device of a GPU's lane: programs, each compiled once, and tensors, which are made, copied to and from,
 * and given back.
 */
import { emit } from '../../graph/emit.ts'
import * as ops from '../../graph/ops.ts'
import { input } from '../../graph/tensor.ts'
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
import type { Operator } from '../operators.ts'
import type { Values } from '../session.ts'
import type { GraphRuntime } from '../webgpu/program.ts'
import type { KernelDriver } from './kernels/driver.ts'
import { type KernelOperator, kernelOperator } from './kernels/operators.ts'

export type Tensors = Record<string, NativeTensor>

export interface ProgramOptions {
  /** As `NativeOptions` has it. */
  recorded?: boolean
  /** Where there is a driver. */
  operators?: readonly KernelOperator[]
}

export interface Memory {
  /** The program of that name, compiled when it is first asked for, with the operators that it may use. */
  program(name: string, build: () => Uint8Array, options?: ProgramOptions): Promise<NativeProgram>
  /** Lets go of the programs whose names begin so. */
  forget(prefix: string): Promise<void>
  /** Copies an array to the device, into a tensor that is there or a new one. */
  place(data: HostArray, dims: readonly number[], into?: NativeTensor): Promise<NativeTensor>
  /** Copies an array to the device, into a new tensor of halves: rounded there, to the nearest, ties to even. */
  narrow(data: Float32Array, dims: readonly number[]): Promise<NativeTensor>
  /** Gives back what was held for programs that are gone. */
  trim(): void
  /** Fills tensors with zeros; false where that takes a program. */
  clear(tensors: readonly NativeTensor[]): boolean
  /** Copies a tensor into an array. */
  read<A extends Int32Array | Float32Array>(tensor: NativeTensor, into: A): Promise<A>
}

/** Copies to and from a device's tensors, where something is there that does it with less ado than a program. */
interface Copies {
  write(tensor: NativeTensor, data: HostArray): void
  read(tensor: NativeTensor, into: HostArray): void | Promise<void>
  clear(tensors: readonly NativeTensor[]): void
}

/**
 * `driver`: launches the operators of programs, and copies. `graphs`: runs programs in ONNX Runtime's place, and holds the
 * tensors.
 */
export function openMemory(
  provider: Provider,
  threads: number,
  { driver = null, graphs = null }: { driver?: KernelDriver | null; graphs?: GraphRuntime | null } = {},
): Memory {
  const copies: Copies | null =
    graphs ??
    (driver && {
      write: (tensor, data) => driver.write(tensor.address(), data),
      read: (tensor, into) => driver.read(tensor.address(), into),
      clear: (tensors) =>
        driver.clear(tensors.map(({ address, dtype, dims }) => [address(), bytesOf(dtype, dims)])),
    })
  const programs = new Map<string, Promise<NativeProgram>>()
  const compiled = async (operators: readonly KernelOperator[]): Promise<readonly Operator[]> => {
    if (driver === null || operators.length === 0) return []
    await driver.compile(operators.map(({ unit }) => unit))
    return operators.map((operator) => kernelOperator(operator, driver, provider))
  }
  const memory: Memory = {
    program(name, build, { recorded = false, operators: described = [] } = {}) {
      const known = programs.get(name)
      if (known !== undefined) return known
      const made = (async () => {
        if (graphs !== null) return graphs.program(build())
        const operators = await compiled(described)
        return nativeProgram(build(), { provider, threads, recorded, operators })
      })()
      programs.set(name, made)
      // The next to ask tries again.
      made.catch(() => programs.delete(name))
      return made
    },
    async forget(prefix) {
      for (const name of [...programs.keys()].filter((name) => name.startsWith(prefix))) {
        const gone = programs.get(name)
        programs.delete(name)
        ;(await gone)?.release()
      }
    },
    async place(data, dims, into) {
      const dtype = typeOf(data)
      const to = into ?? (graphs ?? (await copier(dtype, dims.length))).tensor(dtype, dims)
      if (copies !== null) {
        copies.write(to, data)
        return to
      }
      const source = hostTensor(dtype, data, dims)
      try {
        await copy(source, to)
      } catch (error) {
        if (into === undefined) to.dispose()
        throw error
      } finally {
        source.dispose()
      }
      return to
    },
    async narrow(data, dims) {
      const narrowing = await memory.program(`narrow ${dims.length}`, () =>
        emit('narrow', { copy: ops.cast(input('source', axes(dims.length)), 'float16') }),
      )
      // Memory of a program that stays: this one's goes with it.
      const to = (graphs ?? (await copier('float16', dims.length))).tensor('float16', dims)
      const source = hostTensor('float32', data, dims)
      try {
        await once(narrowing.bind([{ source }], { copy: to }))
      } finally {
        source.dispose()
      }
      return to
    },
    trim: () => graphs?.trim(),
    clear(tensors) {
      copies?.clear(tensors)
      return copies !== null
    },
    async read(tensor, into) {
      if (copies !== null) {
        await copies.read(tensor, into)
        return into
      }
      const host = hostTensor(tensor.dtype, into, tensor.dims)
      await copy(tensor, host)
      host.dispose()
      return into
    },
  }
  const copier = (dtype: NativeType, rank: number) =>
    memory.program(`copy ${dtype} ${rank}`, () => emit('copy', { copy: input('source', axes(rank), dtype) }))
  const copy = async (source: NativeTensor, to: NativeTensor) => {
    const copying = await copier(source.dtype, source.dims.length)
    await once(copying.bind([{ source }], { copy: to }))
  }
  return memory
}

const UNIT: Readonly<Record<NativeType, number>> = { float32: 4, float16: 2, int32: 4, int64: 8 }
const bytesOf = (dtype: NativeType, dims: readonly number[]) =>
  dims.reduce((size, n) => size * n, UNIT[dtype])

const axes = (rank: number) => Array.from({ length: rank }, (_, axis) => `d${axis}`)

/** Runs a binding and gives it back. */
export async function once(binding: Binding): Promise<void> {
  try {
    await binding.run()
  } finally {
    binding.dispose()
  }
}

/** What `make` makes of tensors; where one of them does not fit, those before it are given back. */
export async function wholly<T>(
  make: (kept: (tensor: NativeTensor) => NativeTensor) => T | Promise<T>,
): Promise<T> {
  const made: NativeTensor[] = []
  try {
    return await make((tensor) => {
      made.push(tensor)
      return tensor
    })
  } catch (error) {
    for (const tensor of made) tensor.dispose()
    throw error
  }
}

/** Tensors as the outputs that become them. */
export const next = (tensors: Tensors): Tensors =>
  Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [`next ${name}`, tensor]))

export function dispose(tensors: Tensors): void {
  for (const tensor of Object.values(tensors)) tensor.dispose()
}

export const int64 = (values: readonly number[], dims: readonly number[]): NativeTensor =>
  hostTensor('int64', BigInt64Array.from(values, BigInt), dims)

/** 0, 1, 2, ... */
export const upTo = (count: number): Int32Array => Int32Array.from({ length: count }, (_, i) => i)

/** Inputs of a run over the host's memory. */
export function hosted(values: Values): Tensors {
  const tensors = Object.entries(values).map(([name, { data, dims }]): [string, NativeTensor] => {
    const array = data as HostArray
    return [name, hostTensor(typeOf(array), array, dims)]
  })
  return Object.fromEntries(tensors)
}

function typeOf(data: HostArray): NativeType {
  if (data instanceof Int32Array) return 'int32'
  if (data instanceof BigInt64Array) return 'int64'
  return data instanceof Uint16Array ? 'float16' : 'float32'
}

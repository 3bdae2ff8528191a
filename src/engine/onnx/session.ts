/** Runs emitted graphs on the CPU in this thread: inputs are read where they lie. */
import { Tensor } from 'onnxruntime-common'
import type { SessionOptions, Value, Values } from './runnable.ts'
import { loadRuntime, type RuntimeName } from './runtime.ts'

export type { Value, Values } from './runnable.ts'

export interface Program {
  /**
   * Runs once, blocking this thread. Each graph input is taken from the first source that has it. Outputs are written into
   * those of `into` where the runtime can, and into new arrays where not: what it gives says where.
   */
  run(sources: readonly Values[], into?: Values): Promise<Values>
  release(): Promise<void>
}

export interface CompileOptions extends Partial<SessionOptions> {
  /** What computes; the native runtime unless told. */
  runtime?: RuntimeName
}

export async function compile(
  bytes: Uint8Array,
  { runtime = 'native', threads = 1, constants }: CompileOptions = {},
): Promise<Program> {
  const create = await loadRuntime(runtime)
  const session = await create(bytes, { threads, constants })
  return {
    async run(sources, into) {
      const given = session.inputs.map((name) => {
        const source = sources.find((values) => name in values)
        if (source === undefined) throw new Error(`the graph's input ${name} was not given`)
        return source[name]
      })
      return session.run(given, into)
    },
    release: () => session.release(),
  }
}

export function floats(data: Float32Array, dims: readonly number[]): Value {
  return new Tensor('float32', data, dims)
}

export function int32s(data: Int32Array | readonly number[], dims: readonly number[]): Value {
  return new Tensor('int32', data instanceof Int32Array ? data : Int32Array.from(data), dims)
}

/** int64 where an operator wants no less; every value here fits a number. */
export function int64s(data: Int32Array | readonly number[], dims: readonly number[]): Value {
  const wide = new BigInt64Array(data.length)
  for (let i = 0; i < data.length; i++) wide[i] = BigInt(data[i])
  return new Tensor('int64', wide, dims)
}

export function scalar(value: number): Value {
  return new Tensor('float32', Float32Array.of(value), [])
}

export function floatData(value: Value): Float32Array {
  return value.data as Float32Array
}

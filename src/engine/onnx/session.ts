/** Runs emitted graphs with ONNX Runtime in this process. */
import * as ort from 'onnxruntime-node'

export type Value = ort.Tensor
export type Values = Readonly<Record<string, Value>>

export interface Program {
  /** Runs once. Each graph input is taken from the first source that has it; `into` binds outputs to buffers. */
  run(sources: readonly Values[], into?: Values): Promise<Values>
  release(): Promise<void>
}

/**
 * Compiles a graph. It computes on the one thread that calls it: cores are filled by running several batches at the
 * same time (see `lanes.ts`), which for small models beats splitting each operator, and leaves no thread spinning.
 */
export async function compile(bytes: Uint8Array): Promise<Program> {
  const session = await ort.InferenceSession.create(bytes, {
    executionProviders: ['cpu'],
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
    logSeverityLevel: 3,
  })
  const names = session.inputNames
  return {
    async run(sources, into) {
      const feeds: Record<string, Value> = {}
      for (const name of names) {
        const source = sources.find((values) => name in values)
        if (source === undefined) throw new Error(`the graph's input ${name} was not given`)
        feeds[name] = source[name]
      }
      if (into === undefined) return session.run(feeds)
      const fetches: Record<string, Value | null> = Object.fromEntries(
        session.outputNames.map((name) => [name, into[name] ?? null]),
      )
      return session.run(feeds, fetches)
    },
    release: () => session.release(),
  }
}

export function floats(data: Float32Array, dims: readonly number[]): Value {
  return new ort.Tensor('float32', data, dims)
}

export function int32s(data: Int32Array, dims: readonly number[]): Value {
  return new ort.Tensor('int32', data, dims)
}

/** int64 as ONNX wants indices; every value here fits a number. */
export function int64s(data: Int32Array | readonly number[], dims: readonly number[]): Value {
  const wide = new BigInt64Array(data.length)
  for (let i = 0; i < data.length; i++) wide[i] = BigInt(data[i])
  return new ort.Tensor('int64', wide, dims)
}

export function scalar(value: number): Value {
  return new ort.Tensor('float32', Float32Array.of(value), [])
}

export function floatData(value: Value): Float32Array {
  return value.data as Float32Array
}

export const runtimeVersion: string = ort.env.versions.node ?? ort.env.versions.common

export function providers(): { name: string; bundled: boolean }[] {
  return ort.listSupportedBackends().map(({ name, bundled }) => ({ name, bundled }))
}

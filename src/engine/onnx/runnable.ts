/** What a runtime makes of a graph, and the tensors that go in and out. */
import type { Tensor } from 'onnxruntime-common'

export type Value = Tensor
export type Values = Readonly<Record<string, Value>>

/** A graph that a runtime has made ready to run. */
export interface Session {
  readonly inputs: readonly string[]
  /**
   * `given` by the inputs' places. Outputs are written into those of `into` where the runtime can, and into new arrays where
   * not: what it gives says where.
   */
  run(given: readonly Value[], into?: Values): Promise<Values>
  release(): Promise<void>
}

export interface SessionOptions {
  /** Threads inside each operator. */
  threads: number
  /** Bytes of the tensors that the model was emitted with as constants, by name. */
  constants?: ReadonlyMap<string, Uint8Array>
}

export type CreateSession = (bytes: Uint8Array, options: SessionOptions) => Promise<Session>

/** ONNX graphs, as `graph/emit.ts` writes them, read back for our own kernels to run. */
import { f16ToF32 } from '../../checkpoint/halves.ts'
import { onnxModel } from '../../graph/onnx-bytes.ts'
import { type DType, ELEMENT_TYPE } from '../../graph/tensor.ts'

export interface GraphNode {
  op: string
  /** '' for one that is left out, of outputs too. */
  inputs: readonly string[]
  outputs: readonly string[]
  attributes: Readonly<Record<string, number | readonly number[]>>
}

export interface Constant {
  dtype: DType
  dims: readonly number[]
  data: readonly number[]
}

export interface Graph {
  nodes: readonly GraphNode[]
  /** What the caller gives. */
  inputs: readonly string[]
  outputs: readonly string[]
  constants: ReadonlyMap<string, Constant>
}

interface Message {
  graph: {
    node: {
      opType: string
      input: string[]
      output: string[]
      attribute: { name: string; type: number; i?: number; f?: number; ints: number[]; t?: TensorMessage }[]
    }[]
    initializer: (TensorMessage & { name: string })[]
    input: { name: string }[]
    output: { name: string }[]
  }
}

interface TensorMessage {
  dims: number[]
  dataType: number
  rawData?: Uint8Array
}

const FLOAT_ATTRIBUTE = 1

export function readGraph(bytes: Uint8Array): Graph {
  const { graph } = onnxModel(bytes) as unknown as Message
  return {
    nodes: graph.node.map(({ opType, input, output, attribute }) => ({
      op: opType,
      inputs: input,
      outputs: output,
      attributes: Object.fromEntries(
        attribute.map(({ name, type, i = 0, f = 0, ints }) => [
          name,
          type === FLOAT_ATTRIBUTE ? f : ints.length > 0 ? ints : i,
        ]),
      ),
    })),
    inputs: graph.input.map(({ name }) => name),
    outputs: graph.output.map(({ name }) => name),
    constants: new Map(graph.initializer.map((tensor) => [tensor.name, constantOf(tensor)])),
  }
}

const TYPES = Object.fromEntries(Object.entries(ELEMENT_TYPE).map(([dtype, number]) => [number, dtype]))

function constantOf({ dims, dataType, rawData = new Uint8Array() }: TensorMessage): Constant {
  const dtype = TYPES[dataType] as DType
  return { dtype, dims, data: numbers(dtype, new Uint8Array(rawData).buffer) }
}

function numbers(dtype: DType, raw: ArrayBuffer): number[] {
  switch (dtype) {
    case 'int64':
      return [...new BigInt64Array(raw)].map(Number)
    case 'int32':
      return [...new Int32Array(raw)]
    case 'float32':
      return [...new Float32Array(raw)]
    case 'bool':
      return [...new Uint8Array(raw)]
    case 'float16': {
      const halves = new Uint16Array(raw)
      const data = new Float32Array(halves.length)
      f16ToF32(halves, data)
      return [...data]
    }
  }
}

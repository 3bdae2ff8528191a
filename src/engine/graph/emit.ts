/** Writes a graph of symbolic tensors as an ONNX model (IR version 10, opset 21 and ONNX Runtime's own operators). */
import protobuf from 'protobufjs/light.js'
import { type Attribute, type DType, type Tensor, topological } from './tensor.ts'

/** The part of onnx.proto that is written here; field numbers are the standard's. */
const schema = protobuf.Root.fromJSON({
  nested: {
    Model: {
      fields: {
        irVersion: { type: 'int64', id: 1 },
        producerName: { type: 'string', id: 2 },
        graph: { type: 'Graph', id: 7 },
        opsetImport: { rule: 'repeated', type: 'OperatorSet', id: 8 },
      },
    },
    OperatorSet: { fields: { domain: { type: 'string', id: 1 }, version: { type: 'int64', id: 2 } } },
    Graph: {
      fields: {
        node: { rule: 'repeated', type: 'Node', id: 1 },
        name: { type: 'string', id: 2 },
        initializer: { rule: 'repeated', type: 'TensorData', id: 5 },
        input: { rule: 'repeated', type: 'ValueInfo', id: 11 },
        output: { rule: 'repeated', type: 'ValueInfo', id: 12 },
      },
    },
    Node: {
      fields: {
        input: { rule: 'repeated', type: 'string', id: 1 },
        output: { rule: 'repeated', type: 'string', id: 2 },
        name: { type: 'string', id: 3 },
        opType: { type: 'string', id: 4 },
        attribute: { rule: 'repeated', type: 'Attribute', id: 5 },
        domain: { type: 'string', id: 7 },
      },
    },
    Attribute: {
      fields: {
        name: { type: 'string', id: 1 },
        f: { type: 'float', id: 2 },
        i: { type: 'int64', id: 3 },
        s: { type: 'bytes', id: 4 },
        ints: { rule: 'repeated', type: 'int64', id: 8 },
        type: { type: 'int32', id: 20 },
      },
    },
    TensorData: {
      fields: {
        dims: { rule: 'repeated', type: 'int64', id: 1 },
        dataType: { type: 'int32', id: 2 },
        name: { type: 'string', id: 8 },
        rawData: { type: 'bytes', id: 9 },
      },
    },
    ValueInfo: { fields: { name: { type: 'string', id: 1 }, type: { type: 'ValueType', id: 2 } } },
    ValueType: { fields: { tensorType: { type: 'TensorType', id: 1 } } },
    TensorType: { fields: { elemType: { type: 'int32', id: 1 }, shape: { type: 'TensorShape', id: 2 } } },
    TensorShape: { fields: { dim: { rule: 'repeated', type: 'Dimension', id: 1 } } },
    Dimension: { fields: { dimValue: { type: 'int64', id: 1 }, dimParam: { type: 'string', id: 2 } } },
  },
})
const Model = schema.lookupType('Model')

const ELEMENT_TYPE: Record<DType, number> = { float32: 1, int32: 6, int64: 7, bool: 9 }
const ATTRIBUTE_TYPE = { float: 1, int: 2, string: 3, ints: 7 }

/** The model's bytes, with the given outputs; its inputs are those that the outputs depend on. */
export function emit(name: string, outputs: Readonly<Record<string, Tensor>>): Uint8Array {
  const names = new Map<Tensor, string>()
  const inputs: Tensor[] = []
  const initializers: object[] = []
  const inputNames = new Set<string>()

  const nameOf = (tensor: Tensor): string => {
    const known = names.get(tensor)
    if (known !== undefined) return known
    let given = `t${names.size}`
    if (tensor.source.kind === 'input') {
      given = tensor.source.name
      if (inputNames.has(given)) throw new Error(`two inputs are named ${given}`)
      inputNames.add(given)
      inputs.push(tensor)
    } else if (tensor.source.kind === 'constant') {
      initializers.push(tensorData(given, tensor, tensor.source.data))
    }
    names.set(tensor, given)
    return given
  }

  const order = topological(Object.values(outputs))
  // An output that is fed straight through, or asked for twice, needs an operator of its own to carry its name.
  const identities: object[] = []
  for (const [outputName, tensor] of Object.entries(outputs)) {
    if (tensor.source.kind === 'node' && !names.has(tensor)) names.set(tensor, outputName)
    else identities.push({ input: [nameOf(tensor)], output: [outputName], opType: 'Identity' })
  }
  const nodes = order.map((node) => ({
    opType: node.op,
    domain: node.domain,
    input: node.inputs.map((tensor) => (tensor === null ? '' : nameOf(tensor))),
    output: node.outputs.map(nameOf),
    attribute: Object.entries(node.attributes).map(([key, value]) => attribute(key, value)),
  }))
  const message = {
    irVersion: 10,
    producerName: 'message-board',
    opsetImport: [
      { domain: '', version: 21 },
      { domain: 'com.microsoft', version: 1 },
    ],
    graph: {
      name,
      node: [...nodes, ...identities],
      initializer: initializers,
      input: inputs.map((tensor) => valueInfo(nameOf(tensor), tensor)),
      output: Object.entries(outputs).map(([key, tensor]) => valueInfo(key, tensor)),
    },
  }
  return Model.encode(Model.fromObject(message)).finish()
}

function attribute(name: string, value: Attribute): object {
  if (typeof value === 'number') return { name, i: value, type: ATTRIBUTE_TYPE.int }
  if (typeof value === 'string') return { name, s: Buffer.from(value), type: ATTRIBUTE_TYPE.string }
  if ('float' in value) return { name, f: value.float, type: ATTRIBUTE_TYPE.float }
  return { name, ints: value, type: ATTRIBUTE_TYPE.ints }
}

function tensorData(name: string, tensor: Tensor, data: readonly number[]): object {
  const typed =
    tensor.dtype === 'int64'
      ? BigInt64Array.from(data, BigInt)
      : tensor.dtype === 'int32'
        ? Int32Array.from(data)
        : Float32Array.from(data)
  return {
    name,
    dims: tensor.shape,
    dataType: ELEMENT_TYPE[tensor.dtype],
    rawData: new Uint8Array(typed.buffer),
  }
}

function valueInfo(name: string, tensor: Tensor): object {
  const dim = tensor.shape.map((size) => (typeof size === 'number' ? { dimValue: size } : { dimParam: size }))
  return { name, type: { tensorType: { elemType: ELEMENT_TYPE[tensor.dtype], shape: { dim } } } }
}

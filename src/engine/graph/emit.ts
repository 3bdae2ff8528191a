/** Writes a graph of symbolic tensors as an ONNX model (IR version 10, opset 21 and ONNX Runtime's own operators). */

import { utf8 } from '../../bytes.ts'
import { f32ToF16 } from '../checkpoint/halves.ts'
import { onnxBytes } from './onnx-bytes.ts'
import { type Attribute, ELEMENT_TYPE, type Node, type Tensor, topological } from './tensor.ts'

const ATTRIBUTE_TYPE = { float: 1, int: 2, string: 3, tensor: 4, ints: 7 }
const EXTERNAL = 1

export interface EmitOptions {
  /**
   * Inputs that are the model's own instead of the caller's: their data are given when the model is compiled, each as
   * an external file of its name.
   */
  constants?: ReadonlySet<string>
  /** Writes what the WebGPU provider lacks of ONNX Runtime's own operators as ONNX's plain ones. */
  plain?: boolean
  /**
   * Names the sizes of all that is computed: ONNX Runtime looks through all freed memory of unknown size for each new
   * tensor, which makes a deep program's compiling take long (11,000 operators: 45 s, or 7 s with names). A small
   * model's programs on the CPU compile fast in any case, and drafting with them seemed slower.
   */
  namesSizes?: boolean
}

/** The model's bytes, with the given outputs; its inputs are those that the outputs depend on. */
export function emit(
  name: string,
  outputs: Readonly<Record<string, Tensor>>,
  { constants = new Set(), plain = false, namesSizes = false }: EmitOptions = {},
): Uint8Array {
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
      if (constants.has(given)) initializers.push(externalData(given, tensor))
      else inputs.push(tensor)
    } else if (tensor.source.kind === 'constant') {
      initializers.push(tensorData(given, tensor, tensor.source.data))
    }
    names.set(tensor, given)
    return given
  }
  const written = (node: Node): object[] => {
    if (plain && node.op === 'FusedMatMul') return plainProduct(node, nameOf)
    if (plain && node.op === 'SimplifiedLayerNormalization') return plainNorm(node, nameOf, used)
    if (plain && node.op === 'LogSoftmax') return plainLogSoftmax(node, nameOf)
    if (plain && node.op === 'ConstantOfShape') return plainZeros(node, nameOf)
    const attributes = Object.entries(node.attributes).map(([key, value]) => attribute(key, value))
    return [
      {
        opType: node.op,
        domain: node.domain,
        input: node.inputs.map((tensor) => (tensor === null ? '' : nameOf(tensor))),
        output: outputNames(node, nameOf),
        attribute: attributes,
      },
    ]
  }
  const order = topological(Object.values(outputs))
  const used = new Set(order.flatMap(({ inputs }) => inputs))
  // An output that is fed straight through, or asked for twice, needs an operator of its own to carry its name.
  const identities: object[] = []
  for (const [outputName, tensor] of Object.entries(outputs)) {
    if (tensor.source.kind === 'node' && !names.has(tensor)) names.set(tensor, outputName)
    else identities.push(identity(nameOf(tensor), outputName))
  }
  const nodes = order.flatMap(written)
  const results = new Set(Object.keys(outputs))
  const between = order
    .flatMap((node) => node.outputs)
    .filter((tensor) => names.has(tensor) && !results.has(nameOf(tensor)))
  // A runtime refuses a domain that it was not told of.
  const ours = order.some(({ domain }) => domain === 'message-board')
  const message = {
    irVersion: 10,
    producerName: 'message-board',
    opsetImport: [
      { domain: '', version: 21 },
      { domain: 'com.microsoft', version: 1 },
      ...(ours ? [{ domain: 'message-board', version: 1 }] : []),
    ],
    graph: {
      name,
      node: [...nodes, ...identities],
      initializer: initializers,
      input: inputs.map((tensor) => valueInfo(nameOf(tensor), tensor)),
      output: Object.entries(outputs).map(([key, tensor]) => valueInfo(key, tensor)),
      valueInfo: namesSizes ? between.map((tensor) => valueInfo(nameOf(tensor), tensor)) : [],
    },
  }
  return onnxBytes(message)
}

function outputNames({ outputs, outputNumbers }: Node, nameOf: (tensor: Tensor) => string): string[] {
  if (outputNumbers === undefined) return outputs.map(nameOf)
  const names: string[] = Array(Math.max(...outputNumbers) + 1).fill('')
  outputNumbers.forEach((number, i) => {
    names[number] = nameOf(outputs[i])
  })
  return names
}

function identity(from: string, to: string): object {
  return { input: [from], output: [to], opType: 'Identity' }
}

/** The norm without its second output, 1 / root-mean-square, which is worked out apart where it is used. */
function plainNorm(
  node: Node,
  nameOf: (tensor: Tensor) => string,
  used: ReadonlySet<Tensor | null>,
): object[] {
  const [x, weight] = node.inputs as Tensor[]
  const [y, inverse] = node.outputs
  const attributes = Object.entries(node.attributes).map(([key, value]) => attribute(key, value))
  const norm = {
    opType: node.op,
    input: [nameOf(x), nameOf(weight)],
    output: [nameOf(y)],
    attribute: attributes,
  }
  if (!used.has(inverse)) return [norm]
  const name = nameOf(inverse)
  const epsilon = (node.attributes.epsilon as { float: number }).float
  return [
    norm,
    constantNode(`${name} axes`, { ...x, dtype: 'int64', shape: [1] }, [-1]),
    constantNode(`${name} epsilon`, { ...x, shape: [] }, [epsilon]),
    { opType: 'Mul', input: [nameOf(x), nameOf(x)], output: [`${name} squares`] },
    { opType: 'ReduceMean', input: [`${name} squares`, `${name} axes`], output: [`${name} mean`] },
    { opType: 'Add', input: [`${name} mean`, `${name} epsilon`], output: [`${name} sum`] },
    { opType: 'Sqrt', input: [`${name} sum`], output: [`${name} root`] },
    { opType: 'Reciprocal', input: [`${name} root`], output: [name] },
  ]
}

/** x - max - log(sum(exp(x - max))) over the last axis. */
function plainLogSoftmax(node: Node, nameOf: (tensor: Tensor) => string): object[] {
  const x = nameOf(node.inputs[0] as Tensor)
  const y = nameOf(node.outputs[0])
  const keep = [attribute('keepdims', 1)]
  return [
    constantNode(`${y} axes`, { ...node.outputs[0], dtype: 'int64', shape: [1] }, [-1]),
    { opType: 'ReduceMax', input: [x, `${y} axes`], output: [`${y} max`], attribute: keep },
    { opType: 'Sub', input: [x, `${y} max`], output: [`${y} shifted`] },
    { opType: 'Exp', input: [`${y} shifted`], output: [`${y} exp`] },
    { opType: 'ReduceSum', input: [`${y} exp`, `${y} axes`], output: [`${y} sum`], attribute: keep },
    { opType: 'Log', input: [`${y} sum`], output: [`${y} log`] },
    { opType: 'Sub', input: [`${y} shifted`, `${y} log`], output: [y] },
  ]
}

/** One zero, expanded. */
function plainZeros(node: Node, nameOf: (tensor: Tensor) => string): object[] {
  const y = nameOf(node.outputs[0])
  return [
    constantNode(`${y} zero`, { ...node.outputs[0], shape: [1] }, [0]),
    { opType: 'Expand', input: [`${y} zero`, nameOf(node.inputs[0] as Tensor)], output: [y] },
  ]
}

/** scale * op(a) op(b) with a Transpose before the product where one is asked for, and the scale on its own. */
function plainProduct(node: Node, nameOf: (tensor: Tensor) => string): object[] {
  const [a, b] = node.inputs as Tensor[]
  const output = nameOf(node.outputs[0])
  const { transA, transB } = node.attributes
  const nodes: object[] = []
  const transposed = (tensor: Tensor, wanted: Attribute, side: string): string => {
    if (!wanted) return nameOf(tensor)
    const last = tensor.shape.length - 1
    const permutation = tensor.shape.map((_, i) => (i < last - 1 ? i : i === last ? last - 1 : last))
    const name = `${output} ${side}`
    nodes.push({
      opType: 'Transpose',
      input: [nameOf(tensor)],
      output: [name],
      attribute: [attribute('perm', permutation)],
    })
    return name
  }
  const scale = (node.attributes.alpha as { float: number }).float
  const scaled = (of: string, to: string) => {
    const factor = `${output} scale`
    nodes.push(constantNode(factor, { ...a, shape: [] }, [scale]), {
      opType: 'Mul',
      input: [of, factor],
      output: [to],
    })
    return to
  }
  // Of the product and what is multiplied, the smaller one is scaled.
  const [inner, columns] = [a.shape[a.shape.length - 1], node.outputs[0].shape[a.shape.length - 1]]
  const first = !transA && typeof inner === 'number' && typeof columns === 'number' && inner < columns
  const left = transposed(a, transA, 'left')
  const right = transposed(b, transB, 'right')
  if (scale === 1 || first) {
    const input = scale === 1 ? left : scaled(left, `${output} scaled`)
    nodes.push({ opType: 'MatMul', input: [input, right], output: [output] })
  } else {
    nodes.push({ opType: 'MatMul', input: [left, right], output: [`${output} unscaled`] })
    scaled(`${output} unscaled`, output)
  }
  return nodes
}

function attribute(name: string, value: Attribute): object {
  if (typeof value === 'number') return { name, i: value, type: ATTRIBUTE_TYPE.int }
  if (typeof value === 'string') return { name, s: utf8(value), type: ATTRIBUTE_TYPE.string }
  if ('float' in value) return { name, f: value.float, type: ATTRIBUTE_TYPE.float }
  return { name, ints: value, type: ATTRIBUTE_TYPE.ints }
}

function constantNode(output: string, tensor: Tensor, data: readonly number[]): object {
  const value = { name: 'value', t: tensorData('', tensor, data), type: ATTRIBUTE_TYPE.tensor }
  return { opType: 'Constant', output: [output], attribute: [value] }
}

function tensorData(name: string, tensor: Tensor, data: readonly number[]): object {
  return {
    name,
    dims: tensor.shape,
    dataType: ELEMENT_TYPE[tensor.dtype],
    rawData: new Uint8Array(typedArray(tensor, data).buffer),
  }
}

function typedArray({ dtype }: Tensor, data: readonly number[]) {
  switch (dtype) {
    case 'int64':
      return BigInt64Array.from(data, BigInt)
    case 'int32':
      return Int32Array.from(data)
    case 'float16': {
      const halves = new Uint16Array(data.length)
      f32ToF16(Float32Array.from(data), halves)
      return halves
    }
    case 'bool':
      return Uint8Array.from(data)
    case 'float32':
      return Float32Array.from(data)
  }
}

/** The whole of a file that is named as the tensor. */
function externalData(name: string, tensor: Tensor): object {
  return {
    name,
    dims: tensor.shape,
    dataType: ELEMENT_TYPE[tensor.dtype],
    dataLocation: EXTERNAL,
    externalData: [{ key: 'location', value: name }],
  }
}

function valueInfo(name: string, tensor: Tensor): object {
  const dim = tensor.shape.map((size) => (typeof size === 'number' ? { dimValue: size } : { dimParam: size }))
  return { name, type: { tensorType: { elemType: ELEMENT_TYPE[tensor.dtype], shape: { dim } } } }
}

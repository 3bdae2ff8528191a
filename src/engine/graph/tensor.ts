/**
 * Symbolic tensors: a program is a graph of these, written once, differentiated by `gradients.ts` and emitted as
 * ONNX by `emit.ts`. Nothing here computes.
 */

/** A size, or the name of one known only at run time; equal names are equal sizes. */
export type Dim = number | string
export type DType = 'float32' | 'float16' | 'int32' | 'int64' | 'bool'
/** ONNX's numbers for the types. */
export const ELEMENT_TYPE: Readonly<Record<DType, number>> = {
  float32: 1,
  int32: 6,
  int64: 7,
  bool: 9,
  float16: 10,
}

export type Attribute = number | string | readonly number[] | { float: number }
export type Shape = readonly Dim[]

export interface Tensor {
  readonly shape: Shape
  readonly dtype: DType
  readonly source: Source
}

/** Where a tensor comes from: fed by the caller, fixed in the graph, or an output of an operator. */
export type Source =
  | { kind: 'input'; name: string }
  | { kind: 'constant'; data: readonly number[] }
  | { kind: 'node'; node: Node; output: number }

export interface Node {
  op: string
  /** '' for ONNX's own operators, 'com.microsoft' for ONNX Runtime's, 'message-board' for ours (`onnx/operators.ts`). */
  domain: '' | 'com.microsoft' | 'message-board'
  /** null stands for an optional input left out. */
  inputs: readonly (Tensor | null)[]
  outputs: Tensor[]
  /** The operator's own numbers of these outputs, where others before them are left out. */
  outputNumbers?: readonly number[]
  attributes: Readonly<Record<string, Attribute>>
  /** How its first output is differentiated, instead of through the operators before it. */
  whole?: Whole
}

/**
 * Several operators as one: what they are made from, and the gradients of that (null: none flows), given that of the
 * result, which is the operator's first output, and those of its other outputs where there are any.
 */
export interface Whole {
  operands: readonly Tensor[]
  rule: (gradient: Tensor, ...others: (Tensor | undefined)[]) => (Tensor | null)[]
}

export function input(name: string, shape: Shape, dtype: DType = 'float32'): Tensor {
  return { shape, dtype, source: { kind: 'input', name } }
}

/** A small constant stored in the graph itself. */
export function constant(data: readonly number[] | number, dtype: DType = 'float32'): Tensor {
  return typeof data === 'number'
    ? { shape: [], dtype, source: { kind: 'constant', data: [data] } }
    : { shape: [data.length], dtype, source: { kind: 'constant', data } }
}

/** Adds an operator; `outputs` gives the shape and type of each of its results. */
export function apply(
  op: string,
  inputs: readonly (Tensor | null)[],
  outputs: readonly { shape: Shape; dtype?: DType }[],
  attributes: Readonly<Record<string, Attribute>> = {},
  domain: Node['domain'] = '',
  outputNumbers?: readonly number[],
): Tensor[] {
  const node: Node = { op, domain, inputs, outputs: [], outputNumbers, attributes }
  node.outputs = outputs.map(({ shape, dtype = 'float32' }, output) => ({
    shape,
    dtype,
    source: { kind: 'node', node, output },
  }))
  return node.outputs
}

/** The same tensor, differentiated with respect to `operands` by `rule`. It must be the first output of an operator. */
export function differentiatedAs(output: Tensor, operands: readonly Tensor[], rule: Whole['rule']): Tensor {
  const { source } = output
  if (source.kind !== 'node' || source.output !== 0 || source.node.whole !== undefined)
    throw new Error('only the first output of an operator of its own can have a rule of differentiation')
  source.node.whole = { operands, rule }
  return output
}

/** The operators that the given tensors depend on, each after those it depends on. */
export function topological(targets: readonly Tensor[]): Node[] {
  const order: Node[] = []
  const seen = new Set<Node>()
  // Iterative: a deep model's graph would overflow the call stack.
  const stack: { node: Node; next: number }[] = []
  const visit = (tensor: Tensor | null) => {
    if (tensor?.source.kind !== 'node' || seen.has(tensor.source.node)) return
    seen.add(tensor.source.node)
    stack.push({ node: tensor.source.node, next: 0 })
  }
  for (const target of targets) {
    visit(target)
    while (stack.length > 0) {
      const top = stack[stack.length - 1]
      const { inputs } = top.node
      if (top.next < inputs.length) visit(inputs[top.next++])
      else order.push((stack.pop() as { node: Node }).node)
    }
  }
  return order
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((dim, i) => dim === b[i])
}

export function showShape(shape: Shape): string {
  return `[${shape.join(', ')}]`
}

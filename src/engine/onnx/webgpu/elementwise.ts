/** Operators that compute each element by itself, and those that add elements up. */
import type { DType } from '../../graph/tensor.ts'
import type { Dispatch, Value } from './gpu.ts'
import { BUILTINS, binding, GROUP, gridOf, reader, SUM, sizeOf, THREADS, uniform, WORD } from './wgsl.ts'

export interface Held {
  buffer: GPUBuffer
  dtype: DType
  dims: readonly number[]
}

/** What an element is computed from: a tensor that is broadcast to the result's shape, or a number. */
export type Operand = Held | number

/**
 * Where of an operand element `e` is computed from: itself, the only one, by its place in rows of `n` (so many last axes
 * alone), or by its row (so many first axes alone).
 */
type Mode = 'same' | 'only' | 'row' | 'column'

function modeOf(dims: readonly number[], result: readonly number[]): { mode: Mode; n: number } {
  if (sizeOf(dims) === sizeOf(result)) return { mode: 'same', n: 1 }
  if (sizeOf(dims) === 1) return { mode: 'only', n: 1 }
  const padded = [...Array<number>(result.length - dims.length).fill(1), ...dims]
  const first = padded.findIndex((dim) => dim !== 1)
  if (padded.slice(first).every((dim, i) => dim === result[first + i]))
    return { mode: 'row', n: sizeOf(dims) }
  const last = padded.findLastIndex((dim) => dim !== 1)
  if (padded.slice(0, last + 1).every((dim, i) => dim === result[i]))
    return { mode: 'column', n: sizeOf(result.slice(last + 1)) }
  throw new Error(`[${dims.join(', ')}] is not broadcast to [${result.join(', ')}] on WebGPU`)
}

const INDEX: Readonly<Record<Mode, (n: string) => string>> = {
  same: () => 'e',
  only: () => '0u',
  row: (n) => `e % u32(${n})`,
  column: (n) => `e / u32(${n})`,
}

/** Elements as single precision has them; a condition is 0 or 1. `formula` is given the operands' names. */
export function elementwise(
  formula: (...operands: string[]) => string,
  operands: readonly Operand[],
  out: Held,
): Dispatch {
  const tensors = operands.filter((operand) => typeof operand !== 'number')
  // One that is changed in place is bound once.
  const others = tensors.filter(({ buffer }) => buffer !== out.buffer)
  const bound = [...new Map(others.map((tensor) => [tensor.buffer, tensor])).values()]
  const nameOf = ({ buffer }: Held) =>
    buffer === out.buffer ? 'result' : `t${bound.findIndex((one) => one.buffer === buffer)}`
  const members = ['count: u32']
  const values: Value[] = [{ int: sizeOf(out.dims) }]
  const reads = operands.map((operand, i) => {
    if (typeof operand === 'number') {
      members.push(`number${i}: f32`)
      values.push({ float: operand })
      return `values.number${i}`
    }
    const { mode, n } = modeOf(operand.dims, out.dims)
    if (mode === 'row' || mode === 'column') {
      members.push(`n${i}: u32`)
      values.push({ int: n })
    }
    return `read_${nameOf(operand)}(${INDEX[mode](`values.n${i}`)})`
  })
  const readers = new Map(tensors.map((tensor) => [nameOf(tensor), reader(nameOf(tensor), tensor.dtype)]))
  const put =
    out.dtype === 'float16'
      ? 'result[pair] = pack2x16float(vec2f(compute(2u * pair), compute(2u * pair + 1u)));'
      : `result[2u * pair] = ${WORD[out.dtype]}(compute(2u * pair));
  if (2u * pair + 1u < values.count) { result[2u * pair + 1u] = ${WORD[out.dtype]}(compute(2u * pair + 1u)); }`
  const code = `${bound.map(({ dtype }, i) => binding(i, `t${i}`, WORD[dtype])).join('\n')}
${binding(bound.length, 'result', WORD[out.dtype], 'read_write')}
${uniform(bound.length + 1, members.join(', '))}
${[...readers.values()].join('\n')}
fn compute(e: u32) -> f32 { return ${formula(...reads)}; }
@compute @workgroup_size(${THREADS})
fn main(${BUILTINS}) {
  ${GROUP}
  let pair = group * ${THREADS}u + thread;
  if (2u * pair >= values.count) { return; }
  ${put}
}`
  return {
    code,
    buffers: [...bound.map(({ buffer }) => buffer), out.buffer],
    values,
    grid: gridOf(Math.ceil(Math.ceil(sizeOf(out.dims) / 2) / THREADS)),
  }
}

/** The sum of each row of `n`, or their mean, in single precision: a workgroup a row. */
export function reduceRows(x: Held, n: number, mean: boolean, out: Held): Dispatch {
  return {
    code: `${binding(0, 'x', WORD[x.dtype])}
${binding(1, 'result', 'f32', 'read_write')}
${uniform(2, 'rows: u32, n: u32')}
${reader('x', x.dtype)}
${SUM}
@compute @workgroup_size(${THREADS})
fn main(${BUILTINS}) {
  ${GROUP}
  if (group >= values.rows) { return; }
  var sum = 0.0;
  for (var i = thread; i < values.n; i += ${THREADS}u) { sum += read_x(group * values.n + i); }
  sum = sum_of(sum, thread);
  if (thread == 0u) { result[group] = ${mean ? 'sum / f32(values.n)' : 'sum'}; }
}`,
    buffers: [x.buffer, out.buffer],
    values: [{ int: sizeOf(x.dims) / n }, { int: n }],
    grid: gridOf(sizeOf(x.dims) / n),
  }
}

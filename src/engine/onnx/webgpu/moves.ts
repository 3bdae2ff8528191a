/** Operators that put elements elsewhere: rows taken and added up, columns, heads, and rotary positions. */
import type { Held } from './elementwise.ts'
import type { Dispatch } from './gpu.ts'
import { BUILTINS, binding, bytesOf, GROUP, gridOf, sizeOf, THREADS, uniform } from './wgsl.ts'

/** Words to an inner part of a tensor: what it is made of must not begin in the midst of one. */
function wordsOf({ dtype }: Held, dims: readonly number[]): number {
  if (dtype === 'float16' && sizeOf(dims) % 2 !== 0)
    throw new Error(`rows of ${sizeOf(dims)} halves are not moved on WebGPU: an odd number`)
  return bytesOf(dtype, dims) / 4
}

/** Moves words: `place` gives the source's of the result's word `at`. */
function move(
  source: Held,
  out: Held,
  words: number,
  { place, members, values }: { place: string; members: string; values: readonly number[] },
  more: readonly { name: string; buffer: GPUBuffer }[] = [],
): Dispatch {
  return {
    code: `${binding(0, 'source', 'u32')}
${more.map(({ name }, i) => binding(1 + i, name, 'i32')).join('\n')}
${binding(1 + more.length, 'result', 'u32', 'read_write')}
${uniform(2 + more.length, `words: u32, ${members}`)}
@compute @workgroup_size(${THREADS})
fn main(${BUILTINS}) {
  ${GROUP}
  let at = group * ${THREADS}u + thread;
  if (at >= values.words) { return; }
  result[at] = source[${place}];
}`,
    buffers: [source.buffer, ...more.map(({ buffer }) => buffer), out.buffer],
    values: [{ int: words }, ...values.map((int) => ({ int }))],
    grid: gridOf(Math.ceil(words / THREADS)),
  }
}

/** Rows of a table [rows, ...] by their numbers. */
export function gatherRows(table: Held, indices: Held, out: Held): Dispatch {
  const row = wordsOf(table, table.dims.slice(1))
  return move(
    table,
    out,
    row * sizeOf(indices.dims),
    {
      place: 'u32(indices[at / values.row]) * values.row + at % values.row',
      members: 'row: u32',
      values: [row],
    },
    [{ name: 'indices', buffer: indices.buffer }],
  )
}

/** Columns from `first` on, as many as the result has, of rows. */
export function columns(source: Held, first: number, out: Held): Dispatch {
  const last = (dims: readonly number[]) => dims.slice(-1)
  const [wide, narrow, skipped] = [
    wordsOf(source, last(source.dims)),
    wordsOf(out, last(out.dims)),
    wordsOf(source, [first]),
  ]
  return move(source, out, (narrow * sizeOf(out.dims)) / out.dims[out.dims.length - 1], {
    place: 'at / values.narrow * values.wide + values.skipped + at % values.narrow',
    members: 'wide: u32, narrow: u32, skipped: u32',
    values: [wide, narrow, skipped],
  })
}

/** [a, b, c, d] as [a, c, b, d]. */
export function swapped(source: Held, out: Held): Dispatch {
  const [, b, c, d] = source.dims
  const row = wordsOf(source, [d])
  return move(source, out, (row * sizeOf(source.dims)) / d, {
    place:
      '((at / (values.row * values.b * values.c) * values.b + at / values.row % values.b) * values.c + at / (values.row * values.b) % values.c) * values.row + at % values.row',
    members: 'row: u32, b: u32, c: u32',
    values: [row, b, c],
  })
}

/**
 * Rotary positions (Su et al. 2021, halves rotated as in Llama) of halves x [batch, time, heads * headDim]; tables
 * [context, headDim / 2] in halves.
 */
export function rotary(x: Held, positions: Held, cos: Held, sin: Held, out: Held): Dispatch {
  const halfDim = cos.dims[1]
  if (halfDim % 2 !== 0) throw new Error(`heads of ${2 * halfDim} elements are not turned on WebGPU`)
  const width = x.dims[x.dims.length - 1]
  const pairs = sizeOf(x.dims) / 4
  return {
    code: `${binding(0, 'x', 'u32')}
${binding(1, 'positions', 'i32')}
${['cosines', 'sines'].map((name, i) => binding(2 + i, name, 'u32')).join('\n')}
${binding(4, 'result', 'u32', 'read_write')}
${uniform(5, 'pairs: u32, row: u32, quarter: u32')}
@compute @workgroup_size(${THREADS})
fn main(${BUILTINS}) {
  ${GROUP}
  let at = group * ${THREADS}u + thread;
  if (at >= values.pairs) { return; }
  // Two elements of a head's first part and two of its second.
  let head = at / values.quarter;
  let within = at % values.quarter;
  let first = head * 2u * values.quarter + within;
  let angle = u32(positions[at / values.row]) * values.quarter + within;
  let cosine = unpack2x16float(cosines[angle]);
  let sine = unpack2x16float(sines[angle]);
  let a = unpack2x16float(x[first]);
  let b = unpack2x16float(x[first + values.quarter]);
  result[first] = pack2x16float(a * cosine - b * sine);
  result[first + values.quarter] = pack2x16float(b * cosine + a * sine);
}`,
    buffers: [x, positions, cos, sin, out].map(({ buffer }) => buffer),
    values: [{ int: pairs }, { int: width / 4 }, { int: halfDim / 2 }],
    grid: gridOf(Math.ceil(pairs / THREADS)),
  }
}

/** Which updates each row of a table of so many gets: `starts` [rows + 1] into `items`. */
export function rowsByTarget(rows: number, indices: Int32Array): { starts: Int32Array; items: Int32Array } {
  const starts = new Int32Array(rows + 1)
  for (const index of indices) starts[index + 1]++
  for (let row = 0; row < rows; row++) starts[row + 1] += starts[row]
  const next = starts.slice()
  const items = new Int32Array(indices.length)
  indices.forEach((index, i) => {
    items[next[index]++] = i
  })
  return { starts, items }
}

/** The sums of updates [count, n] that each row of the result gets, in their order, in single precision. */
export function scatterRows(updates: Held, starts: GPUBuffer, items: GPUBuffer, out: Held): Dispatch {
  const [, n] = out.dims
  const count = sizeOf(out.dims)
  return {
    code: `${binding(0, 'updates', 'f32')}
${binding(1, 'starts', 'i32')}
${binding(2, 'items', 'i32')}
${binding(3, 'result', 'f32', 'read_write')}
${uniform(4, 'count: u32, n: u32')}
@compute @workgroup_size(${THREADS})
fn main(${BUILTINS}) {
  ${GROUP}
  let at = group * ${THREADS}u + thread;
  if (at >= values.count) { return; }
  let row = at / values.n;
  var sum = 0.0;
  for (var i = starts[row]; i < starts[row + 1u]; i++) { sum += updates[u32(items[i]) * values.n + at % values.n]; }
  result[at] = sum;
}`,
    buffers: [updates.buffer, starts, items, out.buffer],
    values: [{ int: count }, { int: n }],
    grid: gridOf(Math.ceil(count / THREADS)),
  }
}

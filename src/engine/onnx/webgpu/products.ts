/// <reference types="@webgpu/types" />
/**
 * Products of matrices of halves, added up in single precision: any product, and those of few rows that stream a weight, as
 * steps of sampling have them. Both are one kernel: a workgroup takes a tile of the results, brings the tiles of both
 * operands that it takes into workgroup memory, the next while it multiplies the last, and writes whole words.
 */
import type { Dispatch, Grid, Traits, Value } from './gpu.ts'

export interface Sizes {
  m: number
  n: number
  k: number
  transposeA?: boolean
  transposeB?: boolean
}

/**
 * out [m, n] = scale * op(a) op(b) + add. op(a) is [m, k]: a is stored so, or [k, m] where transposed; op(b) is [k, n]: b is
 * stored so, or [n, k] where transposed. Both are halves. A stored row of halves must begin at a word: its length is even.
 */
export interface Product extends Sizes {
  a: GPUBuffer
  b: GPUBuffer
  /** 1 where it is not given. */
  scale?: number
  out: GPUBuffer
  outType: OutType
  /** Halves, added before the sum is rounded: a matrix [m, n], or a row [n] to each row. */
  add?: { buffer: GPUBuffer; kind: Added }
  /** Of `scratchBytes`, where that is not 0. */
  scratch?: GPUBuffer
}

export type OutType = 'float32' | 'float16'
export type Added = 'matrix' | 'row'

export interface Tile {
  /** Of a workgroup: results, and how far along the inner axis at a time. */
  m: number
  n: number
  k: number
  /** Results of a subgroup; of a thread where there are no products of matrices. */
  ownM: number
  ownN: number
}

/** How a product is cut: tiles of results, and parts of the inner axis that are added up afterwards. */
export interface Cut {
  tile: Tile
  parts: number
}

type Lane = 'matrices' | 'plain'
const laneOf = ({ matrices }: Traits): Lane => (matrices ? 'matrices' : 'plain')

/** Few results of one side leave less of a square tile unused, and more workgroups. */
export const TILES: Record<Lane, Record<'large' | 'small' | 'tall' | 'broad', Tile>> = {
  matrices: {
    large: { m: 128, n: 128, k: 32, ownM: 64, ownN: 64 },
    small: { m: 64, n: 64, k: 32, ownM: 32, ownN: 32 },
    tall: { m: 128, n: 32, k: 64, ownM: 32, ownN: 32 },
    broad: { m: 32, n: 128, k: 64, ownM: 32, ownN: 32 },
  },
  plain: {
    large: { m: 128, n: 128, k: 16, ownM: 8, ownN: 8 },
    small: { m: 64, n: 64, k: 32, ownM: 4, ownN: 4 },
    tall: { m: 128, n: 32, k: 16, ownM: 4, ownN: 4 },
    broad: { m: 32, n: 128, k: 16, ownM: 4, ownN: 4 },
  },
}
const THIN = 32

/** Workgroups that leave no multiprocessor without work, and those that also hide each other's waiting. */
const FEW_WORKGROUPS = 128
const ENOUGH_WORKGROUPS = 512
/** Less of the inner axis is not worth a part of its own. */
const LEAST_PART = 256
const MOST_STREAMED_PARTS = 16

const tilesOf = (m: number, n: number, tile: Tile) => Math.ceil(m / tile.m) * Math.ceil(n / tile.n)

export function cutOf({ m, n, k }: Sizes, traits: Traits): Cut {
  const { large, small, tall, broad } = TILES[laneOf(traits)]
  const square = tilesOf(m, n, large) < FEW_WORKGROUPS ? small : large
  const tile = n <= THIN ? tall : m <= THIN ? broad : square
  const tiles = tilesOf(m, n, tile)
  const parts = Math.min(Math.ceil(ENOUGH_WORKGROUPS / tiles), Math.floor(k / LEAST_PART))
  return { tile, parts: tiles < FEW_WORKGROUPS ? Math.max(1, parts) : 1 }
}

/** What a product takes for parts of the inner axis before they are added up. */
export function scratchBytes(sizes: Sizes, traits: Traits, { parts } = cutOf(sizes, traits)): number {
  return parts > 1 ? 4 * parts * sizes.m * sizes.n : 0
}

export function product(product: Product, traits: Traits, cut = cutOf(product, traits)): Dispatch[] {
  const { m, n, k, a, b, transposeA = false, transposeB = false, scale = 1, out, outType, add } = product
  const { tile, parts } = cut
  const rows = [transposeA ? m : k, transposeB ? k : n]
  if ([...rows, n].some((length) => length % 2 !== 0))
    throw new Error(`a product of ${m} x ${k} by ${k} x ${n} has rows of halves that do not begin at a word`)
  const lane = laneOf(traits)
  const wide = rows.every((length) => length % 8 === 0)
  const operands = { lane, tile, wide, transposeA, transposeB }
  const result: Result = { outType, added: add?.kind }
  const addends = add ? [add.buffer] : []
  if (parts === 1) {
    const code = productCode({ ...operands, ...result })
    return [productDispatch(code, [a, b, ...addends, out], { m, n, k }, cut, scale)]
  }
  const { scratch } = product
  if (scratch === undefined) throw new Error(`a product of ${m} x ${k} by ${k} x ${n} needs scratch memory`)
  return [
    productDispatch(productCode({ ...operands, outType: 'float32' }), [a, b, scratch], { m, n, k }, cut),
    {
      code: sumCode(result),
      buffers: [scratch, ...addends, out],
      values: [{ int: m }, { int: n }, { int: parts }, { float: scale }],
      grid: [Math.ceil((m * n) / 2 / SUM_THREADS), 1, 1],
    },
  ]
}

/** x [rows, inputs] by the rows of a weight [outputs, inputs], all of halves. */
export interface Streamed {
  rows: number
  inputs: number
  outputs: number
  /** Parts of the inner axis, which whoever reads them adds up: see `partsOf`. */
  parts: number
  x: GPUBuffer
  weight: GPUBuffer
  /** Single precision, [parts, rows, outputs]. */
  out: GPUBuffer
}

/** Rows of a workgroup: all of them, as long as its sums have registers. */
const MOST_ROWS = 128
const ROWS = 16

const streamedRows = (rows: number) => Math.min(ROWS * Math.ceil(rows / ROWS), MOST_ROWS)

export function streamedTile(rows: number, traits: Traits): Tile {
  const m = streamedRows(rows)
  if (traits.matrices) return { m, n: 64, k: 64, ownM: m, ownN: 16 }
  return m <= 64 ? { m, n: 64, k: 32, ownM: 4, ownN: 4 } : { m, n: 64, k: 16, ownM: 8, ownN: 4 }
}

/** Of its columns one half is of the gate and the other of what it is for. */
export function gatedTile(rows: number, traits: Traits): Tile {
  const m = streamedRows(rows)
  if (traits.matrices) return { m, n: 64, k: 64, ownM: m, ownN: 16 }
  return { m, n: 64, k: m <= 64 ? 32 : 16, ownM: 4, ownN: 8 }
}

export function partsOf(
  rows: number,
  inputs: number,
  outputs: number,
  traits: Traits,
  tile = streamedTile(rows, traits),
): number {
  const wanted = Math.ceil(ENOUGH_WORKGROUPS / tilesOf(rows, outputs, tile))
  return Math.max(1, Math.min(wanted, Math.floor(inputs / (2 * tile.k)), MOST_STREAMED_PARTS))
}

export function streamed(
  { rows, inputs, outputs, parts, x, weight, out }: Streamed,
  traits: Traits,
  tile = streamedTile(rows, traits),
): Dispatch {
  const code = productCode({ ...streaming(inputs, outputs, traits), tile, outType: 'float32' })
  return productDispatch(code, [x, weight, out], { m: rows, n: outputs, k: inputs }, { tile, parts })
}

export interface Gated {
  rows: number
  inputs: number
  outputs: number
  gate: GPUBuffer
  up: GPUBuffer
  x: GPUBuffer
  /** Halves, [rows, outputs]: silu(x gate^T) * (x up^T). */
  out: GPUBuffer
}

export function gated(
  { rows, inputs, outputs, gate, up, x, out }: Gated,
  traits: Traits,
  tile = gatedTile(rows, traits),
): Dispatch {
  const code = productCode({ ...streaming(inputs, outputs, traits), tile, outType: 'float16', gated: true })
  const halved = { tile: { ...tile, n: tile.n / 2 }, parts: 1 }
  return productDispatch(code, [x, gate, up, out], { m: rows, n: outputs, k: inputs }, halved)
}

function streaming(inputs: number, outputs: number, traits: Traits) {
  if (inputs % 2 !== 0 || outputs % 2 !== 0)
    throw new Error(`a weight of ${outputs} x ${inputs} has rows of halves that do not begin at a word`)
  return { lane: laneOf(traits), wide: inputs % 8 === 0, transposeA: false, transposeB: true }
}

function productDispatch(
  code: string,
  buffers: readonly GPUBuffer[],
  { m, n, k }: Sizes,
  { tile, parts }: Cut,
  scale = 1,
): Dispatch {
  const values: Value[] = [{ int: m }, { int: n }, { int: k }, { float: scale }]
  const grid: Grid = [Math.ceil(n / tile.n), Math.ceil(m / tile.m), parts]
  return { code, buffers, values, grid }
}

/** What is written, the same by whatever adds up. */
interface Result {
  outType: OutType
  added?: Added
}

interface Kernel extends Result {
  lane: Lane
  tile: Tile
  /** Rows of both operands are words of eight halves; else of two. */
  wide: boolean
  transposeA: boolean
  transposeB: boolean
  gated?: boolean
}

const lines = (count: number, line: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => line(i)).join('\n')

/** put() of two neighbouring results, and the bindings that it needs behind those that are there. */
function resultText({ outType, added }: Result, bindings: number): string {
  const single = outType === 'float32'
  const addend = added === 'matrix' ? 'add[at]' : 'add[column / 2u]'
  const binding = (name: string, access: string, type: string) =>
    `@group(0) @binding(${bindings++}) var<${access}> ${name}: ${type};`
  return `${added ? binding('add', 'storage, read', 'array<u32>') : ''}
${binding('out', 'storage, read_write', single ? 'array<vec2f>' : 'array<u32>')}
${binding('p', 'uniform', 'Values')}
fn put(part: u32, row: u32, column: u32, sum: vec2f) {
  if (row >= p.m || column >= p.n) { return; }
  let at = (part * p.m + row) * (p.n / 2u) + column / 2u;
  let result = p.scale * sum${added ? ` + unpack2x16float(${addend})` : ''};
  out[at] = ${single ? 'result' : 'pack2x16float(result)'};
}`
}

const SUM_THREADS = 256

function sumCode(result: Result): string {
  return `struct Values { m: u32, n: u32, parts: u32, scale: f32 }
@group(0) @binding(0) var<storage, read> sums: array<vec2f>;
${resultText(result, 1)}
@compute @workgroup_size(${SUM_THREADS})
fn main(@builtin(global_invocation_id) id: vec3u) {
  let pairs = p.n / 2u;
  if (id.x >= p.m * pairs) { return; }
  var sum = vec2f();
  for (var part = 0u; part < p.parts; part++) { sum += sums[part * p.m * pairs + id.x]; }
  put(0u, id.x / pairs, id.x % pairs * 2u, sum);
}`
}

/** A matrix whose tiles come into workgroup memory. */
interface Operand {
  name: string
  /** The workgroup's array, how many rows or columns of results it has a place for, and which of them are this matrix's. */
  shared: string
  size: number
  start: number
  count: number
  /** The first of them in the matrix. */
  origin: 'row0' | 'column0'
  /** A stored row runs along the inner axis, or else along the outer one, of this length. */
  inner: boolean
  length: 'm' | 'n' | 'k'
}

/**
 * What a kind of multiplying makes of operands: what a thread fetches at once, so many words of so many rows, and how it
 * keeps them.
 */
interface Multiplying {
  threads: number
  rows: number
  words: number
  /** Before main; of it the parameter, the sums, what one turn multiplies, and what is written at the end. */
  head: string
  declarations: string
  keep(operand: Operand): string
  parameter: string
  sums: string
  multiply: string
  write: string
}

/** Neighbouring workgroups take so many tiles of rows by a square's columns: what they read of both is still in the cache. */
const BAND = 8

function productCode(kernel: Kernel): string {
  const { lane, tile, wide, transposeA, transposeB, gated = false } = kernel
  const a: Operand = {
    name: 'a',
    shared: 'tile_a',
    size: tile.m,
    start: 0,
    count: tile.m,
    origin: 'row0',
    inner: !transposeA,
    length: transposeA ? 'm' : 'k',
  }
  const b: Operand = {
    name: 'b',
    shared: 'tile_b',
    size: tile.n,
    start: 0,
    count: tile.n,
    origin: 'column0',
    inner: transposeB,
    length: transposeB ? 'k' : 'n',
  }
  const half = tile.n / 2
  const bs = gated
    ? [
        { ...b, name: 'gate', count: half },
        { ...b, name: 'up', start: half, count: half },
      ]
    : [b]
  const operands = [a, ...bs]
  const kind = lane === 'matrices' ? byMatrices(kernel, a, b) : byThreads(kernel, a, b)
  const { threads, rows, words } = kind

  const unitsOf = ({ count }: Operand) => (count * tile.k) / (rows * words * 2)
  const fetchFunction = (operand: Operand, binding: number): string => {
    const { name, inner, length } = operand
    const units = unitsOf(operand)
    const perRow = (inner ? tile.k : operand.count) / (words * 2)
    const type = `vec${words}u`
    const read = (i: number) => {
      const at = `at + ${i}u * stride`
      return wide
        ? `${name}[${at}]`
        : `${type}(${Array.from({ length: words }, (_, w) => `${name}[${at} + ${w}u]`).join(', ')})`
    }
    const [row, column] = inner ? ['first', 'k'] : ['k', 'first']
    return `@group(0) @binding(${binding}) var<storage, read> ${name}: array<${wide ? type : 'u32'}>;
fn fetch_${name}(unit: u32, first: u32, k: u32) -> Unit {
  ${units % threads === 0 ? '' : `if (unit >= ${units}u) { return Unit(); }`}
  let stride = p.${length} / ${wide ? words * 2 : 2}u;
  let at = (${row} + unit / ${perRow}u * ${rows}u) * stride + ${column} / ${wide ? words * 2 : 2}u + unit % ${perRow}u${wide ? '' : ` * ${words}u`};
  return ${rows === 1 ? read(0) : `Unit(${Array.from({ length: rows }, (_, i) => read(i)).join(', ')})`};
}
fn keep_${name}(unit: u32, k: u32, fetched: Unit) {
  ${units % threads === 0 ? '' : `if (unit >= ${units}u) { return; }`}
  let row = unit / ${perRow}u * ${rows}u;
  let column = unit % ${perRow}u * ${words * 2}u;
${kind.keep(operand)}
}`
  }
  // Where threads have nothing to fetch of one operand, they are not those that have nothing of the next.
  const turns = operands.flatMap((operand, place) => {
    const units = unitsOf(operand)
    const first = units < threads && place % 2 === 1 ? `${threads - 1}u - t` : 't'
    return Array.from({ length: Math.ceil(units / threads) }, (_, i) => ({
      name: operand.name,
      origin: operand.origin,
      unit: i === 0 ? first : `t + ${i * threads}u`,
      held: `${operand.name}_${i}`,
    }))
  })
  const fetch = turns
    .map(({ name, origin, unit, held }) => `    ${held} = fetch_${name}(${unit}, ${origin}, k);`)
    .join('\n')
  return `${kind.head}
struct Values { m: u32, n: u32, k: u32, scale: f32 }
${operands.map(fetchFunction).join('\n')}
${resultText(kernel, operands.length)}
${gated ? 'fn put_gated(row: u32, column: u32, gate: vec2f, up: vec2f) { put(0u, row, column, gate / (1.0 + exp(-gate)) * up); }' : ''}
${kind.declarations}
@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) t: u32${kind.parameter}) {
  let band = group.x + group.y * groups.x;
  let above = band / (${BAND}u * groups.x) * ${BAND}u;
  let height = min(groups.y - above, ${BAND}u);
  let within = band - above * groups.x;
  let row0 = (above + within % height) * ${tile.m}u;
  let column0 = within / height * ${gated ? half : tile.n}u;
  let part = (p.k + ${tile.k}u * groups.z - 1u) / (${tile.k}u * groups.z) * ${tile.k}u;
  var k = group.z * part;
  let end = min(k + part, p.k);
${kind.sums}
${turns.map(({ held }) => `  var ${held}: Unit;`).join('\n')}
${fetch}
  while (k < end) {
    workgroupBarrier();
${turns.map(({ name, unit, held }) => `    keep_${name}(${unit}, k, ${held});`).join('\n')}
    workgroupBarrier();
    k += ${tile.k}u;
    if (k < end) {
${fetch}
    }
${kind.multiply}
  }
${kind.write}
}`
}

/**
 * Subgroups' products of matrices. Tiles are kept as they are stored, rows padded so that those of a column lie in other
 * banks. What stands beyond the inner axis must be nothing; beyond the outer ones it gives results that are not written.
 */
function byMatrices({ tile, wide, gated }: Kernel, a: Operand, b: Operand): Multiplying {
  const { m, n, k, ownM, ownN } = tile
  const [down, across] = [ownM / MATRIX, ownN / MATRIX]
  const [subgroupRows, subgroupColumns] = [m / ownM, n / ownN]
  const threads = subgroupRows * subgroupColumns * SUBGROUP
  // Words of eight halves.
  const stride = ({ inner, size }: Operand) => ((inner ? k : size) + PADDING) / 8
  const shared = (operand: Operand) =>
    `var<workgroup> ${operand.shared}: array<vec4u, ${(operand.inner ? operand.size : k) * stride(operand)}>;`
  const load = (operand: Operand, side: 'left' | 'right', outer: string, inner: number) => {
    const [row, column] = operand.inner ? [outer, `${inner / 8}u`] : [`${inner}u`, `(${outer}) / 8u`]
    const columnMajor = (side === 'left') !== operand.inner
    const order = columnMajor ? 'col_major' : 'row_major'
    return `subgroupMatrixLoad<subgroup_matrix_${side}<f16, ${MATRIX}, ${MATRIX}>, ${order}>(&${operand.shared}, (${row}) * ${stride(operand)}u + ${column}, ${stride(operand)}u)`
  }
  // Results are written by way of workgroup memory, a row of matrices of each subgroup at a time.
  const stageStride = (n + PADDING) / 2
  const pairs = n / (gated ? 4 : 2)
  return {
    threads,
    rows: 1,
    words: 4,
    head: `enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;
alias Unit = vec4u;`,
    declarations: `${shared(a)}
${shared(b)}
var<workgroup> stage: array<vec2f, ${subgroupRows * MATRIX * stageStride}>;
fn write_staged(t: u32, part: u32, row0: u32, column0: u32) {
  for (var i = 0u; i < ${ownN / (gated ? 8 : 4)}u; i++) {
    let pair = t + i * ${threads}u;
    let row = pair / ${pairs}u;
    let column = pair % ${pairs}u * 2u;
    let at = row * ${stageStride}u + pair % ${pairs}u;
    let to = row0 + row / ${MATRIX}u * ${ownM}u + row % ${MATRIX}u;
    ${gated ? `put_gated(to, column0 + column, stage[at], stage[at + ${n / 4}u]);` : 'put(part, to, column0 + column, stage[at]);'}
  }
}`,
    keep({ shared: array, inner, start, ...operand }) {
      const size = stride({ inner, start, shared: array, ...operand })
      const beyond = inner
        ? wide
          ? 'k + column >= p.k'
          : 'vec4u(0, 2, 4, 6) + (k + column) >= vec4u(p.k)'
        : 'k + row >= p.k'
      const at = inner
        ? `(${start}u + row) * ${size}u + column / 8u`
        : `row * ${size}u + ${start / 8}u + column / 8u`
      return `  ${array}[${at}] = select(fetched, vec4u(), ${beyond});`
    },
    parameter: ', @builtin(subgroup_id) subgroup: u32',
    sums: `  let own_row = subgroup / ${subgroupColumns}u * ${ownM}u;
  let own_column = subgroup % ${subgroupColumns}u * ${ownN}u;
${lines(down * across, (i) => `  var sum_${i}: subgroup_matrix_result<f32, ${MATRIX}, ${MATRIX}>;`)}`,
    multiply: lines(
      k / MATRIX,
      (step) => `    {
${lines(down, (i) => `      let left_${i} = ${load(a, 'left', `own_row + ${i * MATRIX}u`, step * MATRIX)};`)}
${lines(across, (j) => `      let right_${j} = ${load(b, 'right', `own_column + ${j * MATRIX}u`, step * MATRIX)};`)}
${lines(down * across, (i) => `      sum_${i} = subgroupMatrixMultiplyAccumulate(left_${Math.floor(i / across)}, right_${i % across}, sum_${i});`)}
    }`,
    ),
    write: lines(
      down,
      (
        i,
      ) => `${i > 0 ? '  workgroupBarrier();\n' : ''}${lines(across, (j) => `  subgroupMatrixStore<row_major>(&stage, own_row / ${ownM / MATRIX}u * ${stageStride}u + own_column / 2u + ${(j * MATRIX) / 2}u, sum_${i * across + j}, ${stageStride}u);`)}
  workgroupBarrier();
  write_staged(t, group.z, row0 + ${i * MATRIX}u, column0);`,
    ),
  }
}

const MATRIX = 16
const SUBGROUP = 32
const PADDING = 8

/**
 * Plain multiplying and adding. Tiles are kept in single precision, of each place of the inner axis all rows or columns, in
 * fours, which change places among each other so that threads that keep neighbours write into other banks.
 */
function byThreads({ tile, gated }: Kernel, a: Operand, b: Operand): Multiplying {
  const { m, n, k, ownM, ownN } = tile
  const [threadRows, threadColumns] = [m / ownM, n / ownN]
  const [down, across] = [ownM / 4, ownN / 4]
  const shared = (operand: Operand) =>
    `var<workgroup> ${operand.shared}: array<vec4f, ${(k * operand.size) / 4}>;`
  const load = (operand: Operand, four: string) =>
    `${operand.shared}[step * ${operand.size / 4}u + ((${four}) ^ turn)]`
  const result = (i: number, j: number) => {
    const row = `row0 + (${i >> 2}u * ${threadRows}u + thread_row) * 4u + ${i & 3}u`
    const column = `column0 + (${j}u * ${threadColumns}u + thread_column) * 4u`
    return ['xy', 'zw']
      .map((two, at) =>
        gated
          ? `  put_gated(${row}, ${column} + ${2 * at}u, sum_${i}_${j}.${two}, sum_${i}_${j + across / 2}.${two});`
          : `  put(group.z, ${row}, ${column} + ${2 * at}u, sum_${i}_${j}.${two});`,
      )
      .join('\n')
  }
  return {
    threads: threadRows * threadColumns,
    rows: 4,
    words: 2,
    head: 'alias Unit = array<vec2u, 4>;',
    declarations: `${shared(a)}\n${shared(b)}`,
    keep({ shared: array, inner, start, size }) {
      const [step, outer] = inner ? ['column', 'row'] : ['row', 'column']
      const four = (i: number) =>
        inner ? `vec4f(${Array.from({ length: 4 }, (_, r) => `four_${r}[${i}]`).join(', ')})` : `four_${i}`
      return `  let place = ${step} * ${size / 4}u + ((${start / 4}u + ${outer} / 4u) ^ (${step} / 4u % 4u));
${lines(4, (i) => `  let four_${i} = vec4f(unpack2x16float(fetched[${i}].x), unpack2x16float(fetched[${i}].y));`)}
${lines(4, (i) => `  ${array}[place + ${(i * size) / 4}u] = select(${four(i)}, vec4f(), k + ${step} + ${i}u >= p.k);`)}`
    },
    parameter: '',
    sums: `  let thread_row = t / ${threadColumns}u;
  let thread_column = t % ${threadColumns}u;
${lines(ownM, (i) => lines(across, (j) => `  var sum_${i}_${j}: vec4f;`))}`,
    multiply: `    for (var step = 0u; step < ${k}u; step++) {
      let turn = step / 4u % 4u;
${lines(down, (i) => `      let left_${i} = ${load(a, `${i * threadRows}u + thread_row`)};`)}
${lines(across, (j) => `      let right_${j} = ${load(b, `${j * threadColumns}u + thread_column`)};`)}
${lines(ownM, (i) => lines(across, (j) => `      sum_${i}_${j} = fma(vec4f(left_${i >> 2}[${i & 3}]), right_${j}, sum_${i}_${j});`))}
    }`,
    write: lines(ownM, (i) => lines(gated ? across / 2 : across, (j) => result(i, j))),
  }
}

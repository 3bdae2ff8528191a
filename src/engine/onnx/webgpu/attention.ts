/// <reference types="@webgpu/types" />
/**
 * Attention of packed sequences (`onnx/pack.ts`), and its gradients, by tiles whose scores are never written to memory
 * (FlashAttention-2, Dao 2023). Rows of q, mixed and their gradients are halves [batch, time, heads * headDim], those of k, v
 * and theirs [batch, time, kvHeads * headDim], as the linear maps give and take them. A position sees what stands at or
 * before it in its own segment and in segment 0. Negative segments are padding, which nobody else sees: its rows are finite,
 * and no more is said of them.
 *
 * Tiles of which nothing is seen are passed over, by the least and the greatest segment of each 64 positions (`ranges`
 * [batch, tiles, 2], as unsigned, so that padding comes last).
 */
import {
  matrixTiles,
  OWN,
  plainTiles,
  STREAM,
  type Tensors,
  THREAD,
  THREADS,
  type Tiles,
} from './attentionTiles.ts'
import type { Dispatch, Traits, Value } from './gpu.ts'

export interface Heads {
  heads: number
  kvHeads: number
  /** A multiple of 16. */
  headDim: number
}

export interface Rows {
  batch: number
  time: number
}

const tilesOf = (time: number) => Math.ceil(time / OWN)

/** Bytes of `ranges`, and of `sums` (single precision, [batch, heads, time]). */
export const rangesBytes = ({ batch, time }: Rows): number => 8 * batch * tilesOf(time)
export const sumsBytes = ({ heads }: Heads, { batch, time }: Rows): number => 4 * batch * heads * time

/** Workgroups that fill a large GPU. */
const ENOUGH = 512

/** Among how many workgroups a group's heads are shared for the gradients of k and v, which these add to by parts. */
const partsOf = ({ heads, kvHeads }: Heads, { batch, time }: Rows): number =>
  Math.min(heads / kvHeads, Math.ceil(ENOUGH / (batch * kvHeads * tilesOf(time))))

/** Bytes of what the gradient needs on the way. */
export function gradientScratch(config: Heads, rows: Rows): { perRow: number; partial: number } {
  const { batch, time } = rows
  return {
    perRow: 2 * sumsBytes(config, rows),
    partial: 8 * partsOf(config, rows) * batch * time * config.kvHeads * config.headDim,
  }
}

/** segments, int32 [batch, time] -> ranges: what both directions pass over tiles by, the same for all layers. */
export function segmentRanges(
  { batch, time }: Rows,
  { segments, ranges }: Record<'segments' | 'ranges', GPUBuffer>,
): Dispatch[] {
  return [
    {
      code: RANGES,
      buffers: [segments, ranges],
      values: [{ int: time }],
      grid: [tilesOf(time), batch, 1],
    },
  ]
}

/** q, k, v -> mixed, and of each row the logarithm to base 2 of its sum of powers of e, `sums`. */
export function packedAttention(
  config: Heads,
  { batch, time }: Rows,
  buffers: Record<'q' | 'k' | 'v' | 'segments' | 'ranges' | 'mixed' | 'sums', GPUBuffer>,
  traits: Traits,
): Dispatch[] {
  const { q, k, v, segments, ranges, mixed, sums } = buffers
  return [
    {
      code: forward(config.headDim, tilesFor(config, FORWARD, traits, time)),
      buffers: [q, k, v, segments, ranges, mixed, sums],
      values: valuesOf(config, time),
      grid: [config.heads, batch, tilesOf(time)],
    },
  ]
}

/** The gradient of mixed -> those of q, k and v. `perRow` and `partial` are of the sizes that `gradientScratch` gives. */
export function packedAttentionGradient(
  config: Heads,
  rows: Rows,
  buffers: Record<
    | ('gradient' | 'q' | 'k' | 'v' | 'mixed' | 'sums' | 'segments' | 'ranges')
    | ('toQueries' | 'toKeys' | 'toValues' | 'perRow' | 'partial'),
    GPUBuffer
  >,
  traits: Traits,
): Dispatch[] {
  const { heads, kvHeads, headDim } = config
  const { batch, time } = rows
  const { gradient, q, k, v, mixed, sums, segments, ranges, perRow, partial } = buffers
  const parts = partsOf(config, rows)
  const count = batch * time * heads
  const size = batch * time * kvHeads * headDim
  return [
    {
      code: NUMBERS_OF_ROWS,
      buffers: [gradient, mixed, sums, perRow],
      values: [{ int: time }, { int: heads }, { int: headDim }, { int: count }],
      grid: [Math.ceil(count / THREADS), 1, 1],
    },
    {
      code: gradientOfQueries(headDim, tilesFor(config, OF_QUERIES, traits, time)),
      buffers: [gradient, q, k, v, perRow, segments, ranges, buffers.toQueries],
      values: valuesOf(config, time),
      grid: [heads, batch, tilesOf(time)],
    },
    {
      code: gradientOfKeys(headDim, tilesFor(config, OF_KEYS, traits, time)),
      buffers: [gradient, q, k, v, perRow, segments, ranges, partial],
      values: valuesOf(config, time),
      grid: [parts * kvHeads, batch, tilesOf(time)],
    },
    {
      code: SUM_OF_PARTS,
      buffers: [partial, buffers.toKeys, buffers.toValues],
      values: [{ int: parts }, { int: size / 4 }],
      grid: [Math.ceil(size / 4 / THREADS), 1, 1],
    },
  ]
}

const VALUES = ['time', 'heads', 'kv_heads', 'head_dim']
const valuesOf = ({ heads, kvHeads, headDim }: Heads, time: number): Value[] =>
  [time, heads, kvHeads, headDim].map((int) => ({ int }))

const FORWARD: Tensors = { own: ['q'], stream: ['k', 'v'] }
const OF_QUERIES: Tensors = { own: ['q', 'gradient'], stream: ['k', 'v'] }
const OF_KEYS: Tensors = { own: ['k', 'v'], stream: ['q', 'gradient'] }

function tilesFor(
  { headDim }: Heads,
  tensors: Tensors,
  { matrices, workgroupBytes }: Traits,
  time: number,
): Tiles {
  if (headDim % 16 !== 0) throw new Error(`heads of ${headDim} elements do not fit attention on WebGPU`)
  // Matrices of own rows are read whole, where all their rows are.
  if (matrices && headDim % 32 === 0 && time % 16 === 0) {
    const tiles = matrixTiles(headDim, tensors)
    // And what the kernel shares besides.
    if (tiles.workgroupBytes + 16 <= workgroupBytes) return tiles
  }
  return plainTiles(headDim, tensors)
}

/** Declares buffers, in the order in which they are given, and values: `name: type`, where those written begin with `*`. */
function declared(buffers: readonly string[], values: readonly string[]): string {
  const storage = buffers.map((buffer, place) => {
    const [name, type] = buffer.split(': ')
    const access = name.startsWith('*') ? 'read_write' : 'read'
    return `@group(0) @binding(${place}) var<storage, ${access}> ${name.replace('*', '')}: array<${type}>;`
  })
  return `${storage.join('\n')}
struct Values { ${values.map((name) => `${name}: u32`).join(', ')} }
@group(0) @binding(${buffers.length}) var<uniform> values: Values;`
}

const RANGES = `
${declared(['segments: i32', '*ranges: vec2u'], ['time'])}
// The least is the greatest of what is left to the greatest number.
var<workgroup> least: atomic<u32>;
var<workgroup> greatest: atomic<u32>;
@compute @workgroup_size(${OWN})
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let position = min(group.x * ${OWN}u + thread, values.time - 1u);
  let segment = u32(segments[group.y * values.time + position]);
  atomicMax(&least, ~segment);
  atomicMax(&greatest, segment);
  workgroupBarrier();
  if (thread == 0u) {
    ranges[group.y * groups.x + group.x] = vec2u(~atomicLoad(&least), atomicLoad(&greatest));
  }
}`

const ENTRY = (tiles: Tiles) => `@compute @workgroup_size(${THREADS})
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32${tiles.builtins}
) {
  ${THREAD}
  let last = values.time - 1u;
  let row_start = group.y * values.time;
  let ranges_start = group.y * groups.z;`

/**
 * `seen_from` is where a part of the stream is that own rows have to do with: from there on, before the end, and `seen_after`
 * the next such part.
 */
const seen = (sees: string) => `
const PADDING = 0xffffffffu;
// Whether one of these queries may see one of these keys, when it comes after it.
fn sees(queries: vec2u, keys: vec2u) -> bool {
  return queries.x != PADDING && (keys.x == 0u || (keys.x <= queries.y && queries.x <= keys.y));
}
fn seen_from(start: u32, end: u32, ranges_start: u32, own: vec2u) -> u32 {
  var at = start;
  while (at < end) {
    let stream = ranges[ranges_start + at / ${OWN}u];
    if (${sees}) { break; }
    at += ${OWN}u;
  }
  return at;
}
fn seen_after(at: u32, end: u32, ranges_start: u32, own: vec2u) -> u32 {
  let next = at + ${STREAM}u;
  if (next % ${OWN}u == 0u) { return seen_from(next, end, ranges_start, own); }
  return next;
}
fn visible(query: vec4u, query_segment: vec4i, key: vec4u, key_segment: vec4i) -> vec4<bool> {
  return (key <= query) & ((key_segment == vec4i()) | (key_segment == query_segment));
}
fn segment_of(row_start: u32, position: u32, last: u32) -> i32 { return segments[row_start + min(position, last)]; }`

/** Of own rows, of the stream's rows, and of what a thread has of them. */
const OWN_SEGMENTS = `
  let own0 = first + down;
  let own1 = own0 + ${OWN / 2}u;
  let segment0 = vec4i(segment_of(row_start, own0, last));
  let segment1 = vec4i(segment_of(row_start, own1, last));`
const STREAM_SEGMENTS = `
    let position = at + 4u * across + vec4u(0, 1, 2, 3);
    let segment = vec4i(
      segment_of(row_start, position.x, last), segment_of(row_start, position.y, last),
      segment_of(row_start, position.z, last), segment_of(row_start, position.w, last),
    );`
const KEYS_SEEN = [0, 1]
  .map((i) => `let seen${i} = visible(vec4u(own${i}), segment${i}, position, segment);`)
  .join('\n    ')

/** Where rows of q, or of what is like it, start for a head, and rows of k and v. */
const bases = (names: readonly string[], heads: string, head: string, words: number) =>
  names
    .map(
      (name) => `
  let ${name}_step = ${heads} * ${words}u;
  let ${name}_base = row_start * ${name}_step + ${head} * ${words}u;
  let next_${name}_base = ${name}_base;`,
    )
    .join('')

/** A workgroup's own queries, the longest of whose streams begin first, and the keys that they see. */
const queriesAndKeys = (headDim: number, tiles: Tiles, ofQueries: readonly string[]) => `
  let first = (groups.z - 1u - group.z) * ${OWN}u;
  let head = group.x;
  let kv_head = head / (values.heads / values.kv_heads);
  ${bases(ofQueries, 'values.heads', 'head', headDim / tiles.wordHalves)}
  ${bases(['k', 'v'], 'values.kv_heads', 'kv_head', headDim / tiles.wordHalves)}
  let rows_start = (group.y * values.heads + head) * values.time;
  let queries = ranges[ranges_start + first / ${OWN}u];
  let end = first + ${OWN}u;
  var at = seen_from(0u, end, ranges_start, queries);
  ${OWN_SEGMENTS}`

const storeQueries = (headDim: number, name: string) => (row: string, column: string, value: string) =>
  `
    if (first + ${row} <= last) {
      let number = ${value};
      ${name}[((row_start + first + ${row}) * values.heads + head) * ${headDim / 4}u + ${column} / 4u] =
        vec2u(pack2x16float(number.xy), pack2x16float(number.zw));
    }`

/** Scores are multiplied so, and powers are of 2. */
const scaleOf = (headDim: number) => Math.LOG2E / Math.sqrt(headDim)

const forward = (headDim: number, tiles: Tiles) => {
  const NEXT = `let next_at = seen_after(at, end, ranges_start, queries);
    let more = next_at < end;
    ${tiles.advance}
    ${STREAM_SEGMENTS}`
  return `${tiles.enable}
${declared(
  [
    ...['q', 'k', 'v'].map((name) => `${name}: ${tiles.word}`),
    ...['segments: i32', 'ranges: vec2u', '*mixed: vec2u', '*sums: f32'],
  ],
  VALUES,
)}
${tiles.shared}
${seen('sees(own, stream)')}
const SCALE = ${scaleOf(headDim)};
// Of what is not seen, and the least that is taken off scores: so less that its power is 0.
const HIDDEN = -1e30;
const LEAST = -1e20;
fn most_of(scores: vec4f) -> f32 { return max(max(scores.x, scores.y), max(scores.z, scores.w)); }
fn sum_of(powers: vec4f) -> f32 { return (powers.x + powers.y) + (powers.z + powers.w); }
${ENTRY(tiles)}
  ${queriesAndKeys(headDim, tiles, ['q'])}
  let start = at;
  ${tiles.begin}
  // First what rows' powers come to, so that what is mixed need not be made less afterwards: a thread's own, then a row's.
  var base = vec2f(HIDDEN);
  var sum = vec2f();
  while (at < end) {
    ${NEXT}
    ${tiles.dots(['score'])}
    ${KEYS_SEEN}
    score0 = select(vec4f(HIDDEN), score0 * SCALE, seen0);
    score1 = select(vec4f(HIDDEN), score1 * SCALE, seen1);
    let now = max(base, vec2f(most_of(score0), most_of(score1)));
    let off = max(now, vec2f(LEAST));
    sum = sum * exp2(base - now) + vec2f(sum_of(exp2(score0 - off.x)), sum_of(exp2(score1 - off.y)));
    base = now;
    at = next_at;
  }
  let most = most_of_row(base, thread);
  let whole = sum_of_row(sum * exp2(base - most), thread);
  // Whole tiles of padding have seen nothing.
  let logarithms = select(vec2f(), most + log2(whole), whole > vec2f());
  if (across == 0u && own0 <= last) { sums[rows_start + own0] = logarithms.x; }
  if (across == 0u && own1 <= last) { sums[rows_start + own1] = logarithms.y; }
  at = start;
  ${tiles.again}
  ${tiles.sums('out')}
  while (at < end) {
    ${NEXT}
    ${tiles.dots(['score'])}
    ${KEYS_SEEN}
    score0 = select(vec4f(), exp2(score0 * SCALE - logarithms.x), seen0);
    score1 = select(vec4f(), exp2(score1 * SCALE - logarithms.y), seen1);
    ${tiles.mix('out', 1, 'score')}
    at = next_at;
  }
  ${tiles.store('out', 'vec2f(1)', storeQueries(headDim, 'mixed'))}
}`
}

/**
 * Of each row what gradients of scores take: the logarithm of its sum, and the sum of mixed times its gradient, which a
 * softmax takes off. A thread for each row.
 */
const NUMBERS_OF_ROWS = `
${declared(['gradient: vec4u', 'mixed: vec4u', 'sums: f32', '*per_row: vec2f'], ['time', 'heads', 'head_dim', 'count'])}
@compute @workgroup_size(${THREADS})
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= values.count) { return; }
  let words = values.head_dim / 8u;
  var taken = 0.0;
  for (var i = id.x * words; i < (id.x + 1u) * words; i++) {
    let a = gradient[i];
    let b = mixed[i];
    for (var j = 0u; j < 4u; j++) { taken += dot(unpack2x16float(a[j]), unpack2x16float(b[j])); }
  }
  let position = id.x / values.heads;
  let row = position / values.time * values.heads + id.x % values.heads;
  let at = row * values.time + position % values.time;
  per_row[at] = vec2f(sums[at], taken);
}`

const gradientBuffers = (tiles: Tiles, written: string) => [
  ...['gradient', 'q', 'k', 'v'].map((name) => `${name}: ${tiles.word}`),
  ...['per_row: vec2f', 'segments: i32', 'ranges: vec2u', written],
]

const gradientOfQueries = (headDim: number, tiles: Tiles) => `${tiles.enable}
${declared(gradientBuffers(tiles, '*to_queries: vec2u'), VALUES)}
${tiles.shared}
${seen('sees(own, stream)')}
const SCALE = ${scaleOf(headDim)};
${ENTRY(tiles)}
  ${queriesAndKeys(headDim, tiles, ['q', 'gradient'])}
  let row0 = per_row[rows_start + min(own0, last)];
  let row1 = per_row[rows_start + min(own1, last)];
  ${tiles.begin}
  ${tiles.sums('out')}
  while (at < end) {
    let next_at = seen_after(at, end, ranges_start, queries);
    let more = next_at < end;
    ${tiles.advance}
    ${STREAM_SEGMENTS}
    ${tiles.dots(['score', 'change'])}
    ${KEYS_SEEN}
    change0 = select(vec4f(), exp2(score0 * SCALE - row0.x) * (change0 - row0.y), seen0);
    change1 = select(vec4f(), exp2(score1 * SCALE - row1.x) * (change1 - row1.y), seen1);
    ${tiles.mix('out', 0, 'change')}
    at = next_at;
  }
  let factors = vec2f(${1 / Math.sqrt(headDim)});
  ${tiles.store('out', 'factors', storeQueries(headDim, 'to_queries'))}
}`

/** partial [2, parts, batch, time, kvHeads * headDim]: the gradients of k, and of v, each part of some of a group's heads. */
const gradientOfKeys = (headDim: number, tiles: Tiles) => {
  const words = headDim / tiles.wordHalves
  const store = (half: number) => (row: string, column: string, value: string) =>
    `
    if (first + ${row} <= last) {
      let place = ((${half}u * parts + part) * groups.y * values.time + row_start + first + ${row}) * values.kv_heads;
      partial[(place + kv_head) * ${headDim / 4}u + ${column} / 4u] = ${value};
    }`
  return `${tiles.enable}
${declared(gradientBuffers(tiles, '*partial: vec4f'), VALUES)}
${tiles.shared}
${seen('sees(stream, own)')}
const SCALE = ${scaleOf(headDim)};
${ENTRY(tiles)}
  let first = group.z * ${OWN}u;
  let parts = groups.x / values.kv_heads;
  let kv_head = group.x / parts;
  let part = group.x % parts;
  ${bases(['k', 'v'], 'values.kv_heads', 'kv_head', words)}
  let keys = ranges[ranges_start + first / ${OWN}u];
  let end = groups.z * ${OWN}u;
  let start = seen_from(first, end, ranges_start, keys);
  let heads_of_group = values.heads / values.kv_heads;
  let end_head = kv_head * heads_of_group + heads_of_group * (part + 1u) / parts;
  var head = kv_head * heads_of_group + heads_of_group * part / parts;
  if (start >= end) { head = end_head; }
  var at = start;
  let q_step = values.heads * ${words}u;
  let gradient_step = q_step;
  var q_base = row_start * q_step + head * ${words}u;
  var gradient_base = q_base;
  ${OWN_SEGMENTS}
  ${tiles.begin}
  ${tiles.sums('of_keys')}
  ${tiles.sums('of_values')}
  while (head < end_head) {
    var next_at = seen_after(at, end, ranges_start, keys);
    var next_head = head;
    if (next_at >= end) {
      next_at = start;
      next_head++;
    }
    let more = next_head < end_head;
    let next_q_base = row_start * q_step + next_head * ${words}u;
    let next_gradient_base = next_q_base;
    ${tiles.advance}
    ${STREAM_SEGMENTS}
    let rows_start = (group.y * values.heads + head) * values.time;
    let row_x = per_row[rows_start + min(position.x, last)];
    let row_y = per_row[rows_start + min(position.y, last)];
    let row_z = per_row[rows_start + min(position.z, last)];
    let row_w = per_row[rows_start + min(position.w, last)];
    let logarithms = vec4f(row_x.x, row_y.x, row_z.x, row_w.x);
    let taken = vec4f(row_x.y, row_y.y, row_z.y, row_w.y);
    ${tiles.dots(['score', 'change'])}
    let there = position <= vec4u(last);
    let seen0 = there & visible(position, segment, vec4u(own0), segment0);
    let seen1 = there & visible(position, segment, vec4u(own1), segment1);
    score0 = select(vec4f(), exp2(score0 * SCALE - logarithms), seen0);
    score1 = select(vec4f(), exp2(score1 * SCALE - logarithms), seen1);
    change0 = score0 * (change0 - taken);
    change1 = score1 * (change1 - taken);
    ${tiles.mix('of_values', 1, 'score')}
    ${tiles.mix('of_keys', 0, 'change')}
    at = next_at;
    head = next_head;
    q_base = next_q_base;
    gradient_base = next_gradient_base;
  }
  var factors = vec2f(${1 / Math.sqrt(headDim)});
  ${tiles.store('of_keys', 'factors', store(0))}
  factors = vec2f(1);
  ${tiles.store('of_values', 'factors', store(1))}
}`
}

const SUM_OF_PARTS = `
${declared(['partial: vec4f', '*to_keys: vec2u', '*to_values: vec2u'], ['parts', 'count'])}
@compute @workgroup_size(${THREADS})
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= values.count) { return; }
  var of_keys = vec4f();
  var of_values = vec4f();
  for (var part = 0u; part < values.parts; part++) {
    of_keys += partial[part * values.count + id.x];
    of_values += partial[(values.parts + part) * values.count + id.x];
  }
  to_keys[id.x] = vec2u(pack2x16float(of_keys.xy), pack2x16float(of_keys.zw));
  to_values[id.x] = vec2u(pack2x16float(of_values.xy), pack2x16float(of_values.zw));
}`

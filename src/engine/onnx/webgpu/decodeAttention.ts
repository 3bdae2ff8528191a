/// <reference types="@webgpu/types" />
/**
 * Attention of one new token a sample: to its prompt, whose keys and values samples share, and to what was drawn since.
 *
 * A workgroup takes the queries of one key-value head of a sample, all positions or one of several shares of them. It begins
 * with what the product of the attention's input has left: its heads' queries, key and value are added up from parts, normed,
 * turned by their position, and the key and value put into the sample's cache; so nothing stands between the products of a
 * layer but this. Positions are taken by tiles. First several threads share a position, to add up its scores; then a thread
 * has eight elements of the values of some positions. Scores are powers of two.
 */
import type { Dispatch, Traits } from './gpu.ts'
import { PARTS, PLACE } from './rows.ts'
import { binding, THREADS, uniform } from './wgsl.ts'

/** Halves of a word, as caches are read. */
const WORD = 8
/** Query heads to a key-value head, at most. */
export const MOST_QUERIES = 16

export interface Heads {
  heads: number
  kvHeads: number
  headDim: number
}

export interface Attend extends Heads {
  samples: number
  /** Shares of the positions: one leaves the result, several what `settle` joins. */
  shares: number
  /** Positions of the prompts' caches, and of the samples' own. */
  time: number
  window: number
  epsilon: number
  /** [partsCount, samples, (heads + 2 kvHeads) headDim] */
  parts: GPUBuffer
  partsCount: number
  /** Of `embed`. */
  places: GPUBuffer
  /** Halves, [(heads + 2 kvHeads) headDim]. */
  bias?: GPUBuffer
  /** [headDim] */
  norms?: { q: GPUBuffer; k: GPUBuffer }
  /** Halves, [prompts, kvHeads, time, headDim]. */
  promptKeys: GPUBuffer
  promptValues: GPUBuffer
  /** Halves, [samples, kvHeads, window, headDim]. */
  keys: GPUBuffer
  values: GPUBuffer
  /** Out: halves [samples, heads, headDim], or `mixed` (`mixedDims`). */
  out: GPUBuffer
}

/** Of each share and head: what is mixed, not divided by the sum yet, then the greatest score, the sum, and nothing twice. */
export const mixedDims = ({ heads, headDim }: Heads, samples: number, shares: number) => [
  shares,
  samples,
  heads,
  headDim + 4,
]

/** How a workgroup cuts its work. */
interface Cut {
  threads: number
  /** Threads that share a position's scores, and positions that a thread has of a tile. */
  lanes: number
  each: number
  /** Positions of a tile. */
  tile: number
  /** From one lane's scores to the next one's, so that threads write into other banks. */
  laneStride: number
  /** Threads of a query's softmax. */
  softmax: number
  /** Of the values: positions that are taken at a time, and how often. */
  spread: number
  turns: number
}

/** Words of keys or values that a thread holds, and workgroup memory that leaves room for several workgroups. */
const MOST_HELD = 8
const MUCH_MEMORY = 24 * 1024

function cutOf({ heads, kvHeads, headDim }: Heads, each: number): Cut {
  const queries = heads / kvHeads
  const words = headDim / WORD
  // Many queries would not leave room for more.
  const threads = queries > 8 ? THREADS / 2 : THREADS
  const lanes = words % 4 === 0 ? 4 : 2
  const tile = (threads / lanes) * each
  const spread = Math.floor(threads / words)
  return {
    threads,
    lanes,
    each,
    tile,
    laneStride: tile + 32 / lanes,
    softmax: Math.min(16, 2 ** Math.floor(Math.log2(threads / queries))),
    spread,
    turns: Math.ceil(tile / spread),
  }
}

/** Floats of workgroup memory. */
function sizesOf(
  { heads, kvHeads, headDim }: Heads,
  { threads, lanes, laneStride, softmax, spread, turns }: Cut,
) {
  const queries = heads / kvHeads
  return {
    row: (queries + 2) * headDim,
    // Scores by lanes, and at the end a number of each thread and query.
    scores: queries * Math.max(lanes * laneStride, threads),
    weights: queries * spread * turns,
    most: queries * softmax,
    fading: queries,
  }
}

/** Two positions of a thread share what it reads of the queries, where there is room for both. */
function bestCut(heads: Heads, { workgroupBytes }: Traits): Cut {
  const cut = cutOf(heads, 2)
  const bytes = 4 * Object.values(sizesOf(heads, cut)).reduce((a, b) => a + b)
  const held = Math.max((2 * heads.headDim) / WORD / cut.lanes, cut.turns)
  return held <= MOST_HELD && bytes <= Math.min(workgroupBytes, MUCH_MEMORY) ? cut : cutOf(heads, 1)
}

const lines = (count: number, line: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => line(i)).join('\n')

/** Less than any score. */
const LEAST = '-1.0e30'

export function attend(given: Attend, traits: Traits): Dispatch {
  const { samples, kvHeads, shares, time, window, epsilon, parts, partsCount, places, bias, norms } = given
  const { promptKeys, promptValues, keys, values, out } = given
  return {
    code: attendCode(given, bestCut(given, traits), {
      biased: bias !== undefined,
      normed: norms !== undefined,
      shared: shares > 1,
    }),
    buffers: [
      ...[parts, places, promptKeys, promptValues, keys, values, out],
      ...(bias ? [bias] : []),
      ...(norms ? [norms.q, norms.k] : []),
    ],
    values: [{ int: partsCount }, { int: time }, { int: window }, { float: epsilon }],
    grid: [samples * kvHeads, shares, 1],
  }
}

interface Kind {
  biased: boolean
  normed: boolean
  /** Workgroups share a head's positions. */
  shared: boolean
}

function attendCode(sizes: Heads, cut: Cut, { biased, normed, shared }: Kind): string {
  const { heads, kvHeads, headDim } = sizes
  const { threads, lanes, each, tile, laneStride, softmax, spread, turns } = cut
  const room = sizesOf(sizes, cut)
  const queries = heads / kvHeads
  const words = headDim / WORD
  // In fours of the row.
  const four = headDim / 4
  const wide = (heads + 2 * kvHeads) * four
  const perLane = words / lanes
  const scoresOf = room.scores / queries
  const weightsOf = spread * turns
  const held = Array.from({ length: each * perLane }, (_, at) => ({
    name: `key_${at}`,
    position: Math.floor(at / perLane),
    step: at % perLane,
  }))
  // The last position stands for those behind it, whose weight is nothing.
  const loadKeys = held
    .map(
      ({ name, position, step }) =>
        `    ${name} = key_word(cache, min(first + slot + ${(position * threads) / lanes}u, last), lane + ${step * lanes}u);`,
    )
    .join('\n')
  const loadValues = lines(
    turns,
    (i) => `    value_${i} = value_word(cache, min(first + own_spread + ${i * spread}u, last), own_word);`,
  )
  const multiplyKeys = lines(
    perLane,
    (step) => `    {
      let at = 2u * (lane + ${step * lanes}u);
${held
  .filter((key) => key.step === step)
  .map(
    ({ name, position }) => `      let low_${position} = low_half(${name});
      let high_${position} = high_half(${name});`,
  )
  .join('\n')}
${lines(
  queries,
  (q) => `      {
        let low = row[at + ${q * four}u];
        let high = row[at + ${q * four + 1}u];
${lines(each, (p) => `        score_${q}_${p} += dot(low, low_${p}) + dot(high, high_${p});`)}
      }`,
)}
    }`,
  )
  const mixValues = lines(
    turns,
    (i) => `    {
      let low = low_half(value_${i});
      let high = high_half(value_${i});
${lines(
  queries,
  (q) => `      let weight_${q} = weights[own_spread + ${q * weightsOf + i * spread}u];
      low_sum_${q} += weight_${q} * low;
      high_sum_${q} += weight_${q} * high;`,
)}
    }`,
  )
  // At the end a thread adds up so many words of the results, of which there is room for so many elements at once.
  const atOnce = Math.min(2, Math.floor(scoresOf / threads))
  const results = Math.ceil((queries * words) / threads)
  const firstOut = `sample * ${heads}u + head * ${queries}u`
  const mixedRow = (q: string) =>
    `((number.y * (groups.x / ${kvHeads}u) + sample) * ${heads}u + head * ${queries}u + ${q}) * ${four + 1}u`
  const write = lines(results, (r) =>
    shared
      ? `  if (thread < ${queries * words - r * threads}u) {
    let i = thread + ${r * threads}u;
    let at = ${mixedRow(`i / ${words}u`)} + 2u * (i % ${words}u);
    out[at] = low_${r};
    out[at + 1u] = high_${r};
  }`
      : `  if (thread < ${queries * words - r * threads}u) {
    let i = thread + ${r * threads}u;
    let inverse = 1.0 / sum_of_query(i / ${words}u);
    let low = low_${r} * inverse;
    let high = high_${r} * inverse;
    out[(${firstOut}) * ${words}u + i] = vec4u(pack2x16float(low.xy), pack2x16float(low.zw), pack2x16float(high.xy), pack2x16float(high.zw));
  }`,
  )
  const behind = biased ? 8 : 7
  return `${binding(0, 'parts', 'vec4f')}
${binding(1, 'places', 'vec4f')}
${binding(2, 'prompt_keys', 'vec4u')}
${binding(3, 'prompt_values', 'vec4u')}
${binding(4, 'own_keys', 'vec4u', 'read_write')}
${binding(5, 'own_values', 'vec4u', 'read_write')}
${binding(6, 'out', shared ? 'vec4f' : 'vec4u', 'read_write')}
${biased ? binding(7, 'bias', 'vec2u') : ''}
${normed ? `${binding(behind, 'q_norm', 'vec4f')}\n${binding(behind + 1, 'k_norm', 'vec4f')}` : ''}
${uniform(behind + (normed ? 2 : 0), 'parts_count: u32, time: u32, window: u32, epsilon: f32')}
${PARTS}
// The head's queries, then its key and its value.
var<workgroup> row: array<vec4f, ${room.row / 4}>;
var<workgroup> scores: array<f32, ${room.scores}>;
var<workgroup> weights: array<f32, ${room.weights}>;
var<workgroup> greatest: array<f32, ${room.most}>;
var<workgroup> fading: array<f32, ${room.fading}>;
fn low_half(word: vec4u) -> vec4f { return vec4f(unpack2x16float(word.x), unpack2x16float(word.y)); }
fn high_half(word: vec4u) -> vec4f { return vec4f(unpack2x16float(word.z), unpack2x16float(word.w)); }
fn packed(at: u32) -> vec4u {
  let low = row[at];
  let high = row[at + 1u];
  return vec4u(pack2x16float(low.xy), pack2x16float(low.zw), pack2x16float(high.xy), pack2x16float(high.zw));
}
struct Cache { length: u32, prompt: u32, own: u32 }
fn key_word(cache: Cache, position: u32, word: u32) -> vec4u {
  if (position < cache.length) { return prompt_keys[cache.prompt + position * ${words}u + word]; }
  return own_keys[cache.own + (position - cache.length) * ${words}u + word];
}
fn value_word(cache: Cache, position: u32, word: u32) -> vec4u {
  if (position < cache.length) { return prompt_values[cache.prompt + position * ${words}u + word]; }
  return own_values[cache.own + (position - cache.length) * ${words}u + word];
}
// Of the threads that have this word of a query's values, when elements of each stand where scores did.
fn sum_of_word(word: u32, element: u32) -> f32 {
  var at = word / ${words}u * ${scoresOf}u + element + word % ${words}u;
  let end = at + ${spread * words}u;
  var sum = 0.0;
  for (; at < end; at += ${words}u) { sum += scores[at]; }
  return sum;
}
// Of a query, when the sums of its threads stand where weights did.
fn sum_of_query(query: u32) -> f32 {
  let end = (query + 1u) * ${softmax}u;
  var sum = 0.0;
  for (var at = query * ${softmax}u; at < end; at++) { sum += weights[at]; }
  return sum;
}
@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) number: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let sample = number.x / ${kvHeads}u;
  let head = number.x % ${kvHeads}u;
  let place = sample * ${(PLACE + headDim) / 4}u;
  let where_ = vec3u(places[place].xyz);
  let length = where_.y;
  let cache = Cache(length, (where_.x * ${kvHeads}u + head) * values.time * ${words}u, number.x * values.window * ${words}u);
  // This workgroup's positions: whole tiles, of which the last share ends with the new token.
  let positions = length + where_.z + 1u;
  let share = (positions + ${tile}u * groups.y - 1u) / (${tile}u * groups.y) * ${tile}u;
  let start = number.y * share;
  let end = min(start + share, positions);
${
  shared
    ? `  if (start >= end) {
    if (thread < ${queries}u) { out[${mixedRow('thread')} + ${four}u] = vec4f(${LEAST}, 0.0, 0.0, 0.0); }
    return;
  }`
    : ''
}
  for (var i = thread; i < ${(queries + 2) * four}u; i += ${threads}u) {
    var column = head * ${queries * four}u + i;
    if (i >= ${(queries + 1) * four}u) {
      column = (${heads + kvHeads}u + head) * ${four}u + i - ${(queries + 1) * four}u;
    } else if (i >= ${queries * four}u) {
      column = (${heads}u + head) * ${four}u + i - ${queries * four}u;
    }
    let samples = groups.x / ${kvHeads}u;
    var sum = sum_of_parts(sample * ${wide}u + column, samples * ${wide}u, values.parts_count);
${biased ? '    let more = bias[column];\n    sum += vec4f(unpack2x16float(more.x), unpack2x16float(more.y));' : ''}
    row[i] = sum;
  }
  workgroupBarrier();
${
  normed
    ? `  for (var i = thread; i < ${(queries + 1) * 4}u; i += ${threads}u) {
    var squares = 0.0;
    for (var at = i % 4u; at < ${four}u; at += 4u) {
      let value = row[i / 4u * ${four}u + at];
      squares += dot(value, value);
    }
    scores[i] = squares;
  }
  workgroupBarrier();`
    : ''
}
  for (var i = thread; i < ${((queries + 1) * four) / 2}u; i += ${threads}u) {
    let turned = i / ${four / 2}u;
    let pair = i % ${four / 2}u;
    let at = turned * ${four}u + pair;
    var first = row[at];
    var second = row[at + ${four / 2}u];
${
  normed
    ? `    let squares = scores[turned * 4u] + scores[turned * 4u + 1u] + scores[turned * 4u + 2u] + scores[turned * 4u + 3u];
    let inverse = inverseSqrt(squares / ${headDim}.0 + values.epsilon);
    if (turned < ${queries}u) {
      first *= inverse * q_norm[pair];
      second *= inverse * q_norm[pair + ${four / 2}u];
    } else {
      first *= inverse * k_norm[pair];
      second *= inverse * k_norm[pair + ${four / 2}u];
    }`
    : ''
}
    let cosine = places[place + 1u + pair];
    let sine = places[place + ${1 + four / 2}u + pair];
    let scale = select(1.0, ${Math.LOG2E / Math.sqrt(headDim)}, turned < ${queries}u);
    row[at] = (first * cosine - second * sine) * scale;
    row[at + ${four / 2}u] = (second * cosine + first * sine) * scale;
  }
  workgroupBarrier();
  if (end == positions && thread < ${words}u) {
    let to = cache.own + where_.z * ${words}u + thread;
    own_keys[to] = packed(${queries * four}u + 2u * thread);
    own_values[to] = packed(${(queries + 1) * four}u + 2u * thread);
  }
  storageBarrier();

  let lane = thread % ${lanes}u;
  let slot = thread / ${lanes}u;
  let own_word = thread % ${words}u;
  let own_spread = thread / ${words}u;
  let query = thread / ${softmax}u;
  let member = thread % ${softmax}u;
  let last = end - 1u;
  var most = ${LEAST};
  var sum = 0.0;
${lines(queries, (q) => `  var low_sum_${q} = vec4f();\n  var high_sum_${q} = vec4f();`)}
${held.map(({ name }) => `  var ${name}: vec4u;`).join('\n')}
${lines(turns, (i) => `  var value_${i}: vec4u;`)}
  {
    let first = start;
${loadKeys}
${loadValues}
  }
  for (var tile = start; tile < end; tile += ${tile}u) {
    // What the next tile takes is asked for as soon as this one's is used.
    let first = tile + ${tile}u;
${lines(queries, (q) => lines(each, (p) => `    var score_${q}_${p} = 0.0;`))}
${multiplyKeys}
    if (first < end) {
${loadKeys}
    }
${lines(queries, (q) => lines(each, (p) => `    scores[${q * scoresOf + (p * threads) / lanes}u + lane * ${laneStride}u + slot] = score_${q}_${p};`))}
    workgroupBarrier();
    var mine: array<f32, ${tile / softmax}>;
    if (query < ${queries}u) {
      var greatest_here = ${LEAST};
${lines(
  tile / softmax,
  (i) => `      {
        let at = query * ${scoresOf}u + member + ${i * softmax}u;
        let score = ${Array.from({ length: lanes }, (_, l) => `scores[at + ${l * laneStride}u]`).join(' + ')};
        mine[${i}] = select(${LEAST}, score, tile + member + ${i * softmax}u < end);
        greatest_here = max(greatest_here, mine[${i}]);
      }`,
)}
      greatest[thread] = greatest_here;
    }
    workgroupBarrier();
    if (query < ${queries}u) {
      var now = most;
      for (var i = 0u; i < ${softmax}u; i++) { now = max(now, greatest[query * ${softmax}u + i]); }
      let factor = exp2(most - now);
      most = now;
      sum *= factor;
${lines(
  tile / softmax,
  (i) => `      {
        let weight = select(0.0, exp2(mine[${i}] - now), tile + member + ${i * softmax}u < end);
        weights[query * ${weightsOf}u + member + ${i * softmax}u] = weight;
        sum += weight;
      }`,
)}
      if (member == 0u) { fading[query] = factor; }
    }
    workgroupBarrier();
${lines(
  queries,
  (q) => `    {
      let factor = fading[${q}];
      if (factor != 1.0) {
        low_sum_${q} *= factor;
        high_sum_${q} *= factor;
      }
    }`,
)}
${mixValues}
    if (first < end) {
${loadValues}
    }
  }

  workgroupBarrier();
  if (query < ${queries}u) {
    weights[thread] = sum;
    if (member == 0u) { fading[query] = most; }
  }
${lines(results, (r) => `  var low_${r} = vec4f();\n  var high_${r} = vec4f();`)}
${lines(
  WORD / atOnce,
  (
    round,
  ) => `${round > 0 ? '  workgroupBarrier();\n' : ''}${lines(queries, (q) => lines(atOnce, (i) => `  scores[${q * scoresOf + i * threads}u + thread] = ${element('sum', q, round * atOnce + i)};`))}
  workgroupBarrier();
${lines(results, (r) => lines(atOnce, (i) => `  ${element('', r, round * atOnce + i)} = sum_of_word(thread + ${r * threads}u, ${i * threads}u);`))}`,
)}
${write}
${shared ? `  if (thread < ${queries}u) { out[${mixedRow('thread')} + ${four}u] = vec4f(fading[thread], sum_of_query(thread), 0.0, 0.0); }` : ''}
}`
}

/** An element of a word that stands in two variables. */
const element = (name: string, number: number, e: number) =>
  `${e < WORD / 2 ? 'low' : 'high'}_${name && `${name}_`}${number}[${e % 4}]`

export interface Settle extends Heads {
  samples: number
  shares: number
  /** Of `attend`. */
  mixed: GPUBuffer
  /** Out: halves [samples, heads, headDim]. */
  out: GPUBuffer
}

/** What shares of the positions have left, joined. */
export function settle({ samples, heads, headDim, shares, mixed, out }: Settle): Dispatch {
  const four = headDim / 4
  return {
    code: `${binding(0, 'mixed', 'vec4f')}
${binding(1, 'out', 'vec2u', 'read_write')}
${uniform(2, 'heads: u32, shares: u32')}
@compute @workgroup_size(${THREADS})
fn main(@builtin(global_invocation_id) id: vec3u) {
  let head = id.x / ${four}u;
  if (head >= values.heads) { return; }
  var most = ${LEAST};
  for (var share = 0u; share < values.shares; share++) {
    most = max(most, mixed[(share * values.heads + head) * ${four + 1}u + ${four}u].x);
  }
  var sum = 0.0;
  var value = vec4f();
  for (var share = 0u; share < values.shares; share++) {
    let place = (share * values.heads + head) * ${four + 1}u;
    let stats = mixed[place + ${four}u];
    // A share without positions has left nothing else.
    if (stats.y == 0.0) { continue; }
    let factor = exp2(stats.x - most);
    sum += factor * stats.y;
    value += factor * mixed[place + id.x % ${four}u];
  }
  value /= sum;
  out[id.x] = vec2u(pack2x16float(value.xy), pack2x16float(value.zw));
}`,
    buffers: [mixed, out],
    values: [{ int: samples * heads }, { int: shares }],
    grid: [Math.ceil((samples * heads * four) / THREADS), 1, 1],
  }
}

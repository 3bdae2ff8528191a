/// <reference types="@webgpu/types" />
/** What happens to rows of a sampling step between products: embedding, residual and norm. A workgroup takes a row. */
import type { Dispatch } from './gpu.ts'
import { binding, SUM, THREADS, uniform } from './wgsl.ts'

/** Floats of `places` before a position's cosines and sines. */
export const PLACE = 4

export interface Embed {
  samples: number
  hidden: number
  headDim: number
  /** Halves, [vocabulary, hidden]. */
  table: GPUBuffer
  /** int32: tokens drawn [steps, samples], and how many steps they are. */
  drawn: GPUBuffer
  at: GPUBuffer
  /** int32: each sample's prompt, and each prompt's length. */
  promptOf: GPUBuffer
  promptLengths: GPUBuffer
  /** [positions, headDim / 2] */
  cos: GPUBuffer
  sin: GPUBuffer
  /** Out: [samples, hidden]. */
  stream: GPUBuffer
  /**
   * Out: [samples, PLACE + headDim], of each sample its prompt, the prompt's length, the tokens drawn before its last, nothing,
   * and the cosines and sines of its last token's position.
   */
  places: GPUBuffer
}

/** Rows of the embedding that the tokens drawn last ask for, and where these tokens stand. */
export function embed({ samples, hidden, headDim, ...given }: Embed): Dispatch {
  const [words, half] = [hidden / 8, headDim / 2]
  const { table, drawn, at, promptOf, promptLengths, cos, sin, stream, places } = given
  return {
    code: `${binding(0, 'embedding', 'vec4u')}
${binding(1, 'drawn', 'i32')}
${binding(2, 'at', 'u32')}
${binding(3, 'prompt_of', 'u32')}
${binding(4, 'prompt_lengths', 'u32')}
${binding(5, 'cosines', 'f32')}
${binding(6, 'sines', 'f32')}
${binding(7, 'stream', 'vec4f', 'read_write')}
${binding(8, 'places', 'f32', 'read_write')}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) number: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = number.x;
  let own = at[0] - 1u;
  let token = u32(drawn[own * groups.x + row]);
  for (var i = thread; i < ${words}u; i += ${THREADS}u) {
    let word = embedding[token * ${words}u + i];
    let to = row * ${words * 2}u + i * 2u;
    stream[to] = vec4f(unpack2x16float(word.x), unpack2x16float(word.y));
    stream[to + 1u] = vec4f(unpack2x16float(word.z), unpack2x16float(word.w));
  }
  let prompt = prompt_of[row];
  let length = prompt_lengths[prompt];
  let place = row * ${PLACE + headDim}u;
  if (thread == 0u) {
    places[place] = f32(prompt);
    places[place + 1u] = f32(length);
    places[place + 2u] = f32(own);
  }
  if (thread < ${half}u) {
    let angle = (length + own) * ${half}u + thread;
    places[place + ${PLACE}u + thread] = cosines[angle];
    places[place + ${PLACE + half}u + thread] = sines[angle];
  }
}`,
    buffers: [table, drawn, at, promptOf, promptLengths, cos, sin, stream, places],
    grid: [samples, 1, 1],
  }
}

/** sum_of_parts: of so many parts, a stride apart, at four places. */
export const PARTS = `
fn sum_of_parts(first: u32, stride: u32, count: u32) -> vec4f {
  var sum = vec4f();
  var at = first;
  var part = 0u;
  // Four are asked for at a time.
  for (; part + 4u <= count; part += 4u) {
    sum += (parts[at] + parts[at + stride]) + (parts[at + 2u * stride] + parts[at + 3u * stride]);
    at += 4u * stride;
  }
  for (; part < count; part++) {
    sum += parts[at];
    at += stride;
  }
  return sum;
}`

export interface AddNorm {
  rows: number
  size: number
  epsilon: number
  /** [rows, size], changed in place where there are parts. */
  stream: GPUBuffer
  /** [count, rows, size], none where `count` is 0. */
  parts: GPUBuffer
  count: number
  /** [size] */
  weight: GPUBuffer
  /** Out: halves, [rows, size]. */
  normed: GPUBuffer
}

/** stream += the sum of parts, and its RMSNorm. */
export function addNorm({ rows, size, epsilon, stream, parts, count, weight, normed }: AddNorm): Dispatch {
  const fours = size / 4
  // What a thread keeps between adding and norming.
  const turns = Array.from({ length: Math.ceil(fours / THREADS) }, (_, turn) => ({
    value: `value_${turn}`,
    at: `thread + ${turn * THREADS}u`,
    inside: (turn + 1) * THREADS <= fours ? 'true' : `thread + ${turn * THREADS}u < ${fours}u`,
  }))
  return {
    code: `${binding(0, 'stream', 'vec4f', 'read_write')}
${binding(1, 'parts', 'vec4f')}
${binding(2, 'weight', 'vec4f')}
${binding(3, 'normed', 'vec2u', 'read_write')}
${uniform(4, 'count: u32, epsilon: f32')}
${PARTS}
${SUM}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) number: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let start = number.x * ${fours}u;
  let stride = groups.x * ${fours}u;
${turns.map(({ value }) => `  var ${value} = vec4f();`).join('\n')}
  var squares = 0.0;
${turns
  .map(
    ({ value, at, inside }) => `  if (${inside}) {
    ${value} = stream[start + ${at}] + sum_of_parts(start + ${at}, stride, values.count);
    if (values.count > 0u) { stream[start + ${at}] = ${value}; }
    squares += dot(${value}, ${value});
  }`,
  )
  .join('\n')}
  let inverse = inverseSqrt(sum_of(squares, thread) / ${size}.0 + values.epsilon);
${turns
  .map(
    ({ value, at, inside }) => `  if (${inside}) {
    let result = ${value} * inverse * weight[${at}];
    normed[start + ${at}] = vec2u(pack2x16float(result.xy), pack2x16float(result.zw));
  }`,
  )
  .join('\n')}
}`,
    buffers: [stream, parts, weight, normed],
    values: [{ int: count }, { float: epsilon }],
    grid: [rows, 1, 1],
  }
}

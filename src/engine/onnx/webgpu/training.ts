/**
 * What scoring and training do to activations between products, in one pass each (`graph/fused.ts`): what products read and
 * give is in halves, the residual stream and all sums in single precision. A workgroup a row, but for the gated product.
 */
import type { Held } from './elementwise.ts'
import type { Dispatch } from './gpu.ts'
import { BUILTINS, binding, GROUP, gridOf, SUM, sizeOf, THREADS, uniform } from './wgsl.ts'

const rowsOf = ({ dims }: Held) => sizeOf(dims.slice(0, -1))
const widthOf = ({ dims }: Held) => dims[dims.length - 1]

const SIGMOID = 'fn sigmoid(x: vec2f) -> vec2f { return 1.0 / (1.0 + exp(-x)); }'

/** silu(gate) * up, of halves. */
export function swiglu(gate: Held, up: Held, out: Held): Dispatch {
  const words = sizeOf(out.dims) / 2
  return {
    code: `${['gate', 'up'].map((name, i) => binding(i, name, 'u32')).join('\n')}
${binding(2, 'result', 'u32', 'read_write')}
${uniform(3, 'words: u32')}
${SIGMOID}
@compute @workgroup_size(${THREADS})
fn main(${BUILTINS}) {
  ${GROUP}
  let at = group * ${THREADS}u + thread;
  if (at >= values.words) { return; }
  let g = unpack2x16float(gate[at]);
  result[at] = pack2x16float(g * sigmoid(g) * unpack2x16float(up[at]));
}`,
    buffers: [gate.buffer, up.buffer, out.buffer],
    values: [{ int: words }],
    grid: gridOf(Math.ceil(words / THREADS)),
  }
}

/** Its gradients. */
export function swigluGradient(gradient: Held, gate: Held, up: Held, ofGate: Held, ofUp: Held): Dispatch {
  const words = sizeOf(gate.dims) / 2
  return {
    code: `${['gradient', 'gate', 'up'].map((name, i) => binding(i, name, 'u32')).join('\n')}
${['of_gate', 'of_up'].map((name, i) => binding(3 + i, name, 'u32', 'read_write')).join('\n')}
${uniform(5, 'words: u32')}
${SIGMOID}
@compute @workgroup_size(${THREADS})
fn main(${BUILTINS}) {
  ${GROUP}
  let at = group * ${THREADS}u + thread;
  if (at >= values.words) { return; }
  let d = unpack2x16float(gradient[at]);
  let g = unpack2x16float(gate[at]);
  let share = sigmoid(g);
  let silu = g * share;
  of_gate[at] = pack2x16float(d * unpack2x16float(up[at]) * (share + silu * (1.0 - share)));
  of_up[at] = pack2x16float(d * silu);
}`,
    buffers: [gradient, gate, up, ofGate, ofUp].map(({ buffer }) => buffer),
    values: [{ int: words }],
    grid: gridOf(Math.ceil(words / THREADS)),
  }
}

const WIDTH = 'rows: u32, pairs: u32'

/** The RMSNorm of x, and what that multiplied by, [rows]; all in single precision. */
export function rmsNorm(x: Held, weight: Held, epsilon: number, normed: Held, inverse: Held): Dispatch {
  return {
    code: `${['x', 'weight'].map((name, i) => binding(i, name, 'vec2f')).join('\n')}
${binding(2, 'normed', 'vec2f', 'read_write')}
${binding(3, 'inverse', 'f32', 'read_write')}
${uniform(4, `${WIDTH}, epsilon: f32`)}
${SUM}
@compute @workgroup_size(${THREADS})
fn main(${BUILTINS}) {
  ${GROUP}
  if (group >= values.rows) { return; }
  let start = group * values.pairs;
  var squares = 0.0;
  for (var i = thread; i < values.pairs; i += ${THREADS}u) { squares += dot(x[start + i], x[start + i]); }
  let scale = inverseSqrt(sum_of(squares, thread) / f32(2u * values.pairs) + values.epsilon);
  if (thread == 0u) { inverse[group] = scale; }
  for (var i = thread; i < values.pairs; i += ${THREADS}u) { normed[start + i] = x[start + i] * scale * weight[i]; }
}`,
    buffers: [x, weight, normed, inverse].map(({ buffer }) => buffer),
    values: [{ int: rowsOf(x) }, { int: widthOf(x) / 2 }, { float: epsilon }],
    grid: gridOf(rowsOf(x)),
  }
}

/** sum = stream + part, its RMSNorm as halves, and what that multiplied by, [rows]. */
export function addRmsNorm(
  stream: Held,
  part: Held,
  weight: Held,
  epsilon: number,
  { normed, sum, inverse }: { normed: Held; sum: Held; inverse: Held },
): Dispatch {
  return {
    code: `${binding(0, 'stream', 'vec2f')}
${binding(1, 'part', 'u32')}
${binding(2, 'weight', 'vec2f')}
${binding(3, 'normed', 'u32', 'read_write')}
${binding(4, 'total', 'vec2f', 'read_write')}
${binding(5, 'inverse', 'f32', 'read_write')}
${uniform(6, `${WIDTH}, epsilon: f32`)}
${SUM}
@compute @workgroup_size(${THREADS})
fn main(${BUILTINS}) {
  ${GROUP}
  if (group >= values.rows) { return; }
  let start = group * values.pairs;
  var squares = 0.0;
  for (var i = thread; i < values.pairs; i += ${THREADS}u) {
    let x = stream[start + i] + unpack2x16float(part[start + i]);
    total[start + i] = x;
    squares += dot(x, x);
  }
  let scale = inverseSqrt(sum_of(squares, thread) / f32(2u * values.pairs) + values.epsilon);
  if (thread == 0u) { inverse[group] = scale; }
  for (var i = thread; i < values.pairs; i += ${THREADS}u) {
    normed[start + i] = pack2x16float(total[start + i] * scale * weight[i]);
  }
}`,
    buffers: [stream, part, weight, normed, sum, inverse].map(({ buffer }) => buffer),
    values: [{ int: rowsOf(stream) }, { int: widthOf(stream) / 2 }, { float: epsilon }],
    grid: gridOf(rowsOf(stream)),
  }
}

/**
 * The gradients of the stream and of the part, one number in either's type: through the norm, given its result's gradient
 * in parts to be added up, and beside it, given the sum's where there is one.
 */
export function rmsNormGradient(
  parts: readonly Held[],
  beside: Held | null,
  { sum, inverse, weight }: { sum: Held; inverse: Held; weight: Held },
  { ofStream, ofPart }: { ofStream: Held; ofPart: Held },
): Dispatch {
  const given = [...parts, ...(beside === null ? [] : [beside]), sum, inverse, weight, ofStream, ofPart]
  let place = 0
  return {
    code: `${parts.map((_, p) => binding(place++, `part${p}`, 'u32')).join('\n')}
${beside === null ? '' : binding(place++, 'beside', 'vec2f')}
${binding(place++, 'total', 'vec2f')}
${binding(place++, 'inverse', 'f32')}
${binding(place++, 'weight', 'vec2f')}
${binding(place++, 'of_stream', 'vec2f', 'read_write')}
${binding(place++, 'of_part', 'u32', 'read_write')}
${uniform(place, WIDTH)}
${SUM}
fn along(at: u32, i: u32) -> vec2f {
  return (${parts.map((_, p) => `unpack2x16float(part${p}[at])`).join(' + ')}) * weight[i];
}
@compute @workgroup_size(${THREADS})
fn main(${BUILTINS}) {
  ${GROUP}
  if (group >= values.rows) { return; }
  let start = group * values.pairs;
  let scale = inverse[group];
  var product = 0.0;
  for (var i = thread; i < values.pairs; i += ${THREADS}u) {
    product += dot(along(start + i, i), total[start + i] * scale);
  }
  let mean = sum_of(product, thread) / f32(2u * values.pairs);
  for (var i = thread; i < values.pairs; i += ${THREADS}u) {
    let at = start + i;
    let found = (along(at, i) - total[at] * scale * mean) * scale${beside === null ? '' : ' + beside[at]'};
    of_stream[at] = found;
    of_part[at] = pack2x16float(found);
  }
}`,
    buffers: given.map(({ buffer }) => buffer),
    values: [{ int: rowsOf(sum) }, { int: widthOf(sum) / 2 }],
    grid: gridOf(rowsOf(sum)),
  }
}

const LOG2E = Math.LOG2E
const LN2 = Math.LN2

/**
 * Log-probability of each row's target under softmax(logits / temperature) and the logarithm of the sum of exponentials,
 * from halves.
 */
export function targetLogprobs(
  logits: Held,
  targets: Held,
  temperature: Held,
  { logprobs, logSums }: { logprobs: Held; logSums: Held },
): Dispatch {
  return {
    code: `${binding(0, 'logits', 'u32')}
${binding(1, 'targets', 'i32')}
${binding(2, 'temperature', 'f32')}
${binding(3, 'logprobs', 'f32', 'read_write')}
${binding(4, 'log_sums', 'f32', 'read_write')}
${uniform(5, WIDTH)}
// The greatest logit that a thread has seen, and the sum of powers below it.
var<workgroup> masses: array<vec2f, ${THREADS}>;
fn joined(a: vec2f, b: vec2f, coolness: f32) -> vec2f {
  let most = max(a.x, b.x);
  return vec2f(most, a.y * exp2((a.x - most) * coolness) + b.y * exp2((b.x - most) * coolness));
}
@compute @workgroup_size(${THREADS})
fn main(${BUILTINS}) {
  ${GROUP}
  if (group >= values.rows) { return; }
  let start = group * values.pairs;
  let coolness = ${LOG2E} / temperature[0];
  // Of no logits: finite, so that no difference of infinities is taken.
  var mass = vec2f(-1e30, 0.0);
  for (var i = thread; i < values.pairs; i += ${THREADS}u) {
    let pair = unpack2x16float(logits[start + i]);
    let most = max(mass.x, max(pair.x, pair.y));
    let powers = exp2((vec3f(mass.x, pair) - most) * coolness);
    mass = vec2f(most, mass.y * powers.x + powers.y + powers.z);
  }
  masses[thread] = mass;
  workgroupBarrier();
  for (var step = ${THREADS / 2}u; step > 0u; step >>= 1u) {
    if (thread < step) { masses[thread] = joined(masses[thread], masses[thread + step], coolness); }
    workgroupBarrier();
  }
  if (thread == 0u) {
    let log_sum = ${LN2} * (masses[0].x * coolness + log2(masses[0].y));
    let wanted = u32(targets[group]);
    log_sums[group] = log_sum;
    logprobs[group] = unpack2x16float(logits[start + (wanted >> 1u)])[wanted & 1u] / temperature[0] - log_sum;
  }
}`,
    buffers: [logits, targets, temperature, logprobs, logSums].map(({ buffer }) => buffer),
    values: [{ int: rowsOf(logits) }, { int: widthOf(logits) / 2 }],
    grid: gridOf(rowsOf(logits)),
  }
}

/** 2^lift softmax(logits / temperature), given the logarithms of its sums. */
export function liftedShares(
  logits: Held,
  logSums: Held,
  temperature: Held,
  lift: number,
  out: Held,
): Dispatch {
  const words = sizeOf(logits.dims) / 2
  return {
    code: `${binding(0, 'logits', 'u32')}
${binding(1, 'log_sums', 'f32')}
${binding(2, 'temperature', 'f32')}
${binding(3, 'shares', 'u32', 'read_write')}
${uniform(4, 'words: u32, pairs: u32, lift: f32')}
@compute @workgroup_size(${THREADS})
fn main(${BUILTINS}) {
  ${GROUP}
  let at = group * ${THREADS}u + thread;
  if (at >= values.words) { return; }
  let powers = (unpack2x16float(logits[at]) / temperature[0] - log_sums[at / values.pairs]) * ${LOG2E};
  shares[at] = pack2x16float(exp2(powers + values.lift));
}`,
    buffers: [logits, logSums, temperature, out].map(({ buffer }) => buffer),
    values: [{ int: words }, { int: widthOf(logits) / 2 }, { float: lift }],
    grid: gridOf(Math.ceil(words / THREADS)),
  }
}

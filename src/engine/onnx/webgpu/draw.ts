/// <reference types="@webgpu/types" />
/**
 * Drawing a token from each row of logits [rows, vocabulary], or from its nucleus (Holtzman et al. 2020). Masses of
 * probability are whole numbers of 2^-30, so that their sums do not depend on the order in which threads add.
 *
 * Logits are multiplied by one over the temperature. `PIECES` workgroups share a row.
 */
import type { Dispatch } from './gpu.ts'
import { binding, SUM, THREADS, uniform } from './wgsl.ts'

export const PIECES = 16
/** Of a level of the nucleus. */
export const BINS = 128
/** Of all tokens. Their masses, each rounded, are never more than twice as much. */
const MASS = 2 ** 30
/**
 * The nucleus's least log-probability is looked for within so many nats below certainty: all tokens below it together have
 * less than 1e-5. Two levels of bins, the second within one of the first, tell 0.0015 nats apart; tokens within 0.2% of each
 * other's probability count as equally likely.
 */
const RANGE = 24
/** Threads that meet in a bin do so in several copies of it. */
const COPIES = 8

export interface Draw {
  rows: number
  vocabulary: number
  temperature: number
  /** Below 1: from the nucleus. */
  topP: number
  /** [rows, vocabulary] */
  logits: GPUBuffer
  /** [rows, PIECES, 2], of each piece its greatest logit over the temperature and the sum of exponentials below it. */
  pieces: GPUBuffer
  /** int32 [2, rows, BINS], coarse and fine masses. */
  bins: GPUBuffer
  /** int32 [rows, PIECES], the mass of those that may be drawn. */
  kept: GPUBuffer
  /** int32 [1], steps whose tokens are drawn: this is another one. */
  at: GPUBuffer
  /** [steps, rows], the numbers that decide. */
  uniforms: GPUBuffer
  /** Out: int32 [steps, rows]. */
  drawn: GPUBuffer
  /** Out: [steps, rows] at the temperature, and under what was drawn from. Not numbers where logits are not. */
  logprobs: GPUBuffer
  samplingLogprobs: GPUBuffer
}

/** The dispatches that draw: those of the nucleus only where there is one. */
export function draw(given: Draw): Dispatch[] {
  const { rows, vocabulary, temperature, topP } = given
  const { logits, pieces, bins, kept, at, uniforms, drawn, logprobs, samplingLogprobs } = given
  const values = [{ int: vocabulary }, { float: 1 / temperature }]
  const ofNucleus = [...values, { float: topP }]
  const grid = [PIECES, rows, 1] as const
  const nucleus: Dispatch[] = [
    { code: BIN_COARSELY, buffers: [logits, pieces, bins], values, grid },
    { code: BIN_FINELY, buffers: [logits, pieces, bins], values: ofNucleus, grid },
  ]
  return [
    { code: WEIGH, buffers: [logits, pieces, bins, at], values, grid },
    ...(topP < 1 ? nucleus : []),
    { code: KEEP, buffers: [logits, pieces, bins, kept], values: ofNucleus, grid },
    {
      code: CHOOSE,
      buffers: [logits, pieces, bins, kept, uniforms, at, drawn, logprobs, samplingLogprobs],
      values: ofNucleus,
      grid: [rows, 1, 1],
    },
  ]
}

const VALUES = 'vocabulary: u32, coolness: f32'
const NUCLEUS_VALUES = `${VALUES}, top_p: f32`
const MAIN = `@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) number: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32)`

/** Logits stand as bits: what is no number is told by them, which arithmetic need not. */
const LOGITS = binding(0, 'logits', 'u32')

/** A piece of a row: from, to. */
const PIECE = `
fn piece_of(number: u32) -> vec2u {
  let each = (values.vocabulary + ${PIECES - 1}u) / ${PIECES}u;
  return min(vec2u(number, number + 1u) * each, vec2u(values.vocabulary));
}`

/** Less than any logit over a temperature, and what stands for a sum where a logit is no number. */
const LEAST = '-3.0e38'
const NO_NUMBER = '-1.0e30'

/** Begins a step: counters are set to nothing, and `at` counts on. */
const WEIGH = `${LOGITS}
${binding(1, 'pieces', 'vec2f', 'read_write')}
${binding(2, 'bins', 'u32', 'read_write')}
${binding(3, 'at', 'u32', 'read_write')}
${uniform(4, VALUES)}
${PIECE}
${SUM}
var<workgroup> greatest: array<f32, ${THREADS}>;
fn greatest_of(value: f32, thread: u32) -> f32 {
  greatest[thread] = value;
  workgroupBarrier();
  for (var step = ${THREADS / 2}u; step > 0u; step >>= 1u) {
    if (thread < step) { greatest[thread] = max(greatest[thread], greatest[thread + step]); }
    workgroupBarrier();
  }
  return greatest[0];
}
${MAIN} {
  let row = number.y * values.vocabulary;
  let piece = piece_of(number.x);
  var most = ${LEAST};
  var broken = false;
  for (var i = piece.x + thread; i < piece.y; i += ${THREADS}u) {
    let bits = logits[row + i];
    if ((bits & 0x7f800000u) == 0x7f800000u) { broken = true; } else { most = max(most, bitcast<f32>(bits) * values.coolness); }
  }
  most = greatest_of(most, thread);
  var sum = 0.0;
  if (broken) {
    sum = ${NO_NUMBER};
  } else {
    for (var i = piece.x + thread; i < piece.y; i += ${THREADS}u) {
      sum += exp(bitcast<f32>(logits[row + i]) * values.coolness - most);
    }
  }
  sum = sum_of(sum, thread);
  if (thread == 0u) { pieces[number.y * ${PIECES}u + number.x] = vec2f(most, sum); }
  if (number.x == 0u && thread < ${BINS}u) {
    bins[number.y * ${BINS}u + thread] = 0u;
    bins[(groups.y + number.y) * ${BINS}u + thread] = 0u;
  }
  if (number.x == 0u && number.y == 0u && thread == 0u) { at[0] += 1u; }
}`

/**
 * certain: the logarithm of the sum of a row's exponentials, or `UNKNOWN` where a logit is no number; the piece of such a row
 * is empty. Bins stand in the order of falling probability.
 */
const UNKNOWN = '1.0e30'
const MASSES = `${LOGITS}
${binding(1, 'pieces', 'vec2f')}
${PIECE}
fn certain(row: u32) -> f32 {
  var most = ${LEAST};
  var sum = 0.0;
  var broken = false;
  for (var p = 0u; p < ${PIECES}u; p++) { most = max(most, pieces[row * ${PIECES}u + p].x); }
  for (var p = 0u; p < ${PIECES}u; p++) {
    let piece = pieces[row * ${PIECES}u + p];
    broken = broken || piece.y < 0.0;
    sum += piece.y * exp(piece.x - most);
  }
  return select(most + log(sum), ${UNKNOWN}, broken);
}
fn known_piece(number: u32, sum: f32) -> vec2u {
  return select(piece_of(number), vec2u(), sum == ${UNKNOWN});
}
fn logprob_of(row: u32, token: u32, sum: f32) -> f32 {
  return fma(bitcast<f32>(logits[row * values.vocabulary + token]), values.coolness, -sum);
}
fn mass_of(logprob: f32) -> u32 { return u32(exp(min(logprob, 0.0)) * ${MASS}.0 + 0.5); }
fn bin_of(logprob: f32, per_bin: f32, start: f32) -> u32 {
  return u32(clamp((start - logprob) * per_bin, 0.0, ${BINS - 1}.0));
}
fn coarse_bin_of(logprob: f32) -> u32 { return bin_of(logprob, ${BINS / RANGE}, 0.0); }
fn fine_bin_of(logprob: f32, coarse: u32) -> u32 {
  return bin_of(logprob, ${BINS ** 2 / RANGE}, f32(coarse) * -${RANGE / BINS});
}`

/** Counts in bins of the workgroup, which are then added to the row's. */
const COUNT = `
${binding(2, 'bins', 'atomic<u32>', 'read_write')}
var<workgroup> counts: array<atomic<u32>, ${BINS * COPIES}>;
fn count(bin: u32, mass: u32, thread: u32) {
  atomicAdd(&counts[bin * ${COPIES}u + thread % ${COPIES}u], mass);
}
fn give(start: u32, thread: u32) {
  workgroupBarrier();
  if (thread >= ${BINS}u) { return; }
  var sum = 0u;
  for (var copy = 0u; copy < ${COPIES}u; copy++) { sum += atomicLoad(&counts[thread * ${COPIES}u + copy]); }
  if (sum > 0u) { atomicAdd(&bins[start + thread], sum); }
}`

/** Bins as nobody adds to them any more. */
const FULL_BINS = binding(2, 'bins', 'u32')

/** scan: the sum of the numbers of the threads up to and with this one. */
const SCAN = `
var<workgroup> scanned: array<u32, ${THREADS}>;
fn scan(value: u32, thread: u32) -> u32 {
  var sum = value;
  scanned[thread] = sum;
  workgroupBarrier();
  for (var step = 1u; step < ${THREADS}u; step <<= 1u) {
    var before = 0u;
    if (thread >= step) { before = scanned[thread - step]; }
    workgroupBarrier();
    sum += before;
    scanned[thread] = sum;
    workgroupBarrier();
  }
  return sum;
}`

/** reaching: the first bin with which the sum reaches what is wanted, the last if none does, and what was before it. */
const reaching = (name: string, load: string) => `
var<workgroup> found_${name}: vec2u;
fn reaching_${name}(start: u32, wanted: u32, thread: u32) -> vec2u {
  var mine = 0u;
  if (thread < ${BINS}u) { mine = ${load}; }
  let sum = scan(mine, thread);
  let enough = sum >= wanted || thread == ${BINS - 1}u;
  if (thread < ${BINS}u && enough && (thread == 0u || sum - mine < wanted)) { found_${name} = vec2u(thread, sum - mine); }
  return workgroupUniformLoad(&found_${name});
}`
const WANTED = `u32(values.top_p * ${MASS}.0)`

/** The coarse ones of all tokens. */
const BIN_COARSELY = `${MASSES}
${COUNT}
${uniform(3, VALUES)}
${MAIN} {
  let row = number.y;
  let sum = certain(row);
  let piece = known_piece(number.x, sum);
  for (var i = piece.x + thread; i < piece.y; i += ${THREADS}u) {
    let logprob = logprob_of(row, i, sum);
    let mass = mass_of(logprob);
    if (mass > 0u) { count(coarse_bin_of(logprob), mass, thread); }
  }
  give(row * ${BINS}u, thread);
}`

/** The fine ones of the tokens in the coarse bin with which the nucleus is full. */
const BIN_FINELY = `${MASSES}
${COUNT}
${uniform(3, NUCLEUS_VALUES)}
${SCAN}
${reaching('coarse', 'atomicLoad(&bins[start + thread])')}
${MAIN} {
  let row = number.y;
  let edge = reaching_coarse(row * ${BINS}u, ${WANTED}, thread).x;
  let sum = certain(row);
  let piece = known_piece(number.x, sum);
  for (var i = piece.x + thread; i < piece.y; i += ${THREADS}u) {
    let logprob = logprob_of(row, i, sum);
    let mass = mass_of(logprob);
    if (mass > 0u && coarse_bin_of(logprob) == edge) { count(fine_bin_of(logprob, edge), mass, thread); }
  }
  give((groups.y + row) * ${BINS}u, thread);
}`

/** Which tokens may be drawn: those in the nucleus, whose edge is a coarse bin and a fine one, or all. */
const INSIDE = `${SCAN}
${reaching('full', 'bins[start + thread]')}
fn edge_of(row: u32, rows: u32, thread: u32) -> vec2u {
  if (values.top_p >= 1.0) { return vec2u(${BINS}u); }
  let wanted = ${WANTED};
  let coarse = reaching_full(row * ${BINS}u, wanted, thread);
  let fine = reaching_full((rows + row) * ${BINS}u, wanted - min(wanted, coarse.y), thread);
  return vec2u(coarse.x, fine.x);
}
fn inside(logprob: f32, edge: vec2u) -> bool {
  let bin = coarse_bin_of(logprob);
  return bin < edge.x || (bin == edge.x && fine_bin_of(logprob, bin) <= edge.y);
}`

/** The mass that a piece keeps. */
const KEEP = `${MASSES}
${FULL_BINS}
${binding(3, 'kept', 'u32', 'read_write')}
${uniform(4, NUCLEUS_VALUES)}
${INSIDE}
${MAIN} {
  let row = number.y;
  let edge = edge_of(row, groups.y, thread);
  let sum = certain(row);
  let piece = known_piece(number.x, sum);
  var mass = 0u;
  for (var i = piece.x + thread; i < piece.y; i += ${THREADS}u) {
    let logprob = logprob_of(row, i, sum);
    if (inside(logprob, edge)) { mass += mass_of(logprob); }
  }
  mass = scan(mass, thread);
  if (thread == ${THREADS - 1}u) { kept[row * ${PIECES}u + number.x] = mass; }
}`

/** Draws by the uniform number, in the order of ids. A workgroup takes a row. */
const CHOOSE = `${MASSES}
${FULL_BINS}
${binding(3, 'kept', 'u32')}
${binding(4, 'uniforms', 'f32')}
${binding(5, 'at', 'u32')}
${binding(6, 'drawn', 'u32', 'read_write')}
${binding(7, 'logprobs', 'u32', 'read_write')}
${binding(8, 'sampling_logprobs', 'u32', 'read_write')}
${uniform(9, NUCLEUS_VALUES)}
${INSIDE}
// A number of 24 bits by one of 31, over 2^24: of halves' products the upper one stands at 2^28, the others are brought to
// 2^12, which the lowest does not carry into.
fn fraction_of(number: u32, total: u32) -> u32 {
  let upper = number >> 12u;
  let lower = number & 0xfffu;
  let high = total >> 16u;
  let low = total & 0xffffu;
  return ((upper * high) << 4u) + ((upper * low + ((lower * high) << 4u) + ((lower * low) >> 12u)) >> 12u);
}
${MAIN} {
  let row = number.x;
  let edge = edge_of(row, groups.x, thread);
  let sum = certain(row);
  var total = 0u;
  for (var p = 0u; p < ${PIECES}u; p++) { total += kept[row * ${PIECES}u + p]; }
  let place = (at[0] - 1u) * groups.x + row;
  // Of 24 bits, as many as single precision has.
  var wanted = fraction_of(min(u32(uniforms[place] * 16777216.0), 0xffffffu), total);
  var chosen = 0u;
  for (; chosen < ${PIECES - 1}u; chosen++) {
    let mass = kept[row * ${PIECES}u + chosen];
    if (wanted < mass) { break; }
    wanted -= mass;
  }
  let piece = known_piece(chosen, sum);
  let each = (piece.y - piece.x + ${THREADS - 1}u) / ${THREADS}u;
  let start = min(piece.x + thread * each, piece.y);
  let end = min(start + each, piece.y);
  var mine = 0u;
  for (var i = start; i < end; i++) {
    let logprob = logprob_of(row, i, sum);
    if (inside(logprob, edge)) { mine += mass_of(logprob); }
  }
  var seen = scan(mine, thread) - mine;
  // Another kernel's arithmetic may round otherwise: what it found is not looked for beyond what is here.
  wanted = min(wanted, max(scanned[${THREADS - 1}u], 1u) - 1u);
  // Of logits that are no numbers nothing can be drawn: who reads the log-probabilities says so.
  if (total == 0u && thread == 0u) {
    drawn[place] = 0u;
    logprobs[place] = 0x7fc00000u;
    sampling_logprobs[place] = 0x7fc00000u;
  }
  if (wanted < seen || wanted >= seen + mine) { return; }
  for (var i = start; i < end; i++) {
    let logprob = logprob_of(row, i, sum);
    if (!inside(logprob, edge)) { continue; }
    seen += mass_of(logprob);
    if (wanted >= seen) { continue; }
    drawn[place] = i;
    logprobs[place] = bitcast<u32>(logprob);
    sampling_logprobs[place] = bitcast<u32>(select(logprob, logprob - log(f32(total) / ${MASS}.0), values.top_p < 1.0));
    break;
  }
}`

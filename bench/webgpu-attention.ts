/**
 * Times attention of packed rows on WebGPU, forward and backward, with products of matrices where the GPU has them and
 * without, and holds some of what it gives to plain sums.
 *
 *     npx tsx bench/webgpu-attention.ts [--small]
 */
import { parseArgs } from 'node:util'
import { fromHalf, toHalf } from '../src/engine/onnx/gpu/kernels/testing/halves.ts'
import {
  gradientScratch,
  type Heads,
  packedAttention,
  packedAttentionGradient,
  rangesBytes,
  segmentRanges,
  sumsBytes,
} from '../src/engine/onnx/webgpu/attention.ts'
import { openDawn } from '../src/engine/onnx/webgpu/dawn.ts'
import type { Dispatch } from '../src/engine/onnx/webgpu/gpu.ts'

const { small } = parseArgs({ options: { small: { type: 'boolean', default: false } } }).values

/** Rows of a prompt and completions, in models' layers: of Qwen2.5-1.5B, and of SmolLM2-135M. */
const shape = small
  ? { batch: 2, prompt: 20, completions: 2, length: 30 }
  : { batch: 12, prompt: 300, completions: 4, length: 550 }
const models: Heads[] = small
  ? [{ heads: 2, kvHeads: 1, headDim: 32 }]
  : [
      { heads: 12, kvHeads: 2, headDim: 128 },
      { heads: 9, kvHeads: 3, headDim: 64 },
    ]
const [ROUNDS, TIMES] = small ? [1, 1] : [5, 4]

const { batch, prompt, completions, length } = shape
const full = prompt + completions * length
/** Rows are padded to a multiple of a matrix's side. */
const time = 16 * Math.ceil(full / 16)
const rows = { batch, time }
const segmentOf = (t: number) => (t < prompt ? 0 : t < full ? 1 + Math.floor((t - prompt) / length) : -1)
const sees = (t: number, key: number) => key <= t && (segmentOf(key) === 0 || segmentOf(key) === segmentOf(t))
/** Of each head of a row, pairs of positions of which one sees the other. */
const pairs = (prompt * (prompt + 1)) / 2 + completions * length * (prompt + (length + 1) / 2)
/** What is looked at: the first, the last, and where segments begin and end. */
const looks = [0, prompt - 1, prompt, prompt + length - 1, prompt + length + 7, full - 1]
/** The last row, as it is the farthest. */
const row = batch - 1

const gpu = await openDawn()
console.log(gpu.traits.name, gpu.traits.matrices ? 'with' : 'without', 'products of matrices')

/** Halves that come again after so many, which no row's length divides. */
const PERIOD = 1_000_003
let seed = 1
const noise = (): number => {
  let sum = 0
  for (let i = 0; i < 4; i++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    sum += seed / 2 ** 32 - 0.5
  }
  return sum * Math.sqrt(3)
}

/** Milliseconds of what is run, the best of several rounds. */
async function milliseconds(steps: readonly Dispatch[]): Promise<number> {
  const prepared = gpu.prepare(steps)
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round <= ROUNDS; round++) {
    const start = performance.now()
    prepared.run(TIMES)
    await gpu.done()
    // The first warms up.
    if (round > 0) best = Math.min(best, (performance.now() - start) / TIMES)
  }
  prepared.dispose()
  return best
}

for (const model of models) {
  const { heads, kvHeads, headDim } = model
  const group = heads / kvHeads
  const [wide, narrow] = [time * heads * headDim, time * kvHeads * headDim]
  const owned: GPUBuffer[] = []
  const empty = (bytes: number): GPUBuffer => {
    const made = gpu.buffer(bytes)
    owned.push(made)
    return made
  }
  /** A tensor on the GPU, and its last row here. */
  const drawn = (perRow: number) => {
    const noisy = Uint16Array.from({ length: Math.min(PERIOD, batch * perRow) }, () => toHalf(noise()))
    const bits = new Uint16Array(batch * perRow)
    for (let at = 0; at < bits.length; at += noisy.length)
      bits.set(noisy.subarray(0, Math.min(noisy.length, bits.length - at)), at)
    // Of padding no gradient comes.
    bits.subarray((perRow / time) * full + row * perRow).fill(0)
    const buffer = empty(bits.byteLength)
    gpu.write(buffer, bits)
    return { buffer, last: Float64Array.from(bits.subarray(row * perRow), fromHalf) }
  }
  const [q, gradient, k, v] = [drawn(wide), drawn(wide), drawn(narrow), drawn(narrow)]
  const segments = empty(4 * batch * time)
  gpu.write(
    segments,
    Int32Array.from({ length: batch * time }, (_, i) => segmentOf(i % time)),
  )
  const scratch = gradientScratch(model, rows)
  const buffers = {
    ...{ q: q.buffer, k: k.buffer, v: v.buffer, gradient: gradient.buffer, segments },
    ranges: empty(rangesBytes(rows)),
    mixed: empty(2 * batch * wide),
    sums: empty(sumsBytes(model, rows)),
    toQueries: empty(2 * batch * wide),
    toKeys: empty(2 * batch * narrow),
    toValues: empty(2 * batch * narrow),
    perRow: empty(scratch.perRow),
    partial: empty(scratch.partial),
  }
  const looked = empty(2 * wide)
  /** The last row of a tensor, of that many bytes a row. */
  const lastRow = async (buffer: GPUBuffer, into: Uint16Array | Float32Array): Promise<void> => {
    const bytes = into.byteLength
    const copy = { source: buffer, sourceOffset: row * bytes, target: looked, targetOffset: 0, bytes }
    gpu.prepare([copy]).run()
    await gpu.read(looked, into)
  }
  const halves = async (buffer: GPUBuffer, count: number): Promise<Float64Array> => {
    const bits = new Uint16Array(count)
    await lastRow(buffer, bits)
    return Float64Array.from(bits, fromHalf)
  }

  for (const matrices of gpu.traits.matrices ? [true, false] : [false]) {
    const traits = { ...gpu.traits, matrices }
    const ranges = segmentRanges(rows, buffers)
    const forward = packedAttention(model, rows, buffers, traits)
    const backward = packedAttentionGradient(model, rows, buffers, traits)
    const start = performance.now()
    await gpu.compile([...ranges, ...forward, ...backward].map(({ code }) => code))
    const compiled = performance.now() - start
    const before = await milliseconds(ranges)
    const times = [await milliseconds(forward), await milliseconds(backward)]
    const each: string[] = []
    for (const step of backward) each.push((await milliseconds([step])).toFixed(2))
    // Two products forward, five backward.
    const rates = [4, 10].map((flops, i) => (flops * headDim * heads * batch * pairs) / times[i] / 1e9)
    const [there, back] = times.map((ms, i) => `${ms.toFixed(2)} ms (${rates[i].toFixed(1)} TFLOP/s)`)
    console.log(
      `${heads} heads of ${headDim}, ${kvHeads} of keys, ${matrices ? 'by matrices' : 'plainly'}: forward ${there}, ` +
        `backward ${back}: ${each.join(' + ')}; ranges ${before.toFixed(2)} ms; compiled in ${compiled.toFixed(0)} ms`,
    )

    const mixed = await halves(buffers.mixed, wide)
    const toQueries = await halves(buffers.toQueries, wide)
    const toKeys = await halves(buffers.toKeys, narrow)
    const toValues = await halves(buffers.toValues, narrow)
    const sums = new Float32Array(heads * time)
    await lastRow(buffers.sums, sums)
    const at = (t: number, head: number) => (t * heads + head) * headDim
    const keyAt = (t: number, head: number) => (t * kvHeads + Math.floor(head / group)) * headDim
    const dot = (x: Float64Array, i: number, y: Float64Array, j: number) => {
      let sum = 0
      for (let d = 0; d < headDim; d++) sum += x[i + d] * y[j + d]
      return sum
    }
    const scale = 1 / Math.sqrt(headDim)
    const score = (t: number, key: number, head: number) =>
      scale * dot(q.last, at(t, head), k.last, keyAt(key, head))
    /** Of a query and a key: its share, and how the score is to change, by what forward has left. */
    const change = (t: number, key: number, head: number): [number, number] => {
      const share = 2 ** (score(t, key, head) * Math.LOG2E - sums[head * time + t])
      const taken = dot(gradient.last, at(t, head), mixed, at(t, head))
      return [share, scale * share * (dot(gradient.last, at(t, head), v.last, keyAt(key, head)) - taken)]
    }
    const errors = { sums: 0, mixed: 0, toQueries: 0, toKeys: 0, toValues: 0 }
    const norms = { sums: 1, mixed: 0, toQueries: 0, toKeys: 0, toValues: 0 }
    const hold = (name: keyof typeof errors, found: number, wanted: number) => {
      // What is no number is wrong.
      const error = Number.isFinite(found) ? Math.abs(found - wanted) : Number.POSITIVE_INFINITY
      errors[name] = Math.max(errors[name], error)
      norms[name] = Math.max(norms[name], Math.abs(wanted))
    }
    for (const head of [0, heads - 1])
      for (const t of looks) {
        const seen = Array.from({ length: t + 1 }, (_, key) => key).filter((key) => sees(t, key))
        const powers = seen.map((key) => Math.exp(score(t, key, head)))
        const whole = powers.reduce((sum, power) => sum + power)
        hold('sums', sums[head * time + t], Math.log2(whole))
        const changes = seen.map((key) => change(t, key, head)[1])
        const after = Array.from({ length: full - t }, (_, i) => t + i).filter((query) => sees(query, t))
        const ofGroup = Array.from({ length: group }, (_, i) => Math.floor(head / group) * group + i)
        const queries = ofGroup.flatMap((one) =>
          after.map((query) => ({ from: at(query, one), shares: change(query, t, one) })),
        )
        for (let d = 0; d < headDim; d += 7) {
          const sumOf = <T>(of: readonly T[], term: (one: T, i: number) => number) =>
            of.reduce((sum, one, i) => sum + term(one, i), 0)
          const mean = sumOf(seen, (key, i) => (powers[i] / whole) * v.last[keyAt(key, head) + d])
          hold('mixed', mixed[at(t, head) + d], mean)
          const ofQuery = sumOf(seen, (key, i) => changes[i] * k.last[keyAt(key, head) + d])
          hold('toQueries', toQueries[at(t, head) + d], ofQuery)
          const ofKey = sumOf(queries, ({ from, shares }) => shares[1] * q.last[from + d])
          hold('toKeys', toKeys[keyAt(t, head) + d], ofKey)
          const ofValue = sumOf(queries, ({ from, shares }) => shares[0] * gradient.last[from + d])
          hold('toValues', toValues[keyAt(t, head) + d], ofValue)
        }
      }
    for (const name of Object.keys(errors) as (keyof typeof errors)[]) {
      const error = errors[name] / norms[name]
      if (!(error < 3e-3))
        throw new Error(`${name} is off by ${error.toExponential(1)} of the greatest number`)
    }
  }
  for (const buffer of owned) buffer.destroy()
}
gpu.close()
// Dawn's binding keeps the process.
process.exit()

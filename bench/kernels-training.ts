/**
 * Times our own kernels of training on CUDA: attention of packed sequences, forward and backward, with random numbers, some
 * of whose results are held to a plain computation.
 *
 *     npx tsx bench/kernels-training.ts [--shape qwen2.5-1.5b] [--rows 1,4] [--prompt 1234] [--completions 4] [--length 384]
 */
import { parseArgs } from 'node:util'
import { openDriver } from '../src/engine/onnx/gpu/kernels/driver.ts'
import type { Launch } from '../src/engine/onnx/gpu/kernels/launch.ts'
import type { KernelOperator } from '../src/engine/onnx/gpu/kernels/operators.ts'
import { packedAttentionOperators } from '../src/engine/onnx/gpu/kernels/packedAttention.ts'
import { fromHalf, toHalf } from '../src/engine/onnx/gpu/kernels/testing/halves.ts'
import { shapes } from './gpu-step.ts'

const { values } = parseArgs({
  options: {
    shape: { type: 'string', default: 'qwen2.5-1.5b' },
    rows: { type: 'string', default: '1,4' },
    prompt: { type: 'string', default: '1234' },
    completions: { type: 'string', default: '4' },
    length: { type: 'string', default: '384' },
  },
})
const { heads, kvHeads, headDim } = shapes[values.shape]
const [prompt, completions, length] = [values.prompt, values.completions, values.length].map(Number)
const time = prompt + completions * length
const group = heads / kvHeads
const driver = openDriver()
const operators = packedAttentionOperators(shapes[values.shape], driver.sizes)
const start = performance.now()
await driver.compile([operators[0].unit])
console.log(`compiled in ${((performance.now() - start) / 1000).toFixed(2)} s`)

/** A tensor on the device. */
interface Place {
  dims: readonly number[]
  pointer: bigint
}
const count = (dims: readonly number[]) => dims.reduce((product, n) => product * n, 1)
const made: bigint[] = []
const place = (dims: readonly number[], bytes: number, data?: Uint16Array | Int32Array): Place => {
  const pointer = driver.allocate(Math.max(16, bytes * count(dims)))
  made.push(pointer)
  if (data) driver.write(pointer, data)
  return { dims, pointer }
}
const halvesOf = ({ dims, pointer }: Place): Float32Array => {
  const bits = new Uint16Array(count(dims))
  driver.read(pointer, bits)
  return Float32Array.from(bits, fromHalf)
}
const numbersOf = ({ dims, pointer }: Place): Float32Array => {
  const numbers = new Float32Array(count(dims))
  driver.read(pointer, numbers)
  return numbers
}

/** An operator's launches and what they give. */
const planned = (name: string, inputs: readonly Place[]): { launches: Launch[]; outputs: Place[] } => {
  const operator = operators.find((one) => one.name === name) as KernelOperator
  const outputs = operator
    .shapes(
      inputs.map(({ dims }) => dims),
      {},
    )
    .map((dims, i) => place(dims, operator.outputs[i] === 'float16' ? 2 : 4))
  const launches = operator
    .launches({ inputs, outputs, attributes: {} }, driver.sizes)
    .filter(({ grid }) => !grid.includes(0))
  return { launches: launches.map((launch) => ({ ...launch, unit: operator.unit })), outputs }
}

/** Milliseconds of launches, the best of several rounds. */
const timed = (launches: readonly Launch[], times = 20): number => {
  const recorded = driver.record(launches)
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < 4; round++) {
    recorded.wait()
    const start = performance.now()
    recorded.run(times)
    recorded.wait()
    best = Math.min(best, (performance.now() - start) / times)
  }
  recorded.dispose()
  return best
}

let seed = 1
/** About normal. */
const noise = (): number => {
  let sum = 0
  for (let i = 0; i < 4; i++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    sum += seed / 2 ** 32 - 0.5
  }
  return sum * Math.sqrt(3)
}

for (const batch of values.rows.split(',').map(Number)) {
  const segments = Array.from({ length: batch * time }, (_, i) =>
    i % time < prompt ? 0 : 1 + Math.floor(((i % time) - prompt) / length),
  )
  const wide = [batch, time, heads * headDim]
  const narrow = [batch, time, kvHeads * headDim]
  const drawn = (dims: number[]) => {
    const bits = Uint16Array.from({ length: count(dims) }, () => toHalf(noise()))
    return { place: place(dims, 2, bits), numbers: Float32Array.from(bits, fromHalf) }
  }
  const [q, k, v, gradient] = [wide, narrow, narrow, wide].map(drawn)
  const segmented = place([batch, time], 4, Int32Array.from(segments))
  const ranges = planned('SegmentRanges', [segmented])
  const forward = planned('PackedAttention', [q.place, k.place, v.place, segmented, ...ranges.outputs])
  const [mixed, sums] = forward.outputs
  const backward = planned('PackedAttentionGradient', [
    ...[gradient.place, q.place, k.place, v.place, mixed, sums, segmented],
    ...ranges.outputs,
  ])

  // Of each head, pairs of positions of which one sees the other, the prompt's among themselves and each completion's.
  const pairs = (prompt * (prompt + 1)) / 2 + completions * (length * prompt + (length * (length + 1)) / 2)
  const products = 2 * headDim * heads * batch * pairs
  const report = (name: string, launches: readonly Launch[], count: number) => {
    const ms = timed(launches)
    const rate = count === 0 ? '' : `${((count * products) / ms / 1e9).toFixed(0)} TFLOP/s`
    console.log(`  ${name.padEnd(34)} ${(1000 * ms).toFixed(1).padStart(8)} us  ${rate}`)
  }
  console.log(`${batch} rows of ${time}: ${prompt} and ${completions} times ${length}`)
  report('ranges', ranges.launches, 0)
  report('forward', forward.launches, 2)
  // What a pass needs at least: scores and changes of shares are computed for queries and for keys here.
  report('backward', backward.launches, 5)
  const counts: Record<string, number> = { packed_attention_queries: 3, packed_attention_keys: 4 }
  for (const launch of backward.launches) report(launch.kernel, [launch], counts[launch.kernel] ?? 0)

  const [toQueries, toKeys, toValues, taken] = backward.outputs
  const [found, rowSums, off] = [halvesOf(mixed), numbersOf(sums), numbersOf(taken)]
  const changes = { queries: halvesOf(toQueries), keys: halvesOf(toKeys), values: halvesOf(toValues) }
  const dot = (x: Float32Array, i: number, y: Float32Array, j: number) => {
    let sum = 0
    for (let d = 0; d < headDim; d++) sum += x[i + d] * y[j + d]
    return sum
  }
  const sees = (row: number, t: number, s: number) =>
    s <= t && [0, segments[row * time + t]].includes(segments[row * time + s])
  const at = (row: number, t: number, head: number) => ((row * time + t) * heads + head) * headDim
  const keyAt = (row: number, t: number, kv: number) => ((row * time + t) * kvHeads + kv) * headDim
  const worst = { mixed: 0, queries: 0, keys: 0, values: 0 }
  const hold = (name: keyof typeof worst, actual: Float32Array, from: number, exact: Float64Array) => {
    const norm = Math.hypot(...exact)
    const error = Math.hypot(...exact.map((value, d) => actual[from + d] - value))
    const relative = error / norm
    worst[name] = Number.isNaN(relative) ? relative : Math.max(worst[name], relative)
  }
  const scale = 1 / Math.sqrt(headDim)
  const positions = [1, 2, 63, 64, 127, prompt - 1, prompt, prompt + length, time - length - 1, time - 1]
  positions.forEach((t, i) => {
    const [row, head] = [i % batch, (5 * i) % heads]
    const kv = Math.floor(head / group)
    // A query, by all that it sees.
    const seen = Array.from({ length: time }, (_, s) => s).filter((s) => sees(row, t, s))
    const powers = seen.map((s) =>
      Math.exp(scale * dot(q.numbers, at(row, t, head), k.numbers, keyAt(row, s, kv))),
    )
    const whole = powers.reduce((sum, power) => sum + power)
    const exact = new Float64Array(headDim)
    seen.forEach((s, n) => {
      for (let d = 0; d < headDim; d++) exact[d] += (powers[n] / whole) * v.numbers[keyAt(row, s, kv) + d]
    })
    hold('mixed', found, at(row, t, head), exact)
    let ofRow = 0
    for (let d = 0; d < headDim; d++) ofRow += exact[d] * gradient.numbers[at(row, t, head) + d]
    const change = new Float64Array(headDim)
    seen.forEach((s, n) => {
      const part = dot(gradient.numbers, at(row, t, head), v.numbers, keyAt(row, s, kv)) - ofRow
      for (let d = 0; d < headDim; d++)
        change[d] += scale * (powers[n] / whole) * part * k.numbers[keyAt(row, s, kv) + d]
    })
    hold('queries', changes.queries, at(row, t, head), change)
    // A key, by all queries that see it, whose sums are those that were found.
    const [ofKey, ofValue] = [new Float64Array(headDim), new Float64Array(headDim)]
    for (let other = kv * group; other < (kv + 1) * group; other++)
      for (let from = t; from < time; from++) {
        if (!sees(row, from, t)) continue
        const one = (row * heads + other) * time + from
        const [query, key] = [at(row, from, other), keyAt(row, t, kv)]
        const share = Math.exp(scale * dot(q.numbers, query, k.numbers, key) - rowSums[one] * Math.LN2)
        const part = share * (dot(gradient.numbers, query, v.numbers, key) - off[one])
        for (let d = 0; d < headDim; d++) {
          ofKey[d] += scale * part * q.numbers[query + d]
          ofValue[d] += share * gradient.numbers[query + d]
        }
      }
    hold('keys', changes.keys, keyAt(row, t, kv), ofKey)
    hold('values', changes.values, keyAt(row, t, kv), ofValue)
  })
  const errors = Object.entries(worst).map(([name, error]) => `${name} ${error.toExponential(1)}`)
  console.log(`  relative errors of ${positions.length} positions, at most: ${errors.join(', ')}`)
  for (const pointer of made.splice(0)) driver.free(pointer)
}

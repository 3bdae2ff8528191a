/**
 * Times products of matrices on WebGPU, in the shapes of a step of training and of sampling, cut in several ways, and holds
 * some results of each to plain sums.
 *
 *     npx tsx bench/webgpu-products.ts [--small] [--only <part of a shape's name>]
 */
import { parseArgs } from 'node:util'
import { fromHalf, toHalf } from '../src/engine/onnx/gpu/kernels/testing/halves.ts'
import { openDawn } from '../src/engine/onnx/webgpu/dawn.ts'
import type { Dispatch, Step, Traits } from '../src/engine/onnx/webgpu/gpu.ts'
import {
  type Cut,
  cutOf,
  gated,
  gatedTile,
  type Product,
  partsOf,
  product,
  type Sizes,
  scratchBytes,
  streamed,
  streamedTile,
  TILES,
  type Tile,
} from '../src/engine/onnx/webgpu/products.ts'

const { values } = parseArgs({
  options: { small: { type: 'boolean', default: false }, only: { type: 'string', default: '' } },
})
const { small, only } = values
const gpu = await openDawn()
const { compile, done, prepare, read, traits, write } = gpu
console.log(traits.name, traits.matrices ? 'with' : 'without', 'products of matrices')

/** Seconds of what is measured at once, and how often it is. */
const CHUNK = small ? 0.001 : 0.01
const REPEATS = small ? 1 : 3
/** Seconds of work before: a GPU that has waited for a compiler is slow for a while. */
const WARM = small ? 0 : 0.15
const CHUNKS = 2
/** Bytes of weights in rotation, more than a cache holds. */
const ROTATION = small ? 1 : 200e6
/** Bytes of a result that are looked at, and how many numbers. */
const MOST_READ = 64e6
const LOOKS = 40

/** Halves that come again after so many, which no row's length divides. */
const PERIOD = 1_000_006
let seed = 1
const random = () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
  return seed / 2 ** 32
}
const noise = () => Uint16Array.from({ length: PERIOD }, () => toHalf(Math.round(random() * 64 - 32) / 64))
const [first, second] = [noise(), noise()]
const numbers = new Map([first, second].map((bits) => [bits, Float64Array.from(bits, fromHalf)]))

let owned: GPUBuffer[] = []
const empty = (bytes: number): GPUBuffer => {
  const made = gpu.buffer(bytes)
  owned.push(made)
  return made
}
const filled = (bits: Uint16Array, length: number): GPUBuffer => {
  const data = new Uint16Array(length)
  for (let at = 0; at < length; at += PERIOD) data.set(bits.subarray(0, Math.min(PERIOD, length - at)), at)
  const made = empty(data.byteLength)
  write(made, data)
  return made
}
const inRotation = (length: number): GPUBuffer[] =>
  Array.from({ length: Math.max(1, Math.min(12, Math.ceil(ROTATION / (2 * length)))) }, () =>
    filled(second, length),
  )

/** Of one of so many that the steps are. What is encoded is, but for a first chunk's, while the one before runs. */
async function seconds(steps: readonly Step[], count: number): Promise<number> {
  const prepared = prepare(steps)
  const wall = async (chunks: number, times: number): Promise<number> => {
    const start = performance.now()
    for (let chunk = 0; chunk < chunks; chunk++) prepared.run(times)
    await done()
    return (performance.now() - start) / 1000
  }
  await wall(1, 1)
  const times = Math.max(1, Math.round(CHUNK / (await wall(1, 1))))
  for (let spent = 0; spent < WARM; ) spent += await wall(1, times)
  let [one, more] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    one = Math.min(one, await wall(1, times))
    more = Math.min(more, await wall(1 + CHUNKS, times))
  }
  prepared.dispose()
  return (more - one) / (CHUNKS * times * count)
}

const line = (...cells: string[]) =>
  console.log(cells.map((cell, i) => (i < 2 ? cell.padEnd([44, 40][i]) : cell.padStart(11))).join(' '))
const time = (s: number) => (s < 1e-3 ? `${(s * 1e6).toFixed(1)} us` : `${(s * 1e3).toFixed(3)} ms`)
line('shape', 'cut', 'time', 'TFLOP/s', 'GB/s', 'error', 'compiled')

interface Measured {
  shape: string
  cut: string
  /** One for each weight in rotation. */
  each: readonly (readonly Dispatch[])[]
  flops: number
  bytes: number
  error(): Promise<number>
}

/** Compiles all of them at once, and times them one after another. */
async function measure(all: readonly Measured[]): Promise<void> {
  const compiling = all.map(async ({ each }) => {
    const start = performance.now()
    await compile(each[0].map(({ code }) => code))
    return (performance.now() - start) / 1000
  })
  await Promise.allSettled(compiling)
  for (const [i, { shape, cut, each, flops, bytes, error }] of all.entries()) {
    try {
      const compiled = await compiling[i]
      const s = await seconds(each.flat(), each.length)
      const speeds = [(flops / s / 1e12).toFixed(1), (bytes / s / 1e9).toFixed(0)]
      line(shape, cut, time(s), ...speeds, (await error()).toExponential(1), time(compiled))
    } catch (error) {
      await done().catch(() => {})
      line(shape, cut, 'no', (error as Error).message.split('\n')[0].slice(0, 120))
    }
  }
}

const named = ({ m, n, k, ownM, ownN }: Tile) => `${m}x${n}x${k} by ${ownM}x${ownN}`
const plain: Traits = { ...traits, matrices: false }
const lanes = traits.matrices ? [traits, plain] : [plain]
const nameOf = ({ matrices }: Traits) => (matrices ? 'matrices' : 'plain')

/** The chosen cut, and others of the same product. */
function cuts(sizes: Sizes, lane: Traits): Cut[] {
  const chosen = cutOf(sizes, lane)
  if (!lane.matrices) return [chosen]
  const { large, small: square, tall, broad } = TILES.matrices
  const { tile } = chosen
  const others: Tile[] =
    tile === tall
      ? [{ ...tall, k: 32 }, { m: 64, n: 32, k: 64, ownM: 16, ownN: 32 }, square]
      : tile === broad
        ? [{ ...broad, k: 32 }, { m: 32, n: 64, k: 64, ownM: 32, ownN: 16 }, square]
        : [
            large,
            { ...large, ownN: 32 },
            { ...large, ownM: 32 },
            { m: 128, n: 64, k: 32, ownM: 64, ownN: 32 },
            square,
            { ...square, k: 64 },
          ].filter((other) => named(other) !== named(tile))
  const { parts } = chosen
  return [
    chosen,
    ...(parts > 1 ? [1, Math.ceil(parts / 2), 2 * parts].map((other) => ({ tile, parts: other })) : []),
    ...others.map((other) => ({ tile: other, parts })),
  ]
}

type Shape = Sizes & Pick<Product, 'outType' | 'scale'> & { name: string; kind?: 'matrix' | 'row' }

async function measureProduct({ name, kind, ...given }: Shape): Promise<void> {
  const { m, n, k, transposeA, transposeB, scale = 1, outType } = given
  const single = outType === 'float32'
  const [a, b] = [filled(first, m * k), filled(second, k * n)]
  const added = kind === 'matrix' ? m * n : n
  const add = kind && { kind, buffer: filled(first, added) }
  const out = empty((single ? 4 : 2) * m * n)
  const wanted = (i: number, j: number): number => {
    const [as, bs] = [numbers.get(first)!, numbers.get(second)!]
    let sum = 0
    for (let l = 0; l < k; l++)
      sum +=
        as[(transposeA ? l * m + i : i * k + l) % PERIOD] * bs[(transposeB ? j * k + l : l * n + j) % PERIOD]
    return scale * sum + (kind ? as[(kind === 'matrix' ? i * n + j : j) % PERIOD] : 0)
  }
  const rows = Math.min(m, Math.floor(MOST_READ / (4 * n)))
  const places = Array.from({ length: LOOKS }, (_, look): [number, number] =>
    look === 0 ? [rows - 1, n - 1] : [Math.floor(random() * rows), Math.floor(random() * n)],
  ).map(([i, j]) => ({ at: i * n + j, want: wanted(i, j) }))
  const error = async (): Promise<number> => {
    const found = single ? new Float32Array(rows * n) : new Uint16Array(rows * n)
    await read(out, found)
    return Math.max(
      ...places.map(({ at, want }) => {
        const got = single ? found[at] : fromHalf(found[at])
        return Math.abs(got - want) / (1 + Math.abs(want))
      }),
    )
  }
  const all = lanes.flatMap((lane) =>
    cuts(given, lane).map((cut): Measured => {
      const bytes = scratchBytes(given, lane, cut)
      const scratch = bytes > 0 ? empty(bytes) : undefined
      return {
        shape: name,
        cut: `${nameOf(lane)} ${named(cut.tile)}, ${cut.parts} parts`,
        each: [product({ ...given, a, b, add, out, scratch }, lane, cut)],
        flops: 2 * m * n * k,
        bytes: 2 * (m * k + k * n + (kind ? added : 0)) + (single ? 4 : 2) * m * n,
        error,
      }
    }),
  )
  await measure(all)
}

const FEW_ROWS = 64

/** The chosen tile, and of few rows others: fewer or more outputs of a workgroup, deeper or flatter. */
function streamedTiles(chosen: Tile, rows: number, lane: Traits): Tile[] {
  if (!lane.matrices || rows > FEW_ROWS) return [chosen]
  const { ownM } = chosen
  const tiles = [
    { ...chosen, n: 32 },
    { ...chosen, n: 32, k: 128 },
    { ...chosen, k: 128 },
    { ...chosen, k: 32 },
    { ...chosen, n: 128 },
    { ...chosen, n: 128, ownN: 32 },
    { ...chosen, n: 128, k: 32 },
    ...(ownM % 32 === 0 ? [{ ...chosen, ownM: ownM / 2 }] : []),
  ]
  return [chosen, ...tiles]
}

const silu = (x: number) => x / (1 + Math.exp(-x))

async function measureStreamed(name: string, rows: number, outputs: number, inputs: number, gate: boolean) {
  const x = filled(first, rows * inputs)
  const weights = inRotation(outputs * inputs)
  // The other of a pair has the first noise: of both the products would be the same.
  const ups = gate ? weights.map(() => filled(first, outputs * inputs)) : []
  const dot = (row: number, output: number, weight: Float64Array): number => {
    const xs = numbers.get(first)!
    let sum = 0
    for (let i = 0; i < inputs; i++)
      sum += xs[(row * inputs + i) % PERIOD] * weight[(output * inputs + i) % PERIOD]
    return sum
  }
  const [ofFirst, ofSecond] = [numbers.get(first)!, numbers.get(second)!]
  const places = Array.from({ length: LOOKS }, (_, look) => {
    const [row, output] =
      look === 0 ? [rows - 1, outputs - 1] : [Math.floor(random() * rows), Math.floor(random() * outputs)]
    const sum = dot(row, output, ofSecond)
    return { at: row * outputs + output, want: gate ? silu(sum) * dot(row, output, ofFirst) : sum }
  })
  const all: Measured[] = []
  for (const lane of lanes) {
    const chosen = (gate ? gatedTile : streamedTile)(rows, lane)
    for (const tile of streamedTiles(chosen, rows, lane)) {
      const parts = gate ? 1 : partsOf(rows, inputs, outputs, lane, tile)
      const choices = parts > 1 && lane.matrices ? [parts, Math.ceil(parts / 2)] : [parts]
      for (const one of choices) {
        const out = empty((gate ? 2 : 4 * one) * rows * outputs)
        all.push({
          shape: name,
          cut: `${nameOf(lane)} ${named(tile)}, ${one} parts`,
          each: weights.map((weight, i) => [
            gate
              ? gated({ rows, inputs, outputs, gate: weight, up: ups[i], x, out }, lane, tile)
              : streamed({ rows, inputs, outputs, parts: one, x, weight, out }, lane, tile),
          ]),
          flops: (gate ? 4 : 2) * rows * outputs * inputs,
          bytes: (gate ? 4 : 2) * outputs * inputs,
          async error() {
            const each = rows * outputs
            const found = gate ? new Uint16Array(each) : new Float32Array(one * each)
            await read(out, found)
            return Math.max(
              ...places.map(({ at, want }) => {
                let got = gate ? fromHalf(found[at]) : 0
                if (!gate) for (let part = 0; part < one; part++) got += found[part * each + at]
                return Math.abs(got - want) / (1 + Math.abs(want))
              }),
            )
          },
        })
      }
    }
  }
  await measure(all)
}

async function alone(name: string, work: () => Promise<void>): Promise<void> {
  if (!name.includes(only)) return
  await work()
  await done()
  for (const buffer of owned) buffer.destroy()
  owned = []
}

/** Of a model with 1.5 billion numbers, and of one with 135 million. */
const [rows, hidden, inner, vocabulary] = small ? [160, 96, 320, 512] : [8192, 1536, 8960, 151_936]
const [littleRows, little, littleInner] = small ? [96, 72, 192] : [2048, 576, 1536]
const headRows = small ? 64 : 2048
const rank = 32
const half = { outType: 'float16' } as const
const single = { outType: 'float32' } as const
const shapes: Shape[] = [
  { name: 'y = x W^T, up', m: rows, n: inner, k: hidden, transposeB: true, ...half },
  { name: 'y = x W^T, down', m: rows, n: hidden, k: inner, transposeB: true, ...half },
  {
    name: 'y = x W^T + bias, qkv',
    m: rows,
    n: hidden + 512,
    k: hidden,
    transposeB: true,
    ...half,
    kind: 'row',
  },
  { name: 'dx = g W, up', m: rows, n: hidden, k: inner, ...half },
  { name: 'dx = g W, down', m: rows, n: inner, k: hidden, ...single },
  { name: 'logits', m: headRows, n: vocabulary, k: hidden, transposeB: true, ...half },
  { name: 'dlogits W', m: headRows, n: hidden, k: vocabulary, ...single },
  { name: 'little y = x W^T, up', m: littleRows, n: littleInner, k: little, transposeB: true, ...half },
  { name: 'little y = x W^T, down', m: littleRows, n: little, k: littleInner, transposeB: true, ...half },
  { name: 'thin x A^T', m: rows, n: rank, k: hidden, transposeB: true, ...half },
  { name: 'thin x A^T, down', m: rows, n: rank, k: inner, transposeB: true, ...half },
  {
    name: 'y + s (x A^T) B^T',
    m: rows,
    n: inner,
    k: rank,
    transposeB: true,
    ...half,
    kind: 'matrix',
    scale: 2,
  },
  { name: 'dB [inner, rank]', m: inner, n: rank, k: rows, transposeA: true, ...single },
  { name: 'dA [rank, hidden]', m: rank, n: hidden, k: rows, transposeA: true, ...single },
  { name: 'W + s B A', m: inner, n: hidden, k: rank, ...half, kind: 'matrix', scale: 2 },
]
for (const shape of shapes) {
  const { m, n, k } = shape
  const name = `${shape.name}: ${m} x ${k} x ${n}`
  await alone(name, () => measureProduct({ ...shape, name }))
}
const samples = small ? [20] : [48, 128]
for (const count of samples)
  for (const [outputs, inputs, gate] of [
    [inner, hidden, false],
    [hidden, inner, false],
    [hidden + 512, hidden, false],
    [inner, hidden, true],
    [vocabulary, hidden, false],
  ] as const) {
    const name = `${count} rows, ${outputs} x ${inputs}${gate ? ' gated' : ''}`
    await alone(name, () => measureStreamed(name, count, outputs, inputs, gate))
  }
gpu.close()
process.exit(0)

import { describe, expect, it } from 'vitest'
import { fromHalf, toHalf } from '../gpu/kernels/testing/halves.ts'
import type { Dispatch, Traits } from './gpu.ts'
import {
  type Cut,
  cutOf,
  gated,
  type Product,
  partsOf,
  product,
  type Sizes,
  scratchBytes,
  streamed,
  TILES,
  type Tile,
} from './products.ts'
import { gpuHere } from './testing.ts'

const gpu = await gpuHere()

/** The plain kernels are tried everywhere, and those by matrices where they are there. */
const lanes = (gpu?.traits.matrices ? [true, false] : [false]).map((matrices) => ({ matrices }))

let seed = 1
const random = () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
  return seed / 2 ** 31 - 1
}
/** Halves that are whole numbers of 64ths, so that few sums are rounded. */
const halves = (length: number) => Uint16Array.from({ length }, () => toHalf(Math.round(random() * 64) / 64))

describe.skipIf(gpu === null).each(lanes)('products, by matrices: $matrices', ({ matrices }) => {
  const { buffer, compile, done, prepare, read, write } = gpu!
  const traits: Traits = { ...gpu!.traits, matrices }
  const tiles = TILES[matrices ? 'matrices' : 'plain']

  const put = (data: ArrayBufferView) => {
    const made = buffer(data.byteLength)
    write(made, data)
    return made
  }
  async function run(dispatches: readonly Dispatch[]): Promise<void> {
    await compile(dispatches.map(({ code }) => code))
    const prepared = prepare(dispatches)
    prepared.run()
    await done()
    prepared.dispose()
  }
  async function found(out: GPUBuffer, length: number, outType: Product['outType']): Promise<number[]> {
    if (outType === 'float32') {
      const singles = new Float32Array(length)
      await read(out, singles)
      return [...singles]
    }
    const bits = new Uint16Array(length)
    await read(out, bits)
    return Array.from(bits, fromHalf)
  }

  type Case = Sizes & Pick<Product, 'scale' | 'outType'> & { kind?: 'matrix' | 'row' }
  async function check(given: Case, cut: Cut = cutOf(given, traits)): Promise<void> {
    const { m, n, k, transposeA, transposeB, scale = 1, outType, kind } = given
    const [a, b] = [halves(m * k), halves(k * n)]
    const added = kind && halves(kind === 'matrix' ? m * n : n)
    // What is behind the last result must stay.
    const out = put(new Float32Array(m * n + 64).fill(7))
    const bytes = scratchBytes(given, traits, cut)
    await run(
      product(
        {
          ...given,
          a: put(a),
          b: put(b),
          out,
          add: added && kind && { buffer: put(added), kind },
          scratch: bytes > 0 ? buffer(bytes) : undefined,
        },
        traits,
        cut,
      ),
    )
    const results = await found(out, m * n, outType)
    const [as, bs, adds] = [a, b, added ?? []].map((bits) => Array.from(bits, fromHalf))
    let worst = 0
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        let sum = 0
        for (let l = 0; l < k; l++)
          sum += as[transposeA ? l * m + i : i * k + l] * bs[transposeB ? j * k + l : l * n + j]
        const wanted = scale * sum + (adds[kind === 'matrix' ? i * n + j : j] ?? 0)
        const tolerance = outType === 'float32' ? 1e-5 : Math.max(2 ** -11 * Math.abs(wanted), 2 ** -25)
        worst = Math.max(worst, Math.abs(results[i * n + j] - wanted) / (tolerance + 1e-5))
      }
    expect(worst).toBeLessThanOrEqual(1)
    const behind = new Uint32Array(m * n + 64)
    await read(out, behind)
    const words = outType === 'float32' ? m * n : (m * n) / 2
    expect(new Set(behind.subarray(words)).size).toBe(1)
  }

  const whole = (tile: Tile): Cut => ({ tile, parts: 1 })

  it.each([{ transposeB: true }, {}, { transposeA: true }, { transposeA: true, transposeB: true }])(
    'are right over edges and words (%o)',
    async (transposed) => {
      const cut = whole(tiles.small)
      await check({ m: 72, n: 88, k: 40, ...transposed, outType: 'float32' }, cut)
      await check({ m: 34, n: 70, k: 66, ...transposed, outType: 'float16', scale: 0.5 }, cut)
    },
  )

  it('are right by every tile', async () => {
    for (const tile of [tiles.large, tiles.tall, tiles.broad])
      await check({ m: tile.m + 7, n: tile.n + 22, k: tile.k + 6, outType: 'float16' }, whole(tile))
  })

  it('take any number of rows, in bands of tiles, and of ranks', async () => {
    const [cut, nt] = [whole(tiles.small), { transposeB: true, outType: 'float32' } as const]
    for (const m of [1, 15, 9 * tiles.small.m + 1]) await check({ m, n: 72, k: 8, ...nt }, cut)
    for (const k of [2, 4, 18]) await check({ m: 20, n: 36, k, ...nt, outType: 'float16', scale: -1.5 }, cut)
    // The rows of a batch are the inner axis of a gradient.
    await check({ m: 40, n: 72, k: 33, transposeA: true, outType: 'float32' }, cut)
  })

  it('add a matrix or a row, rounding once', async () => {
    const sizes = { m: 21, n: 74, k: 32, scale: 0.25 }
    await check({ ...sizes, outType: 'float16', kind: 'matrix' })
    await check({ ...sizes, outType: 'float32', kind: 'row' })
  })

  it('add up parts of the inner axis', async () => {
    const sizes = { m: 72, n: 40, k: 600, transposeA: true }
    expect(cutOf(sizes, traits)).toEqual({ tile: tiles.small, parts: 2 })
    await check({ ...sizes, outType: 'float16', scale: 2, kind: 'matrix' })
    // More than there are turns: the last are empty.
    await check({ ...sizes, k: 72, outType: 'float32' }, { tile: tiles.small, parts: 5 })
  })

  it('say what they refuse', () => {
    const [a, b, out] = [buffer(4), buffer(4), buffer(4)]
    const refused = (sizes: Sizes) => () => product({ ...sizes, a, b, out, outType: 'float32' }, traits)
    expect(refused({ m: 2, n: 3, k: 2 })).toThrow(/do not begin at a word/)
    expect(refused({ m: 2, n: 2, k: 3 })).toThrow(/do not begin at a word/)
    expect(refused({ m: 3, n: 2, k: 2, transposeA: true })).toThrow(/do not begin at a word/)
    expect(refused({ m: 8, n: 8, k: 4096 })).toThrow(/needs scratch memory/)
  })

  const silu = (x: number) => x / (1 + Math.exp(-x))

  it.each([
    { rows: [1, 16], inputs: 264, outputs: 72, parts: 3 },
    { rows: [37], inputs: 38, outputs: 66, parts: 1 },
    { rows: [130], inputs: 264, outputs: 72, parts: 2 },
  ])('stream a weight: $rows rows, $outputs x $inputs', async ({ rows: numbers, inputs, outputs, parts }) => {
    for (const rows of numbers) {
      const [x, weight, up] = [halves(rows * inputs), halves(outputs * inputs), halves(outputs * inputs)]
      const [out, both] = [buffer(4 * parts * rows * outputs), buffer(2 * rows * outputs)]
      const given = { rows, inputs, outputs, x: put(x) }
      const [weights, ups] = [put(weight), put(up)]
      await run([
        streamed({ ...given, parts, weight: weights, out }, traits),
        gated({ ...given, gate: weights, up: ups, out: both }, traits),
      ])
      const sums = await found(out, parts * rows * outputs, 'float32')
      const gates = await found(both, rows * outputs, 'float16')
      const [xs, ws, us] = [x, weight, up].map((bits) => Array.from(bits, fromHalf))
      let worst = 0
      for (let row = 0; row < rows; row++)
        for (let output = 0; output < outputs; output++) {
          let [gate, value, whole] = [0, 0, 0]
          for (let i = 0; i < inputs; i++) {
            gate += xs[row * inputs + i] * ws[output * inputs + i]
            value += xs[row * inputs + i] * us[output * inputs + i]
          }
          const at = row * outputs + output
          for (let part = 0; part < parts; part++) whole += sums[part * rows * outputs + at]
          const wanted = silu(gate) * value
          worst = Math.max(
            worst,
            Math.abs(whole - gate) / 1e-4,
            Math.abs(gates[at] - wanted) / (1e-4 + 2 ** -10 * Math.abs(wanted)),
          )
        }
      expect(worst).toBeLessThanOrEqual(1)
    }
  })

  it('are streamed in parts that give all multiprocessors work, and are not too many', () => {
    expect(partsOf(48, 1536, 151936, traits)).toBe(1)
    expect(partsOf(48, 8960, 1536, traits)).toBe(16)
    expect(partsOf(48, 1536, 8960, traits)).toBe(4)
    expect(partsOf(48, 64, 64, traits)).toBe(1)
  })
})

/** The kernels of a step against double precision, run on the CPU by the emulator, forwards and backwards. */
import { describe, expect, it } from 'vitest'
import { random } from '../../../../random.ts'
import type { ModelConfig } from '../../../checkpoint/config.ts'
import { f16ToF32, f32ToF16 } from '../../../checkpoint/halves.ts'
import type { Unit } from './launch.ts'
import { sourceOf } from './sources.ts'
import { unfit } from './step.ts'
import { compileForHost, hasCompiler } from './testing/emulator.ts'

const halves = (values: Float32Array): Uint16Array => {
  const bits = new Uint16Array(values.length)
  f32ToF16(values, bits)
  return bits
}
const floats = (bits: Uint16Array): Float32Array => {
  const values = new Float32Array(bits.length)
  f16ToF32(bits, values)
  return values
}
/** Random halves and their values. */
const noise = (key: string, count: number, scale = 1) => {
  const stream = random('kernels', key)
  const bits = halves(Float32Array.from({ length: count }, () => scale * stream.normal()))
  return { bits, values: floats(bits) }
}
const compiled = (unit: Unit) => compileForHost(sourceOf(unit))
describe('which models fit', () => {
  const device = { multiprocessors: 132, sharedBytes: 227 * 1024 }
  const fits: ModelConfig = {
    architecture: 'qwen2',
    vocabSize: 151_936,
    hiddenSize: 1536,
    layers: 28,
    heads: 12,
    kvHeads: 2,
    headDim: 128,
    intermediateSize: 8960,
    rmsNormEps: 1e-6,
    ropeTheta: 1_000_000,
    ropeScaling: null,
    tieEmbeddings: true,
    attentionBias: true,
    qkNorm: false,
    contextLength: 4096,
    bosTokenId: null,
    eosTokenIds: [],
  }
  it.each([
    [fits, device, null],
    [{ ...fits, headDim: 80 }, device, /heads of 80 elements: no multiple of 32/],
    [{ ...fits, heads: 64 }, device, /32 query heads to a key-value head/],
    [{ ...fits, intermediateSize: 8968 }, device, /a width of 8968/],
    [{ ...fits, headDim: 256 }, { ...device, sharedBytes: 99 * 1024 }, /too wide for the GPU/],
  ])('says why one does not', (config, sizes, why) => {
    if (why === null) expect(unfit(config, sizes)).toBeNull()
    else expect(unfit(config, sizes)).toMatch(why)
  })
})
const both = [{ backwards: false }, { backwards: true }]

describe.skipIf(!hasCompiler())('kernels of a step', () => {
  const cuts = [
    // A row that comes in two pieces, and a warp too many.
    { rows: 11, inner: 832, outputs: 70, tiles: 2, warps: 3, ahead: 4, blocks: 2, parts: 1 },
    // Several tiles to a warp, whose chunks are no multiple of those ahead.
    { rows: 19, inner: 224, outputs: 200, tiles: 2, warps: 2, ahead: 4, blocks: 2, parts: 1 },
    { rows: 8, inner: 96, outputs: 33, tiles: 1, warps: 4, ahead: 8, blocks: 1, parts: 3 },
  ]
  it.each(cuts.flatMap((cut) => both.map((way) => ({ ...cut, ...way }))))(
    'multiplies $rows rows of $inner with $outputs, $parts parts, backwards $backwards',
    async ({ rows, inner, outputs, tiles, warps, ahead, blocks, parts, backwards }) => {
      const stride = 4 * Math.ceil(inner / 32 / parts) + 1
      const kernels = await compiled({
        files: ['products'],
        defines: { TILES: tiles, WARPS: warps, AHEAD: ahead, STRIDE: stride },
      })
      const [x, weight, up] = [
        noise('x', rows * inner),
        noise('weight', outputs * inner, inner ** -0.5),
        noise('up', outputs * inner, inner ** -0.5),
      ]
      const shape = {
        grid: [blocks, Math.ceil(rows / 8 / tiles), parts],
        block: [32 * warps],
        shared: 16 * stride * 8 * tiles + 1024 * warps * ahead,
        backwards,
      } as const
      const sums = new Float32Array(parts * rows * outputs)
      const [int, long] = [(value: number) => ({ int: value }), outputs]
      kernels.launch('product_parts', shape, [x.bits, int(rows), int(inner), weight.bits, sums, int(long)])
      const exact = (w: Float32Array, row: number, output: number) => {
        let sum = 0
        for (let k = 0; k < inner; k++) sum += x.values[row * inner + k] * w[output * inner + k]
        return sum
      }
      const gated = new Uint16Array(rows * outputs)
      if (parts === 1)
        kernels.launch('product_gated', shape, [
          ...[x.bits, int(rows), int(inner), weight.bits, up.bits, gated, int(outputs)],
        ])
      const found = floats(gated)
      for (let row = 0; row < rows; row++)
        for (let output = 0; output < outputs; output++) {
          const gate = exact(weight.values, row, output)
          let sum = 0
          for (let p = 0; p < parts; p++) sum += sums[(p * rows + row) * outputs + output]
          expect(Math.abs(sum - gate)).toBeLessThan(1e-5 * Math.max(1, Math.abs(gate)))
          if (parts > 1) continue
          const value = (gate / (1 + Math.exp(-gate))) * exact(up.values, row, output)
          expect(Math.abs(found[row * outputs + output] - value)).toBeLessThan(
            1e-3 * Math.max(1, Math.abs(value)),
          )
        }
    },
  )

  const looks = [
    { heads: 6, kvHeads: 1, headDim: 32, keyWarps: 4, each: 128, at: 150, lengths: [300, 1, 129] },
    { heads: 4, kvHeads: 2, headDim: 64, keyWarps: 2, each: 128, at: 1, lengths: [64, 200] },
  ]
  it.each(looks.flatMap((look) => both.map((way) => ({ ...look, ...way }))))(
    'looks at prompts of $lengths and $at tokens since, $heads heads, backwards $backwards',
    async ({ heads, kvHeads, headDim, keyWarps, each, at, lengths, backwards }) => {
      const group = heads / kvHeads
      // The first prompt's samples ask more than are looked at together.
      const counts = lengths.map((_, p) => (p === 0 ? 7 : p))
      const firsts = counts.reduce<number[]>((all, n) => all.concat((all.at(-1) as number) + n), [0])
      const promptOf = counts.flatMap((n, p) => Array<number>(n).fill(p))
      const [samples, prompts] = [promptOf.length, lengths.length]
      const [time, window] = [32 * Math.ceil(Math.max(...lengths) / 32), 32 * Math.ceil(at / 32)]
      const parts = Math.ceil(time / each)
      const kernels = await compiled({
        files: ['blocks', 'rows', 'attention'],
        defines: { HEADS: heads, KV_HEADS: kvHeads, HEAD_DIM: headDim, KEY_WARPS: keyWarps },
      })
      const q = noise('q', samples * heads * headDim, 1.5 * headDim ** -0.5)
      const keys = noise('keys', prompts * kvHeads * time * headDim)
      const values = noise('values', prompts * kvHeads * headDim * time)
      const ownKeys = noise('own keys', samples * kvHeads * window * headDim)
      const ownValues = noise('own values', samples * kvHeads * headDim * window)
      // What nobody wrote is no number.
      for (let s = 0; s < samples * kvHeads; s++)
        for (let d = 0; d < headDim; d++)
          ownValues.bits.fill(0x7e00, (s * headDim + d) * window + at, (s * headDim + d + 1) * window)
      const mixed = new Float32Array((parts + 1) * samples * heads * headDim)
      const stats = new Float32Array((parts + 1) * samples * heads * 2)
      const out = new Uint16Array(samples * heads * headDim)
      const int = (value: number) => ({ int: value })
      const [lengthsOf, firstSamples, prompt] = [lengths, firsts, promptOf].map((list) =>
        Int32Array.from(list),
      )
      const block = 32 * keyWarps
      const held = Math.max(
        16 * (block * (headDim / 8 + 1) + headDim * (block / 8 + 1)),
        4 * 2 * keyWarps * 16 * (headDim + 8),
      )
      const shared = held + 16 * 32 * (headDim / 8 + 1) + 4 * 2 * keyWarps * 16 * 2
      kernels.launch(
        'look',
        { grid: [(parts * prompts + samples) * kvHeads], block: [64 * keyWarps], shared, backwards },
        [
          ...[q.bits, keys.bits, values.bits, int(time), lengthsOf, firstSamples, int(prompts), int(parts)],
          ...[int(each), ownKeys.bits, ownValues.bits, int(window), Int32Array.of(at), int(samples)],
          ...[mixed, stats],
        ],
      )
      kernels.launch(
        'settle',
        { grid: [Math.ceil((samples * heads) / keyWarps)], block: [32 * keyWarps], backwards },
        [mixed, stats, prompt, lengthsOf, int(parts), int(each), int(samples), out],
      )
      const found = floats(out)
      for (let sample = 0; sample < samples; sample++)
        for (let head = 0; head < heads; head++) {
          const kv = Math.floor(head / group)
          const [cache, own] = [promptOf[sample] * kvHeads + kv, sample * kvHeads + kv]
          const place = (sample * heads + head) * headDim
          const dot = (from: Float32Array, row: number) => {
            let sum = 0
            for (let d = 0; d < headDim; d++) sum += q.values[place + d] * from[row * headDim + d]
            return 2 ** sum
          }
          const length = lengths[promptOf[sample]]
          const shares = [
            ...Array.from({ length }, (_, key) => dot(keys.values, cache * time + key)),
            ...Array.from({ length: at }, (_, key) => dot(ownKeys.values, own * window + key)),
          ]
          const total = shares.reduce((sum, share) => sum + share, 0)
          for (let d = 0; d < headDim; d++) {
            const exact = shares.reduce((sum, share, key) => {
              const value =
                key < length
                  ? values.values[(cache * headDim + d) * time + key]
                  : ownValues.values[(own * headDim + d) * window + key - length]
              return sum + (share / total) * value
            }, 0)
            expect(Math.abs(found[place + d] - exact)).toBeLessThan(4e-3)
          }
        }
    },
  )

  it.each(both)('draws what the uniform number says, backwards $backwards', async ({ backwards }) => {
    const [rows, vocabulary, pieces] = [40, 1003, 4]
    const kernels = await compiled({
      files: ['blocks', 'rows', 'draw'],
      defines: { PIECES: pieces, HEADS: 1, KV_HEADS: 1, HEAD_DIM: 32 },
    })
    const stream = random('draw')
    const logits = Float32Array.from({ length: rows * vocabulary }, () => 3 * stream.normal())
    logits.fill(Number.NaN, (rows - 1) * vocabulary)
    const uniforms = Float32Array.from({ length: rows }, () => stream.next())
    for (const topP of [1, 0.7]) {
      const coolness = 1 / 0.8
      const sums = new Float32Array(rows * pieces * 2)
      const [coarse, fine] = [new BigUint64Array(rows * 128), new BigUint64Array(rows * 128)]
      const kept = new BigUint64Array(rows * pieces)
      const [tokens, drawn] = [new Int32Array(rows), new Int32Array(rows)]
      const [logprobs, sampling] = [new Float32Array(rows), new Float32Array(rows)]
      const [of, nucleus] = [[logits, { int: vocabulary }, { float: coolness }], { float: topP }]
      const wide = { grid: [pieces, rows], block: [128], backwards } as const
      kernels.launch('weigh', wide, [...of, sums, coarse, fine])
      if (topP < 1) {
        kernels.launch('bin_coarsely', wide, [...of, sums, coarse])
        kernels.launch('bin_finely', wide, [...of, nucleus, sums, coarse, fine])
      }
      kernels.launch('keep', wide, [...of, nucleus, sums, coarse, fine, kept])
      kernels.launch('choose', { grid: [rows], block: [128], backwards }, [
        ...[...of, nucleus, sums, coarse, fine, kept, uniforms, Int32Array.of(0)],
        ...[tokens, drawn, logprobs, sampling],
      ])
      expect(drawn).toEqual(tokens)
      expect(logprobs[rows - 1]).toBeNaN()
      for (let row = 0; row < rows - 1; row++) {
        const scaled = [...logits.subarray(row * vocabulary, (row + 1) * vocabulary)].map((x) => x * coolness)
        const total = Math.log(scaled.reduce((sum, x) => sum + Math.exp(x), 0))
        const shares = scaled.map((x) => Math.exp(x - total))
        const sorted = [...shares].sort((a, b) => b - a)
        let [least, sum] = [0, 0]
        if (topP < 1)
          for (const share of sorted) {
            sum += share
            least = share
            if (sum >= topP) break
          }
        // Tokens within 0.2% of the least count as equally likely.
        const inside = shares.map((share) => (share >= least * 0.998 ? share : 0))
        const mass = inside.reduce((a, b) => a + b, 0)
        let [token, running] = [0, 0]
        while (running + inside[token] <= uniforms[row] * mass) running += inside[token++]
        expect(tokens[row]).toBe(token)
        expect(logprobs[row]).toBeCloseTo(scaled[token] - total, 4)
        expect(sampling[row]).toBeCloseTo(scaled[token] - total - (topP < 1 ? Math.log(mass) : 0), 3)
      }
    }
  })
})

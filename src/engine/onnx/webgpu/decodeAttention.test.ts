import { describe, expect, it } from 'vitest'
import { random } from '../../../random.ts'
import { f16ToF32, f32ToF16 } from '../../checkpoint/halves.ts'
import { attend, mixedDims, settle } from './decodeAttention.ts'
import { PLACE } from './rows.ts'
import { gpuHere } from './testing.ts'

const gpu = await gpuHere()
const floatsOf = (bits: Uint16Array): Float32Array => {
  const values = new Float32Array(bits.length)
  f16ToF32(bits, values)
  return values
}

describe.skipIf(gpu === null)('attention of a new token on WebGPU', () => {
  const { buffer, compile, done, prepare, read, traits, write } = gpu!
  const upload = (data: Float32Array | Uint16Array) => {
    const held = buffer(data.byteLength)
    write(held, data)
    return held
  }
  /** Too little for two positions of a thread. */
  const small = { ...traits, workgroupBytes: 4096 }

  const whole = { shares: 1, limits: small, biased: false, normed: false }
  it.each([
    { ...whole, heads: 6, kvHeads: 1, headDim: 32, own: 149, lengths: [300, 1, 129], shares: 3 },
    { ...whole, heads: 6, kvHeads: 2, headDim: 64, own: 0, lengths: [64, 200], limits: traits, biased: true },
    { ...whole, heads: 1, kvHeads: 1, headDim: 128, own: 130, lengths: [140], normed: true },
    // Words that threads are no multiple of; half as many threads.
    { ...whole, heads: 2, kvHeads: 2, headDim: 48, own: 3, lengths: [290, 2] },
    { ...whole, heads: 9, kvHeads: 1, headDim: 16, own: 33, lengths: [140], biased: true },
  ])(
    'is as it is defined: $heads heads, $kvHeads of keys, of $headDim; prompts of $lengths, $own drawn, $shares shares',
    async ({ heads, kvHeads, headDim, own, lengths, shares, limits, biased, normed }) => {
      const stream = random('decode attention', heads, headDim)
      const noise = (count: number, scale = 1) =>
        Float32Array.from({ length: count }, () => scale * stream.normal())
      const halves = (count: number, scale = 1) => {
        const bits = new Uint16Array(count)
        f32ToF16(noise(count, scale), bits)
        return bits
      }
      const promptOf = lengths.flatMap((_, p) => Array<number>(p === 0 ? 2 : 1).fill(p))
      const [samples, prompts] = [promptOf.length, lengths.length]
      const [time, window] = [Math.max(...lengths) + 3, own + 5]
      const wide = (heads + 2 * kvHeads) * headDim
      const [count, half, epsilon] = [5, headDim / 2, 1e-6]
      const [parts, bias, qNorm, kNorm] = [
        noise(count * samples * wide, 0.8),
        halves(wide),
        noise(headDim),
        noise(headDim),
      ]
      const places = new Float32Array(samples * (PLACE + headDim))
      for (const [sample, prompt] of promptOf.entries()) {
        const place = sample * (PLACE + headDim)
        places.set([prompt, lengths[prompt], own], place)
        for (let i = 0; i < half; i++) {
          const angle = (lengths[prompt] + own) * 100 ** (-i / half)
          places[place + PLACE + i] = Math.cos(angle)
          places[place + PLACE + half + i] = Math.sin(angle)
        }
      }
      const promptCache = [0, 1].map(() => halves(prompts * kvHeads * time * headDim))
      const ownCache = [0, 1].map(() => halves(samples * kvHeads * window * headDim))
      // What nobody wrote is no number.
      for (const cache of ownCache)
        for (let s = 0; s < samples * kvHeads; s++)
          cache.fill(0x7e00, (s * window + own) * headDim, (s + 1) * window * headDim)
      for (const cache of promptCache)
        for (let p = 0; p < prompts * kvHeads; p++)
          cache.fill(
            0x7e00,
            (p * time + lengths[Math.floor(p / kvHeads)]) * headDim,
            (p + 1) * time * headDim,
          )
      const [promptKeys, promptValues, keys, values] = [...promptCache, ...ownCache].map(upload)
      const out = buffer(2 * samples * heads * headDim)
      const shape = { heads, kvHeads, headDim }
      const mixed = buffer(4 * mixedDims(shape, samples, shares).reduce((a, b) => a * b))
      const dispatches = [
        attend(
          {
            ...{ ...shape, samples, shares, time, window, epsilon, partsCount: count },
            ...{ parts: upload(parts), places: upload(places), promptKeys, promptValues, keys, values },
            bias: biased ? upload(bias) : undefined,
            norms: normed ? { q: upload(qNorm), k: upload(kNorm) } : undefined,
            out: shares > 1 ? mixed : out,
          },
          limits,
        ),
        ...(shares > 1 ? [settle({ ...shape, samples, shares, mixed, out })] : []),
      ]
      await compile(dispatches.map(({ code }) => code))
      const prepared = prepare(dispatches)
      prepared.run()
      const bits = new Uint16Array(samples * heads * headDim)
      await read(out, bits)
      const found = floatsOf(bits)
      await read(keys, ownCache[0])
      await read(values, ownCache[1])
      await done()
      prepared.dispose()

      const [promptK, promptV, ownK, ownV] = [...promptCache, ...ownCache].map(floatsOf)
      const biases = floatsOf(bias)
      let worst = 0
      const compare = (values: Float32Array, exact: readonly number[]) => {
        for (const [i, x] of exact.entries())
          worst = Math.max(worst, Math.abs(values[i] - x) / Math.max(1, Math.abs(x)))
      }
      for (const [sample, prompt] of promptOf.entries()) {
        const place = sample * (PLACE + headDim) + PLACE
        const rowOf = (head: number) =>
          Array.from({ length: headDim }, (_, d) => {
            const column = head * headDim + d
            let sum = biased ? biases[column] : 0
            for (let p = 0; p < count; p++) sum += parts[(p * samples + sample) * wide + column]
            return sum
          })
        const turned = (row: readonly number[], norm: Float32Array) => {
          const inverse = (row.reduce((sum, x) => sum + x * x, 0) / headDim + epsilon) ** -0.5
          const scaled = normed ? row.map((x, d) => x * inverse * norm[d]) : row
          return scaled.map((x, d) => {
            const [cosine, sine] = [places[place + (d % half)], places[place + half + (d % half)]]
            return d < half ? x * cosine - scaled[d + half] * sine : x * cosine + scaled[d - half] * sine
          })
        }
        for (let kv = 0; kv < kvHeads; kv++) {
          const cache = sample * kvHeads + kv
          const newest = (cache * window + own) * headDim
          compare(ownK.subarray(newest), turned(rowOf(heads + kv), kNorm))
          compare(ownV.subarray(newest), rowOf(heads + kvHeads + kv))
        }
        for (let head = 0; head < heads; head++) {
          const kv = Math.floor((head * kvHeads) / heads)
          const [ofPrompt, ofSample] = [prompt * kvHeads + kv, sample * kvHeads + kv]
          const q = turned(rowOf(head), qNorm)
          const at = (key: number, fromPrompt: Float32Array, fromSample: Float32Array) =>
            key < lengths[prompt]
              ? fromPrompt.subarray((ofPrompt * time + key) * headDim)
              : fromSample.subarray((ofSample * window + key - lengths[prompt]) * headDim)
          const scores = Array.from({ length: lengths[prompt] + own + 1 }, (_, key) => {
            const row = at(key, promptK, ownK)
            return q.reduce((sum, x, d) => sum + x * row[d], 0) / Math.sqrt(headDim)
          })
          const most = Math.max(...scores)
          const total = scores.reduce((sum, score) => sum + Math.exp(score - most), 0)
          const exact = new Float64Array(headDim)
          for (const [key, score] of scores.entries()) {
            const [weight, row] = [Math.exp(score - most) / total, at(key, promptV, ownV)]
            for (let d = 0; d < headDim; d++) exact[d] += weight * row[d]
          }
          compare(found.subarray((sample * heads + head) * headDim), [...exact])
        }
      }
      expect(worst).toBeLessThan(1e-3)
    },
  )
})

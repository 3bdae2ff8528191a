import { describe, expect, it } from 'vitest'
import { random } from '../../../random.ts'
import { BINS, draw, PIECES } from './draw.ts'
import { gpuHere } from './testing.ts'

const gpu = await gpuHere()

describe.skipIf(gpu === null)('draws on WebGPU', () => {
  const { buffer, compile, done, prepare, read, write } = gpu!
  const steps = 3

  /** A row's shares, and of those that may be drawn: tokens within 0.2% of the least likely one count as it does. */
  const sharesOf = (logits: readonly number[], temperature: number, topP: number) => {
    const most = Math.max(...logits)
    const powers = logits.map((x) => Math.exp((x - most) / temperature))
    const total = powers.reduce((a, b) => a + b, 0)
    const shares = powers.map((power) => power / total)
    if (topP >= 1) return { shares, inside: shares, mass: 1 }
    let [least, sum] = [0, 0]
    for (const share of [...shares].sort((a, b) => b - a)) {
      sum += share
      least = share
      if (sum >= topP) break
    }
    const inside = shares.map((share) => (share >= least * 0.998 ? share : 0))
    return { shares, inside, mass: inside.reduce((a, b) => a + b, 0) }
  }

  it.each([
    // A vocabulary that pieces and threads do not divide, one with less than a token a piece, and a wide one.
    { rows: 20, vocabulary: 1003, scale: 3, topP: 1 },
    { rows: 20, vocabulary: 1003, scale: 3, topP: 0.7 },
    { rows: 5, vocabulary: 9, scale: 1, topP: 0.95 },
    { rows: 2, vocabulary: 50_000, scale: 4, topP: 0.9 },
    { rows: 2, vocabulary: 50_000, scale: 0.1, topP: 1 },
  ])(
    'take what the uniform numbers say: $rows rows of $vocabulary, topP $topP',
    async ({ rows, vocabulary, scale, topP }) => {
      const stream = random('webgpu draw', vocabulary, topP)
      const temperature = 0.8
      const logits = Float32Array.from({ length: rows * vocabulary }, () => scale * stream.normal())
      const uniforms = Float32Array.from({ length: steps * rows }, () => stream.next())
      uniforms[0] = 0
      uniforms[rows - 1] = 1 - 2 ** -24
      const held = {
        logits: buffer(4 * rows * vocabulary),
        pieces: buffer(8 * rows * PIECES),
        bins: buffer(8 * rows * BINS),
        kept: buffer(4 * rows * PIECES),
        at: buffer(4),
        uniforms: buffer(4 * steps * rows),
        drawn: buffer(4 * steps * rows),
        logprobs: buffer(4 * steps * rows),
        samplingLogprobs: buffer(4 * steps * rows),
      }
      write(held.logits, logits)
      write(held.uniforms, uniforms)
      const dispatches = draw({ ...held, rows, vocabulary, temperature, topP })
      await compile(dispatches.map(({ code }) => code))
      const prepared = prepare(dispatches)
      prepared.run(steps)
      const [drawn, at] = [new Int32Array(steps * rows), new Int32Array(1)]
      const [logprobs, sampling] = [new Float32Array(steps * rows), new Float32Array(steps * rows)]
      await read(held.drawn, drawn)
      await read(held.at, at)
      await read(held.logprobs, logprobs)
      await read(held.samplingLogprobs, sampling)
      await done()
      prepared.dispose()
      expect(at[0]).toBe(steps)
      for (let row = 0; row < rows; row++) {
        const line = [...logits.subarray(row * vocabulary, (row + 1) * vocabulary)]
        const { shares, inside, mass } = sharesOf(line, temperature, topP)
        const upTo: number[] = []
        for (const share of inside) upTo.push((upTo.at(-1) ?? 0) + share)
        for (let step = 0; step < steps; step++) {
          const place = step * rows + row
          const token = drawn[place]
          const wanted = uniforms[place] * mass
          // Sums are exact but for the masses' own rounding.
          const near = 2e-6 + (vocabulary / 2) * 2 ** -31
          expect(inside[token]).toBeGreaterThan(0)
          expect(wanted).toBeLessThan(upTo[token] + near)
          expect(wanted).toBeGreaterThan(upTo[token] - inside[token] - near)
          expect(logprobs[place]).toBeCloseTo(Math.log(shares[token]), 4)
          expect(sampling[place]).toBeCloseTo(Math.log(shares[token] / mass), 3)
        }
      }
    },
  )

  it.each([Number.NaN, Number.POSITIVE_INFINITY])(
    'say of logits of %s that they are no numbers',
    async (odd) => {
      const [rows, vocabulary] = [3, 600]
      const logits = new Float32Array(rows * vocabulary)
      logits[vocabulary + 599] = odd
      for (const topP of [1, 0.5]) {
        const ints = () => buffer(4 * rows * BINS * 2)
        const held = {
          ...{ logits: buffer(logits.byteLength), pieces: ints(), bins: ints(), kept: ints(), at: ints() },
          ...{ uniforms: ints(), drawn: ints(), logprobs: ints(), samplingLogprobs: ints() },
        }
        write(held.logits, logits)
        const dispatches = draw({ ...held, rows, vocabulary, temperature: 1, topP })
        await compile(dispatches.map(({ code }) => code))
        const prepared = prepare(dispatches)
        prepared.run()
        const [logprobs, sampling] = [new Float32Array(rows), new Float32Array(rows)]
        await read(held.logprobs, logprobs)
        await read(held.samplingLogprobs, sampling)
        await done()
        prepared.dispose()
        expect([...logprobs].map(Number.isNaN)).toEqual([false, true, false])
        expect([...sampling].map(Number.isNaN)).toEqual([false, true, false])
        expect(logprobs[0]).toBeCloseTo(-Math.log(vocabulary), 5)
      }
    },
  )
})

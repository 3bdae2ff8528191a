/** Attention of packed rows, held to the same in double precision. */
import { describe, expect, it } from 'vitest'
import { random } from '../../../random.ts'
import { fromHalf } from '../gpu/kernels/testing/halves.ts'
import { halves, reference, segmentsOf } from '../gpu/kernels/testing/packedRows.ts'
import {
  gradientScratch,
  type Heads,
  packedAttention,
  packedAttentionGradient,
  rangesBytes,
  segmentRanges,
  sumsBytes,
} from './attention.ts'
import { gpuHere } from './testing.ts'

const gpu = await gpuHere()

interface Case extends Heads {
  name: string
  rows: number[][]
  /** How far queries are from normal: far ones look at few keys, and find greater scores later on. */
  far?: number
}
const cases: Case[] = [
  {
    name: 'one position',
    ...{ heads: 1, kvHeads: 1, headDim: 32 },
    rows: [[0]],
  },
  {
    name: 'one short row, of narrow heads',
    ...{ heads: 2, kvHeads: 1, headDim: 16 },
    rows: [segmentsOf(7, 3, 2, 2)],
  },
  {
    name: 'a prompt alone',
    ...{ heads: 2, kvHeads: 2, headDim: 64 },
    rows: [segmentsOf(128, 128)],
  },
  {
    name: 'scores far apart',
    ...{ heads: 2, kvHeads: 1, headDim: 64 },
    rows: [segmentsOf(200, 120, 30, 50)],
    far: 12,
  },
  {
    name: 'completions of which others see nothing, and padding, in two rows',
    ...{ heads: 3, kvHeads: 1, headDim: 32 },
    rows: [segmentsOf(419, 70, 130, 140, 5), segmentsOf(419, 5, 60, 3, 64)],
  },
  {
    name: 'groups of six heads',
    ...{ heads: 12, kvHeads: 2, headDim: 64 },
    rows: [segmentsOf(90, 30, 40, 20)],
  },
  {
    name: 'many rows, whose heads are not shared among workgroups',
    ...{ heads: 2, kvHeads: 1, headDim: 16 },
    rows: Array.from({ length: 512 }, (_, row) => segmentsOf(9, 1 + (row % 5), 3)),
  },
  {
    name: 'wide heads',
    ...{ heads: 2, kvHeads: 1, headDim: 128 },
    rows: [segmentsOf(141, 50, 40, 45), segmentsOf(141, 141)],
  },
  {
    name: 'heads of 96',
    ...{ heads: 3, kvHeads: 1, headDim: 96 },
    rows: [segmentsOf(100, 33, 35, 31)],
  },
]

describe.skipIf(gpu === null)('attention of packed rows', () => {
  const { buffer, compile, done, prepare, read, traits, write } = gpu!

  it.each(cases)('gives mixed values and gradients: $name', async (made) => {
    const { heads, kvHeads, headDim, rows, far = 1 } = made
    const sizes = { batch: rows.length, time: rows[0].length }
    const positions = sizes.batch * sizes.time
    const [wide, narrow] = [positions * heads * headDim, positions * kvHeads * headDim]
    const stream = random('packed attention', made.name)
    const drawn = (count: number, by = 1) => halves(count, () => by * stream.normal())
    const [q, k, v, gradient] = [drawn(wide, far), drawn(narrow), drawn(narrow), drawn(wide)]
    const padding = rows.flat().map((segment) => segment < 0)
    // Nothing is asked of it.
    padding.forEach((empty, t) => {
      if (!empty) return
      for (const of of [gradient.bits, gradient.values])
        of.fill(0, t * heads * headDim, (t + 1) * heads * headDim)
    })

    const filled = (data: Uint16Array | Int32Array): GPUBuffer => {
      const made = buffer(data.byteLength)
      write(made, data)
      return made
    }
    const scratch = gradientScratch(made, sizes)
    const buffers = {
      q: filled(q.bits),
      k: filled(k.bits),
      v: filled(v.bits),
      gradient: filled(gradient.bits),
      segments: filled(Int32Array.from(rows.flat())),
      ranges: buffer(rangesBytes(sizes)),
      mixed: buffer(2 * wide),
      sums: buffer(sumsBytes(made, sizes)),
      toQueries: buffer(2 * wide),
      toKeys: buffer(2 * narrow),
      toValues: buffer(2 * narrow),
      perRow: buffer(scratch.perRow),
      partial: buffer(scratch.partial),
    }
    const steps = [
      ...segmentRanges(sizes, buffers),
      ...packedAttention(made, sizes, buffers, traits),
      ...packedAttentionGradient(made, sizes, buffers, traits),
    ]
    await compile(steps.map(({ code }) => code))
    const prepared = prepare(steps)
    // Twice, as nothing is left over from the first time.
    prepared.run(2)
    const halvesOf = async (buffer: GPUBuffer, count: number) => {
      const bits = new Uint16Array(count)
      await read(buffer, bits)
      return Array.from(bits, fromHalf)
    }
    const sums = new Float32Array(positions * heads)
    await read(buffers.sums, sums)
    const found = {
      mixed: await halvesOf(buffers.mixed, wide),
      toQueries: await halvesOf(buffers.toQueries, wide),
      toKeys: await halvesOf(buffers.toKeys, narrow),
      toValues: await halvesOf(buffers.toValues, narrow),
    }
    await done()
    prepared.dispose()
    for (const one of Object.values(buffers)) one.destroy()

    const wanted = reference(made, {
      q: q.values,
      k: k.values,
      v: v.values,
      gradient: gradient.values,
    })
    sums.forEach((sum, i) => {
      const at = Math.floor(i / (heads * sizes.time)) * sizes.time + (i % sizes.time)
      if (!padding[at]) expect(Math.abs(sum - wanted.sums[i])).toBeLessThan(1e-3)
    })
    for (const name of ['mixed', 'toQueries', 'toKeys', 'toValues'] as const) {
      const width = found[name].length / positions
      let [error, norm] = [0, 0]
      found[name].forEach((value, i) => {
        // Of padding, that it is a number.
        const wrong = padding[Math.floor(i / width)] ? value - value : value - wanted[name][i]
        error = Math.max(error, Math.abs(wrong))
        norm = Math.max(norm, Math.abs(wanted[name][i]))
      })
      // Where a position sees itself alone nothing can change its scores.
      expect(error / Math.max(norm, 1e-2), name).toBeLessThan(2e-3)
    }
  })

  it('does not fit heads that are not a multiple of 16', () => {
    const of = (headDim: number) => () =>
      packedAttention(
        { heads: 2, kvHeads: 1, headDim },
        { batch: 1, time: 1 },
        {} as Parameters<typeof packedAttention>[2],
        traits,
      )
    expect(of(80)).not.toThrow()
    expect(of(40)).toThrow(/40/)
  })
})

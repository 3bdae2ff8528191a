/** The kernels of packed sequences' attention, emulated, held to the same in double precision. */
import { describe, expect, it } from 'vitest'
import { random } from '../../../../random.ts'
import type { KernelOperator } from './operators.ts'
import { fitsPackedAttention, type Heads, packedAttentionOperators } from './packedAttention.ts'
import { sourceOf } from './sources.ts'
import type { DeviceSizes } from './step.ts'
import { compileForHost, type HostMemory, hasCompiler } from './testing/emulator.ts'
import { fromHalf } from './testing/halves.ts'
import { halves, reference, segmentsOf } from './testing/packedRows.ts'

const device: DeviceSizes = { multiprocessors: 1, sharedBytes: 227 * 1024 }

interface Case extends Heads {
  name: string
  rows: number[][]
  device?: DeviceSizes
  backwards?: boolean
  /** How far queries are from normal: far ones look at few keys, and find greater scores later on. */
  far?: number
}
const cases: Case[] = [
  {
    name: 'one short row',
    ...{ heads: 1, kvHeads: 1, headDim: 32 },
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
    rows: [segmentsOf(330, 200, 50, 80)],
    far: 12,
  },
  {
    name: 'completions of which others see nothing, and padding, in two rows',
    ...{ heads: 3, kvHeads: 1, headDim: 32 },
    rows: [segmentsOf(419, 70, 130, 140, 65), segmentsOf(419, 5, 60, 3, 64)],
    device: { ...device, multiprocessors: 100 },
  },
  {
    name: 'groups of six heads, shared among two blocks',
    ...{ heads: 12, kvHeads: 2, headDim: 64 },
    rows: [segmentsOf(150, 40, 70, 40)],
    device: { ...device, multiprocessors: 4 },
  },
  {
    name: 'wide heads',
    ...{ heads: 2, kvHeads: 1, headDim: 128 },
    rows: [segmentsOf(201, 90, 50, 55), segmentsOf(201, 201)],
  },
  {
    name: 'wide heads, backwards',
    ...{ heads: 2, kvHeads: 1, headDim: 128 },
    rows: [segmentsOf(201, 90, 50, 55), segmentsOf(201, 201)],
    backwards: true,
  },
  {
    name: 'heads of 96, backwards',
    ...{ heads: 3, kvHeads: 1, headDim: 96 },
    rows: [segmentsOf(260, 63, 65, 129)],
    device: { ...device, multiprocessors: 100 },
    backwards: true,
  },
]

describe.skipIf(!hasCompiler())('attention of packed sequences by kernels', () => {
  it.each(cases)('gives mixed values and gradients: $name', async (made) => {
    const { heads, kvHeads, headDim, rows, backwards = false, far = 1 } = made
    const operators = packedAttentionOperators(made, made.device ?? device)
    const kernels = await compileForHost(sourceOf(operators[0].unit))
    const [batch, time] = [rows.length, rows[0].length]
    const stream = random('packed attention', made.name)
    const wide = [batch, time, heads * headDim]
    const narrow = [batch, time, kvHeads * headDim]
    const drawn = (dims: number[], by = 1) =>
      halves(
        dims.reduce((product, n) => product * n),
        () => by * stream.normal(),
      )
    const [q, k, v, gradient] = [drawn(wide, far), drawn(narrow), drawn(narrow), drawn(wide)]
    const padding = rows.flat().map((segment) => segment < 0)
    // Nothing is asked of it.
    padding.forEach((empty, t) => {
      if (!empty) return
      for (const of of [gradient.bits, gradient.values])
        of.fill(0, t * heads * headDim, (t + 1) * heads * headDim)
    })

    const held: HostMemory[] = []
    const place = (dims: readonly number[], bytes: number, data?: Uint16Array | Int32Array) => {
      const count = dims.reduce((product, n) => product * n, 1)
      const memory = kernels.allocate(Math.max(16, bytes * count))
      held.push(memory)
      if (data) memory.bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
      return { dims, pointer: memory.pointer, memory, count }
    }
    const run = (name: string, inputs: readonly ReturnType<typeof place>[]) => {
      const operator = operators.find((one) => one.name === name) as KernelOperator
      const outputs = operator
        .shapes(
          inputs.map(({ dims }) => dims),
          {},
        )
        .map((dims, i) => place(dims, operator.outputs[i] === 'float16' ? 2 : 4))
      const launches = operator.launches({ inputs, outputs, attributes: {} }, made.device ?? device)
      for (const { kernel, grid, threads, shared, arguments: given } of launches)
        if (!grid.includes(0)) kernels.launch(kernel, { grid, block: [threads], shared, backwards }, given)
      return outputs
    }
    try {
      const segments = place([batch, time], 4, Int32Array.from(rows.flat()))
      const [ranges] = run('SegmentRanges', [segments])
      const [qs, ks, vs] = [place(wide, 2, q.bits), place(narrow, 2, k.bits), place(narrow, 2, v.bits)]
      const [mixed, sums] = run('PackedAttention', [qs, ks, vs, segments, ranges])
      const [toQueries, toKeys, toValues] = run('PackedAttentionGradient', [
        place(wide, 2, gradient.bits),
        qs,
        ks,
        vs,
        mixed,
        sums,
        segments,
        ranges,
      ])
      const wanted = reference(made, {
        q: q.values,
        k: k.values,
        v: v.values,
        gradient: gradient.values,
      })
      for (const [name, found] of Object.entries({ mixed, toQueries, toKeys, toValues })) {
        const { memory, count } = found
        const values = Array.from(
          new Uint16Array(memory.bytes.buffer, memory.bytes.byteOffset, count),
          fromHalf,
        )
        const exact = wanted[name as keyof typeof wanted]
        const width = count / (batch * time)
        let [error, norm] = [0, 0]
        values.forEach((value, i) => {
          // Of padding, that it is a number.
          const wrong = padding[Math.floor(i / width)] ? value - value : value - exact[i]
          error = Math.max(error, Math.abs(wrong))
          norm = Math.max(norm, Math.abs(exact[i]))
        })
        expect(error / norm, name).toBeLessThan(2e-3)
      }
    } finally {
      for (const memory of held) memory.free()
    }
  })

  it('fits heads of a multiple of 32 elements, up to 128, where a block can hold them', () => {
    const of = (headDim: number) => fitsPackedAttention({ heads: 2, kvHeads: 1, headDim }, device)
    expect([32, 64, 96, 128].every(of)).toBe(true)
    expect([16, 80, 256].some(of)).toBe(false)
    const small = { ...device, sharedBytes: 99 * 1024 }
    expect(fitsPackedAttention({ heads: 2, kvHeads: 1, headDim: 128 }, small)).toBe(false)
  })
})

/** Kernels by subgroups' products of matrices, which run on no GPU in software: that they compile. */
import { expect, it } from 'vitest'
import { packedAttention, packedAttentionGradient } from './attention.ts'
import type { Dispatch, Traits } from './gpu.ts'
import { gated, product, streamed } from './products.ts'
import { wrongWith } from './testing.ts'

const traits: Traits = {
  name: '',
  software: false,
  matrices: true,
  bufferBytes: 2 ** 31,
  workgroupBytes: 49152,
}
const buffer = {} as GPUBuffer
const buffers = new Proxy({}, { get: () => buffer }) as Record<string, GPUBuffer>
const codes = (dispatches: readonly Dispatch[]) => dispatches.map(({ code }) => code)
const usesMatrices = (code: string) => code.includes('subgroupMatrixMultiplyAccumulate')

it.each([
  { m: 1000, n: 1000, k: 64, transposeB: true },
  { m: 64, n: 64, k: 50 },
  { m: 9000, n: 9000, k: 64, transposeA: true },
  { m: 1000, n: 32, k: 9000, transposeA: true },
  { m: 32, n: 1000, k: 9000, transposeA: true },
])('a product of $m x $k by $k x $n', async (sizes) => {
  for (const kind of [undefined, 'row', 'matrix'] as const) {
    const add = kind && { buffer, kind }
    const made = codes(
      product(
        { ...sizes, a: buffer, b: buffer, out: buffer, outType: 'float16', add, scratch: buffer },
        traits,
      ),
    )
    expect(made.some(usesMatrices)).toBe(true)
    expect(await wrongWith(made)).toEqual([])
  }
})

it.each([1, 48, 100])('products of %i rows that stream a weight', async (rows) => {
  const given = { rows, inputs: 96, outputs: 64, x: buffer, out: buffer }
  const made = codes([
    streamed({ ...given, parts: 1, weight: buffer }, traits),
    gated({ ...given, gate: buffer, up: buffer }, traits),
  ])
  expect(made.every(usesMatrices)).toBe(true)
  expect(await wrongWith(made)).toEqual([])
})

it.each([32, 64, 96, 128])('attention of heads of %i', async (headDim) => {
  const heads = { heads: 6, kvHeads: 2, headDim }
  const rows = { batch: 2, time: 128 }
  const made = codes([
    ...packedAttention(heads, rows, buffers as Parameters<typeof packedAttention>[2], traits),
    ...packedAttentionGradient(heads, rows, buffers as Parameters<typeof packedAttentionGradient>[2], traits),
  ])
  expect(made.filter(usesMatrices)).toHaveLength(3)
  expect(await wrongWith(made)).toEqual([])
})

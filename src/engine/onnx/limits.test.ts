import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { openCheckpoint } from '../checkpoint/folder.ts'
import { gpuLimits } from './limits.ts'
import { planBatches } from './pack.ts'

const { config } = await openCheckpoint(fileURLToPath(new URL('../fixtures/qwen2', import.meta.url)))
const qwen = {
  ...config,
  vocabSize: 151_936,
  hiddenSize: 1536,
  layers: 28,
  heads: 12,
  kvHeads: 2,
  headDim: 128,
  intermediateSize: 8960,
  contextLength: 4096,
}
const GIB = 2 ** 30
const devices = [
  { device: 'cuda', precision: 'float16' },
  { device: 'webgpu', precision: 'float16' },
  { device: 'webgpu', precision: 'float32' },
] as const

it('plans more at once for more memory and shorter rows, and never nothing', () => {
  const memory = fc.integer({ min: 1, max: 200 }).map((gib) => gib * GIB)
  const length = fc.integer({ min: 1, max: 4096 })
  fc.assert(
    fc.property(fc.constantFrom(...devices), memory, memory, length, length, (place, a, b, short, long) => {
      const [less, more] = [gpuLimits(qwen, Math.min(a, b), place), gpuLimits(qwen, Math.max(a, b), place)]
      expect(less.tokenBudget).toBeGreaterThan(0)
      expect(less.decodeBatch).toBeGreaterThanOrEqual(1)
      expect(more.tokenBudget).toBeGreaterThanOrEqual(less.tokenBudget)
      expect(more.decodeBatch).toBeGreaterThanOrEqual(less.decodeBatch)
      const cost = (n: number) => more.rowCost?.(n) ?? 0
      expect(cost(Math.min(short, long))).toBeLessThanOrEqual(cost(Math.max(short, long)))
    }),
  )
})

it("lets no batch of WebGPU's outgrow a buffer, however much memory there is", () => {
  const place = devices[1]
  const sequences = Array.from({ length: 400 }, (_, i) => ({
    prompt: Array.from({ length: 1234 }, () => i),
    completion: Array.from({ length: 384 }, () => 1),
  }))
  const rows = (memory: number) =>
    Math.max(...planBatches(sequences, gpuLimits(qwen, memory, place)).map((batch) => batch.length))
  // Activations of the gated product, in single precision.
  expect(rows(10_000 * GIB) * 1617 * 8960 * 4).toBeLessThan(2 ** 31)
  expect(rows(10_000 * GIB)).toBeGreaterThan(5)
  expect(rows(20 * GIB)).toBe(1)
})

import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { openCheckpoint } from '../../checkpoint/folder.ts'
import { promptsAtOnce, rungAbove, WEBGPU_BUFFER, withFewPrompts } from './sizes.ts'

it('gives few sizes, none much larger than asked for', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100_000 }), (size) => {
      const rung = rungAbove(size)
      expect(rung).toBeGreaterThanOrEqual(size)
      expect(rung).toBeLessThanOrEqual(Math.max(16, 1.2 * size + 16))
      expect(rung % 16).toBe(0)
      expect(rungAbove(rung)).toBe(rung)
    }),
  )
  const rungs = new Set(Array.from({ length: 4096 }, (_, i) => rungAbove(i + 1)))
  expect(rungs.size).toBeLessThan(34)
})

it('computes no more prompts together than a buffer holds', async () => {
  const { config } = await openCheckpoint(fileURLToPath(new URL('../../fixtures/qwen2', import.meta.url)))
  const qwen = { ...config, heads: 12, hiddenSize: 1536, intermediateSize: 8960 }
  for (const length of [100, 1234, 4096]) {
    const prompts = promptsAtOnce(qwen, { precision: 'float16' }, length)
    expect(prompts).toBeGreaterThan(0)
    expect(prompts * length * 8960 * 2).toBeLessThanOrEqual(WEBGPU_BUFFER)
    expect((prompts * 12 * length ** 2 * 4) / 4).toBeLessThanOrEqual(WEBGPU_BUFFER)
  }
  expect(promptsAtOnce(qwen, { precision: 'float16' }, 100_000)).toBe(1)
})

it('keeps the samples of a prompt together, in their order', () => {
  const requests = [{}, {}, {}]
  const samples = [0, 0, 1, 2, 2].map((request, sample) => ({ request: requests[request], sample }))
  const numbers = (most: number) =>
    withFewPrompts(samples, most).map((part) => part.map(({ sample }) => sample))
  expect(numbers(1)).toEqual([[0, 1], [2], [3, 4]])
  expect(numbers(2)).toEqual([
    [0, 1, 2],
    [3, 4],
  ])
  expect(numbers(Number.POSITIVE_INFINITY)).toEqual([[0, 1, 2, 3, 4]])
})

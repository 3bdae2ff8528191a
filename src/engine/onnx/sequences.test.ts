import { expect, it, vi } from 'vitest'
import { halvingOnLack, trainSumming } from './sequences.ts'
import type { Values } from './session.ts'

it('does in halves what memory does not suffice for, and says so', async () => {
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const done: number[][] = []
  await halvingOnLack([1, 2, 3, 4, 5], 'rows', async (items) => {
    if (items.length > 2) throw new Error('CUDA: Failed to allocate memory for requested buffer')
    done.push([...items])
  })
  expect(done).toEqual([[1, 2], [3], [4, 5]])
  expect(said.mock.calls.map(([text]) => text)).toEqual([
    'Memory does not suffice for 5 rows at once: going on with 3.\n',
    'Memory does not suffice for 3 rows at once: going on with 2.\n',
  ])
  said.mockRestore()
})

it('passes on other errors, and a lack that halves cannot mend', async () => {
  const fail = (message: string) => async () => {
    throw new Error(message)
  }
  await expect(halvingOnLack([1, 2], 'rows', fail('shapes differ'))).rejects.toThrow('shapes differ')
  await expect(halvingOnLack([1], 'rows', fail('out of memory'))).rejects.toThrow('out of memory')
})

it('sums batches anew in fewer rows where memory does not suffice, each sequence once', async () => {
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const runs: number[] = []
  let sum = Number.NaN
  const sums = {
    async clear() {
      sum = 0
    },
    async add({ tokens, targets, advantages }: Values) {
      const [rows] = tokens.dims
      runs.push(rows)
      // Half of what a batch adds stays behind where it fails.
      const part = (advantages.data as Float32Array).reduce((total, value) => total + value, 0)
      sum += part / 2
      if (rows > 1) throw new Error('CUDA: Failed to allocate memory for requested buffer')
      sum += part / 2
      // What is asked of each target comes back as its log-probability.
      return { loss: part, logprobs: Float32Array.from(targets.data as Int32Array) }
    },
    read: async () => [Float32Array.of(sum)],
  }
  const completions = [[11, 12, 13], [21], [31, 32], [41, 42], [51]]
  const row = (...members: number[]) => {
    const length = members.reduce((sum, index) => sum + completions[index].length - 1, 2)
    return { prompt: [1, 2], members, length }
  }
  const batch = (...rows: ReturnType<typeof row>[]) => ({
    rows,
    completions,
    advantages: completions.map((tokens) => tokens.map(() => 1)),
    old: completions.map((tokens) => tokens.map(() => 0)),
  })
  const settings = { loss: 'policy_gradient', temperature: 1, low: 0.8, high: 1.2, names: ['w'] } as const
  const result = await trainSumming([batch(row(4)), batch(row(0, 1), row(2), row(3))], settings, sums)
  expect(runs).toEqual([1, 3, 1, 2, 1, 1, 1, 1])
  expect(result.loss).toBe(9)
  expect(result.gradients).toEqual([Float32Array.of(9)])
  completions.forEach((tokens, index) => {
    expect([...(result.logprobs.get(index) ?? [])]).toEqual(tokens)
  })
  expect(said).toHaveBeenCalledTimes(2)
  said.mockRestore()
})

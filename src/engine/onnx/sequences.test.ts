import { expect, it, vi } from 'vitest'
import { halvingOnLack } from './sequences.ts'

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

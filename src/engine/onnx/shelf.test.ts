import { expect, it } from 'vitest'
import { openShelf } from './shelf.ts'

it('gives zeros, and other memory to each until all is taken back', () => {
  for (const keeps of [true, false]) {
    const shelf = openShelf(keeps)
    for (const lengths of [
      [3, 5],
      [5, 2],
      [1, 9],
    ]) {
      shelf.clear()
      const [first, second] = lengths.map((length) => shelf.take(length))
      expect([first.length, second.length]).toEqual(lengths)
      first.fill(7)
      expect(second).toEqual(new Float32Array(lengths[1]))
      second.fill(8)
      expect(first).toEqual(new Float32Array(lengths[0]).fill(7))
    }
  }
})

it('gives the same memory again where it is kept and suffices', () => {
  const buffers = (keeps: boolean) => {
    const shelf = openShelf(keeps)
    return [4, 3, 5].map((length) => {
      shelf.clear()
      return shelf.take(length).buffer
    })
  }
  const [four, three, five] = buffers(true)
  expect(three).toBe(four)
  expect(five).not.toBe(four)
  expect(new Set(buffers(false)).size).toBe(3)
})

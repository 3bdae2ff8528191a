import { describe, expect, it } from 'vitest'
import { UserError } from '../errors.ts'
import { layout, own, shared } from './reads.ts'

describe('boards', () => {
  it('lay out who reads whom', () => {
    expect(layout(own, 3)).toEqual([[0], [1], [2]])
    expect(layout(shared, 3)).toEqual([
      [0, 1, 2],
      [0, 1, 2],
      [0, 1, 2],
    ])
    expect([own.name, shared.name]).toEqual(['own', 'shared'])
  })

  it.each([
    ['nothing', () => []],
    ['a note twice', () => [0, 0]],
    ['a note that is not there', () => [3]],
    ['half a note', () => [0.5]],
  ])('refuse a reader that sees %s', (_what, reads) => {
    expect(() => layout(reads, 3)).toThrow(UserError)
  })
})

import { expect, it } from 'vitest'
import { summariseInfluence } from './influence.ts'
import type { Episode, Post } from './types.ts'

const post = (seat: number, over: Partial<Post> = {}): Post => ({
  seat,
  reads: [],
  text: '',
  tokens: 1,
  answer: null,
  correct: false,
  cut: false,
  ...over,
})

it('takes means by seats, by position, and by what the note was', () => {
  const episode: Episode = {
    problemId: 'x',
    rounds: [
      [post(0, { correct: true }), post(1, { cut: true })],
      [
        post(0, {
          reads: [
            [0, 0],
            [0, 1],
          ],
        }),
        post(1, { reads: [[0, 1]] }),
      ],
    ],
  }
  const effects = [
    { note: [0, 0], post: [1, 0], change: 3 },
    { note: [0, 1], post: [1, 0], change: -1 },
    { note: [0, 1], post: [1, 1], change: 2 },
  ] as const
  expect(summariseInfluence([{ episode, effects }], 2)).toEqual({
    bySeats: [
      [3, null],
      [-1, 2],
    ],
    byPosition: [
      { change: 2.5, effects: 2 },
      { change: -1, effects: 1 },
    ],
    right: { change: 3, effects: 1 },
    wrong: { change: 0.5, effects: 2 },
    whole: { change: 3, effects: 1 },
    cut: { change: 0.5, effects: 2 },
  })
})

it('has nothing to say of nothing', () => {
  const { right, byPosition } = summariseInfluence([], 1)
  expect([right, byPosition]).toEqual([{ change: null, effects: 0 }, []])
})

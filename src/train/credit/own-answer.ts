/** A note earns its own answer's correctness, whatever readers make of it: writers learn to solve, not to tell. */
import { postOf } from '../../board/types.ts'
import { creditOf } from './reach.ts'
import type { Credit } from './types.ts'

export function ownAnswer(): Credit {
  return {
    name: 'ownAnswer',
    config: {},
    paysNotes: true,
    boards: 1,
    assign: async (played) => ({
      credits: played.map(({ episode }) =>
        creditOf(episode, (note) => Number(postOf(episode, note)!.correct)),
      ),
    }),
  }
}

/** Readers alone learn: notes are context, as in the reference. */
import { creditOf } from './reach.ts'
import type { Credit } from './types.ts'

export function readersOnly(): Credit {
  return {
    name: 'readersOnly',
    config: {},
    paysNotes: false,
    boards: 1,
    assign: async (played) => ({ credits: played.map(({ episode }) => creditOf(episode, () => null)) }),
  }
}

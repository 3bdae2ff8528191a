/**
 * A note earns the mean of the final posts that it reached (board writers' rule on a ring). Where everyone sees everything
 * all notes of a board earn the same and nothing is learned of them: it is for boards whose sights differ. A note that
 * nobody was shown earns nothing.
 */
import { creditOf, meanRight, reachedBy } from './reach.ts'
import type { Credit } from './types.ts'

export function readersOf(): Credit {
  return {
    name: 'readersOf',
    config: {},
    paysNotes: true,
    boards: 1,
    assign: async (played) => ({
      credits: played.map(({ episode }) => creditOf(episode, (note) => meanRight(reachedBy(episode, note)))),
    }),
  }
}

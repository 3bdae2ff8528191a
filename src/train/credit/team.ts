/**
 * A note earns the mean of all readers of its board, and is compared with notes on other boards of the same problem: the
 * team's reward, shared alike (MAGRPO's, CoMLRL). All notes of a board earn the same, so a note's credit says mostly how
 * its companions did; it needs more than one board a problem.
 */
import { creditOf, meanRight } from './reach.ts'
import type { Credit } from './types.ts'

export function team(): Credit {
  return {
    name: 'team',
    config: {},
    paysNotes: true,
    boards: 2,
    assign: async (played) => ({
      credits: played.map(({ episode }) => {
        const earned = meanRight(episode.rounds[episode.rounds.length - 1])
        return creditOf(episode, () => earned)
      }),
    }),
  }
}

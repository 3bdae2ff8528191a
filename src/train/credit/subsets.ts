/**
 * In training each final speaker is shown a random subset of what it would see, and a note earns the difference that
 * being shown makes: an unbiased estimate of its Shapley value (Shapley 1953) for the mean reader.
 *
 * A subset's size is uniform from 0 to n and the subset uniform among those of its size. Then, with t notes shown,
 *   E[ reward x (n + 1) x (1/t if the note is shown, else -1/(n - t)) ]  =  the Shapley value,
 * and since that factor has mean 0, the mean reward of the other readers is taken off first: less variance, no bias.
 * A board whose readers are one alone has nobody to compare with and is left uncentred.
 */
import type { Protocol } from '../../board/protocol.ts'
import { named, type Sight } from '../../board/sights.ts'
import { creditOf } from './reach.ts'
import type { Credit } from './types.ts'

export function subsets(): Credit {
  return {
    name: 'subsets',
    config: {},
    paysNotes: true,
    boards: 1,
    inTraining,
    assign: async (played, { protocol }) => ({
      credits: played.map(({ episode }) => {
        const last = episode.rounds[episode.rounds.length - 1]
        const among = protocol.rounds[protocol.rounds.length - 2].speakers.length
        const rewards = last.map(({ correct }) => Number(correct))
        const total = rewards.reduce((sum, reward) => sum + reward, 0)
        return creditOf(episode, ([round, seat]) => {
          if (round !== episode.rounds.length - 2) return null
          const shares = last.map(({ reads }, j) => {
            const shown = reads.some((ref) => ref[0] === round && ref[1] === seat)
            const others = last.length > 1 ? (total - rewards[j]) / (last.length - 1) : 0
            return (
              (rewards[j] - others) * (among + 1) * (shown ? 1 / reads.length : -1 / (among - reads.length))
            )
          })
          return shares.reduce((sum, share) => sum + share, 0) / last.length
        })
      }),
    }),
  }
}

/** The last round's speakers see a random subset of the round before. */
function inTraining(protocol: Protocol): Protocol {
  const sees: Sight = named('subsets', (_seat, _seats, { before, draw }) =>
    draw
      .shuffle(before)
      .slice(0, draw.int(before.length + 1))
      .sort((a, b) => a - b),
  )
  const last = protocol.rounds.length - 1
  return { ...protocol, rounds: protocol.rounds.map((round, r) => (r === last ? { ...round, sees } : round)) }
}

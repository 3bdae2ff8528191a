/**
 * A note earns what is lost without it: the mean of the final posts that it reached, less the same without the note.
 * The difference is the note's own and not its problem's, and needs no other board: what the others wrote is the
 * baseline (COMA's counterfactual, arXiv:1705.08926).
 *
 *   replay    the readers read again without the note, with the same random numbers: exact in expectation, and costs a
 *             reading for each note
 *   rescore   the same replies are scored as if the note had not been shown, and their rewards weighed by
 *             w = p(reply | without) / p(reply | with), self-normalised: no sampling. It is biased where few replies
 *             stand for many, so its effective sample size (sum w)^2 / sum w^2 is told, and below `floor` a note earns
 *             nothing. Readers who are all right, or all wrong, need no scoring: their mean is the same under any weights
 */
import type { Played } from '../../board/play.ts'
import type { Rollout } from '../../board/policy-writer.ts'
import { postOf, type Ref } from '../../board/types.ts'
import { creditOf, meanRight, notesOf, reachedBy } from './reach.ts'
import { reweighted } from './rescore.ts'
import type { Assigned, Credit, Tools } from './types.ts'

export interface LeaveOneOutOptions {
  by?: 'replay' | 'rescore'
  /** Of `rescore`: the smallest effective sample size that is believed; 1 (any) unless told. */
  floor?: number
}

export function leaveOneOut({ by = 'rescore', floor = 1 }: LeaveOneOutOptions = {}): Credit {
  return {
    name: `leaveOneOut ${by}`,
    config: by === 'rescore' ? { by, floor } : { by },
    paysNotes: true,
    boards: 1,
    assign: (played, tools) => (by === 'replay' ? byReplay(played, tools) : reweighted(played, tools, floor)),
  }
}

async function byReplay(played: readonly Played<Rollout>[], { replay }: Tools): Promise<Assigned> {
  const read = played.map(({ episode }) =>
    notesOf(episode).filter((note) => reachedBy(episode, note).length > 0),
  )
  const again = await replay(
    played.flatMap((one, p) =>
      read[p].map((note): { played: Played<Rollout>; without: Ref[] } => ({ played: one, without: [note] })),
    ),
  )
  const credits = played.map(({ episode }, p) => {
    const replays = new Map(read[p].map((note) => [note.join(), again.shift()!]))
    return creditOf(episode, (note) => {
      const replayed = replays.get(note.join())
      if (!replayed) return null
      const reached = reachedBy(episode, note)
      const last = episode.rounds.length - 1
      const without = reached.map(({ seat }) => postOf(replayed, [last, seat])!)
      return meanRight(reached)! - meanRight(without)!
    })
  })
  return { credits }
}

/**
 * Leave-one-out by scoring the same texts again: importance weights instead of sampling (see leave-one-out.ts). Where all
 * whom a note reached are right, or all wrong, no weights can change their mean: the note earns nothing, and nothing is
 * scored for it.
 */
import type { Played } from '../../board/play.ts'
import type { Rollout } from '../../board/policy-writer.ts'
import { type Post, postOf, type Ref } from '../../board/types.ts'
import { creditOf, meanRight, notesOf, reachedBy } from './reach.ts'
import type { Assigned, Tools } from './types.ts'

/** A post that was shown a note, and what scoring it without that note costs to know. */
interface Shown {
  played: Played<Rollout>
  note: Ref
  post: Ref
}

export async function reweighted(
  played: readonly Played<Rollout>[],
  { rescore }: Tools,
  floor: number,
): Promise<Assigned> {
  const shown = played.flatMap((one) =>
    notesOf(one.episode)
      .filter((note) => disagree(reachedBy(one.episode, note)))
      .flatMap((note) => directReaders(one, note)),
  )
  const scores = await rescore(shown.map(({ played, note, post }) => ({ played, post, without: [note] })))
  /** log p(post | without note) - log p(post | with it), by board, note and post. */
  const change = new Map(
    shown.map(({ played, note, post }, i) => [key(played, note, post), scores[i] - logprobOf(played, post)]),
  )
  const effective: number[] = []
  const credits = played.map((one) =>
    creditOf(one.episode, (note) => {
      const reached = reachedBy(one.episode, note)
      if (reached.length === 0) return null
      if (!disagree(reached)) return 0
      const last = one.episode.rounds.length - 1
      const logWeights = reached.map(({ seat }) =>
        // Of all that led to this final post, what was written under the note.
        ancestry(one, [last, seat]).reduce((sum, post) => sum + (change.get(key(one, note, post)) ?? 0), 0),
      )
      const most = Math.max(...logWeights)
      const weights = logWeights.map((log) => Math.exp(log - most))
      const total = weights.reduce((sum, weight) => sum + weight, 0)
      const size = total ** 2 / weights.reduce((sum, weight) => sum + weight ** 2, 0)
      effective.push(size)
      if (size < floor) return null
      const without = weights.reduce((sum, w, i) => sum + w * Number(reached[i].correct), 0) / total
      return meanRight(reached)! - without
    }),
  )
  return { credits, effective }
}

/** Whether some are right and some wrong. */
const disagree = (posts: readonly Post[]) => posts.some(({ correct }) => correct !== posts[0].correct)

function key({ problem, board }: Played<Rollout>, note: Ref, post: Ref): string {
  return JSON.stringify([problem.id, board, note, post])
}

/** The posts that were shown a note. */
export function directReaders(one: Played<Rollout>, note: Ref): Shown[] {
  return one.episode.rounds.flatMap((posts, round) =>
    posts
      .filter(({ reads }) => reads.some((ref) => ref.join() === note.join()))
      .map(({ seat }): Shown => ({ played: one, note, post: [round, seat] })),
  )
}

/** Natural log of a post's probability when it was drawn, under the loss's distribution. */
export function logprobOf({ episode, traces }: Played<Rollout>, [round, seat]: Ref): number {
  const i = episode.rounds[round].findIndex((post) => post.seat === seat)
  return traces[round][i].logprobs.reduce((sum, logprob) => sum + logprob, 0)
}

/** A post and all that it goes back to. */
function ancestry({ episode }: Played<Rollout>, post: Ref): Ref[] {
  const found = new Map([[post.join(), post]])
  const open: Ref[] = [post]
  for (let next = open.pop(); next; next = open.pop()) {
    for (const ref of postOf(episode, next)!.reads) {
      if (found.has(ref.join())) continue
      found.set(ref.join(), ref)
      open.push(ref)
    }
  }
  return [...found.values()]
}

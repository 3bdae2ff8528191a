/** Who was reached by a post: pure functions of an episode, shared by the rules. */
import type { Episode, Post, Ref } from '../../board/types.ts'

/** Every post before the last round, in order. */
export function notesOf({ rounds }: Episode): Ref[] {
  return rounds.slice(0, -1).flatMap((posts, round) => posts.map(({ seat }): Ref => [round, seat]))
}

/** The posts of the last round that saw a post, or saw one that did, and so on. */
export function reachedBy(episode: Episode, [round, seat]: Ref): Post[] {
  const reached = new Set([`${round},${seat}`])
  for (const [r, posts] of episode.rounds.entries()) {
    for (const post of posts) {
      if (post.reads.some((ref) => reached.has(ref.join()))) reached.add(`${r},${post.seat}`)
    }
  }
  const last = episode.rounds.length - 1
  return episode.rounds[last].filter((post) => reached.has(`${last},${post.seat}`))
}

/** Mean correctness of posts; null of none. */
export function meanRight(posts: readonly Post[]): number | null {
  return posts.length === 0 ? null : posts.filter((post) => post.correct).length / posts.length
}

/** The credit of an episode whose final posts earn their own correctness and whose notes earn what `pay` says. */
export function creditOf(episode: Episode, pay: (note: Ref) => number | null): (number | null)[][] {
  const last = episode.rounds.length - 1
  return episode.rounds.map((posts, round) =>
    posts.map((post) => (round === last ? Number(post.correct) : pay([round, post.seat]))),
  )
}

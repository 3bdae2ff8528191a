/** What seats did: pure counts over episodes, for any protocol. With two rounds they are the reference's. */
import { readBoxed } from '../grade/answer.ts'
import { answersEqual } from '../grade/math-equal.ts'
import type { Final } from './protocol.ts'
import type { Episode, Post } from './types.ts'

/** Shares are of all posts of the round, or of all boards; each in [0, 1]. */
export interface RoundCounts {
  /** Posts that are right. */
  right: number
  /** Boards on which the round's most common boxed answer is right: what one would get without reading on. */
  voteRight: number
  /** Boards with at least one right post in the round: the most that copying could reach. */
  anyRight: number
  /**
   * Against the same seat's latest earlier post, of the seats that have one (null where none has): the answer differs
   * (an answer differs from no answer); right where that was wrong; wrong where that was right.
   */
  switched: number | null
  rescued: number | null
  misled: number | null
  /** Posts ended by the token limit. */
  cut: number
  /** Posts that close a boxed answer. */
  boxed: number
  /** Mean lengths in characters and in tokens. */
  chars: number
  tokens: number
}

/**
 * The last round beside the one before it, under the reference's names: those before are notes, the last are replies.
 * What needs a round before is null where there is one round alone.
 */
export interface ReaderCounts {
  noteAcc: number | null
  voteAcc: number | null
  anyNote: number | null
  switched: number | null
  rescued: number | null
  misled: number | null
  notesCut: number | null
  repliesCut: number
  notesBoxed: number | null
  noteChars: number | null
  replyChars: number
  noteTokens: number | null
  replyTokens: number
  /** Each round by itself, in their order. */
  rounds: RoundCounts[]
}

/** Counts over episodes of one protocol. Throws on an empty list: a share of nothing is no number. */
export function countEpisodes(episodes: readonly Episode[]): ReaderCounts {
  if (episodes.length === 0) throw new RangeError('no episodes to count')
  const rounds = episodes[0].rounds.map((_, r) => countRound(episodes, r))
  const last = rounds[rounds.length - 1]
  const before = rounds[rounds.length - 2] as RoundCounts | undefined
  return {
    noteAcc: before?.right ?? null,
    voteAcc: before?.voteRight ?? null,
    anyNote: before?.anyRight ?? null,
    switched: last.switched,
    rescued: last.rescued,
    misled: last.misled,
    notesCut: before?.cut ?? null,
    repliesCut: last.cut,
    notesBoxed: before?.boxed ?? null,
    noteChars: before?.chars ?? null,
    replyChars: last.chars,
    noteTokens: before?.tokens ?? null,
    replyTokens: last.tokens,
    rounds,
  }
}

function countRound(episodes: readonly Episode[], r: number): RoundCounts {
  const posts = episodes.flatMap(({ rounds }) => rounds[r])
  const pairs = episodes.flatMap(({ rounds }) =>
    rounds[r].flatMap((post) => {
      const before = latestBefore(rounds, r, post.seat)
      return before ? [{ post, before }] : []
    }),
  )
  const ofPairs = (holds: (pair: (typeof pairs)[number]) => boolean) =>
    pairs.length === 0 ? null : share(pairs, holds)
  return {
    right: share(posts, (post) => post.correct),
    voteRight: share(episodes, ({ rounds }) => vote(rounds[r])?.correct === true),
    anyRight: share(episodes, ({ rounds }) => rounds[r].some((post) => post.correct)),
    switched: ofPairs(({ post, before }) => !sameAnswer(post.answer, before.answer)),
    rescued: ofPairs(({ post, before }) => post.correct && !before.correct),
    misled: ofPairs(({ post, before }) => !post.correct && before.correct),
    cut: share(posts, (post) => post.cut),
    boxed: share(posts, (post) => readBoxed(post.text) !== null),
    chars: mean(posts, (post) => post.text.length),
    tokens: mean(posts, (post) => post.tokens),
  }
}

/** A seat's latest post before round `r`. */
export function latestBefore(
  rounds: readonly (readonly Post[])[],
  r: number,
  seat: number,
): Post | undefined {
  for (let earlier = r - 1; earlier >= 0; earlier--) {
    const post = rounds[earlier].find((one) => one.seat === seat)
    if (post) return post
  }
  return undefined
}

/** What an episode scores, each in {0, 1}: one for each last speaker, or one for all (see Final). */
export function finalScores({ rounds }: Episode, final: Final): number[] {
  const last = rounds[rounds.length - 1]
  if (final === 'each') return last.map((post) => Number(post.correct))
  if (final === 'vote') return [Number(vote(last)?.correct === true)]
  return last.filter((post) => post.seat === final.seat).map((post) => Number(post.correct))
}

/** The first post that gives the most common boxed answer of a round (a tie goes to the first posted), or null. */
export function vote(posts: readonly Post[]): Post | null {
  const camps: { answer: string; first: Post; votes: number }[] = []
  for (const post of posts) {
    const answer = readBoxed(post.text)
    if (answer === null) continue
    const camp = camps.find((other) => answersEqual(answer, other.answer))
    if (camp) camp.votes++
    else camps.push({ answer, first: post, votes: 1 })
  }
  // Camps are in the order of their first post, so a strict comparison leaves a tie with the first posted.
  let winner: (typeof camps)[number] | undefined
  for (const camp of camps) if (!winner || camp.votes > winner.votes) winner = camp
  return winner?.first ?? null
}

/** Whether two answers are one; no answer equals no answer alone. */
export function sameAnswer(a: string | null, b: string | null): boolean {
  return a === null || b === null ? a === b : answersEqual(a, b)
}

function share<T>(items: readonly T[], holds: (item: T) => boolean): number {
  return items.filter(holds).length / items.length
}

function mean<T>(items: readonly T[], size: (item: T) => number): number {
  return items.reduce((sum, item) => sum + size(item), 0) / items.length
}

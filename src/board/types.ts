/**
 * What happened on a problem: posts in rounds. Data alone; knows no engines and no training.
 *
 *   seat      a place at the board, numbered from 0; a policy writes for it
 *   round     each of its speakers writes one post, having seen some earlier ones; numbered from 0
 *   episode   one problem played from the first round to the last
 */

/** One post of an episode: round and seat, both from 0. */
export type Ref = readonly [round: number, seat: number]

/** One text that a seat wrote. */
export interface Post {
  seat: number
  /** The posts that it was shown, in the order shown. */
  reads: readonly Ref[]
  text: string
  /** Tokens it took, the stop token included. */
  tokens: number
  /** Its final answer as the verifier read it, or null. */
  answer: string | null
  correct: boolean
  /** Ended by the token limit, not by the model. */
  cut: boolean
}

/** Everything that happened on one problem: `rounds[r]` are round r's posts, in the order of its speakers. */
export interface Episode {
  problemId: string
  rounds: readonly (readonly Post[])[]
}

/** The post of a seat in a round; undefined where that seat did not speak then. */
export function postOf(episode: Episode, [round, seat]: Ref): Post | undefined {
  return episode.rounds[round]?.find((post) => post.seat === seat)
}

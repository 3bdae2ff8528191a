/** The message board: who reads whom, the two rounds, and what readers did. Knows no engines and no training. */

/**
 * Which notes reader `reader` (0-based) sees, as note indices in the order shown. Each reader sees at least one
 * note, and none twice.
 */
export interface Reads {
  name: string
  (reader: number, copies: number): number[]
}

/** One text that a copy wrote: a note in round one, a reply in round two. */
export interface Post {
  text: string
  /** Tokens it took, the stop token included. */
  tokens: number
  /** Its final answer as the verifier read it, or null. */
  answer: string | null
  correct: boolean
  /** Ended by the token limit, not by the model. */
  cut: boolean
}

export interface Reply extends Post {
  /** The notes this reader saw, as note indices in the order shown. */
  reads: number[]
}

/** Everything that happened on one problem. `notes[i]` and `replies[i]` are copy i's. */
export interface Board {
  problemId: string
  notes: Post[]
  replies: Reply[]
}

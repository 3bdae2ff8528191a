/** The verifier: reads the final answer of a free-text reply and decides whether it equals the gold. Knows no boards. */

export interface Grade {
  /** The final answer as written in the reply, or null where the reply states none. */
  answer: string | null
  correct: boolean
}

/** A pure function of (reply, gold) with a version: two grades compare only when their versions are equal. */
export interface Grader {
  name: string
  version: string
  grade(reply: string, gold: string): Grade
}

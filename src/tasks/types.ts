/** Problems to solve, and where they come from. Knows nothing of models. */

export interface Problem {
  /** Stable and unique within its task: the same problem has the same id on every machine. */
  id: string
  question: string
  /**
   * Facts that the seats of a board are dealt (see parts.ts): a writer sees the question and its own, a reader the
   * question and the notes. Left out, everybody sees all there is in the question.
   */
  parts?: readonly string[]
  /** The answer that the verifier compares with, as text (GSM8K: the number after `####`, commas removed). */
  gold: string
}

/** Held-out problems never appear in `train`; both are already shuffled and cut to size. */
export interface Split {
  train: Problem[]
  holdout: Problem[]
  /** Training problems dropped because they overlap a held-out one (see decontaminate). */
  dropped: number
}

/** A source of problems. The configuration is plain data, so that it can be recorded and compared. */
export interface Task {
  name: string
  /** Everything that decides which problems come out: sizes, seed, file. */
  config: Record<string, string | number | boolean>
  load(): Promise<Split>
}

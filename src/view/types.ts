/**
 * A run folder as data for a person's eyes: what the report embeds and the server sends. Types alone, so that the
 * browser's code and Node's share them.
 *
 *   board      everything that happened on one problem (see board/types.ts): here a row of the table
 *   problem    what was posed; a held-out one is posed once in each job, a training one when its turn comes
 */
import type { Post, Reply } from '../board/types.ts'
import type { Results } from '../experiment/results.ts'

/** What a job is for; also the colour that it is drawn in. */
export type Role = 'base' | 'base-shared' | 'baseline' | 'recipe'

export type JobState = 'waiting' | 'running' | 'stopped' | 'finished' | 'failed'

/** One training step as drawn: means over the batch before its update. Lengths are in characters. */
export interface TracePoint {
  step: number
  reward: number
  noteAcc: number
  voteAcc: number
  rescued: number
  misled: number
  noteChars: number
  replyChars: number
  notesCut: number
  repliesCut: number
}

export interface JobView {
  name: string
  role: Role
  /** The training seed; null for the base. */
  seed: number | null
  /** The board's name: own, shared. */
  reads: string
  state: JobState
  /** Why it failed. */
  why?: string
  steps: { done: number; of: number }
  problems: { done: number; of: number }
  /** Share of right replies among the held-out problems evaluated so far; null before the first. */
  passAt1: number | null
  /** Of work that was kept. */
  seconds: { train: number; evaluation: number }
  /** New tokens a second of the latest training steps; null where none was taken. */
  tokensPerSecond: number | null
  /** Seconds left at the latest pace; null where no pace is known yet. */
  eta: number | null
  trace: TracePoint[]
}

/** All of a run but its boards. */
export interface RunView {
  /** The run folder's own name. */
  name: string
  model: string
  task: string
  seeds: number[]
  arms: string[]
  copies: number
  /** The complete configuration, as experiment.json has it. */
  config: Record<string, unknown>
  versions: Record<string, string>
  machine: Record<string, string | number>
  /** Problems that the task gave. */
  sizes: { train: number; holdout: number }
  state: 'running' | 'stopped' | 'finished'
  /** Seconds left of all jobs; null where unknown. */
  eta: number | null
  jobs: JobView[]
  results: Results | null
}

/** One line of the list of runs. */
export interface RunListing {
  name: string
  model: string
  task: string
  seeds: number[]
  state: RunView['state']
  /** Share of all steps and evaluations that is done, in [0, 1]. */
  done: number
  /** ISO 8601: when its folder last changed. */
  changed: string
  delta: Results['delta']
  /** Why it cannot be shown; everything else is empty then. */
  problem?: string
}

/**
 * Boards without their texts, column by column: board i has job `job[i]` (an index of `RunView.jobs`), training step
 * `step[i]` (0: the evaluation), problem `problem[i]` (an index of `problems`), and in `flags` one character for each
 * of its notes and then of its replies (see flags.ts).
 */
export interface BoardColumns {
  job: number[]
  step: number[]
  problem: number[]
  /** 2 x copies characters a board. */
  flags: string
  problems: { id: string[]; question: string[]; gold: string[] }
}

/** The texts of one board. */
export interface BoardText {
  notes: Post[]
  replies: Reply[]
}

/** What the server sends of boards from number `from` on; problems are those that the client has not seen. */
export interface BoardUpdate {
  /** Names one numbering of the boards: another epoch means other numbers, and a client starts again from 0. */
  epoch: string
  from: number
  fromProblem: number
  columns: BoardColumns
}

/** An event of the live stream: the run as it is now, and how many boards there are. */
export interface LiveEvent {
  run: RunView
  boards: { epoch: string; count: number }
}

/** Says where the page finds its data. */
export type PageMode = { kind: 'report' } | { kind: 'server' }

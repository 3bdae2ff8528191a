/**
 * A run folder as data for a person's eyes: what the report embeds and the server sends. Types, and the names of what
 * is measured: shared by the browser's code and Node's.
 *
 *   side       what is compared and drawn in one colour: an arm, or a base (the untrained model under a protocol)
 *   board      everything that happened on one problem (an `Episode`, see board/types.ts): here a row of the table
 *   problem    what was posed; a held-out one is posed once in each job, a training one when its turn comes
 */
import type { Effect } from '../board/influence.ts'
import type { Post } from '../board/types.ts'
import type { JobState } from '../record/progress.ts'
import type { Results } from '../record/results.ts'
import type { Notes, ProtocolLine, RunRecord } from '../record/schema.ts'

/** An arm, or the untrained model under a protocol. */
export interface Side {
  /** The arm's, or `base-ARM`: what its jobs' names begin with. */
  name: string
  /** How it is called where it is shown: "recipe", "base, shared". */
  title: string
  /** An arm's place among the run's arms, from 0, which is its colour; null of a base. */
  arm: number | null
  /** The arms that start here; an arm by itself. */
  arms: string[]
  /** Of an arm, its base among the sides; its own place of a base. */
  base: number
  protocol: string
  /** Names of the seats, in their order. */
  seats: string[]
  rounds: { name: string; speakers: number[]; sees: string | null }[]
  final: ProtocolLine['final']
}

/**
 * Training steps as columns of equal length, each value a mean over the batch before its update; null where a step has
 * no such value. Values have six significant digits. `step` and `measures` are by name; `rounds` has one such record
 * for each round.
 */
export interface TraceColumns {
  step: number[]
  measures: Record<TraceMeasure, (number | null)[]>
  rounds: Record<RoundMeasure, (number | null)[]>[]
}

/** Of a whole step (see record/schema.ts). */
export const traceMeasures = [
  'reward',
  'informative',
  'loss',
  'gradNorm',
  'learningRate',
  'clippedShare',
  'logprobDrift',
  'entropy',
  'kl',
  'effective',
  'sampledTokens',
  'scoredTokens',
  'trainedTokens',
] as const
export type TraceMeasure = (typeof traceMeasures)[number]

/** Of one round of a step: what its posts did (see board/counts.ts), and what was paid for them. */
export const roundMeasures = [
  'right',
  'voteRight',
  'anyRight',
  'switched',
  'rescued',
  'misled',
  'cut',
  'chars',
  'creditMean',
  'creditSpread',
  'creditInformative',
  'creditWithOwn',
] as const
export type RoundMeasure = (typeof roundMeasures)[number]

export interface JobView {
  name: string
  /** Its place in `RunView.sides`. */
  side: number
  /** The training seed; null for a base. */
  seed: number | null
  state: JobState
  /** Why it failed. */
  why?: string
  steps: { done: number; of: number }
  problems: { done: number; of: number }
  /** Share of right final answers among the held-out problems evaluated so far; null before the first. */
  passAt1: number | null
  /** Of work that was kept. */
  seconds: { train: number; evaluation: number }
  /** New tokens a second of the latest training steps; null where none was taken. */
  tokensPerSecond: number | null
  /** Seconds left at the latest pace; null where no pace is known yet. */
  eta: number | null
  trace: TraceColumns
}

/** All of a run but its boards. */
export interface RunView {
  /** The run folder's own name. */
  name: string
  model: string
  task: string
  seeds: number[]
  arms: string[]
  baseline: string
  contrasts: { arm: string; against: string }[]
  /** Bases first, then arms, each in the experiment's order. */
  sides: Side[]
  /** The complete configuration, as experiment.json has it. */
  identity: RunRecord['identity']
  versions: Record<string, string>
  machine: Record<string, string | number>
  /** Where it was computed: more than one where it went on elsewhere. */
  devices: string[]
  /** Problems that the task gave. */
  sizes: { train: number; holdout: number }
  /** What a person says of it. */
  notes: Notes
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
  arms: string[]
  seeds: number[]
  notes: Notes
  state: RunView['state']
  /** Share of all steps and evaluations that is done, in [0, 1]. */
  done: number
  /** ISO 8601: when its folder last changed. */
  changed: string
  /** What was found; null before the end. */
  found: Pick<Results, 'training' | 'contrasts'> | null
  /** Why it cannot be shown; everything else is empty then. */
  problem?: string
}

/**
 * Boards without their texts, column by column: board i has job `job[i]` (an index of `RunView.jobs`), training step
 * `step[i]` (0: the evaluation), problem `problem[i]` (an index of `problems`), and in `flags` one character for each
 * of its posts, round by round, and perhaps one for its vote (see flags.ts: how many is a matter of its protocol).
 */
export interface BoardColumns {
  job: number[]
  step: number[]
  problem: number[]
  flags: string
  problems: ProblemColumns
}

export interface ProblemColumns {
  id: string[]
  question: string[]
  gold: string[]
  /** What was dealt among the seats; empty where all was in the question. */
  parts: string[][]
}

/** The texts of one board. */
export interface BoardText {
  /** Posts by round, in the order of the round's speakers. */
  rounds: Post[][]
  /** What each post earned in training; null: nothing. Absent in an evaluation. */
  credit?: (number | null)[][]
  /** How much posts moved those that read them, where the job was measured (see record/influence.ts). */
  influence?: Effect[]
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

/** One run of a bundle: what the list and the comparison show. Its boards are held out, and stand apart, packed. */
export interface BundledRun {
  listing: RunListing
  run: RunView
}

/** Says where the page finds its data: one run in the file, a server, or several runs in the file. */
export type PageMode = { kind: 'report' } | { kind: 'server' } | { kind: 'bundle' }

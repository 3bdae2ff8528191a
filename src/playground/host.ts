/**
 * What the page asks of the worker that computes: to play a board and tell of it token by token, to play it again with an
 * edited note, to run the experiment and keep its record, and to give that record out. Types alone.
 */
import type { Effect } from '../board/influence.ts'
import type { GrowingText } from '../board/play.ts'
import type { Episode, Ref } from '../board/types.ts'
import type { RunEvent } from '../experiment/job.ts'
import type { Problem } from '../tasks/types.ts'
import type { BoardText, BoardUpdate, LiveEvent } from '../view/types.ts'
import type { Method } from './remote.ts'
import type { ArmName, Settings } from './settings.ts'

/** Who writes: the untrained model, or an arm as far as its training with one seed has come. */
export type PolicyChoice = null | { arm: ArmName; seed: number }

export interface PlayAsk {
  settings: Settings
  problem: Problem
  /** Whose wiring and rounds are played. */
  arm: ArmName
  policy: PolicyChoice
  /** Of the draws: the same number draws alike. */
  draw: number
  /** A board played before, with another text in a note's place; what is drawn after it is drawn alike again. */
  edited?: { board: number; note: Ref; text: string }
}

export interface PlayedBoard {
  /** Names it in later calls; the last few are remembered. */
  board: number
  episode: Episode
}

export interface HostFacts {
  parameters: number
  /** What computes boards, in words. */
  device: string
}

/** What a run tells while it goes on: what happened, the record as it is now, or what computes it and why, in a sentence. */
export type RunTold = { event: RunEvent } | { live: LiveEvent } | { computing: string }

export interface Host {
  open: Method<null, HostFacts>
  play: Method<PlayAsk, PlayedBoard, GrowingText>
  /** How much each note of a played board moved each post that read it. */
  influence: Method<{ board: number }, Effect[]>
  /** Runs what is left of the experiment; stopped, it is left where it is. */
  run: Method<Settings, LiveEvent, RunTold>
  /** What is kept of an experiment's run; null where nothing is. */
  kept: Method<Settings, LiveEvent | null>
  boards: Method<{ settings: Settings; from: number; fromProblem: number; epoch: string }, BoardUpdate>
  texts: Method<{ settings: Settings; boards: number[] }, BoardText[]>
  /** The run's folder as a zip file. */
  archive: Method<Settings, Uint8Array<ArrayBuffer>>
  /** The report as one HTML file. */
  report: Method<Settings, string>
  /** Removes the run. */
  forget: Method<Settings, null>
}

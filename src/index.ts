/** The public API: define an experiment, run it, read what it found. docs/api.md lists it with an example each. */

export { notePrompt, readPrompt } from './board/prompts.ts'
export { type ReaderCounts, vote, whatReadersDid } from './board/readers.ts'
export { own, shared } from './board/reads.ts'
export { type Played, playRounds, type Rollout, type RoundsOptions } from './board/rounds.ts'
export type { Board, Post, Reads, Reply } from './board/types.ts'
export type * from './engine/contract.ts'
export { UserError } from './errors.ts'
export { defineExperiment, type Experiment, type ExperimentChoices } from './experiment/config.ts'
export { referenceSettings, type Settings, smallPolicySettings } from './experiment/defaults.ts'
export { openEngine } from './experiment/engine.ts'
export { evaluateModel } from './experiment/evaluate.ts'
export type { RolloutLine, RunEvent } from './experiment/job.ts'
export {
  measurePilot,
  type Pilot,
  type PowerAfter,
  type PowerBefore,
  pilotFrom,
  powerAfter,
  powerBefore,
} from './experiment/power.ts'
export { type Regraded, regrade } from './experiment/regrade.ts'
export { type Results, resultsSchema, withoutTimings } from './experiment/results.ts'
export { type RunOptions, runExperiment } from './experiment/run.ts'
export { readAnswer, readBoxed } from './grade/answer.ts'
export { mathGrader } from './grade/grader.ts'
export { answersEqual, mathEqual } from './grade/math-equal.ts'
export type { Grade, Grader } from './grade/types.ts'
export { writeReport } from './report/html.ts'
export { post } from './report/post.ts'
export { tableMarkdown, tableText } from './report/table.ts'
export * from './stats/index.ts'
export { type CluesDials, clues, cluesReach } from './tasks/clues.ts'
export { decontaminate } from './tasks/decontaminate.ts'
export { fromFile } from './tasks/files.ts'
export { carriesTrial, type InsightDials, insight, insightReach } from './tasks/insight.ts'
export { gsm8k, math, svamp } from './tasks/named.ts'
export { carriesPart, partsOf, splitSentences } from './tasks/parts.ts'
export type { Problem, Split, Task } from './tasks/types.ts'
export { wordProblems } from './tasks/word-problems.ts'
export type { StepMetrics } from './train/loop.ts'
export { grpo, type TrainOptions } from './train/options.ts'

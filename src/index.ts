/** The public API: define an experiment, run it, read what it found. docs/api.md lists it with an example each. */

export { countEpisodes, finalScores, type ReaderCounts, type RoundCounts, vote } from './board/counts.ts'
export { type Played, type PlayOptions, play, type Writer } from './board/play.ts'
export { type Author, playPolicy, policyWriter, type Rollout } from './board/policy-writer.ts'
export { notePrompt, readPrompt } from './board/prompts.ts'
export {
  type Final,
  type Prompt,
  type Protocol,
  type ProtocolChoices,
  type RoundChoices,
  resolveProtocol,
  type Sampling,
  type SeatView,
} from './board/protocol.ts'
export { alone, board, debate, proposers, revisers } from './board/protocols.ts'
export { chain, everything, named, own, randomOf, ring, type Sight, shared, star } from './board/sights.ts'
export type { Episode, Post, Ref } from './board/types.ts'
export type * from './engine/contract.ts'
export { UserError } from './errors.ts'
export type { Arm, ArmChoices } from './experiment/arms.ts'
export { type ArmsCompared, type Chosen, type ComparedArm, compareArms } from './experiment/compare.ts'
export { defineExperiment, type Experiment, type ExperimentChoices } from './experiment/config.ts'
export { referenceSettings, type Settings, smallPolicySettings } from './experiment/defaults.ts'
export { openEngine } from './experiment/engine.ts'
export { evaluateModel } from './experiment/evaluate.ts'
export { type Influence, measureInfluence } from './experiment/influence.ts'
export type { RunEvent } from './experiment/job.ts'
export { mergeShards } from './experiment/merge.ts'
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
export { type RunOptions, runExperiment, runShard } from './experiment/run.ts'
export { readAnswer, readBoxed } from './grade/answer.ts'
export { mathGrader } from './grade/grader.ts'
export { answersEqual, mathEqual } from './grade/math-equal.ts'
export type { Grade, Grader } from './grade/types.ts'
export { type Results, resultsSchema, withoutTimings } from './record/results.ts'
export type { MetricsLine, RolloutLine } from './record/schema.ts'
export { explain, glossary } from './report/glossary.ts'
export { writeReport } from './report/html.ts'
export { post } from './report/post.ts'
export { tableMarkdown, tableText } from './report/table.ts'
export * from './stats/index.ts'
export { type CluesDials, clues, cluesReach } from './tasks/clues.ts'
export { decontaminate } from './tasks/decontaminate.ts'
export { fromFile } from './tasks/from-file.ts'
export { carriesTrial, type InsightDials, insight, insightReach } from './tasks/insight.ts'
export { gsm8k, math, svamp } from './tasks/named.ts'
export { carriesPart, partsOf, splitSentences } from './tasks/parts.ts'
export type { Problem, Split, Task } from './tasks/types.ts'
export { wordProblems } from './tasks/word-problems.ts'
export {
  type Assigned,
  type Credit,
  type EpisodeCredit,
  leaveOneOut,
  mix,
  ownAnswer,
  readersOf,
  readersOnly,
  subsets,
  type Tools,
  team,
} from './train/credit/index.ts'
export {
  type Group,
  groupAdvantages,
  groupsOf,
  linearDecay,
  policyBatch,
  type RoundGroup,
  scaledAdvantages,
} from './train/grpo.ts'
export {
  type LoopOptions,
  type Step,
  type StepMetrics,
  type TrainSampling,
  trainSteps,
} from './train/loop.ts'
export { grpo, type TrainOptions } from './train/options.ts'

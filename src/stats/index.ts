/**
 * Statistics: whether a change helped, and what the experiment could have seen. Takes plain arrays and records,
 * gives plain records; touches nothing else of the project but the seeded randomness and the error class.
 */

export { type CompareInput, type Comparison, compare } from './compare.ts'
export {
  type Design,
  designOf,
  layOut,
  type Pair,
  type ProblemScores,
  type SeedScores,
  type Tables,
  tabulate,
} from './design.ts'
export {
  bootstrapMean,
  type Estimate,
  type Interval,
  type PassAt,
  passAt,
  passAtK,
  passHatK,
  type Rollouts,
} from './estimate.ts'
export { type ArmSummary, type Contrast, compareFamily, type FamilyInput } from './family.ts'
export { type HackScan, hackScan, type ScannedFeature, type ScanOptions, type ScanRow } from './hack-scan.ts'
export { type EvalVariance, evalVariance, type NoiseBand, noiseBand } from './noise.ts'
export {
  type Components,
  componentsOf,
  detectableEffect,
  expectedComponents,
  fewestSeeds,
  minutesOf,
  type Plan,
  type PlanOptions,
  type PowerOptions,
  type Prediction,
  plan,
  plannedComponents,
  predict,
  type SeedsToResolve,
  type Sizes,
  type Speed,
  seedsToResolve,
  seedsToResolveEach,
} from './power.ts'
export { type TrainingEffect, type TrainingInput, trainingHelped } from './training.ts'
export type { EvaluationFacts, Verdict } from './verdict.ts'

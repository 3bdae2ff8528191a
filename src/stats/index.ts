/**
 * Statistics: whether a change helped, and what the experiment could have seen. Takes plain arrays and records,
 * gives plain records; touches nothing else of the project but the seeded randomness and the error class.
 */

export { type CompareInput, type Comparison, compare, type Verdict } from './compare.ts'
export type { ProblemScores, SeedScores } from './design.ts'
export {
  bootstrapMean,
  type Estimate,
  type Interval,
  type PassAt,
  passAt,
  passAtK,
  passHatK,
} from './estimate.ts'
export { type NoiseBand, noiseBand } from './noise.ts'

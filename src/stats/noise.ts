/** The noise floor: how far two evaluations differ when nothing was changed, from re-runs of the untrained base. */

import { UserError } from '../errors.ts'
import type { ProblemScores } from './design.ts'
import { tQuantile } from './distributions.ts'
import { mean, variance } from './estimate.ts'

export interface NoiseBand {
  /** pass@1 of each evaluation of the base. */
  runs: number[]
  /** Sample standard deviation of `runs`. */
  runStd: number
  /** Re-runs - 1. */
  df: number
  /** The 97.5% quantile of Student's t at `df`: 4.30 for three re-runs. */
  t: number
  /** t * runStd * sqrt(1/nA + 1/nB): a difference no larger than this may be the evaluation's own noise. */
  band: number
}

/**
 * The band for a difference between the mean of `nA` runs and the mean of `nB` runs (training seeds in each arm).
 *
 * @throws UserError for fewer than two re-runs: one run has no spread.
 */
export function noiseBand(runs: readonly number[], nA: number, nB: number): NoiseBand {
  if (runs.length < 2) {
    throw new UserError(
      `The noise floor needs at least two evaluations of the base, got ${runs.length}: evaluate it again (three is the convention).`,
    )
  }
  const runStd = Math.sqrt(variance(runs))
  const df = runs.length - 1
  const t = tQuantile(0.975, df)
  return { runs: [...runs], runStd, df, t, band: t * runStd * Math.sqrt(1 / nA + 1 / nB) }
}

export interface EvalVariance extends NoiseBand {
  /** Mean of `runs`. */
  mean: number
  /** Problems that are in every run; where runs differ in their problems, part of the spread is that. */
  problemsInEveryRun: number
  /** Problems that are in some run but not in every one. */
  unpaired: number
}

/**
 * How much an evaluation moves when one model is evaluated again: each run's mean over its problems, their spread,
 * and the band for a difference of one run against one run.
 */
export function evalVariance(evaluations: readonly (readonly ProblemScores[])[]): EvalVariance {
  const runs = evaluations.map((problems) => mean(problems.map(({ scores }) => mean(scores))))
  const counts = new Map<string, number>()
  for (const { id } of evaluations.flat()) counts.set(id, (counts.get(id) ?? 0) + 1)
  const problemsInEveryRun = [...counts.values()].filter((count) => count === evaluations.length).length
  return {
    ...noiseBand(runs, 1, 1),
    mean: mean(runs),
    problemsInEveryRun,
    unpaired: counts.size - problemsInEveryRun,
  }
}

/** What an arm shows of itself in an experiment, drawn without its rollouts: for simulations in tests. */

import type { Random } from '../../random.ts'
import { mean, variance } from '../estimate.ts'

export interface ArmTruth {
  /** Standard deviation of a seed's true pass@1. */
  width: number
  seeds: number
  problems: number
  /** Variance over problems of how far the arm's true pass@1 on one lies from what all arms share. */
  armByProblem: number
  /** Seed-by-problem mean square, rollouts included. */
  interaction: number
}

export function drawArm(draw: Random, { width, seeds, problems, armByProblem, interaction }: ArmTruth) {
  const seedMeans = Array.from(
    { length: seeds },
    () => width * draw.normal() + Math.sqrt(interaction / problems) * draw.normal(),
  )
  return {
    seeds: seedMeans.map((_, seed) => seed),
    seedVariance: variance(seedMeans),
    interaction,
    /** From the arm's true pass@1. */
    mean: mean(seedMeans) + Math.sqrt(armByProblem / problems) * draw.normal(),
  }
}

/**
 * Did training help? Each trained arm against the untrained model under the arm's own protocol.
 *
 * The untrained model is one policy, not a sample of trainings: its evaluations differ by rollouts alone, which the
 * problems' part of the variance carries, so they give no degrees of freedom for the spread between seeds. That part
 * comes from the trained arms only, each arm's own over its number of seeds, pooled over the arms as design.ts says.
 * The arms are one family: all intervals hold together with 1 - alpha. The noise band is not asked for: it guards
 * against a base that was evaluated too rarely, and here each of its evaluations is in the estimate.
 */

import { UserError } from '../errors.ts'
import { differencesOf, type ProblemScores, type SeedScores, tabulate } from './design.ts'
import type { Interval } from './estimate.ts'
import { around, type Difference, familyOf } from './family.ts'
import { type Family, levelOfEach, memberHalfWidth, memberP } from './simultaneous.ts'
import { decideTraining, unpairedWarning, type Verdict } from './verdict.ts'

export interface TrainingInput {
  /** Each arm's evaluations, by the arm's name: one for each training seed. */
  arms: Readonly<Record<string, readonly SeedScores[]>>
  /** Evaluations of the untrained model under each arm's protocol, on the same problems: one or more. */
  bases: Readonly<Record<string, readonly (readonly ProblemScores[])[]>>
  /** As for a contrast; 0.03 unless told. */
  flatWithin?: number
  /** Level of all arms together, 0.05 unless told. */
  alpha?: number
}

export interface TrainingEffect {
  arm: string
  /** The arm's mean over its seeds less the untrained model's over its evaluations. */
  delta: number
  ci95: Interval
  /** Two-sided, of no difference, adjusted for the arms; below alpha exactly when the interval excludes 0. */
  p: number
  verdict: Verdict
  /** One sentence. */
  why: string
  flatWithin: number
  warnings: string[]
}

/**
 * One effect for each arm, in their order.
 *
 * @throws UserError for an arm whose protocol the untrained model was not evaluated under, and as tabulate does.
 */
export function trainingHelped(input: TrainingInput): TrainingEffect[] {
  const { alpha = 0.05, flatWithin = 0.03 } = input
  const names = Object.keys(input.arms)
  if (names.length === 0) return []
  const { differences, family, unpaired } = trainingFamily(input)
  const level = levelOfEach(family, alpha)
  return differences.map(({ delta, sides }, i) => {
    const ci95 = around(delta, memberHalfWidth(family.members[i], level, alpha))
    return {
      arm: names[i],
      delta,
      ci95,
      p: memberP(delta, family.members[i], family),
      ...decideTraining({ arm: names[i], seeds: sides[0].seeds.length, delta, ci95, flatWithin }),
      flatWithin,
      warnings: unpairedWarning(unpaired),
    }
  })
}

/** The differences from the untrained model, and what makes them uncertain. */
export function trainingFamily({ arms, bases }: Pick<TrainingInput, 'arms' | 'bases'>): {
  differences: Difference[]
  family: Family
  unpaired: number
} {
  const names = Object.keys(arms)
  const untrained = (arm: string) => `the untrained model of ${arm}`
  const evaluated = names.map((arm): [string, SeedScores[]] => {
    const evaluations = bases[arm] ?? []
    if (evaluations.length === 0) {
      throw new UserError(
        `The untrained model was not evaluated under ${arm}'s protocol: evaluate it at least once.`,
      )
    }
    return [untrained(arm), evaluations.map((problems, run) => ({ seed: run + 1, problems }))]
  })
  // In one table with the arms, so that all are compared on the problems that every evaluation has.
  const tables = tabulate({ ...arms, ...Object.fromEntries(evaluated) })
  const trained = new Map(names.map((name) => [name, tables.arms.get(name)!]))
  const differences = names.map((name): Difference => {
    const [arm, base] = [trained.get(name)!, tables.arms.get(untrained(name))!]
    return { delta: arm.mean - base.mean, byProblem: differencesOf(arm, base), sides: [arm] }
  })
  return { differences, family: familyOf(differences, { arms: trained }), unpaired: tables.unpaired }
}

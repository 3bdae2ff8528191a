/**
 * Adding seeds until the verdict is no longer `unresolved`: which seeds come next, and the level of each look, so that
 * all looks together keep the error rate of one (docs/verdict.md). Pure.
 */
import { UserError } from '../errors.ts'

/** Decided before the first look, and kept: the level of each look depends on how many there may be. */
export interface LookPlan {
  /** Training seeds of the first look. */
  first: number[]
  /** Seeds an arm at which the run ends, resolved or not. */
  maxSeeds: number
}

/**
 * The looks of a run that starts with `seeds` and adds one an arm at a time. One seed an arm settles nothing, so the
 * first look has two at least.
 *
 * @throws UserError for a maximum below the first look's seeds.
 */
export function planLooks(seeds: readonly number[], maxSeeds: number): LookPlan {
  const first = seeds.length < 2 ? oneMore(seeds) : [...seeds]
  if (maxSeeds < first.length) {
    throw new UserError(
      `The first look takes ${first.length} seeds an arm and --max-seeds is ${maxSeeds}: raise it or start with fewer.`,
    )
  }
  return { first, maxSeeds }
}

/** How many looks there may be. */
export const lookCount = ({ first, maxSeeds }: LookPlan): number => maxSeeds - first.length + 1

/** The level of each look: Bonferroni's share, which holds whatever the looks have in common. */
export const lookAlpha = (plan: LookPlan): number => 0.05 / lookCount(plan)

/** The seeds and one more, numbered on from the largest. */
export function oneMore(seeds: readonly number[]): number[] {
  return [...seeds, Math.max(0, ...seeds) + 1]
}

/**
 * Warnings where the verdict was read before at the plain level, with other seeds (null: with any).
 * `read` are the seeds of each reading.
 */
export function readBefore(read: readonly number[][], seeds: readonly number[] | null): string[] {
  const before = read.filter((each) => each.join() !== seeds?.join())
  if (before.length === 0) return []
  return [
    `The verdict was read before, with ${before.map(({ length }) => length).join(' and ')} seeds an arm: each reading adds ` +
      'to the chance of a false `moved`. Decide on --until-resolved before the first.',
  ]
}

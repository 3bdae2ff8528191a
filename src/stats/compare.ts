/**
 * Did one change help? The verdict on two arms trained over several seeds and evaluated on the same problems.
 *
 * The estimate is recipe - baseline over ALL seeds pooled. Problems are paired between the arms by id. Seeds are
 * not paired, even where they share a number: the number fixes the order of problems and the first weights, but
 * sampled tokens send two trainings apart within a few steps, so a shared number is no shared luck, and pairing
 * would halve the degrees of freedom that two or three seeds leave.
 *
 * `moved` needs all of
 *   1. the paired 95% bootstrap interval over problems excludes 0,
 *   2. at least two seeds in each arm, and the interval that also carries the spread between seeds excludes 0,
 *   3. a difference larger than the noise band of the untrained base,
 *   4. not over-optimised: a named proxy did not rise where the target did not, nor by more than the target.
 * `flat` has to be earned too: the interval lies inside [-flatWithin, flatWithin], so that effects of that size are
 * excluded (two one-sided tests at 2.5% each; Schuirmann 1987). Everything else is `unresolved`: an interval that
 * holds both 0 and effects worth having says that the experiment was small, not that nothing happened.
 */

import type { Pair, SeedScores } from './design.ts'
import type { BootstrapOptions } from './estimate.ts'
import { type ArmSummary, type Contrast, compareFamily, type FamilyInput } from './family.ts'
import type { EvaluationFacts } from './verdict.ts'

export interface CompareInput
  extends BootstrapOptions,
    Pick<FamilyInput, 'baseRuns' | 'flatWithin' | 'alpha'> {
  baseline: readonly SeedScores[]
  recipe: readonly SeedScores[]
  /** The trained proxy on the same evaluations, scores in [0, 1]; absent where the reward is the target. */
  proxy?: { name: string; baseline: readonly SeedScores[]; recipe: readonly SeedScores[] }
  facts?: { baseline: EvaluationFacts; recipe: EvaluationFacts }
}

/** The contrast of the recipe with the baseline. */
export interface Comparison extends Omit<Contrast, 'arm' | 'against' | 'summaries' | 'pooled' | 'problems'> {
  baseline: ArmSummary
  recipe: ArmSummary
  counts: { problems: number; baselineSeeds: number; recipeSeeds: number }
}

const PAIR: Pair = { arm: 'recipe', against: 'baseline' }

/** Two arms as the family that they are. */
export function asFamily({ baseline, recipe, proxy, ...rest }: CompareInput): FamilyInput {
  return {
    ...rest,
    arms: { baseline, recipe },
    pairs: [PAIR],
    proxy: proxy && { name: proxy.name, arms: { baseline: proxy.baseline, recipe: proxy.recipe } },
  }
}

/** @throws UserError where the data cannot be paired (see tabulate). */
export function compare(input: CompareInput): Comparison {
  const [found] = compareFamily(asFamily(input))
  const { arm: recipe, against: baseline } = found.summaries
  return {
    delta: found.delta,
    ci95: found.ci95,
    p: found.p,
    verdict: found.verdict,
    why: found.why,
    smallestEffect: found.smallestEffect,
    flatWithin: found.flatWithin,
    baseline,
    recipe,
    parts: found.parts,
    overOptimised: found.overOptimised,
    counts: {
      problems: found.problems,
      baselineSeeds: baseline.perSeed.length,
      recipeSeeds: recipe.perSeed.length,
    },
    warnings: found.warnings,
  }
}

/** Provisional: replaced by the family of contrasts. */
import { type CompareInput, type Comparison, compare, type EvaluationFacts, type Verdict } from './compare.ts'
import type { SeedScores } from './design.ts'
import type { BootstrapOptions, Interval } from './estimate.ts'
export interface FamilyInput extends BootstrapOptions {
  arms: Readonly<Record<string, readonly SeedScores[]>>
  pairs: readonly { arm: string; against: string }[]
  baseRuns: readonly number[]
  flatWithin?: number
  facts?: Readonly<Record<string, EvaluationFacts>>
  alpha?: number
}
export interface Contrast extends Comparison {
  arm: string
  against: string
}
export function compareFamily({ arms, pairs, facts, alpha = 0.05, ...rest }: FamilyInput): Contrast[] {
  return pairs.map(({ arm, against }) => {
    const input: CompareInput = {
      ...rest,
      baseline: arms[against],
      recipe: arms[arm],
      alpha: alpha / pairs.length,
      facts: facts && { baseline: facts[against], recipe: facts[arm] },
    }
    return { arm, against, ...compare(input) }
  })
}
export function trainingHelped(
  trained: readonly SeedScores[],
  base: readonly SeedScores[],
): { delta: number; ci95: Interval; p: number; verdict: Verdict; why: string } {
  const { delta, ci95, p, verdict, why } = compare({ baseline: base, recipe: trained, baseRuns: [] })
  return { delta, ci95, p, verdict, why }
}

/**
 * GRPO: the readers of one problem are a group, and a reply's advantage is its reward above the group's mean. Turns
 * rewards into the data of one policy-gradient loss. Pure; knows rollouts and rewards, not how gradients are made.
 *
 * Names carry their dimension: _P problems, _G the group of one problem, _T tokens.
 */
import type { Rollout } from '../board/rounds.ts'
import type { PolicyDatum } from '../engine/contract.ts'

/** A problem's rollouts and what each earned. */
export interface Group {
  rollouts: readonly Rollout[]
  rewards: readonly number[]
}

/**
 * Reward above the group's mean, not divided by the group's standard deviation (Dr. GRPO, arXiv:2503.20783): easy
 * and hard problems weigh as much as their rewards differ. Sums to 0; all 0 where all earned the same.
 */
export function groupAdvantages(rewards_G: readonly number[]): number[] {
  const first = rewards_G[0]
  // Said apart, since a mean of equal rewards may differ from them by rounding.
  if (rewards_G.every((reward) => reward === first)) return rewards_G.map(() => 0)
  const mean = rewards_G.reduce((sum, reward) => sum + reward, 0) / rewards_G.length
  return rewards_G.map((reward) => reward - mean)
}

/**
 * The batch of one step under TRL's `bnpo` normalisation: each problem's sum over its completion tokens is divided
 * by the number of these tokens, and problems are averaged. The contract's loss is a plain sum, so both divisions
 * are folded into the per-token advantages: A_T = advantage / (tokens of the problem x problems).
 *
 * Rollouts with advantage 0 have no gradient and are left out; their tokens and their problem still count in the
 * two divisions. Empty when no group has any spread.
 */
export function policyBatch(groups_P: readonly Group[]): PolicyDatum[] {
  return groups_P.flatMap(({ rollouts, rewards }) => {
    const tokens = rollouts.reduce((sum, rollout) => sum + rollout.completion.length, 0)
    const advantages_G = groupAdvantages(rewards)
    return rollouts.flatMap((rollout, g): PolicyDatum[] => {
      if (advantages_G[g] === 0) return []
      const weight = advantages_G[g] / (tokens * groups_P.length)
      return [{ ...rollout, advantages: rollout.completion.map(() => weight) }]
    })
  })
}

/** Linear decay to 0 without warm-up: step 0 of `steps` has the full rate, and a step `steps` would have none. */
export function linearDecay(learningRate: number, step: number, steps: number): number {
  return learningRate * (1 - step / steps)
}

/**
 * GRPO: texts that answer the same are a group, and a text's advantage is what it earned above the group's mean. Turns
 * credit into the data of one policy-gradient loss. Pure; knows rollouts and credit, not how gradients are made.
 *
 * Names carry their dimension: _P problems, _G a group, _T tokens.
 */
import type { Played } from '../board/play.ts'
import type { Rollout } from '../board/policy-writer.ts'
import type { Protocol } from '../board/protocol.ts'
import type { PolicyDatum } from '../engine/contract.ts'
import type { EpisodeCredit } from './credit/types.ts'

/** Rollouts that are compared with each other, and what each earned. */
export interface Group {
  rollouts: readonly Rollout[]
  rewards: readonly number[]
}

/** A group of one policy's texts in one round. */
export interface RoundGroup extends Group {
  policy: string
  round: number
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

/** The same, divided by the group's standard deviation (GRPO as published, arXiv:2402.03300). */
export function scaledAdvantages(rewards_G: readonly number[]): number[] {
  const advantages = groupAdvantages(rewards_G)
  const deviation = Math.sqrt(advantages.reduce((sum, a) => sum + a ** 2, 0) / advantages.length)
  return deviation === 0 ? advantages : advantages.map((a) => a / deviation)
}

/**
 * The groups of a step: texts of one policy, problem and round that answer the same prompt. Where some prompt was
 * answered once only (each reader has a board of its own), all of that problem's texts are the group. Texts that earned
 * null stand in no group.
 */
export function groupsOf(
  protocol: Protocol,
  played: readonly Played<Rollout>[],
  credits: readonly EpisodeCredit[],
): RoundGroup[] {
  const byProblem = new Map<string, { policy: string; round: number; members: Member[] }>()
  played.forEach(({ problem, episode, traces }, p) => {
    episode.rounds.forEach((posts, round) => {
      posts.forEach(({ seat }, i) => {
        const reward = credits[p][round][i]
        if (reward === null) return
        const { policy } = protocol.seats[seat]
        const key = JSON.stringify([round, policy, problem.id])
        const group = byProblem.get(key) ?? { policy, round, members: [] }
        byProblem.set(key, group)
        group.members.push({ rollout: traces[round][i], reward })
      })
    })
  })
  return [...byProblem.values()].flatMap(({ policy, round, members }) =>
    byPrompt(members).map((group) => ({
      policy,
      round,
      rollouts: group.map(({ rollout }) => rollout),
      rewards: group.map(({ reward }) => reward),
    })),
  )
}

interface Member {
  rollout: Rollout
  reward: number
}

function byPrompt(members: readonly Member[]): (readonly Member[])[] {
  const groups = new Map<string, Member[]>()
  for (const member of members) {
    const key = member.rollout.prompt.join()
    groups.set(key, [...(groups.get(key) ?? []), member])
  }
  const all = [...groups.values()]
  return all.some(({ length }) => length === 1) ? [members] : all
}

/**
 * The batch of one round under TRL's `bnpo` normalisation: each group's sum over its completion tokens is divided
 * by the number of these tokens, and groups are averaged. The contract's loss is a plain sum, so both divisions
 * are folded into the per-token advantages: A_T = weight x advantage / (tokens of the group x groups).
 *
 * Rollouts with advantage 0 have no gradient and are left out; their tokens and their group still count in the
 * two divisions. Empty when no group has any spread.
 */
export function policyBatch(
  groups_P: readonly Group[],
  { weight = 1, advantages = groupAdvantages } = {},
): PolicyDatum[] {
  return groups_P.flatMap(({ rollouts, rewards }) => {
    const tokens = rollouts.reduce((sum, rollout) => sum + rollout.completion.length, 0)
    const advantages_G = advantages(rewards)
    return rollouts.flatMap((rollout, g): PolicyDatum[] => {
      if (advantages_G[g] === 0 || weight === 0) return []
      const each = (weight * advantages_G[g]) / (tokens * groups_P.length)
      return [{ ...rollout, advantages: rollout.completion.map(() => each) }]
    })
  })
}

/** Linear decay to 0 without warm-up: `done` is the share of training behind, 0 at the first step. */
export function linearDecay(learningRate: number, done: number): number {
  return learningRate * Math.max(0, 1 - done)
}

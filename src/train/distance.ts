/**
 * How far a policy has come: the entropy of what it draws from, which costs nothing beside what sampling told, and its
 * distance from where it started, which costs a scoring pass and is therefore taken of few texts. Asks policies for
 * log-probabilities; touches nothing else.
 */
import type { Played } from '../board/play.ts'
import type { Author, Rollout } from '../board/policy-writer.ts'
import type { Protocol } from '../board/protocol.ts'
import type { Policy, Sequence } from '../engine/contract.ts'

/** An author in training. */
export interface Learner extends Author {
  trained: boolean
  /** The policy as it was before training, to measure the distance from; without it none is measured. */
  start?: Policy | null
}

/** The distance is measured in each fifth step, of a quarter of the boards: about a hundredth of a step's time. */
const MEASURED = { everySteps: 5, boards: 1 / 4 }

/** Whether a step, from 1, measures the distance: each fifth, and the last. */
export const isMeasured = (step: number, steps: number): boolean =>
  step % MEASURED.everySteps === 0 || step === steps

/**
 * Mean of -logprob, in nats, over the tokens of the posts that `counts` says; null where none is known. Of tokens that
 * were drawn from the whole distribution this estimates its entropy per token without bias.
 */
export function entropyOf(
  played: readonly Played<Rollout>[],
  counts: (round: number, seat: number) => boolean,
): number | null {
  let sum = 0
  let tokens = 0
  for (const { episode, traces } of played) {
    for (const [r, posts] of episode.rounds.entries()) {
      for (const [i, { seat }] of posts.entries()) {
        if (!counts(r, seat)) continue
        const { logprobs } = traces[r][i]
        for (const logprob of logprobs) sum -= logprob
        tokens += logprobs.length
      }
    }
  }
  return tokens === 0 || !Number.isFinite(sum) ? null : sum / tokens
}

/**
 * KL(now || start) in nats per token, over the final posts of the first boards played: the mean of exp(d) - 1 - d with
 * d = logprob at the start - logprob when sampled (Schulman's k3), which is never below 0 and has the same mean as -d
 * with far less spread. Null where no policy has a start, or an engine does not tell.
 */
export async function distanceFromStart(
  played: readonly Played<Rollout>[],
  {
    protocol,
    authors,
    temperature,
  }: { protocol: Protocol; authors: ReadonlyMap<string, Learner>; temperature: number },
): Promise<number | null> {
  const some = played.slice(0, Math.ceil(played.length * MEASURED.boards))
  const last = protocol.rounds.length - 1
  const apart: number[] = []
  for (const [name, { start, trained }] of authors) {
    if (!trained || !start) continue
    const texts = some.flatMap(({ episode, traces }) =>
      traces[last].filter((_, i) => protocol.seats[episode.rounds[last][i].seat].policy === name),
    )
    const sequences = texts.map(({ prompt, completion }): Sequence => ({ prompt, completion }))
    if (sequences.length === 0) continue
    const before = await start.logprobs(sequences, { temperature })
    for (const [i, { logprobs }] of texts.entries()) {
      for (const [t, logprob] of logprobs.entries()) apart.push(k3(before[i][t] - logprob))
    }
  }
  const mean = apart.reduce((sum, value) => sum + value, 0) / apart.length
  return Number.isFinite(mean) ? mean : null
}

/** exp(d) - 1 - d, exact where d is near 0 too. */
export const k3 = (d: number): number => Math.expm1(d) - d

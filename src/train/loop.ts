/**
 * The training loop: pose problems, play the two rounds, pay each reader for its own final answer, and take one
 * on-policy update. Asks a policy through the engine contract; writes nothing.
 */
import { type Played, playRounds, type RoundsOptions } from '../board/rounds.ts'
import type { ChatTokenizer, Policy } from '../engine/contract.ts'
import { UserError } from '../errors.ts'
import { random } from '../random.ts'
import type { Problem } from '../tasks/types.ts'
import { linearDecay, policyBatch } from './grpo.ts'
import type { TrainOptions } from './options.ts'

/** What one step did. Every value but `seconds` is a function of the configuration and the seed. */
export interface StepMetrics {
  /** 1 for the first step. */
  step: number
  /** Mean reward of the batch's replies, before the update. */
  reward: number
  /** Share of problems whose readers did not all earn the same: the others teach nothing. */
  informative: number
  noteAcc: number
  loss: number
  /** Null where the engine does not tell. */
  gradNorm: number | null
  learningRate: number
  clippedShare: number
  /** Mean |logprob when sampled - logprob when scored| of the trained tokens: rounding alone, so near 0. */
  logprobDrift: number
  /** Mean reply length in characters, and share of replies cut by the token limit. */
  replyChars: number
  repliesCut: number
  /** New tokens sampled, and completion tokens trained on. */
  sampledTokens: number
  trainedTokens: number
  seconds: { notes: number; replies: number; forwardBackward: number; optimStep: number }
}

export interface Step {
  metrics: StepMetrics
  played: Played[]
}

export interface LoopOptions {
  policy: Policy
  tokenizer: ChatTokenizer
  /** The training problems; at least `problemsPerStep`. */
  problems: readonly Problem[]
  rounds: Omit<RoundsOptions, 'seed'>
  train: TrainOptions
  /** The run's seed: it decides the problems of each step and every draw. */
  seed: number
  /** Steps already taken, by a run that this one continues. */
  done: number
}

/**
 * Takes the steps that are left, yielding after each. Throws a UserError when the loss is not finite, before the
 * policy is updated with it.
 */
export async function* trainSteps(options: LoopOptions): AsyncGenerator<Step> {
  const { policy, tokenizer, train, seed } = options
  for (let step = options.done; step < train.steps; step++) {
    const { played, seconds } = await playRounds(
      policy,
      tokenizer,
      stepProblems(options.problems, train.problemsPerStep, step, seed),
      { ...options.rounds, seed: [seed, 'train', step] },
    )
    const groups = played.map(({ replies, board }) => ({
      rollouts: replies,
      rewards: board.replies.map((reply) => (reply.correct ? 1 : 0)),
    }))
    const batch = policyBatch(groups)
    const learningRate = linearDecay(train.learningRate, step, train.steps)

    options.rounds.signal?.throwIfAborted()
    const started = performance.now()
    let updated = started
    let ended = started
    let report = { loss: 0, tokens: 0, logprobs: [] as Float32Array[], clippedShare: 0 }
    let gradNorm = 0
    // A batch in which nobody differed has no gradient: there is nothing to update with.
    if (batch.length > 0) {
      report = await policy.forwardBackward(batch, {
        kind: 'policy_gradient',
        clipLow: train.clipLow,
        clipHigh: train.clipHigh,
        temperature: options.rounds.replies.temperature,
      })
      if (!Number.isFinite(report.loss)) {
        throw new UserError(`the loss became ${report.loss}: lower train.learningRate`)
      }
      updated = performance.now()
      const { beta1, beta2, epsilon, weightDecay, maxGradNorm } = train
      gradNorm = (await policy.optimStep({ learningRate, beta1, beta2, epsilon, weightDecay, maxGradNorm }))
        .gradNorm
      ended = performance.now()
    }

    const notes = played.flatMap(({ board }) => board.notes)
    const replies = played.flatMap(({ board }) => board.replies)
    const drift = batch.flatMap((datum, i) =>
      datum.logprobs.map((logprob, t) => Math.abs(logprob - report.logprobs[i][t])),
    )
    yield {
      played,
      metrics: {
        step: step + 1,
        reward: mean(groups.flatMap((group) => group.rewards)),
        informative: mean(groups.map(({ rewards }) => (new Set(rewards).size > 1 ? 1 : 0))),
        noteAcc: mean(notes.map((note) => (note.correct ? 1 : 0))),
        loss: report.loss,
        gradNorm: Number.isNaN(gradNorm) ? null : gradNorm,
        learningRate,
        clippedShare: report.clippedShare,
        logprobDrift: drift.length === 0 ? 0 : mean(drift),
        replyChars: mean(replies.map((reply) => reply.text.length)),
        repliesCut: mean(replies.map((reply) => (reply.cut ? 1 : 0))),
        sampledTokens: [...notes, ...replies].reduce((sum, post) => sum + post.tokens, 0),
        trainedTokens: report.tokens,
        seconds: {
          ...seconds,
          forwardBackward: (updated - started) / 1000,
          optimStep: (ended - updated) / 1000,
        },
      },
    }
  }
}

/**
 * The problems of a step: each pass over the data is shuffled with a stream of its own, and a remainder too small
 * for a step is left for other passes, so a step never poses a problem twice.
 */
export function stepProblems(
  problems: readonly Problem[],
  perStep: number,
  step: number,
  seed: number,
): Problem[] {
  const stepsPerPass = Math.floor(problems.length / perStep)
  if (stepsPerPass === 0) {
    throw new UserError(
      `A step takes ${perStep} problems but there are ${problems.length} to train on: ` +
        'lower train.problemsPerStep or ask the task for more.',
    )
  }
  const order = random(seed, 'order', Math.floor(step / stepsPerPass)).shuffle(problems)
  const start = (step % stepsPerPass) * perStep
  return order.slice(start, start + perStep)
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

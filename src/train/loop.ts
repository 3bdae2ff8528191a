/**
 * The training loop: pose problems, play the protocol, pay each text by the credit rule, and take one on-policy update
 * of each trained policy. Asks policies through the engine contract; writes nothing.
 */
import { countEpisodes } from '../board/counts.ts'
import { type Played, play, type RoundSampling } from '../board/play.ts'
import { type Author, policyWriter, type Rollout } from '../board/policy-writer.ts'
import type { Protocol, Sampling } from '../board/protocol.ts'
import type { PolicyDatum } from '../engine/contract.ts'
import { UserError } from '../errors.ts'
import type { Grader } from '../grade/types.ts'
import { random } from '../random.ts'
import type { Problem } from '../tasks/types.ts'
import type { Credit, EpisodeCredit } from './credit/types.ts'
import { distanceFromStart, entropyOf, isMeasured, type Learner } from './distance.ts'
import {
  groupAdvantages,
  groupsOf,
  linearDecay,
  policyBatch,
  type RoundGroup,
  scaledAdvantages,
} from './grpo.ts'
import type { TrainOptions } from './options.ts'
import { creditTools } from './tools.ts'

/** What one round did in a step; means over its posts. */
export interface RoundMetrics {
  name: string
  /** Posts that are right. */
  right: number
  /** Lengths, and posts cut by the token limit. */
  chars: number
  tokens: number
  cut: number
  /** Of a round that is paid; null where it is context. */
  credit: CreditMetrics | null
}

export interface CreditMetrics {
  mean: number
  /** Standard deviation of what its posts earned. */
  spread: number
  /** Share of groups whose members did not all earn the same: the others teach nothing. */
  informative: number
  /** Correlation of what posts earned with their own correctness; null where either does not vary. */
  withOwn: number | null
  /** Share of posts that earned nothing at all and are not trained. */
  unpaid: number
}

/** What one step did. Every value but `seconds` is a function of the configuration and the seed. */
export interface StepMetrics {
  /** 1 for the first step. */
  step: number
  /** Mean correctness of the batch's final posts, before the update. */
  reward: number
  /** Share of the final round's groups whose members did not all earn the same. */
  informative: number
  /** Right posts of the round before the last; null where there is none. */
  noteAcc: number | null
  loss: number
  /** Null where the engine does not tell. */
  gradNorm: number | null
  learningRate: number
  clippedShare: number
  /** Mean |logprob when sampled - logprob when scored| of the trained tokens: rounding alone, so near 0. */
  logprobDrift: number
  /**
   * Nats per token, at the temperature of training: the mean of -logprob over the tokens that trained policies sampled in
   * trained rounds, which estimates the entropy of what they draw from without bias. Null where the engine does not tell.
   */
  entropy: number | null
  /**
   * Distance from where training started, KL(now || start) in nats per token of final posts, before the update; null in
   * steps that do not measure it (see distance.ts).
   */
  kl: number | null
  /** Mean length of final posts in characters, and share of them cut by the token limit. */
  replyChars: number
  repliesCut: number
  /** Completion tokens: new ones sampled, scored again for credit, and trained on. */
  sampledTokens: number
  scoredTokens: number
  trainedTokens: number
  /** Mean effective sample size of the credit's reweighted estimates; null where it makes none. */
  effective: number | null
  rounds: RoundMetrics[]
  seconds: { rounds: number[]; credit: number; forwardBackward: number; optimStep: number }
}

export interface Step {
  metrics: StepMetrics
  played: Played<Rollout>[]
  credits: EpisodeCredit[]
}

/** Temperatures and nuclei in training: of rounds that are trained, and of those that are context. */
export interface TrainSampling {
  trained: Sampling
  context: Sampling
}

export interface LoopOptions {
  /** Who writes for the seats, by the names that seats give; those `trained` learn. */
  authors: ReadonlyMap<string, Learner>
  protocol: Protocol
  credit: Credit
  sampling: TrainSampling
  /** The training problems; at least `problemsPerStep`. */
  problems: readonly Problem[]
  grader: Grader
  readTokens: number | null
  train: TrainOptions
  /** The run's seed: it decides the problems of each step and every draw. */
  seed: number
  /** Steps already taken, and tokens spent on them, by a run that this one continues. */
  done: { steps: number; tokens: number }
  onTokens?: (newTokens: number) => void
  signal?: AbortSignal
}

/** Whether a round's texts are trained on. */
export function isTrained(protocol: Protocol, credit: Credit, round: number): boolean {
  return credit.paysNotes || round === protocol.rounds.length - 1
}

/** How each round draws its texts in training. */
export function trainSampling(
  protocol: Protocol,
  credit: Credit,
  { trained, context }: TrainSampling,
): RoundSampling[] {
  return protocol.rounds.map(({ sampling, maxTokens }, round) => ({
    ...(isTrained(protocol, credit, round) ? trained : context),
    ...sampling.train,
    maxTokens,
  }))
}

/** Completion tokens that a step took. */
export const tokensOf = ({ sampledTokens, scoredTokens, trainedTokens }: StepMetrics): number =>
  sampledTokens + scoredTokens + trainedTokens

/** Whether training is over after so many steps and tokens. */
export function isTrainingOver(
  { steps, tokens }: Pick<TrainOptions, 'steps' | 'tokens'>,
  done: { steps: number; tokens: number },
): boolean {
  return done.steps >= steps || (tokens !== null && done.tokens >= tokens)
}

/**
 * Takes the steps that are left, yielding after each. Throws a UserError when the loss is not finite, before any
 * policy is updated with it.
 */
export async function* trainSteps(options: LoopOptions): AsyncGenerator<Step> {
  const { authors, credit, train, seed, signal, readTokens, grader } = options
  const protocol = credit.inTraining?.(options.protocol) ?? options.protocol
  const sampling = trainSampling(protocol, credit, options.sampling)
  const { temperature } = sampling[sampling.length - 1]
  const writer = policyWriter(authors, { readTokens, onTokens: options.onTokens, signal })
  const done = { ...options.done }
  while (!isTrainingOver(train, done)) {
    const step = done.steps
    const tables = stepProblems(options.problems, train.problemsPerStep, step, seed).flatMap((problem) =>
      Array.from({ length: train.boards }, (_, board) => ({ problem, board })),
    )
    const playing = { protocol, sampling, grader, seed: [seed, 'train', step] }
    const { played, seconds } = await play(writer, tables, playing)
    const afterPlay = performance.now()
    const { tools, spent } = creditTools({ writer, authors, readTokens, ...playing })
    const { credits, effective = [] } = await credit.assign(played, tools)
    const afterCredit = performance.now()

    const groups = groupsOf(protocol, played, credits)
    const share =
      train.tokens === null ? step / train.steps : Math.max(step / train.steps, done.tokens / train.tokens)
    const learningRate = linearDecay(train.learningRate, share)
    const writes = (round: number, seat: number) =>
      authors.get(protocol.seats[seat].policy)?.trained === true && isTrained(protocol, credit, round)
    const kl = isMeasured(step + 1, train.steps)
      ? await distanceFromStart(played, { protocol, authors, temperature })
      : null
    const update = await updatePolicies(options, groups, { learningRate, temperature })

    const rounds = protocol.rounds.map(({ name }, r) => roundMetrics(name, r, played, credits, groups))
    const counts = countEpisodes(played.map(({ episode }) => episode))
    const posts = played.flatMap(({ episode }) => episode.rounds.flat())
    const last = rounds[rounds.length - 1]
    const metrics: StepMetrics = {
      step: step + 1,
      reward: last.right,
      informative: last.credit?.informative ?? 0,
      noteAcc: counts.noteAcc,
      loss: update.loss,
      gradNorm: update.gradNorm,
      learningRate,
      clippedShare: update.clippedShare,
      logprobDrift: update.drift,
      entropy: entropyOf(played, writes),
      kl,
      replyChars: counts.replyChars,
      repliesCut: counts.repliesCut,
      sampledTokens: posts.reduce((sum, post) => sum + post.tokens, 0) + spent.sampled,
      scoredTokens: spent.scored,
      trainedTokens: update.tokens,
      effective: effective.length === 0 ? null : mean(effective),
      rounds,
      seconds: {
        rounds: seconds,
        credit: (afterCredit - afterPlay) / 1000,
        forwardBackward: update.seconds.forwardBackward,
        optimStep: update.seconds.optimStep,
      },
    }
    done.steps++
    done.tokens += tokensOf(metrics)
    yield { played, credits, metrics }
  }
}

/** One update of each trained policy from the groups of its texts; figures are of all of them together. */
async function updatePolicies(
  { authors, train, signal, protocol }: LoopOptions,
  groups: readonly RoundGroup[],
  { learningRate, temperature }: { learningRate: number; temperature: number },
) {
  const update = {
    loss: 0,
    tokens: 0,
    clipped: 0,
    norms: [] as number[],
    drift: [] as number[],
    seconds: { forwardBackward: 0, optimStep: 0 },
  }
  const isNote = (round: number) => round < protocol.rounds.length - 1
  const ready: Author['policy'][] = []
  for (const [name, { policy, trained }] of authors) {
    if (!trained) continue
    const batch = [...new Set(groups.map(({ round }) => round))].flatMap((round): PolicyDatum[] =>
      policyBatch(
        groups.filter((group) => group.policy === name && group.round === round),
        {
          weight: train.roundWeights?.[round] ?? 1,
          advantages: isNote(round) && train.noteScale === 'std' ? scaledAdvantages : groupAdvantages,
        },
      ),
    )
    // A batch in which nobody differed has no gradient: there is nothing to update with.
    if (batch.length === 0) continue
    signal?.throwIfAborted()
    const started = performance.now()
    const { clipLow, clipHigh } = train
    const loss = { kind: 'policy_gradient', clipLow, clipHigh, temperature } as const
    const report = await policy.forwardBackward(batch, loss)
    if (!Number.isFinite(report.loss)) {
      throw new UserError(`the loss became ${report.loss}: lower train.learningRate`)
    }
    update.seconds.forwardBackward += (performance.now() - started) / 1000
    update.loss += report.loss
    update.tokens += report.tokens
    update.clipped += report.clippedShare * report.tokens
    for (const [i, datum] of batch.entries()) {
      datum.logprobs.forEach((logprob, t) => {
        update.drift.push(Math.abs(logprob - report.logprobs[i][t]))
      })
    }
    ready.push(policy)
  }
  for (const policy of ready) {
    const started = performance.now()
    const { beta1, beta2, epsilon, weightDecay, maxGradNorm } = train
    const { gradNorm } = await policy.optimStep({
      learningRate,
      beta1,
      beta2,
      epsilon,
      weightDecay,
      maxGradNorm,
    })
    update.norms.push(gradNorm)
    update.seconds.optimStep += (performance.now() - started) / 1000
  }
  const norm = Math.hypot(...update.norms)
  return {
    loss: update.loss,
    tokens: update.tokens,
    clippedShare: update.tokens === 0 ? 0 : update.clipped / update.tokens,
    gradNorm: Number.isNaN(norm) ? null : norm,
    drift: update.drift.length === 0 ? 0 : mean(update.drift),
    seconds: update.seconds,
  }
}

function roundMetrics(
  name: string,
  r: number,
  played: readonly Played<Rollout>[],
  credits: readonly EpisodeCredit[],
  groups: readonly RoundGroup[],
): RoundMetrics {
  const posts = played.flatMap(({ episode }) => episode.rounds[r])
  const credit = credits.flatMap((each) => each[r])
  const paid = posts.flatMap((post, i) => {
    const earned = credit[i]
    return earned === null ? [] : [{ earned, own: Number(post.correct) }]
  })
  const its = groups.filter(({ round }) => round === r)
  return {
    name,
    right: mean(posts.map((post) => Number(post.correct))),
    chars: mean(posts.map((post) => post.text.length)),
    tokens: mean(posts.map((post) => post.tokens)),
    cut: mean(posts.map((post) => Number(post.cut))),
    credit:
      paid.length === 0
        ? null
        : {
            mean: mean(paid.map(({ earned }) => earned)),
            spread: deviation(paid.map(({ earned }) => earned)),
            informative: mean(its.map(({ rewards }) => (new Set(rewards).size > 1 ? 1 : 0))),
            withOwn: correlation(paid),
            unpaid: 1 - paid.length / posts.length,
          },
  }
}

function deviation(values: readonly number[]): number {
  const centre = mean(values)
  return Math.sqrt(mean(values.map((value) => (value - centre) ** 2)))
}

function correlation(pairs: readonly { earned: number; own: number }[]): number | null {
  const [a, b] = [pairs.map(({ earned }) => earned), pairs.map(({ own }) => own)]
  const spread = deviation(a) * deviation(b)
  if (!(spread > 1e-12)) return null
  const [meanA, meanB] = [mean(a), mean(b)]
  return Math.max(-1, Math.min(1, mean(a.map((value, i) => (value - meanA) * (b[i] - meanB))) / spread))
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

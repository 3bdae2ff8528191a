/**
 * One job of an experiment: an evaluation of the untrained model, or one arm trained with one seed and evaluated. Runs it
 * against engines; what it leaves is kept by record/job-log.ts, from which it goes on after a kill at any moment.
 */

import { finalScores } from '../board/counts.ts'
import { type Played, type PlayOptions, play } from '../board/play.ts'
import { type Author, policyWriter, type Rollout } from '../board/policy-writer.ts'
import { type Protocol, type Sampling, sharedPolicy } from '../board/protocol.ts'
import type { Episode } from '../board/types.ts'
import { adapterShape } from '../engine/checkpoint/adapter.ts'
import { UserError } from '../errors.ts'
import type { DownloadProgress } from '../hub/locate.ts'
import { mkdir } from '../platform/files.ts'
import { basename, join } from '../platform/path.ts'
import { seedOf } from '../random.ts'
import { type Expected, type JobLog, openJobLog, readJob } from '../record/job-log.ts'
import type { Job } from '../record/plan.ts'
import type { MetricsLine, Progress, RolloutLine } from '../record/schema.ts'
import type { Problem } from '../tasks/types.ts'
import type { EpisodeCredit } from '../train/credit/types.ts'
import type { Learner } from '../train/distance.ts'
import { isTrainingOver, tokensOf, trainSteps } from '../train/loop.ts'
import type { Arm } from './arms.ts'
import type { Experiment } from './config.ts'
import type { Engines } from './engine.ts'
import { adapterFolder } from './record.ts'

/** What a run tells while it works. */
export type RunEvent =
  | ({ type: 'download' } & DownloadProgress)
  | { type: 'notice'; text: string }
  | { type: 'plan'; jobs: { name: string; steps: number; problems: number; progress: Progress }[] }
  | { type: 'job'; job: string; state: 'started' | 'finished' | 'kept' }
  | { type: 'job'; job: string; state: 'failed'; why: string }
  | { type: 'tokens'; newTokens: number }
  | { type: 'step'; job: string; steps: number; metrics: MetricsLine }
  | { type: 'evaluated'; job: string; problems: number; of: number; right: number }

export interface JobContext {
  engines: Engines
  experiment: Experiment
  train: readonly Problem[]
  holdout: readonly Problem[]
  /** The run's folder; the job's own lies in it. */
  folder: string
  onEvent: (event: RunEvent) => void
  signal?: AbortSignal
}

/** An author of a job, and whether it learns. */
export type JobAuthor = Author & { trained: boolean }

/** Runs what is left of a job. Throws where it fails, leaving the last good state in its folder. */
export async function runJob(context: JobContext, job: Job): Promise<void> {
  const arm = context.experiment.arms[job.arm]
  const log = await openJobLog(join(context.folder, job.name), { trains: job.seed !== null })
  const authors = await openAuthors(context.engines, arm, job.seed, log.checkpoint())
  try {
    if (job.seed !== null && !log.progress().trained) await train(context, arm, job.seed, authors, log)
    await evaluate(context, arm, job, authors, log)
  } finally {
    for (const { policy } of authors.values()) policy.dispose()
  }
}

/**
 * The policies that an arm's seats name: at their start (`seed` null), or with adapters to train, at `checkpoint` where
 * there is one.
 */
export async function openAuthors(
  engines: Engines,
  arm: Pick<Arm, 'policies' | 'train'>,
  seed: number | null,
  checkpoint: string | null = null,
): Promise<Map<string, JobAuthor>> {
  const authors = new Map<string, JobAuthor>()
  for (const [name, { model, adapter, trained }] of Object.entries(arm.policies)) {
    const engine = await engines.of(model)
    const learns = trained && seed !== null
    const shape = adapter !== null ? await adapterShape(adapter) : arm.train.lora
    // A policy that is alone has the job's own seed; of several, each has one of its own.
    const its = seed === null || name === sharedPolicy ? (seed ?? 0) : seedOf(seed, name)
    const policy = await engine.createPolicy(
      learns || adapter !== null ? { lora: { ...shape, seed: its } } : {},
    )
    authors.set(name, {
      policy,
      tokenizer: engine.tokenizer,
      contextLength: engine.contextLength,
      trained: learns,
    })
    if (learns && checkpoint !== null) await policy.load(adapterFolder(checkpoint, name, arm))
    else if (adapter !== null) await policy.load(adapter)
  }
  return authors
}

async function train(
  context: JobContext,
  arm: Arm,
  seed: number,
  authors: ReadonlyMap<string, JobAuthor>,
  log: JobLog,
): Promise<void> {
  const { experiment, signal, onEvent } = context
  const job = log.folder
  let started = performance.now()
  const before = log.progress()
  const spent = { ...before.tokens }
  const learners = await withStarts(context, arm, authors)
  const loop = trainSteps({
    authors: learners,
    protocol: arm.protocol,
    credit: arm.credit,
    sampling: arm.sampling,
    problems: context.train,
    grader: experiment.grader,
    readTokens: experiment.board.readTokens,
    train: arm.train,
    seed,
    done: { steps: before.steps, tokens: spent.sampled + spent.scored + spent.trained },
    onTokens: (newTokens) => onEvent({ type: 'tokens', newTokens }),
    signal,
  })
  let tokens = spent.sampled + spent.scored + spent.trained
  try {
    for await (const { metrics, played, credits } of loop) {
      tokens += tokensOf(metrics)
      const trained = isTrainingOver(arm.train, { steps: metrics.step, tokens })
      const kept = {
        metrics,
        rollouts: played.map((one, p) => trainLine(one, credits[p], metrics.step)),
        seconds: (performance.now() - started) / 1000,
        trained,
      }
      await log.step(kept, async (folder) => {
        for (const [name, { policy, trained: learns }] of authors) {
          if (!learns) continue
          const own = adapterFolder(folder, name, arm)
          await mkdir(own)
          await policy.save(own, { interim: !trained })
        }
      })
      onEvent({ type: 'step', job: basename(job), steps: arm.train.steps, metrics })
      signal?.throwIfAborted()
      started = performance.now()
    }
  } catch (error) {
    signal?.throwIfAborted()
    const why = error instanceof Error ? error.message : String(error)
    const { steps } = log.progress()
    const kept = steps > 0 ? ` The state after step ${steps} is kept in ${job}.` : ''
    throw new UserError(`step ${steps + 1} failed: ${why}.${kept}`.replace(/\.\./g, '.'), { cause: error })
  } finally {
    for (const { start } of learners.values()) start?.dispose()
  }
}

/**
 * The authors with those that learn as they were before training: the base, or the adapter that they began with. Not on
 * servers, which ask for payment for each text that is scored, and score at temperature 1 alone.
 */
async function withStarts(
  { engines, experiment }: JobContext,
  { policies }: Arm,
  authors: ReadonlyMap<string, JobAuthor>,
): Promise<ReadonlyMap<string, Learner>> {
  if (experiment.engine.name !== 'onnx') return authors
  const learners = new Map<string, Learner>()
  for (const [name, author] of authors) {
    if (!author.trained) {
      learners.set(name, author)
      continue
    }
    const { model, adapter } = policies[name]
    const engine = await engines.of(model)
    const start = await engine.createPolicy(
      adapter === null ? {} : { lora: { ...(await adapterShape(adapter)), seed: 0 } },
    )
    if (adapter !== null) await start.load(adapter)
    learners.set(name, { ...author, start })
  }
  return learners
}

async function evaluate(
  context: JobContext,
  arm: Arm,
  job: Job,
  authors: ReadonlyMap<string, Author>,
  log: JobLog,
): Promise<void> {
  const { experiment, holdout, signal, onEvent } = context
  const writer = policyWriter(authors, {
    readTokens: experiment.board.readTokens,
    onTokens: (newTokens) => onEvent({ type: 'tokens', newTokens }),
    signal,
  })
  while (log.progress().evaluated < holdout.length) {
    const started = performance.now()
    const { evaluated } = log.progress()
    const problems = holdout.slice(evaluated, evaluated + experiment.evaluation.problemsAtOnce)
    const { played } = await play(
      writer,
      problems.map((problem) => ({ problem })),
      { ...evaluationPlay(experiment, arm.protocol), seed: job.evaluationSeed },
    )
    const lines = played.map(
      ({ problem, episode }): RolloutLine => ({
        phase: 'evaluation',
        problem: lineProblem(problem),
        rounds: mutableRounds(episode),
      }),
    )
    await log.evaluated(lines, (performance.now() - started) / 1000)
    const scores = played.flatMap(({ episode }) => finalScores(episode, arm.protocol.final))
    onEvent({
      type: 'evaluated',
      job: job.name,
      problems: log.progress().evaluated,
      of: holdout.length,
      right: scores.reduce((sum, score) => sum + score, 0) / scores.length,
    })
    signal?.throwIfAborted()
  }
}

/** How an experiment plays a protocol on held-out problems, whatever writes the texts. */
export function evaluationPlay(
  { evaluation, grader }: Pick<Experiment, 'evaluation' | 'grader'>,
  protocol: Protocol,
): Omit<PlayOptions, 'seed'> {
  return { protocol, sampling: evaluationSampling(protocol, evaluation.sampling), grader }
}

/** How each round draws its texts in an evaluation. */
export function evaluationSampling(protocol: Protocol, shared: Sampling): PlayOptions['sampling'] {
  return protocol.rounds.map(({ sampling, maxTokens }) => ({ ...shared, ...sampling.evaluation, maxTokens }))
}

function trainLine(
  { problem, board, episode }: Played<Rollout>,
  credit: EpisodeCredit,
  step: number,
): RolloutLine {
  return {
    phase: 'train',
    step,
    ...(board > 0 && { board }),
    problem: lineProblem(problem),
    rounds: mutableRounds(episode),
    credit: credit.map((round) => [...round]),
  }
}

function lineProblem({ id, question, gold, parts }: Problem): RolloutLine['problem'] {
  return { id, question, gold, ...(parts && { parts: [...parts] }) }
}

const mutableRounds = ({ rounds }: Episode): RolloutLine['rounds'] =>
  rounds.map((posts) => posts.map((post) => ({ ...post, reads: post.reads.map(([r, s]) => [r, s]) })))

/** All that a finished job leaves for the results. */
export interface JobOutcome {
  job: Job
  progress: Progress
  metrics: MetricsLine[]
  /** The evaluation's episodes, in the order of the held-out problems. */
  episodes: Episode[]
  /** Those of the last training step; empty for a base. */
  lastBatch: Episode[]
}

/** Reads a finished job back from its folder. @throws UserError where it is damaged (see readJob). */
export async function readOutcome(folder: string, job: Job, expected?: Expected): Promise<JobOutcome> {
  return outcomeOf(job, await readJob(join(folder, job.name), expected))
}

/** The same from what was read. */
export function outcomeOf(
  job: Job,
  { progress, metrics, rollouts }: { progress: Progress; metrics: MetricsLine[]; rollouts: RolloutLine[] },
): JobOutcome {
  const episodes = (lines: readonly RolloutLine[]): Episode[] =>
    lines.map(({ problem, rounds }) => ({ problemId: problem.id, rounds }))
  return {
    job,
    progress,
    metrics,
    episodes: episodes(rollouts.filter(({ phase }) => phase === 'evaluation')),
    lastBatch: episodes(rollouts.filter(({ phase, step }) => phase === 'train' && step === progress.steps)),
  }
}

/**
 * One job of an experiment: an evaluation of the untrained base, or one arm trained with one seed and evaluated.
 * Runs it against an engine and keeps it in a folder from which it can go on after a kill at any moment.
 *
 *   metrics.jsonl     one line for each training step
 *   rollouts.jsonl    one line for each problem played: the question, the notes, the replies, the grades
 *   checkpoint-N/     the adapter and the optimiser's state after step N
 *   progress.json     how far the job is, and how long the two logs were then: written last, whole or not at all
 *
 * Lines beyond the lengths that progress.json names belong to work that was cut short; they are dropped and made
 * again from the same seeds. So a job interrupted anywhere ends with the same lines as one that was not.
 */
import { mkdir, open, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { type PlayOptions, playRounds, type RoundsOptions } from '../board/rounds.ts'
import type { Board, Reads } from '../board/types.ts'
import type { Engine, Policy } from '../engine/contract.ts'
import { UserError } from '../errors.ts'
import { readJsonFile, writeJsonAtomic } from '../files.ts'
import type { DownloadProgress } from '../hub/model.ts'
import type { SeedPart } from '../random.ts'
import type { Problem } from '../tasks/types.ts'
import { type StepMetrics, trainSteps } from '../train/loop.ts'
import { type ArmName, armNames } from './arms.ts'
import type { Experiment } from './config.ts'
import { removeScratch } from './folder.ts'

/** Beside the logs of a job that failed: the error with its stack. */
export const errorFile = 'error.txt'

export interface Job {
  /** Its folder: base-1, base-shared, baseline-s17. */
  name: string
  /** What is trained; null: the untrained base is evaluated. */
  trained: { arm: ArmName; seed: number } | null
  reads: Reads
  /** Keys the draws of its evaluation. Jobs to be compared share it: their notes come from the same streams. */
  evaluationSeed: readonly SeedPart[]
}

/** The job that evaluates the untrained base under the recipe's board. */
export const sharedBase = 'base-shared'

/**
 * All jobs of an experiment, the base's first: a run stopped early still has its noise floor. The base is evaluated
 * several times under the baseline's board, and once under the recipe's (`base-shared`).
 */
export function planJobs(
  experiment: Pick<Experiment, 'evaluation' | 'arms' | 'seeds'>,
  arms: readonly ArmName[] = armNames,
): Job[] {
  const base = (run: number | 'shared', reads: Reads): Job => ({
    name: `base-${run}`,
    trained: null,
    reads,
    evaluationSeed: ['evaluation', 'base', run === 'shared' ? 1 : run],
  })
  const runs = Array.from({ length: experiment.evaluation.baseRuns }, (_, i) =>
    base(i + 1, experiment.arms.baseline.reads),
  )
  const trained = experiment.seeds.flatMap((seed) =>
    armNames
      .filter((arm) => arms.includes(arm))
      .map((arm): Job => {
        const { reads } = experiment.arms[arm]
        return {
          name: `${arm}-s${seed}`,
          trained: { arm, seed },
          reads,
          evaluationSeed: ['evaluation', 'seed', seed],
        }
      }),
  )
  return [...runs, base('shared', experiment.arms.recipe.reads), ...trained]
}

export interface Progress {
  schemaVersion: 1
  /** Training steps taken; checkpoint-N holds the state after them. 0: none. */
  steps: number
  /** Held-out problems evaluated. */
  evaluated: number
  /** Lengths of the two logs that belong to this progress. */
  bytes: { metrics: number; rollouts: number }
  /** Wall-clock seconds of the work that was kept. */
  seconds: { train: number; evaluation: number }
}

const progressSchema: z.ZodType<Progress> = z.object({
  schemaVersion: z.literal(1),
  steps: z.number().int().min(0),
  evaluated: z.number().int().min(0),
  bytes: z.object({ metrics: z.number().int().min(0), rollouts: z.number().int().min(0) }),
  seconds: z.object({ train: z.number(), evaluation: z.number() }),
})

/** One line of rollouts.jsonl. */
export interface RolloutLine extends Omit<Board, 'problemId'> {
  phase: 'train' | 'evaluation'
  /** The training step, 1 for the first; absent in an evaluation. */
  step?: number
  problem: Problem
}

/** What a run tells while it works. */
export type RunEvent =
  | ({ type: 'download' } & DownloadProgress)
  | { type: 'notice'; text: string }
  | { type: 'plan'; jobs: { name: string; steps: number; problems: number; progress: Progress }[] }
  | { type: 'job'; job: string; state: 'started' | 'finished' | 'kept' }
  | { type: 'job'; job: string; state: 'failed'; why: string }
  | { type: 'tokens'; newTokens: number }
  | { type: 'step'; job: string; steps: number; metrics: StepMetrics }
  | { type: 'evaluated'; job: string; problems: number; of: number; right: number }

export interface JobContext {
  engine: Engine
  experiment: Experiment
  train: readonly Problem[]
  holdout: readonly Problem[]
  /** The run's folder; the job's own lies in it. */
  folder: string
  onEvent: (event: RunEvent) => void
  signal?: AbortSignal
}

/** How far a job is; the beginning where its folder is not there yet. */
export function readProgress(folder: string, job: Job): Promise<Progress> {
  return readProgressOf(join(folder, job.name))
}

/** The same for a job's own folder. */
export async function readProgressOf(jobFolder: string): Promise<Progress> {
  const path = join(jobFolder, 'progress.json')
  const beginning: Progress = {
    schemaVersion: 1,
    steps: 0,
    evaluated: 0,
    bytes: { metrics: 0, rollouts: 0 },
    seconds: { train: 0, evaluation: 0 },
  }
  return (await readJsonFile(path, progressSchema, { optional: true })) ?? beginning
}

/** What decides when a job is finished. */
interface JobSizes {
  train: { steps: number }
}

/** Training steps of a job: the configuration's for an arm, 0 for the base. */
export function stepsOf(experiment: JobSizes, job: Job): number {
  return job.trained ? experiment.train.steps : 0
}

export function isFinished(experiment: JobSizes, job: Job, progress: Progress, holdout: number): boolean {
  return progress.steps === stepsOf(experiment, job) && progress.evaluated === holdout
}

/** Runs what is left of a job. Throws where it fails, leaving the last good state in its folder. */
export async function runJob(context: JobContext, job: Job): Promise<void> {
  const { engine, experiment } = context
  const folder = join(context.folder, job.name)
  const progress = await restore(context.folder, job)
  const policy = await engine.createPolicy(
    job.trained ? { lora: { ...experiment.train.lora, seed: job.trained.seed } } : {},
  )
  try {
    if (progress.steps > 0) await policy.load(join(folder, checkpoint(progress.steps)))
    if (job.trained && progress.steps < experiment.train.steps) {
      await train(context, job, job.trained.seed, policy, progress)
    }
    await evaluate(context, job, policy, progress)
  } finally {
    policy.dispose()
  }
}

async function train(
  context: JobContext,
  job: Job,
  seed: number,
  policy: Policy,
  progress: Progress,
): Promise<void> {
  const { experiment, signal } = context
  const { steps } = experiment.train
  const folder = join(context.folder, job.name)
  let started = performance.now()
  const loop = trainSteps({
    policy,
    tokenizer: context.engine.tokenizer,
    problems: context.train,
    rounds: roundsOf(context, job.reads, 'train'),
    train: experiment.train,
    seed,
    done: progress.steps,
  })
  try {
    for await (const { metrics, played } of loop) {
      const lines = played.map(({ board }) => line(context.train, board, 'train', metrics.step))
      progress.bytes.metrics += await append(join(folder, 'metrics.jsonl'), [metrics])
      progress.bytes.rollouts += await append(join(folder, 'rollouts.jsonl'), lines)
      const before = checkpoint(progress.steps)
      progress.steps = metrics.step
      await mkdir(join(folder, checkpoint(progress.steps)), { recursive: true })
      await policy.save(join(folder, checkpoint(progress.steps)), { interim: progress.steps < steps })
      progress.seconds.train += (performance.now() - started) / 1000
      await writeProgress(folder, progress)
      await rm(join(folder, before), { recursive: true, force: true })
      context.onEvent({ type: 'step', job: job.name, steps, metrics })
      signal?.throwIfAborted()
      started = performance.now()
    }
  } catch (error) {
    signal?.throwIfAborted()
    const why = error instanceof Error ? error.message : String(error)
    const kept = progress.steps > 0 ? ` The state after step ${progress.steps} is kept in ${folder}.` : ''
    throw new UserError(`step ${progress.steps + 1} failed: ${why}.${kept}`.replace(/\.\./g, '.'), {
      cause: error,
    })
  }
}

async function evaluate(context: JobContext, job: Job, policy: Policy, progress: Progress): Promise<void> {
  const { experiment, holdout, signal } = context
  const folder = join(context.folder, job.name)
  while (progress.evaluated < holdout.length) {
    const started = performance.now()
    const problems = holdout.slice(
      progress.evaluated,
      progress.evaluated + experiment.evaluation.problemsAtOnce,
    )
    const { played } = await playRounds(policy, context.engine.tokenizer, problems, {
      ...roundsOf(context, job.reads, 'evaluation'),
      seed: job.evaluationSeed,
    })
    const lines = played.map(({ board }) => line(problems, board, 'evaluation'))
    progress.bytes.rollouts += await append(join(folder, 'rollouts.jsonl'), lines)
    progress.evaluated += problems.length
    progress.seconds.evaluation += (performance.now() - started) / 1000
    await writeProgress(folder, progress)
    const replies = played.flatMap(({ board }) => board.replies)
    context.onEvent({
      type: 'evaluated',
      job: job.name,
      problems: progress.evaluated,
      of: holdout.length,
      right: replies.filter((reply) => reply.correct).length / replies.length,
    })
    signal?.throwIfAborted()
  }
}

/** How an experiment plays its rounds under a board, whatever writes the texts. */
export function roundSettings(
  { board, sampling, grader }: Experiment,
  reads: Reads,
  phase: 'train' | 'evaluation',
): Omit<PlayOptions, 'seed'> {
  return {
    copies: board.copies,
    reads,
    notes: { maxTokens: board.noteTokens, ...sampling[phase].notes },
    replies: { maxTokens: board.replyTokens, ...sampling[phase].replies },
    grader,
  }
}

/** The same for a policy. */
export function roundsOf(
  context: Pick<JobContext, 'engine' | 'experiment' | 'onEvent' | 'signal'>,
  reads: Reads,
  phase: 'train' | 'evaluation',
): Omit<RoundsOptions, 'seed'> {
  return {
    ...roundSettings(context.experiment, reads, phase),
    readTokens: readLimit(context.experiment, context.engine),
    onTokens: (newTokens) => context.onEvent({ type: 'tokens', newTokens }),
    signal: context.signal,
  }
}

/** Longest prompt of round two: as configured, or all that the context leaves beside the reply. */
export function readLimit({ board }: Experiment, engine: Engine): number {
  return board.readTokens ?? engine.contextLength - board.replyTokens
}

function line(
  problems: readonly Problem[],
  board: Board,
  phase: RolloutLine['phase'],
  step?: number,
): RolloutLine {
  const { problemId, notes, replies } = board
  const problem = problems.find(({ id }) => id === problemId)
  if (!problem) throw new Error(`a board of an unknown problem, ${problemId}`)
  return { phase, step, problem, notes, replies }
}

const checkpoint = (steps: number) => `checkpoint-${steps}`

/** Brings a job's folder back to its last whole state and says how far that is. */
async function restore(runFolder: string, job: Job): Promise<Progress> {
  const folder = join(runFolder, job.name)
  await mkdir(folder, { recursive: true })
  const progress = await readProgress(runFolder, job)
  await removeScratch(folder)
  await rm(join(folder, errorFile), { force: true })
  for (const name of await readdir(folder)) {
    if (/^checkpoint-\d+$/.test(name) && name !== checkpoint(progress.steps)) {
      await rm(join(folder, name), { recursive: true, force: true })
    }
  }
  await cut(join(folder, 'metrics.jsonl'), progress.bytes.metrics)
  await cut(join(folder, 'rollouts.jsonl'), progress.bytes.rollouts)
  return progress
}

async function cut(path: string, bytes: number): Promise<void> {
  const size = await stat(path).then(
    (found) => found.size,
    () => 0,
  )
  if (size < bytes) throw damaged(path, `it has ${size} bytes and progress.json counts ${bytes}`)
  if (size === bytes) return
  const file = await open(path, 'r+')
  try {
    await file.truncate(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Appends values as lines, flushed to the disk; returns the bytes written. */
async function append(path: string, values: readonly unknown[]): Promise<number> {
  const text = values.map((value) => `${JSON.stringify(value)}\n`).join('')
  const file = await open(path, 'a')
  try {
    await file.appendFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  return Buffer.byteLength(text)
}

function writeProgress(folder: string, progress: Progress): Promise<void> {
  return writeJsonAtomic(join(folder, 'progress.json'), progress)
}

function damaged(path: string, what: string): UserError {
  return new UserError(
    `${path} is damaged (${what}): delete that job's folder to run the job again, or use --fresh for all.`,
  )
}

/** All that a finished job leaves for the results. */
export interface JobOutcome {
  job: Job
  metrics: StepMetrics[]
  /** The evaluation's boards, in the order of the held-out problems. */
  boards: Board[]
  /** The boards of the last training step; empty for the base. */
  lastBatch: Board[]
  seconds: Progress['seconds']
}

/** Reads a finished job back from its folder. */
export async function readOutcome(folder: string, job: Job): Promise<JobOutcome> {
  const { steps, seconds } = await readProgress(folder, job)
  const rollouts = (await readLines(join(folder, job.name, 'rollouts.jsonl'))) as RolloutLine[]
  const boards = (lines: RolloutLine[]): Board[] =>
    lines.map(({ problem, notes, replies }) => ({ problemId: problem.id, notes, replies }))
  return {
    job,
    metrics: steps === 0 ? [] : ((await readLines(join(folder, job.name, 'metrics.jsonl'))) as StepMetrics[]),
    boards: boards(rollouts.filter(({ phase }) => phase === 'evaluation')),
    lastBatch: boards(rollouts.filter((row) => row.phase === 'train' && row.step === steps)),
    seconds,
  }
}

async function readLines(path: string): Promise<unknown[]> {
  const text = await readFile(path, 'utf8')
  return text
    .split('\n')
    .slice(0, -1)
    .map((row, i) => {
      try {
        return JSON.parse(row)
      } catch {
        throw damaged(path, `line ${i + 1} is not JSON`)
      }
    })
}

/**
 * Runs an experiment into a folder: opens or continues the folder, runs every job that is not finished, and writes
 * what was found. The same call again pays only for what is missing.
 */
import { arch, cpus, platform, totalmem } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import type { Engine } from '../engine/contract.ts'
import { LostError, UserError } from '../errors.ts'
import { writeFileAtomic } from '../files.ts'
import type { Problem } from '../tasks/types.ts'
import { type ArmName, armNames } from './arms.ts'
import { builtInModel, configRecord, type Experiment } from './config.ts'
import { decidingVersions, findModel, openEngine, sha256, versions } from './engine.ts'
import { checkRunFolder, type History, openRunFolder, type RunFolder } from './folder.ts'
import {
  errorFile,
  isFinished,
  type Job,
  type JobContext,
  type JobOutcome,
  planJobs,
  type RunEvent,
  readOutcome,
  readProgress,
  runJob,
  stepsOf,
} from './job.ts'
import { oneMore, planLooks } from './looks.ts'
import { checkPrompts, checkSplit } from './preflight.ts'
import { evaluationFacts, type Look, type Results, summarise } from './results.ts'
import { writeResults } from './write-results.ts'

export interface RunOptions {
  /** The run folder: new, empty, or of the same experiment. */
  out: string
  /** Removes an earlier run in `out` first. */
  fresh?: boolean
  /** The arms to train; both unless told. */
  arms?: readonly ArmName[]
  /** Adds seeds, one an arm at a time, until the verdict is not `unresolved` or there are so many (see looks.ts). */
  maxSeeds?: number
  /** Jobs at a time, 1 unless told. The results do not depend on it where the engine's do not. */
  jobs?: number
  onEvent?: (event: RunEvent) => void
  /** Stops the run when aborted; what was finished is kept. */
  signal?: AbortSignal
  /** Opens the engine; the one that the experiment names unless told. */
  openEngine?: typeof openEngine
}

/**
 * Runs what is left of an experiment and returns its results, which are also in `out`. A job that fails is named in
 * `results.failed` and does not stop the others.
 *
 * @throws UserError for a configuration, model, task or folder that cannot be used, before any work is done.
 */
export async function runExperiment(experiment: Experiment, options: RunOptions): Promise<Results> {
  const { out, signal, arms = armNames, jobs: atOnce = 1, onEvent = () => {} } = options
  signal?.throwIfAborted()
  const looks = options.maxSeeds === undefined ? undefined : planLooks(experiment.seeds, options.maxSeeds)
  if (looks && arms.length < armNames.length) {
    throw new UserError('Adding seeds until resolved compares both arms: leave --arm out.')
  }
  const split = await experiment.task.load()
  checkSplit(experiment, split)
  const onNotice = (text: string) => onEvent({ type: 'notice', text })
  const found = await findModel(experiment, {
    onDownload: (progress) => onEvent({ type: 'download', ...progress }),
    onNotice,
    retries: { signal },
  })
  const model = {
    name: experiment.model === builtInModel ? 'word-problems (built-in)' : experiment.model,
    sha256: found.sha256,
  }
  const config = configRecord(experiment)
  const { train, holdout, dropped } = split
  const record = {
    identity: {
      config,
      model: model.sha256,
      data: {
        train: train.length,
        holdout: holdout.length,
        sha256: sha256(JSON.stringify([train, holdout].map((rows) => rows.map(problemKey)))),
      },
      versions: decidingVersions(experiment),
    },
    model: model.name,
    arms,
    seeds: looks?.first ?? experiment.seeds,
    looks,
    versions: versions(experiment),
    machine: {
      processor: cpus()[0]?.model ?? 'unknown',
      cores: cpus().length,
      memoryGiB: Math.round(totalmem() / 2 ** 30),
      system: `${platform()} ${arch()}`,
    },
  }
  const how = { fresh: options.fresh }
  const isLeft = async (job: Job) =>
    !isFinished(experiment, job, await readProgress(out, job), holdout.length)

  // Whatever can be refused is refused before anything is written: the folder, then the model and the limits.
  await checkRunFolder(out, record, how)
  let engine: Engine | undefined
  let folder: RunFolder | undefined
  try {
    const first = planJobs({ ...experiment, seeds: record.seeds }, arms)
    if (options.fresh || (await Promise.all(first.map(isLeft))).includes(true)) {
      engine = await (options.openEngine ?? openEngine)(experiment, found, onNotice)
      const boards = armNames.map((arm) => experiment.arms[arm].reads)
      checkPrompts(experiment, engine, split, boards)
    }
    folder = await openRunFolder(out, record, how)

    const { history = {} } = folder.record()
    const finished = new Map<string, JobOutcome>()
    let before: readonly Look[] = []
    for (let seeds = record.seeds; ; seeds = oneMore(seeds)) {
      if (before.length > 0) await folder.update({ seeds })
      const jobs = planJobs({ ...experiment, seeds }, arms)
      const failed = await runJobs(jobs, finished)
      const results = summarise(
        {
          model,
          task: { name: experiment.task.name, train: train.length, holdout: holdout.length },
          config,
          evaluation: evaluationFacts(experiment),
          seeds,
          dropped,
          versions: versions(experiment),
          failed,
          finishedAt: new Date().toISOString(),
          looks: looks && { plan: looks, before },
          read: history.read,
          regrades: history.regrades,
        },
        // In the order of the plan, whichever ended first.
        jobs.flatMap(({ name }) => finished.get(name) ?? []),
      )
      await writeResults(out, results)
      const { delta, sequential } = results
      if (!sequential) {
        if (delta && failed.length === 0) await folder.update({ history: noted(history, seeds) })
        return results
      }
      before = sequential.taken
      const last = seeds.length >= sequential.maxSeeds
      if (delta?.verdict !== 'unresolved' || failed.length > 0 || last) return results
    }
  } finally {
    await engine?.close()
    folder?.release()
  }

  /** Runs the jobs that are left, adds what each finished one found to `finished`, and returns those that failed. */
  async function runJobs(jobs: Job[], finished: Map<string, JobOutcome>): Promise<Results['failed']> {
    const progress = await Promise.all(jobs.map((job) => readProgress(out, job)))
    onEvent({
      type: 'plan',
      jobs: jobs.map((job, i) => ({
        name: job.name,
        steps: stepsOf(experiment, job),
        problems: holdout.length,
        progress: progress[i],
      })),
    })
    const failed: Results['failed'] = []
    const queue: Job[] = []
    for (const job of jobs.filter(({ name }) => !finished.has(name))) {
      if (await isLeft(job)) {
        queue.push(job)
        continue
      }
      onEvent({ type: 'job', job: job.name, state: 'kept' })
      finished.set(job.name, await readOutcome(out, job))
    }
    if (queue.length === 0) return failed
    // Another process may have removed a finished run between the two looks; then there is one to open.
    engine ??= await (options.openEngine ?? openEngine)(experiment, found, onNotice)
    const context: JobContext = { engine, experiment, train, holdout, folder: out, onEvent, signal }
    const moved = new Set<Job>()

    async function take(job: Job): Promise<void> {
      onEvent({ type: 'job', job: job.name, state: 'started' })
      try {
        await runJob(context, job)
        finished.set(job.name, await readOutcome(out, job))
        onEvent({ type: 'job', job: job.name, state: 'finished' })
      } catch (error) {
        signal?.throwIfAborted()
        const why = error instanceof Error ? error.message : String(error)
        if (isLost(error) && !moved.has(job)) {
          // It goes on from what it kept, once, wherever the engine puts it then.
          moved.add(job)
          queue.push(job)
          onNotice(`${job.name} lost what it ran on and is begun again from what it kept: ${why}`)
          return
        }
        // The whole story, for whoever mends it; the next try removes it.
        await writeFileAtomic(join(out, job.name, errorFile), inspect(error))
        failed.push({ job: job.name, why })
        onEvent({ type: 'job', job: job.name, state: 'failed', why })
      }
    }

    async function work(): Promise<void> {
      for (let job = queue.shift(); job; job = queue.shift()) await take(job)
    }

    // All are waited for, so that none goes on behind a run that is stopped.
    const ended = await Promise.allSettled(Array.from({ length: Math.min(atOnce, queue.length) }, work))
    for (const each of ended) if (each.status === 'rejected') throw each.reason
    return jobs.flatMap(({ name }) => failed.filter(({ job }) => job === name))
  }
}

/** Whether an error, or what caused it, is that the place of work is gone. */
const isLost = (error: unknown): boolean =>
  error instanceof LostError || (error instanceof Error && error.cause !== undefined && isLost(error.cause))

/** The history with one more reading of the verdict at the plain level. */
function noted(history: History, seeds: number[]): History {
  const { read = [] } = history
  const known = read.some((each) => each.join() === seeds.join())
  return known ? history : { ...history, read: [...read, seeds] }
}

const problemKey = ({ id, question, gold }: Problem) => [id, question, gold]

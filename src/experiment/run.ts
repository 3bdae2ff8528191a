/**
 * Runs an experiment into a folder: opens or continues the folder, runs every job that is not finished, and writes
 * what was found. The same call again pays only for what is missing; an arm or a seed more pays for that alone.
 */

import { LostError, UserError } from '../errors.ts'
import { allowListeners, wholeStory } from '../platform/machine.ts'
import { join } from '../platform/path.ts'
import { checkRunFolder, openRunFolder, type RunFolder } from '../record/folder.ts'
import { beginning, readProgress, writeJobError } from '../record/job-log.ts'
import { isFinished, type Job, planJobs, shardOf } from '../record/plan.ts'
import type { Look, Results } from '../record/results.ts'
import type { RunCommand, RunRecord } from '../record/schema.ts'
import { lookCount, oneMore, planLooks } from '../stats/looks.ts'
import { type Experiment, noSuchArm } from './config.ts'
import { type Engines, findModels, type openEngine, openEngines } from './engine.ts'
import { type JobContext, type JobOutcome, type RunEvent, readOutcome, runJob } from './job.ts'
import { checkPrompts, checkSplit } from './preflight.ts'
import { noted, recordOf } from './record.ts'
import { summarise } from './results.ts'
import { writeResults } from './write-results.ts'

export interface RunOptions {
  /** The run folder: new, empty, or of the same experiment. */
  out: string
  /** Removes an earlier run in `out` first. */
  fresh?: boolean
  /** The arms to train; all unless told. */
  arms?: readonly string[]
  /** Adds seeds, one an arm at a time, until no verdict is `unresolved` or there are so many (see stats/looks.ts). */
  maxSeeds?: number
  /** The command line that asks for this, for the folder's record. */
  command?: RunCommand
  /** Jobs at a time, 1 unless told. The results do not depend on it where the engine's do not. */
  jobs?: number
  onEvent?: (event: RunEvent) => void
  /** Stops the run when aborted; what was finished is kept. */
  signal?: AbortSignal
  /**
   * In which order jobs are begun; that of the plan unless told, and of several at a time trainings first. The results do
   * not depend on it.
   */
  order?: (jobs: readonly Job[]) => Job[]
  /** Runs one job; in this process unless told. */
  runJob?: typeof runJob
  /** Opens an engine; the one that the experiment names unless told. */
  openEngine?: typeof openEngine
}

/** Shard `k` of `n`, from 1. */
export interface Shard {
  k: number
  n: number
}

type Failed = Results['failed']

/**
 * Runs what is left of an experiment and returns its results, which are also in `out`. A job that fails is named in
 * `results.failed` and does not stop the others.
 *
 * @throws UserError for a configuration, model, task or folder that cannot be used, before any work is done.
 */
export async function runExperiment(experiment: Experiment, options: RunOptions): Promise<Results> {
  const { out, maxSeeds } = options
  const looks = maxSeeds === undefined ? undefined : planLooks(experiment.seeds, maxSeeds)
  if (looks && options.arms) {
    throw new UserError('Adding seeds until resolved compares all arms: leave --arm out.')
  }
  return withRun(experiment, options, { seeds: looks?.first ?? experiment.seeds, looks }, async (run) => {
    const finished = new Map<string, JobOutcome>()
    let before: readonly Look[] = []
    for (;;) {
      const record = run.folder.record()
      const jobs = planJobs(record)
      const failed = await run.jobs(jobs, finished)
      const results = summarise(
        { record, failed, finishedAt: new Date().toISOString(), before },
        // In the order of the plan, whichever ended first.
        jobs.flatMap(({ name }) => finished.get(name) ?? []),
      )
      await writeResults(out, results)
      if (!results.sequential) {
        if (results.contrasts.length > 0 && failed.length === 0) {
          await run.folder.update({ history: noted(record) })
        }
        return results
      }
      before = results.sequential.taken
      const last = before.length >= lookCount(record.looks!)
      const open = results.contrasts.some(({ verdict }) => verdict === 'unresolved')
      if (!open || failed.length > 0 || last) return results
      await run.folder.update({ seeds: oneMore(record.seeds) })
    }
  })
}

/** Runs what is left of one shard of an experiment into a folder of its own; record/merge.ts makes one run of all. */
export async function runShard(
  experiment: Experiment,
  { k, n }: Shard,
  options: Omit<RunOptions, 'maxSeeds'>,
): Promise<{ failed: Failed }> {
  if (!(Number.isInteger(k) && Number.isInteger(n) && k >= 1 && k <= n)) {
    throw new UserError(`There is no shard ${k}/${n}: give 1/${n} to ${n}/${n}.`)
  }
  const changes = { seeds: experiment.seeds, shard: `${k}/${n}` }
  return withRun(experiment, options, changes, async (run) => ({
    failed: await run.jobs(shardOf(planJobs(run.folder.record()), { k, n }), new Map()),
  }))
}

interface Run {
  folder: RunFolder
  /** Runs the jobs that are left, adds what each finished one found to `finished`, and returns those that failed. */
  jobs(jobs: readonly Job[], finished: Map<string, JobOutcome>): Promise<Failed>
}

/** Opens the folder and what is needed to run, and closes both again. */
async function withRun<T>(
  experiment: Experiment,
  options: RunOptions,
  changes: Pick<RunRecord, 'seeds'> & Partial<Pick<RunRecord, 'looks' | 'shard'>>,
  work: (run: Run) => Promise<T>,
): Promise<T> {
  const { out, signal, onEvent = () => {} } = options
  signal?.throwIfAborted()
  const unknown = options.arms?.find((name) => !Object.hasOwn(experiment.arms, name))
  if (unknown !== undefined) throw noSuchArm(experiment, unknown)
  const split = await experiment.task.load()
  checkSplit(experiment, split)
  const onNotice = (text: string) => onEvent({ type: 'notice', text })
  const found = await findModels(experiment, {
    onDownload: (progress) => onEvent({ type: 'download', ...progress }),
    onNotice,
    retries: { signal },
  })
  const whole = await recordOf(experiment, found, split)
  const arms = whole.arms.filter((name) => options.arms?.includes(name) ?? true)
  const { command } = options
  const record: RunRecord = { ...whole, ...changes, arms, ...(command && { command }) }
  const isLeft = async (job: Job) =>
    !isFinished((await readProgress(join(out, job.name))) ?? beginning(job.seed !== null), record.identity)

  const how = { fresh: options.fresh }
  // Whatever can be refused is refused before anything is written: the folder, then the models and the limits.
  await checkRunFolder(out, record, how)
  const engines = openEngines(experiment, found, onNotice, options.openEngine)
  let folder: RunFolder | undefined
  try {
    const first = planJobs(record)
    if (options.fresh || (await Promise.all(first.map(isLeft))).includes(true)) {
      await checkPrompts(experiment, engines, split)
    }
    folder = await openRunFolder(out, record, how)
    await noteDevices(folder, engines)
    const { atWork } = folder
    const context = { engines, experiment, ...split, folder: out, onEvent, signal }
    return await work({
      folder,
      jobs: (jobs, finished) =>
        runJobs(jobs, finished, {
          context,
          isLeft,
          atWork,
          atOnce: options.jobs ?? 1,
          order: options.order ?? ((options.jobs ?? 1) > 1 ? longestFirst : (jobs) => [...jobs]),
          perform: options.runJob ?? runJob,
        }),
    })
  } finally {
    try {
      // A GPU may have been lost meanwhile.
      if (folder) await noteDevices(folder, engines)
    } finally {
      await engines.close()
      folder?.release()
    }
  }
}

/** Adds where the engines compute to the record. */
async function noteDevices({ record, update }: RunFolder, engines: Engines): Promise<void> {
  const known = record().devices ?? []
  const devices = [...new Set([...known, ...(await engines.devices())])]
  if (devices.length > known.length) await update({ devices })
}

/** Trainings before evaluations alone: what is begun last is short, so that no core is long without work at the end. */
const longestFirst = (jobs: readonly Job[]): Job[] => [
  ...jobs.filter(({ seed }) => seed !== null),
  ...jobs.filter(({ seed }) => seed === null),
]

async function runJobs(
  jobs: readonly Job[],
  finished: Map<string, JobOutcome>,
  {
    context,
    isLeft,
    atWork,
    atOnce,
    order,
    perform,
  }: {
    context: JobContext
    isLeft: (job: Job) => Promise<boolean>
    atWork: RunFolder['atWork']
    atOnce: number
    order: NonNullable<RunOptions['order']>
    perform: typeof runJob
  },
): Promise<Failed> {
  const { folder, experiment, holdout, onEvent, signal } = context
  const progress = await Promise.all(
    jobs.map(async ({ name, seed }) => (await readProgress(join(folder, name))) ?? beginning(seed !== null)),
  )
  onEvent({
    type: 'plan',
    jobs: jobs.map(({ name, arm, seed }, i) => ({
      name,
      steps: seed === null ? 0 : experiment.arms[arm].train.steps,
      problems: holdout.length,
      progress: progress[i],
    })),
  })
  const failed: Failed = []
  const left: Job[] = []
  const whole = { problems: holdout.map(({ id }) => id), checkpoint: true }
  for (const job of jobs.filter(({ name }) => !finished.has(name))) {
    if (await isLeft(job)) {
      left.push(job)
      continue
    }
    onEvent({ type: 'job', job: job.name, state: 'kept' })
    finished.set(job.name, await readOutcome(folder, job, whole))
  }
  const queue = order(left)
  const moved = new Set<Job>()

  async function take(job: Job): Promise<void> {
    onEvent({ type: 'job', job: job.name, state: 'started' })
    await atWork(job.name, true)
    try {
      await perform(context, job)
      finished.set(job.name, await readOutcome(folder, job, whole))
      onEvent({ type: 'job', job: job.name, state: 'finished' })
    } catch (error) {
      signal?.throwIfAborted()
      const why = error instanceof Error ? error.message : String(error)
      if (isLost(error) && !moved.has(job)) {
        // It goes on from what it kept, once, wherever the engine puts it then.
        moved.add(job)
        queue.push(job)
        const text = `${job.name} lost what it ran on and is begun again from what it kept: ${why}`
        onEvent({ type: 'notice', text })
        return
      }
      await writeJobError(join(folder, job.name), wholeStory(error))
      failed.push({ job: job.name, why })
      onEvent({ type: 'job', job: job.name, state: 'failed', why })
    } finally {
      await atWork(job.name, false)
    }
  }

  async function work(): Promise<void> {
    for (let job = queue.shift(); job; job = queue.shift()) await take(job)
  }

  // Each job at work listens for the end.
  if (signal) allowListeners(signal)
  // All are waited for, so that none goes on behind a run that is stopped.
  const ended = await Promise.allSettled(Array.from({ length: Math.min(atOnce, queue.length) }, work))
  for (const each of ended) if (each.status === 'rejected') throw each.reason
  return jobs.flatMap(({ name }) => failed.filter(({ job }) => job === name))
}

/** Whether an error, or what caused it, is that the place of work is gone. */
const isLost = (error: unknown): boolean =>
  error instanceof LostError || (error instanceof Error && error.cause !== undefined && isLost(error.cause))

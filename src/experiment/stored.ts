/**
 * A run folder read back without the experiment that made it: what it says of itself, its results and its finished
 * jobs. Reads only.
 */

import { UserError } from '../errors.ts'
import { join } from '../platform/path.ts'
import { readRecord, readResults } from '../record/folder.ts'
import { beginning, readProgress } from '../record/job-log.ts'
import { isFinished, type Job, planJobs } from '../record/plan.ts'
import type { Results } from '../record/results.ts'
import type { RunRecord } from '../record/schema.ts'
import { isUnsettled } from '../record/staged.ts'
import { type JobOutcome, readOutcome } from './job.ts'

export interface StoredRun {
  folder: string
  /** experiment.json as it stands. */
  record: RunRecord
  results: Results
  /** The jobs that the results are made of, in their order. */
  jobs: Job[]
}

/**
 * Opens the folder of a run that has results.
 *
 * @throws UserError for a folder that is no run, or whose run has no results yet.
 */
export async function openStoredRun(folder: string): Promise<StoredRun> {
  const record = await readRecord(folder)
  if (await isUnsettled(folder)) {
    throw new UserError(
      `Grading ${folder} again was cut short: finish it first with message-board regrade ${folder}.`,
    )
  }
  const results = await readResults(folder)
  if (!results) {
    throw new UserError(
      `${folder} has no results.json: let its run finish first (the same command continues it).`,
    )
  }
  const jobs = await finishedJobs(folder, record)
  const gone = Object.keys(results.timing.jobs).find((name) => !jobs.some((job) => job.name === name))
  if (gone !== undefined) {
    throw new UserError(
      `${folder} has results of ${gone}, which is not there whole: give the command that made the run again.`,
    )
  }
  return { folder, record, results, jobs }
}

/** The jobs of a record that are finished, in the order of the plan. */
export async function finishedJobs(folder: string, record: RunRecord): Promise<Job[]> {
  const jobs: Job[] = []
  for (const job of planJobs(record)) {
    const progress = (await readProgress(join(folder, job.name))) ?? beginning(job.seed !== null)
    if (isFinished(progress, record.identity)) jobs.push(job)
  }
  return jobs
}

/** What the run's finished jobs left. */
export function storedOutcomes({ folder, jobs }: Pick<StoredRun, 'folder' | 'jobs'>): Promise<JobOutcome[]> {
  return Promise.all(jobs.map((job) => readOutcome(folder, job)))
}

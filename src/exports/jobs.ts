/** A run folder as exports read it: its record, its notes, and its jobs one at a time, each checked whole. Reads only. */

import { UserError } from '../errors.ts'
import { realpath } from '../platform/files.ts'
import { basename, join } from '../platform/path.ts'
import { readRecord, readResults } from '../record/folder.ts'
import { type JobRecord, readJob, readProgress } from '../record/job-log.ts'
import { readNotes } from '../record/notes.ts'
import { type Job, planJobs } from '../record/plan.ts'
import type { Results } from '../record/results.ts'
import type { ArmRecord, Notes, RunRecord } from '../record/schema.ts'

export interface ExportedRun {
  /** Its folder's real path, and that folder's name. */
  folder: string
  name: string
  record: RunRecord
  results: Results | null
  notes: Notes
  /** Those that have begun, in the order in which they were run. */
  jobs: Job[]
}

/** @throws UserError for a folder that is no run, and for a run of which no job has begun. */
export async function readRun(path: string): Promise<ExportedRun> {
  const folder = await realpath(path).catch(() => {
    throw new UserError(`There is no folder ${path}: give the folder of a run, such as runs/default.`)
  })
  const record = await readRecord(folder)
  const planned = planJobs(record)
  const progress = await Promise.all(planned.map((job) => readProgress(join(folder, job.name))))
  const jobs = planned.filter((_, i) => progress[i] !== undefined)
  if (jobs.length === 0) throw new UserError(`${path} has no job that has begun: run the experiment first.`)
  return {
    folder,
    name: basename(folder),
    record,
    results: await readResults(folder),
    notes: await readNotes(folder),
    jobs,
  }
}

export const readExported = ({ folder }: ExportedRun, { name }: Job): Promise<JobRecord> =>
  readJob(join(folder, name))

export const armOf = ({ record }: ExportedRun, { arm }: Job): ArmRecord => record.identity.arms[arm]

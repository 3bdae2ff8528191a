/** The list of runs in a folder, from their small files alone: no boards are read. Reads only. */

import { UserError } from '../errors.ts'
import { basename, join } from '../platform/path.ts'
import { readAtWork, readRecord, readResults } from '../record/folder.ts'
import { readProgress } from '../record/job-log.ts'
import { noNotes, readNotes } from '../record/notes.ts'
import { changedInside, foldersInside } from './inside.ts'
import { sidedJobs, sidesOf } from './sides.ts'
import type { RunListing } from './types.ts'

/**
 * The runs that a folder holds, as name and path: itself, where it is a run, or else the folders in it that are.
 * `folder` must be a real path.
 */
export async function runFolders(folder: string): Promise<Map<string, string>> {
  const isRun = async (path: string) => (await changedInside(path, ['experiment.json'])) !== null
  if (await isRun(folder)) return new Map([[basename(folder), folder]])
  const names = await foldersInside(folder)
  const runs = await Promise.all(names.map((name) => isRun(join(folder, name))))
  return new Map(names.filter((_, i) => runs[i]).map((name) => [name, join(folder, name)]))
}

/** One line of the list. A run that cannot be read is listed with the reason. */
export async function listRun(name: string, folder: string): Promise<RunListing> {
  try {
    const record = await readRecord(folder)
    const { task, data } = record.identity.shared
    const jobs = sidedJobs(record, sidesOf(record))
    const progress = await Promise.all(jobs.map((job) => readProgress(join(folder, job.name))))
    const [running, results] = [(await readAtWork(folder)) !== null, await readResults(folder)]
    const changes = await Promise.all(
      [['experiment.json'], ['results.json'], ...jobs.map((job) => [job.name, 'progress.json'])].map((path) =>
        changedInside(folder, path),
      ),
    )
    const parts = jobs.map(({ steps }, i) => {
      const { steps: taken = 0, evaluated = 0, trained = false } = progress[i] ?? {}
      return { done: taken + evaluated, of: (trained ? taken : steps) + data.holdout }
    })
    const [done, total] = (['done', 'of'] as const).map((key) =>
      parts.reduce((sum, part) => sum + part[key], 0),
    )
    return {
      name,
      model: record.model,
      task: task.name,
      arms: record.arms,
      seeds: record.seeds,
      notes: await readNotes(folder),
      state: running ? 'running' : results ? 'finished' : 'stopped',
      done: done / total,
      changed: new Date(Math.max(...changes.map((at) => at ?? 0))).toISOString(),
      found:
        results && !(running && done < total)
          ? { training: results.training, contrasts: results.contrasts }
          : null,
    }
  } catch (error) {
    if (!(error instanceof UserError)) throw error
    const changed = (await changedInside(folder, ['experiment.json'])) ?? 0
    return {
      name,
      model: '',
      task: '',
      arms: [],
      seeds: [],
      notes: noNotes,
      state: 'stopped',
      done: 0,
      changed: new Date(changed).toISOString(),
      found: null,
      problem: error.message,
    }
  }
}

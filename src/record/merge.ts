/**
 * Makes one run of the folders in which its shards were run. Touches the file system only; of the folders that it reads
 * it changes nothing.
 */
import { UserError } from '../errors.ts'
import { appendAt, isRealFolder, makeFolder, remove, writeFailure } from '../files.ts'
import { copyFile, rename } from '../platform/files.ts'
import { dirname, join } from '../platform/path.ts'
import { differences, openRunFolder, type RunFolder, readRecord } from './folder.ts'
import { jobFiles, jobLogs, readJob, readProgress } from './job-log.ts'
import { isHeld } from './lock.ts'
import { isFinished, planJobs } from './plan.ts'
import type { Progress, RunRecord } from './schema.ts'
import { isUnsettled } from './staged.ts'

/** What says that two jobs computed the same: everything but the clock's part. */
const computed = ({ sha256, checkpoint, tokens, steps, evaluated }: Progress) => ({
  rollouts: sha256.rollouts,
  checkpoint,
  tokens,
  steps,
  evaluated,
})

/**
 * Copies the finished jobs of some run folders into the one at `out`, each checked whole, and gives that folder, open:
 * its record is that of the whole run. A merge that was cut short goes on where it was.
 *
 * @throws UserError, before anything is written, for folders that are not of one run, that lack a job or hold two of one
 * name that differ, that are damaged or still written; and for an `out` that cannot be used.
 */
export async function mergeRuns(folders: readonly string[], out: string): Promise<RunFolder> {
  if (folders.length === 0) throw new UserError('Nothing to merge: name the folders of the shards.')
  const records = await Promise.all(folders.map(readSettled))
  const [{ shard: _, ...record }, ...others] = records
  for (const [i, other] of others.entries()) {
    const changes = [
      'identity',
      'arms',
      'baseline',
      'came',
      'contrasts',
      'seeds',
      'looks',
      'history',
    ].flatMap((field) => differences(record[field], other[field], field))
    if (changes.length > 0) {
      throw new UserError(
        `${folders[0]} and ${folders[i + 1]} are not of one run (${changes.slice(0, 4).join('; ')}` +
          `${changes.length > 4 ? `; ${changes.length - 4} more` : ''}): name folders that the same command made.`,
      )
    }
  }
  const sources = await findJobs(folders, record)
  const run = await openRunFolder(out, record)
  try {
    for (const [name, { folder, progress }] of sources) {
      const there = await readProgress(join(out, name))
      if (there) refuseOther(name, progress, there, [folder, out])
      else await copyJob(join(folder, name), join(out, name), progress)
      // What came is what is there: the same check again, on the copy.
      await readJob(join(out, name), { checkpoint: true })
    }
    return run
  } catch (error) {
    run.release()
    throw error
  }
}

/** The record of a folder that nobody is changing. */
async function readSettled(folder: string): Promise<RunRecord> {
  const record = await readRecord(folder)
  if (await isHeld(folder))
    throw new UserError(`${folder} is still written: wait for its run to end, then merge again.`)
  if (await isUnsettled(folder)) {
    throw new UserError(
      `Grading ${folder} again was cut short: finish it first with message-board regrade ${folder}.`,
    )
  }
  return record
}

interface Source {
  folder: string
  progress: Progress
}

/** Where each job of the plan is finished, in the plan's order. */
async function findJobs(folders: readonly string[], record: RunRecord): Promise<Map<string, Source>> {
  const sources = new Map<string, Source>()
  const missing: string[] = []
  let problems: string[] | undefined
  for (const { name } of planJobs(record)) {
    for (const folder of folders) {
      const progress = await readProgress(join(folder, name))
      if (!progress || !isFinished(progress, record.identity)) continue
      const known = sources.get(name)
      if (known) refuseOther(name, known.progress, progress, [known.folder, folder])
      const { rollouts } = await readJob(join(folder, name), { problems, checkpoint: true })
      // All jobs are evaluated on the same problems, whichever machine they ran on.
      problems ??= rollouts.filter(({ phase }) => phase === 'evaluation').map(({ problem }) => problem.id)
      if (!known) sources.set(name, { folder, progress })
    }
    if (!sources.has(name)) missing.push(name)
  }
  if (missing.length > 0) {
    const named =
      missing.slice(0, 6).join(', ') + (missing.length > 6 ? ` and ${missing.length - 6} more` : '')
    throw new UserError(
      `No folder holds all of ${named}: run the shards that have them to their end, name their folders too, and merge again.`,
    )
  }
  return sources
}

function refuseOther(name: string, one: Progress, other: Progress, folders: readonly string[]): void {
  if (differences(computed(one), computed(other)).length === 0) return
  throw new UserError(
    `${folders[0]} and ${folders[1]} hold two jobs ${name} that differ: leave one of the folders out, or delete that job's ` +
      'folder in one of them.',
  )
}

/** Copies a job's files into a folder that appears whole. */
async function copyJob(from: string, to: string, progress: Progress): Promise<void> {
  const draft = join(dirname(to), `.merge.${crypto.randomUUID()}.tmp`)
  try {
    for (const path of jobFiles(progress)) {
      await makeFolder(dirname(join(draft, path)))
      await copyFile(join(from, path), join(draft, path))
    }
    // What a kill left beyond the progress stays behind.
    for (const [path, bytes] of jobLogs(progress)) await appendAt(join(draft, path), bytes, '')
    // One that was begun and left nothing.
    if (await isRealFolder(to)) await remove(to)
    await rename(draft, to)
  } catch (error) {
    await remove(draft).catch(() => {})
    throw writeFailure(to, error)
  }
}

/**
 * The run folder: opens a new one, or continues one that an equal configuration made, and never mixes two. Touches
 * the file system only.
 */
import { z } from 'zod'
import { UserError } from '../errors.ts'
import {
  codeOf,
  jsonText,
  makeFolder,
  readFailure,
  readRegular,
  remove,
  writeFailure,
  writeFileAtomic,
  writeJsonAtomic,
} from '../files.ts'
import { discard, readdir } from '../platform/files.ts'
import { join } from '../platform/path.ts'
import { parseSealed, sealed } from '../sealed.ts'
import { isHeld, isLock, lockFolder } from './lock.ts'
import { armName, arrivals, isJobFolder, planBases, planJobs } from './plan.ts'
import { type Results, resultsSchema } from './results.ts'
import { kind, type RunRecord, recordSchema, schemaVersion } from './schema.ts'
import { settle } from './staged.ts'

export interface RunFolder {
  path: string
  /** experiment.json as it stands. */
  record: () => RunRecord
  /** Jobs of an earlier plan, whose folders are there and are left alone. */
  unplanned: readonly string[]
  /** Changes fields of experiment.json. */
  update: (changes: Partial<RunRecord>) => Promise<void>
  /** Tells whoever watches that a job is at work from now on, or no longer (see readAtWork). */
  atWork: (job: string, is: boolean) => Promise<void>
  /** Gives the folder's lock back. */
  release: () => void
}

/** Files of a finished run, beside its jobs' folders. */
export const resultFiles = ['results.json', 'table.md', 'post.md', 'report.html'] as const

/** Where metrics are logged for other tools (see log/tensorboard.ts). */
export const logFolder = 'tensorboard'

const recordFile = 'experiment.json'

/** Names of the jobs at work: true of the process that holds the lock alone. */
const runningFile = 'running.json'

/** experiment.json of a record. */
export const recordText = (record: RunRecord): string => jsonText(sealed(recordFile, record))

interface OpenOptions {
  /** Whether an earlier run in it, whatever its configuration, is removed first. */
  fresh?: boolean
}

/**
 * Refuses a folder that a run cannot use, and touches nothing: what can be known before the engine is opened.
 *
 * @throws UserError for a folder that holds other things, or whose run was configured otherwise (naming what
 * differs) unless it is to be started afresh.
 */
export async function checkRunFolder(
  path: string,
  record: RunRecord,
  { fresh = false }: OpenOptions = {},
): Promise<void> {
  const found = await namesIn(path)
  if (!found.includes(recordFile)) {
    if (found.every((name) => isLock(name) || isScratch(name))) return
    throw new UserError(`${path} already holds other files: choose a new or empty folder with --out.`)
  }
  if (fresh) {
    await checkOurs(path)
    return
  }
  const changes = changesOf(await readRecord(path), record)
  if (changes.length > 0) {
    throw new UserError(
      `${path} holds a run with another configuration (${changes.slice(0, 4).join('; ')}` +
        `${changes.length > 4 ? `; ${changes.length - 4} more` : ''}): ` +
        'use another --out, or --fresh to remove that run and start again.',
    )
  }
}

/**
 * What of a record keeps its jobs from standing beside those of an earlier one: what all arms share, and arms that both
 * have. Arms and seeds may come and go, and another baseline or other contrasts compare the same jobs.
 */
function changesOf(earlier: RunRecord, record: RunRecord): string[] {
  const [before, now] = [earlier.identity, record.identity]
  const changes = differences(before.shared, now.shared)
  for (const [name, arm] of Object.entries(now.arms)) {
    if (Object.hasOwn(before.arms, name)) changes.push(...differences(before.arms[name], arm, `arms.${name}`))
  }
  // The looks that a run may take share its error rate: another number of them would break the promise of the first.
  if (earlier.looks) changes.push(...differences(earlier.looks, record.looks, 'seeds until resolved'))
  return changes
}

/**
 * Opens `path` for a run: an empty or new folder, or one whose run has an equal identity; arms that this one adds are
 * added, and those of before stay known. With `fresh` an earlier run in it, whatever its configuration, is removed first.
 *
 * @throws UserError as checkRunFolder does, and for a folder that cannot be written or that another process is
 * writing.
 */
export async function openRunFolder(
  path: string,
  record: RunRecord,
  { fresh = false }: OpenOptions = {},
): Promise<RunFolder> {
  // Before the lock, so that nothing is put into a folder of others; and under it, since a run may have begun.
  await checkRunFolder(path, record, { fresh })
  await makeFolder(path)
  const release = await lockFolder(path)
  try {
    if (!fresh) await settle(path)
    await checkRunFolder(path, record, { fresh })
    if (fresh) await removeRun(path)
    await removeScratch(path)
    await remove(join(path, runningFile))
    const earlier = (await namesIn(path)).includes(recordFile) ? await readRecord(path) : null
    const { shared, arms } = record.identity
    const came = arrivals(earlier, record)
    let current: RunRecord = {
      ...(earlier?.command && { command: earlier.command }),
      ...record,
      identity: { shared, arms: { ...earlier?.identity.arms, ...arms } },
      ...(came && { came }),
      ...(earlier?.history && { history: earlier.history }),
      ...(earlier?.devices && { devices: earlier.devices }),
    }
    const update = async (changes: Partial<RunRecord>) => {
      const next = { ...current, ...changes }
      await writeFileAtomic(join(path, recordFile), recordText(next))
      current = next
    }
    await update({})
    const unplanned = await unplannedJobs(path, current, earlier)
    return {
      path,
      record: () => current,
      unplanned,
      update,
      atWork: toldAtWork(path),
      release() {
        // Where that fails whoever opens the folder next removes it; it says nothing while nobody holds the lock.
        discard(join(path, runningFile))
        release()
      },
    }
  } catch (error) {
    release()
    throw error
  }
}

/** What keeps running.json, one change after another. */
function toldAtWork(path: string): RunFolder['atWork'] {
  const jobs = new Set<string>()
  let told: Promise<void> = Promise.resolve()
  return (job, is) => {
    if (is) jobs.add(job)
    else jobs.delete(job)
    const change = () => writeJsonAtomic(join(path, runningFile), [...jobs])
    told = told.then(change, change)
    return told
  }
}

/** Names of the jobs that a living process is working on in a run folder; null where none holds it. */
export async function readAtWork(path: string): Promise<string[] | null> {
  if (!(await isHeld(path))) return null
  try {
    return z.array(z.string()).parse(JSON.parse((await readRegular(join(path, runningFile))) ?? '[]'))
  } catch {
    // Of no job is it known, then; the rest of the folder says what is wrong with it, if anything is.
    return []
  }
}

/** Jobs' folders that neither the record nor the looks that it may still take name. */
async function unplannedJobs(path: string, record: RunRecord, earlier: RunRecord | null): Promise<string[]> {
  const seeds = record.looks ? [...new Set([...record.seeds, ...(earlier?.seeds ?? [])])] : record.seeds
  const planned = new Set(planJobs({ ...record, seeds }).map(({ name }) => name))
  return (await namesIn(path)).filter((name) => isJobFolder(name) && !planned.has(name)).sort()
}

/** Temporary files that a killed writer left (see writeAtomically and lockFolder). */
function isScratch(name: string): boolean {
  return name.startsWith('.') && name.endsWith('.tmp')
}

/** Removes what a killed writer left half-written in a folder that this process alone writes. */
export async function removeScratch(folder: string): Promise<void> {
  for (const name of await namesIn(folder)) {
    // Another process may be asking for the lock at this moment, and needs its draft.
    if (isScratch(name) && !name.startsWith('.lock.')) await remove(join(folder, name))
  }
}

/** The names in a folder; none where there is no folder. */
async function namesIn(path: string): Promise<string[]> {
  try {
    return await readdir(path)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') return []
    // A file, or below one: nothing can be made there.
    throw code === 'ENOTDIR' ? writeFailure(path, error) : readFailure(path, error)
  }
}

/** The largest number of jobs that a record may imply. */
const mostJobs = 100_000

/**
 * What experiment.json of a run folder says.
 *
 * @throws UserError where there is none, where this version did not write it, and where it is damaged.
 */
export async function readRecord(path: string): Promise<RunRecord> {
  const file = join(path, recordFile)
  const { text, value } = await checkOurs(path)
  const { schemaVersion: version } = value
  if (version !== schemaVersion) {
    const which = typeof version === 'number' && version > schemaVersion ? 'a newer' : 'an earlier'
    throw new UserError(
      `${path} was made by ${which} version of message-board (its schemaVersion is ${JSON.stringify(version)}, and this ` +
        `version reads ${schemaVersion}): use that version for it, or choose another folder with --out.`,
    )
  }
  const parsed = parseSealed(recordFile, text, recordSchema)
  const fault = parsed.fault ?? faultOf(parsed.value)
  if (fault !== null) {
    throw new UserError(
      `${file} is damaged (${fault}): put back a copy of that file, or choose another folder with --out.`,
    )
  }
  // As it was written: what decides a job, and this version does not know of, is compared too.
  const { seal: _, ...record } = value
  return record as RunRecord
}

/** What experiment.json holds, where it is one of this project's, of whatever version. @throws UserError elsewhere. */
async function checkOurs(path: string): Promise<{ text: string; value: Record<string, unknown> }> {
  const file = join(path, recordFile)
  const text = await readRegular(file)
  if (text === undefined) {
    throw new UserError(`${path} is no run folder (it has no experiment.json): give the folder of a run.`)
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // Not JSON: not ours, as is anything else without the mark.
  }
  if (isRecord(value) && value.kind === kind) return { text, value }
  throw new UserError(
    `${file} was not written by message-board, or is damaged: choose another folder with --out.`,
  )
}

/** What no schema says of a record: names that it uses are among those that it has, and none leads anywhere. */
function faultOf(record: RunRecord): string | null {
  const { arms, baseline, came = [], contrasts, seeds, identity } = record
  const known = Object.keys(identity.arms)
  const odd = known.find((name) => !armName.test(name))
  if (odd !== undefined) return `no arm can be named ${JSON.stringify(odd)}`
  const used = [...arms, baseline, ...came, ...contrasts.flatMap(({ arm, against }) => [arm, against])]
  const unknown = used.find((name) => !known.includes(name))
  if (unknown !== undefined) return `it has no arm ${JSON.stringify(unknown)}`
  if (new Set(arms).size < arms.length) return 'an arm stands twice'
  if (new Set(seeds).size < seeds.length) return 'a seed stands twice'
  const jobs = planBases(record).reduce((sum, { runs }) => sum + runs, arms.length * seeds.length)
  return jobs > mostJobs ? `it has ${jobs} jobs, and at most ${mostJobs} are read` : null
}

/** results.json of results. */
export const resultsText = (results: Results): string =>
  jsonText(sealed(resultFiles[0], resultsSchema.parse(results)))

/**
 * What results.json of a run folder says; null where there is none.
 *
 * @throws UserError for one that this version did not write, or that is damaged.
 */
export async function readResults(path: string): Promise<Results | null> {
  const file = join(path, resultFiles[0])
  const text = await readRegular(file)
  if (text === undefined) return null
  const parsed = parseSealed(resultFiles[0], text, resultsSchema)
  if (parsed.fault === undefined) return parsed.value
  throw new UserError(
    `${file} is damaged (${parsed.fault}): give the command that made the run again, which writes it anew and runs no job twice.`,
  )
}

/** Removes a run's own files, and nothing that a person may have put beside them. */
async function removeRun(path: string): Promise<void> {
  // The last is a job of version 1.
  const ours: readonly string[] = [...resultFiles, logFolder, runningFile, '.staged', 'base-shared']
  for (const name of await namesIn(path)) {
    if (isJobFolder(name) || ours.includes(name)) await remove(join(path, name))
  }
  // Last, so that a removal cut short is still known as a run.
  await remove(join(path, recordFile))
}

/** Where two plain values differ, and what stands there in each, as JSON; absent: nothing. */
export interface Differing {
  path: string
  before?: string
  now?: string
}

export function differing(before: unknown, now: unknown, path = ''): Differing[] {
  if (isRecord(before) && isRecord(now)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(now)])]
    return keys.flatMap((key) => differing(before[key], now[key], path === '' ? key : `${path}.${key}`))
  }
  const [a, b] = [JSON.stringify(before), JSON.stringify(now)]
  return a === b ? [] : [{ path, before: a, now: b }]
}

/** The same in words: "train.steps: 40 before, 60 now". */
export const differences = (before: unknown, now: unknown, path = ''): string[] =>
  differing(before, now, path).map(
    ({ path, before = 'absent', now = 'absent' }) => `${path}: ${before} before, ${now} now`,
  )

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

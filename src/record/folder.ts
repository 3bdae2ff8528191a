/**
 * The run folder: opens a new one, or continues one that the same configuration made, and never mixes two. Touches
 * the file system only.
 */
import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { UserError } from '../errors.ts'
import { jsonText, writeFileAtomic } from '../files.ts'
import { isLock, lockFolder } from './lock.ts'
import { isJobFolder } from './plan.ts'
import { kind, type RunRecord } from './schema.ts'
import { settle } from './staged.ts'

export interface RunFolder {
  path: string
  /** experiment.json as it stands. */
  record: () => RunRecord
  /** Changes fields of experiment.json. */
  update: (changes: Partial<RunRecord>) => Promise<void>
  /** Gives the folder's lock back. */
  release: () => void
}

/** Files of a finished run, beside its jobs' folders. */
export const resultFiles = ['results.json', 'table.md', 'post.md', 'report.html'] as const

/** Where metrics are logged for other tools (see log/tensorboard.ts). */
export const logFolder = 'tensorboard'

/** experiment.json of a record. */
export const recordText = (record: RunRecord): string => jsonText(record)

/**
 * Refuses a folder that a run cannot use, and touches nothing: what can be known before the engine is opened.
 *
 * @throws UserError for a folder that holds other things, or whose run was configured otherwise (naming what
 * differs) unless it is to be started afresh.
 */
export async function checkRunFolder(
  path: string,
  record: RunRecord,
  { fresh = false }: { fresh?: boolean } = {},
): Promise<void> {
  const found: string[] = await readdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw refusal(path, error)
  })
  if (!found.includes('experiment.json')) {
    if (found.every((name) => isLock(name) || isScratch(name))) return
    throw new UserError(`${path} already holds other files: choose a new or empty folder with --out.`)
  }
  const earlier = await readRecord(path)
  if (fresh) return
  const changes = differences(earlier.identity, record.identity)
  // The looks that a run may take share its error rate: another number of them would break the promise of the first.
  if (earlier.looks) changes.push(...differences(earlier.looks, record.looks, 'seeds until resolved'))
  if (changes.length > 0) {
    throw new UserError(
      `${path} holds a run with another configuration (${changes.slice(0, 4).join('; ')}` +
        `${changes.length > 4 ? `; ${changes.length - 4} more` : ''}): ` +
        'use another --out, or --fresh to remove that run and start again.',
    )
  }
}

/**
 * Opens `path` for a run: an empty or new folder, or one whose run has an equal identity. With `fresh` an earlier
 * run in it, whatever its configuration, is removed first.
 *
 * @throws UserError as checkRunFolder does, and for a folder that cannot be written or that another process is
 * writing.
 */
export async function openRunFolder(
  path: string,
  record: RunRecord,
  { fresh = false }: { fresh?: boolean } = {},
): Promise<RunFolder> {
  // Before the lock, so that nothing is put into a folder of others; and under it, since a run may have begun.
  await checkRunFolder(path, record, { fresh })
  try {
    await mkdir(path, { recursive: true })
    const release = await lockFolder(path)
    try {
      await settle(path)
      await checkRunFolder(path, record, { fresh })
      if (fresh) await removeRun(path)
      await removeScratch(path)
      const earlier = (await readdir(path)).includes('experiment.json') ? await readRecord(path) : null
      let current: RunRecord = { ...record, history: earlier?.history }
      const update = (changes: Partial<RunRecord>) => {
        current = { ...current, ...changes }
        return writeFileAtomic(join(path, 'experiment.json'), recordText(current))
      }
      await update({})
      return { path, record: () => current, update, release }
    } catch (error) {
      release()
      throw error
    }
  } catch (error) {
    throw refusal(path, error)
  }
}

/** A UserError for what the system says of a path that cannot be written; any other error as it is. */
function refusal(path: string, error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException
  const codes = ['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST', 'ENOENT', 'ENAMETOOLONG']
  if (code === undefined || !codes.includes(code)) return error
  return new UserError(`${path} cannot be written (${code}): choose another folder with --out.`)
}

/** Temporary files that a killed writer left (see writeAtomically and lockFolder). */
function isScratch(name: string): boolean {
  return name.startsWith('.') && name.endsWith('.tmp')
}

/** Removes what a killed writer left half-written in a folder that this process alone writes. */
export async function removeScratch(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    // Another process may be asking for the lock at this moment, and needs its draft.
    if (isScratch(name) && !name.startsWith('.lock.')) await rm(join(folder, name), { force: true })
  }
}

/**
 * What experiment.json of a run folder says.
 *
 * @throws UserError where there is none, or one that this version did not write.
 */
export async function readRecord(path: string): Promise<RunRecord> {
  const file = join(path, 'experiment.json')
  let record: (RunRecord & { kind?: unknown; schemaVersion?: unknown }) | null = null
  try {
    record = JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      throw new UserError(`${path} is no run folder (it has no experiment.json): give the folder of a run.`)
    }
    // Not JSON: not ours, as is anything else without the mark.
    if (!(error instanceof SyntaxError)) throw error
  }
  if (record?.kind !== kind) {
    throw new UserError(`${file} was not written by message-board: choose another folder with --out.`)
  }
  if (record.schemaVersion !== 1) {
    throw new UserError(
      `${file} has schemaVersion ${record.schemaVersion}, and this version reads 1: choose another folder with --out.`,
    )
  }
  return record
}

/** Removes a run's own files, and nothing that a person may have put beside them. */
async function removeRun(path: string): Promise<void> {
  for (const name of await readdir(path)) {
    const ours: readonly string[] = [...resultFiles, logFolder]
    if (isJobFolder(name) || ours.includes(name)) await rm(join(path, name), { recursive: true, force: true })
  }
  // Last, so that a removal cut short is still known as a run.
  await rm(join(path, 'experiment.json'), { force: true })
}

/** Where two plain values differ: "train.steps: 40 before, 60 now". */
export function differences(before: unknown, now: unknown, path = ''): string[] {
  if (isRecord(before) && isRecord(now)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(now)])]
    return keys.flatMap((key) => differences(before[key], now[key], path === '' ? key : `${path}.${key}`))
  }
  const [a, b] = [JSON.stringify(before), JSON.stringify(now)]
  return a === b ? [] : [`${path}: ${a ?? 'absent'} before, ${b ?? 'absent'} now`]
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

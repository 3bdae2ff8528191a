/**
 * A job's folder: its logs, its latest checkpoint, and how far it is. The only reader and writer of them. A job can go on
 * from its folder after a kill at any moment.
 *
 *   progress.json     how far the job is, how long the two logs were then, and the checksums of them and of the
 *                     checkpoint's files: written first of all, and last after each change, whole or not at all
 *   metrics.jsonl     one line for each training step
 *   rollouts.jsonl    one line for each board played
 *   checkpoint-N/     a folder for each trained policy: the adapter and the optimiser's state after step N
 *   error.txt         of a job that failed: the error with its stack
 *
 * Lines beyond the lengths that progress.json names belong to work that was cut short; they are dropped and made
 * again from the same seeds. So a job interrupted anywhere ends with the same lines as one that was not. Whatever else is
 * not as progress.json says is damage: it is named, and nothing is changed.
 */
import type { z } from 'zod'
import { hex, textOf, utf8 } from '../bytes.ts'
import { UserError } from '../errors.ts'
import {
  appendAt,
  type Digest,
  digestFile,
  firstIssue,
  isAbsence,
  isRealFolder,
  jsonText,
  makeFolder,
  readFailure,
  readRegular,
  remove,
  writeFileAtomic,
} from '../files.ts'
import { entries, lstat, readdir } from '../platform/files.ts'
import { type Hash, sha256 } from '../platform/hash.ts'
import { basename, join } from '../platform/path.ts'
import { parseSealed, sealed } from '../sealed.ts'
import { removeScratch } from './folder.ts'
import { Damage, type LogPosition, logStart, readLog } from './lines.ts'
import {
  type MetricsLine,
  metricsSchema,
  type Progress,
  progressSchema,
  type RolloutLine,
  rolloutSchema,
  schemaVersion,
} from './schema.ts'
import { isPlainPath } from './staged.ts'

export const errorFile = 'error.txt'
const progressFile = 'progress.json'
const logs = ['metrics', 'rollouts'] as const
type LogName = (typeof logs)[number]
const logFile = (name: LogName): string => `${name}.jsonl`
const checkpointFolder = (steps: number): string => `checkpoint-${steps}`
const isCheckpointFolder = (name: string): boolean => /^checkpoint-\d+$/.test(name)

/** A job's folder as its writer holds it. */
export interface JobLog {
  readonly folder: string
  progress(): Progress
  /** The folder of the checkpoint after the latest step, or null before the first. */
  checkpoint(): string | null
  /** Keeps one training step; `save` writes its checkpoint into a new folder. `trained`: it was the last. */
  step(
    kept: { metrics: MetricsLine; rollouts: readonly RolloutLine[]; seconds: number; trained: boolean },
    save: (folder: string) => Promise<void>,
  ): Promise<void>
  /** Keeps some held-out problems' boards. */
  evaluated(rollouts: readonly RolloutLine[], seconds: number): Promise<void>
}

/** Everything that a job's folder holds. */
export interface JobRecord {
  progress: Progress
  metrics: MetricsLine[]
  rollouts: RolloutLine[]
}

/** How a job begins. `trains`: whether anything is to be trained. */
export function beginning(trains: boolean): Progress {
  const nothing = hexOf(sha256())
  return {
    schemaVersion,
    steps: 0,
    trained: !trains,
    tokens: { sampled: 0, scored: 0, trained: 0 },
    evaluated: 0,
    bytes: { metrics: 0, rollouts: 0 },
    sha256: { metrics: nothing, rollouts: nothing },
    checkpoint: {},
    seconds: { train: 0, evaluation: 0 },
  }
}

/**
 * How far a job is; undefined where it has not begun. Reads progress.json alone.
 *
 * @throws UserError where it is damaged, and where it is missing beside what a job leaves: then nobody knows how much of
 * that counts, and it is never taken for nothing.
 */
export async function readProgress(folder: string): Promise<Progress | undefined> {
  if (!(await isRealFolder(folder))) return undefined
  const path = join(folder, progressFile)
  const text = await readRegular(path)
  if (text !== undefined) return parseProgress(folder, text)
  for (const name of await namesIn(folder)) {
    const counts =
      isCheckpointFolder(name) || (logs.map(logFile).includes(name) && (await hasBytes(folder, name)))
    if (!counts) continue
    // The job may have begun since it was looked for: its writer makes it before all else.
    const begun = await readRegular(path)
    if (begun !== undefined) return parseProgress(folder, begun)
    throw damaged(folder, path, `it is missing beside ${name}`)
  }
  return undefined
}

/**
 * Opens a job's folder to go on, bringing it back to its last whole state. Needs the run folder's lock.
 *
 * @throws UserError, before anything is changed, where the folder is not what its progress.json says: logs and
 * checkpoint are checked whole.
 */
export async function openJobLog(folder: string, { trains }: { trains: boolean }): Promise<JobLog> {
  await makeFolder(folder)
  const known = await readProgress(folder)
  let progress = known ?? beginning(trains)
  const paths = { metrics: join(folder, logFile('metrics')), rollouts: join(folder, logFile('rollouts')) }
  const checkpointAt = (steps: number) => join(folder, checkpointFolder(steps))
  const read = {
    metrics: await readChecked(folder, 'metrics', progress, () => {}),
    rollouts: await readChecked(folder, 'rollouts', progress, () => {}),
  }
  await checkCheckpoint(folder, progress)

  await removeScratch(folder)
  await remove(join(folder, errorFile))
  for (const name of await namesIn(folder)) {
    if (isCheckpointFolder(name) && name !== checkpointFolder(progress.steps))
      await remove(join(folder, name))
  }
  const keep = async (next: Progress) => {
    await writeFileAtomic(join(folder, progressFile), progressText(basename(folder), next))
    progress = next
  }
  // Before any line: from now on a log without a progress.json is damage.
  if (!known) await keep(progress)
  // What a kill left beyond the progress.
  for (const name of logs)
    if (await hasBytes(folder, logFile(name))) await appendAt(paths[name], progress.bytes[name], '')

  const hashes = { metrics: read.metrics.hash, rollouts: read.rollouts.hash }
  /** Adds lines to the logs, and gives what of the progress follows from that, and what makes it so. */
  async function append(added: Partial<Record<LogName, string>>) {
    const bytes = { ...progress.bytes }
    const digests = { ...progress.sha256 }
    const next = { ...hashes }
    for (const name of logs) {
      const text = added[name]
      if (text === undefined) continue
      bytes[name] = await appendAt(paths[name], bytes[name], text)
      next[name] = hashes[name].copy().update(text)
      digests[name] = hexOf(next[name])
    }
    return { bytes, sha256: digests, kept: () => Object.assign(hashes, next) }
  }

  return {
    folder,
    progress: () => progress,
    checkpoint: () => (progress.steps > 0 ? checkpointAt(progress.steps) : null),
    async step({ metrics, rollouts, seconds, trained }, save) {
      const before = progress.steps
      if (metrics.step !== before + 1) throw new Error(`step ${metrics.step} after step ${before}`)
      const { bytes, sha256, kept } = await append({
        metrics: lineText(metrics, metricsSchema),
        rollouts: linesText(rollouts),
      })
      const target = checkpointAt(metrics.step)
      // Left by a try of this step that failed.
      await remove(target)
      await makeFolder(target)
      await save(target)
      const { tokens } = progress
      await keep({
        ...progress,
        steps: metrics.step,
        trained,
        tokens: {
          sampled: tokens.sampled + metrics.sampledTokens,
          scored: tokens.scored + metrics.scoredTokens,
          trained: tokens.trained + metrics.trainedTokens,
        },
        bytes,
        sha256,
        checkpoint: await digestsIn(target),
        seconds: { ...progress.seconds, train: progress.seconds.train + seconds },
      })
      kept()
      await remove(checkpointAt(before))
    },
    async evaluated(rollouts, seconds) {
      const { bytes, sha256, kept } = await append({ rollouts: linesText(rollouts) })
      await keep({
        ...progress,
        evaluated: progress.evaluated + rollouts.length,
        bytes,
        sha256,
        seconds: { ...progress.seconds, evaluation: progress.seconds.evaluation + seconds },
      })
      kept()
    },
  }
}

/** Keeps the whole story of a failure, for whoever mends it, where that can be written; the next try removes it. */
export async function writeJobError(folder: string, story: string): Promise<void> {
  try {
    await makeFolder(folder)
    if (await isRealFolder(folder)) await writeFileAtomic(join(folder, errorFile), story)
  } catch (error) {
    // What the disk refuses is told by whatever was to be kept, and not by its obituary.
    if (!(error instanceof UserError)) throw error
  }
}

/** What a job must be beside whole. */
export interface Expected {
  /** Ids of the held-out problems, in their order: those evaluated are the first of them. */
  problems?: readonly string[]
  /** Whether the files of the latest checkpoint are checked too. */
  checkpoint?: boolean
}

/**
 * Reads a job back, checked whole.
 *
 * @throws UserError for a job that has not begun or is damaged: it names the file, what is wrong with it, and the folder
 * to delete.
 */
export async function readJob(folder: string, expected: Expected = {}): Promise<JobRecord> {
  const progress = await readProgress(folder)
  if (!progress) throw new UserError(`${folder} holds no job: run it, with the command that made the run.`)
  const metrics: MetricsLine[] = []
  await readChecked(folder, 'metrics', progress, (line) => {
    const parsed = parseLine(line, metricsSchema)
    metrics.push(parsed)
    if (parsed.step !== metrics.length)
      throw new Damage(`step ${parsed.step} stands where ${metrics.length} should`)
  })
  const rollouts: RolloutLine[] = []
  let evaluated = 0
  await readChecked(folder, 'rollouts', progress, (line) => {
    const parsed = parseLine(line, rolloutSchema)
    if (parsed.phase === 'evaluation') {
      const id = expected.problems?.[evaluated]
      if (expected.problems && parsed.problem.id !== id) {
        throw new Damage(`${named(parsed.problem.id)} is evaluated where ${named(id)} should be`)
      }
      evaluated++
    } else {
      const step = rollouts.at(-1)?.step ?? 0
      if (evaluated > 0) throw new Damage('a board of training follows the evaluation')
      if (parsed.step !== step && parsed.step !== step + 1) {
        throw new Damage(`a board of step ${parsed.step} follows step ${step}`)
      }
    }
    rollouts.push(parsed)
  })
  checkCounts(folder, { progress, metrics, rollouts }, evaluated)
  if (expected.checkpoint) await checkCheckpoint(folder, progress)
  return { progress, metrics, rollouts }
}

/** Checks that what the logs hold is as much as the progress counts. */
function checkCounts(folder: string, { progress, metrics, rollouts }: JobRecord, evaluated: number): void {
  const steps = rollouts.findLast(({ phase }) => phase === 'train')?.step ?? 0
  const sum = (key: 'sampledTokens' | 'scoredTokens' | 'trainedTokens') =>
    metrics.reduce((total, line) => total + line[key], 0)
  const counts: [name: LogName, what: string, found: number, counted: number][] = [
    ['metrics', 'steps', metrics.length, progress.steps],
    ['metrics', 'sampled tokens', sum('sampledTokens'), progress.tokens.sampled],
    ['metrics', 'scored tokens', sum('scoredTokens'), progress.tokens.scored],
    ['metrics', 'trained tokens', sum('trainedTokens'), progress.tokens.trained],
    ['rollouts', 'steps', steps, progress.steps],
    ['rollouts', 'evaluated problems', evaluated, progress.evaluated],
  ]
  for (const [name, what, found, counted] of counts) {
    if (found !== counted) {
      throw damaged(
        folder,
        join(folder, logFile(name)),
        `it has ${found} ${what} and progress.json counts ${counted}`,
      )
    }
  }
}

/** The logs of a job with such progress, by their paths in its folder, and how many bytes of each belong to it. */
export const jobLogs = ({ bytes }: Progress): [path: string, bytes: number][] =>
  logs.filter((name) => bytes[name] > 0).map((name) => [logFile(name), bytes[name]])

/** All files that such a job needs. */
export function jobFiles(progress: Progress): string[] {
  const { steps, checkpoint } = progress
  const saved = Object.keys(checkpoint).map((path) => `${checkpointFolder(steps)}/${path}`)
  return [progressFile, ...jobLogs(progress).map(([path]) => path), ...saved]
}

/** Another rollouts.jsonl for a job, and the progress that goes with it: the same lines, graded otherwise. */
export function withRollouts(
  progress: Progress,
  rollouts: readonly RolloutLine[],
): { text: string; progress: Progress } {
  const text = linesText(rollouts)
  const bytes = { ...progress.bytes, rollouts: utf8(text).length }
  const digests = { ...progress.sha256, rollouts: hexOf(sha256().update(text)) }
  return { text, progress: { ...progress, bytes, sha256: digests } }
}

/** progress.json of the job of that name. */
export const progressText = (job: string, progress: Progress): string => jsonText(sealed(job, progress))

function parseProgress(folder: string, text: string): Progress {
  const parsed = parseSealed(basename(folder), text, progressSchema)
  if (parsed.fault === undefined) return parsed.value
  throw damaged(folder, join(folder, progressFile), parsed.fault)
}

/** Reads one of a job's logs up to where its progress says. */
function readChecked(
  folder: string,
  name: LogName,
  progress: Progress,
  take: (line: Uint8Array) => void,
): Promise<LogPosition> {
  return readAdded(folder, name, logStart(), progress, take)
}

/**
 * Reads what was added to one of a job's logs since an earlier reader stopped at `from`, up to where its progress says,
 * and returns how far that is. `take` gets each line's bytes and the byte at which it starts; what it throws as Damage is
 * told with the line's number.
 *
 * @throws UserError for a log that is not what the progress says. Lines may have been taken by then: nothing is to be
 * made of them.
 */
export async function readAdded(
  folder: string,
  name: LogName,
  from: LogPosition,
  { bytes, sha256: digests }: Progress,
  take: (line: Uint8Array, start: number) => void,
): Promise<LogPosition> {
  const path = join(folder, logFile(name))
  try {
    // Also where no byte of it counts: whatever else stands there would be written through.
    await hasBytes(folder, logFile(name))
    return await readLog(path, from, { bytes: bytes[name], sha256: digests[name] }, (line, start, number) => {
      try {
        take(line, start)
      } catch (error) {
        throw error instanceof Damage ? new Damage(`line ${number}: ${error.message}`) : error
      }
    })
  } catch (error) {
    throw error instanceof Damage ? damaged(folder, path, error.message) : error
  }
}

/** A line of a log as a checked value. @throws Damage. */
export function parseLine<T>(line: Uint8Array, schema: z.ZodType<T>): T {
  let value: unknown
  try {
    value = JSON.parse(textOf(line))
  } catch {
    throw new Damage('it is not JSON')
  }
  const parsed = schema.safeParse(value)
  if (!parsed.success) throw new Damage(firstIssue(parsed.error))
  return parsed.data
}

/**
 * A value as a line of a log. It is checked first, and its fields stand in the schema's order: what is kept can be read
 * back, and gives the same line again.
 */
function lineText<T>(value: T, schema: z.ZodType<T>): string {
  const parsed = schema.safeParse(value)
  if (parsed.success) return `${JSON.stringify(parsed.data)}\n`
  throw new UserError(`it gave what no record holds (${firstIssue(parsed.error)})`)
}

const linesText = (rollouts: readonly RolloutLine[]): string =>
  rollouts.map((line) => lineText(line, rolloutSchema)).join('')

/** Checks that the latest checkpoint has all its files, as they were written. */
async function checkCheckpoint(folder: string, { steps, checkpoint }: Progress): Promise<void> {
  if (steps === 0) return
  const root = join(folder, checkpointFolder(steps))
  if (!(await isRealFolder(root))) throw damaged(folder, root, 'it is missing')
  for (const [path, digest] of Object.entries(checkpoint)) {
    if (!isPlainPath(path)) throw damaged(folder, join(folder, progressFile), `it names ${named(path)}`)
    const above = path.split('/').slice(0, -1)
    const isThere = async (depth: number) => isRealFolder(join(root, ...above.slice(0, depth)))
    for (let depth = 1; depth <= above.length; depth++) {
      if (!(await isThere(depth))) throw damaged(folder, join(root, path), 'it is missing')
    }
    const found = await digestFile(join(root, path))
    if (!found) throw damaged(folder, join(root, path), 'it is missing')
    if (found.bytes !== digest.bytes) {
      throw damaged(
        folder,
        join(root, path),
        `it has ${found.bytes} bytes and progress.json counts ${digest.bytes}`,
      )
    }
    if (found.sha256 !== digest.sha256) {
      throw damaged(
        folder,
        join(root, path),
        'it is not what was written: the checksum in progress.json is another',
      )
    }
  }
}

/** The digests of all files in a folder, by their paths in it, sorted. */
async function digestsIn(root: string): Promise<Record<string, Digest>> {
  const paths: string[] = []
  const walk = async (path: string) => {
    for (const entry of await entries(join(root, path))) {
      const inside = path === '' ? entry.name : `${path}/${entry.name}`
      if (entry.isDirectory()) await walk(inside)
      else paths.push(inside)
    }
  }
  await walk('')
  const digests: Record<string, Digest> = {}
  for (const path of paths.sort()) digests[path] = (await digestFile(join(root, path)))!
  return digests
}

/** Whether a file of a job has any bytes. @throws UserError where it is no regular file. */
async function hasBytes(folder: string, name: string): Promise<boolean> {
  const path = join(folder, name)
  try {
    const found = await lstat(path)
    if (found.isFile()) return found.size > 0
  } catch (error) {
    if (isAbsence(error)) return false
    throw readFailure(path, error)
  }
  // Says what it is.
  await readRegular(path)
  return true
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    throw readFailure(folder, error)
  }
}

function damaged(folder: string, path: string, what: string): UserError {
  return new UserError(
    `${path} is damaged (${what}): delete the folder ${folder} to run that job again, or use --fresh for all.`,
  )
}

const named = (id: string | undefined): string => (id === undefined ? 'no problem' : JSON.stringify(id))

const hexOf = (hash: Hash): string => hex(hash.copy().digest())

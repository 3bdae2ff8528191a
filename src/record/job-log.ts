/**
 * A job's folder: its logs, its latest checkpoint, and how far it is. The only reader and writer of them. A job can go on
 * from its folder after a kill at any moment.
 *
 *   metrics.jsonl     one line for each training step
 *   rollouts.jsonl    one line for each board played
 *   checkpoint-N/     a folder for each trained policy: the adapter and the optimiser's state after step N
 *   progress.json     how far the job is, and how long the two logs were then: written last, whole or not at all
 *   error.txt         of a job that failed: the error with its stack
 *
 * Lines beyond the lengths that progress.json names belong to work that was cut short; they are dropped and made
 * again from the same seeds. So a job interrupted anywhere ends with the same lines as one that was not.
 */
import { mkdir, open, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { z } from 'zod'
import { UserError } from '../errors.ts'
import { readJsonFile, writeFileAtomic, writeJsonAtomic } from '../files.ts'
import { removeScratch } from './folder.ts'
import {
  type MetricsLine,
  metricsSchema,
  type Progress,
  progressSchema,
  type RolloutLine,
  rolloutSchema,
  schemaVersion,
} from './schema.ts'

const errorFile = 'error.txt'

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
  return {
    schemaVersion,
    steps: 0,
    trained: !trains,
    tokens: { sampled: 0, scored: 0, trained: 0 },
    evaluated: 0,
    bytes: { metrics: 0, rollouts: 0 },
    seconds: { train: 0, evaluation: 0 },
  }
}

/** How far a job is; undefined where its folder does not say. */
export function readProgress(folder: string): Promise<Progress | undefined> {
  return readJsonFile(join(folder, 'progress.json'), progressSchema, { optional: true })
}

/** Opens a job's folder to go on, bringing it back to its last whole state. Needs the run folder's lock. */
export async function openJobLog(folder: string, { trains }: { trains: boolean }): Promise<JobLog> {
  await mkdir(folder, { recursive: true })
  let progress = (await readProgress(folder)) ?? beginning(trains)
  const paths = { metrics: join(folder, 'metrics.jsonl'), rollouts: join(folder, 'rollouts.jsonl') }
  const checkpointAt = (steps: number) => join(folder, `checkpoint-${steps}`)
  await removeScratch(folder)
  await rm(join(folder, errorFile), { force: true })
  for (const name of await readdir(folder)) {
    if (/^checkpoint-\d+$/.test(name) && name !== `checkpoint-${progress.steps}`) {
      await rm(join(folder, name), { recursive: true, force: true })
    }
  }
  await cut(paths.metrics, progress.bytes.metrics)
  await cut(paths.rollouts, progress.bytes.rollouts)
  const keep = async (next: Progress) => {
    await writeJsonAtomic(join(folder, 'progress.json'), next)
    progress = next
  }
  return {
    folder,
    progress: () => progress,
    checkpoint: () => (progress.steps > 0 ? checkpointAt(progress.steps) : null),
    async step({ metrics, rollouts, seconds, trained }, save) {
      const { tokens, bytes } = progress
      const written = {
        metrics: bytes.metrics + (await append(paths.metrics, [metrics])),
        rollouts: bytes.rollouts + (await append(paths.rollouts, rollouts)),
      }
      await mkdir(checkpointAt(metrics.step), { recursive: true })
      await save(checkpointAt(metrics.step))
      const before = progress.steps
      await keep({
        ...progress,
        steps: metrics.step,
        trained,
        tokens: {
          sampled: tokens.sampled + metrics.sampledTokens,
          scored: tokens.scored + metrics.scoredTokens,
          trained: tokens.trained + metrics.trainedTokens,
        },
        bytes: written,
        seconds: { ...progress.seconds, train: progress.seconds.train + seconds },
      })
      await rm(checkpointAt(before), { recursive: true, force: true })
    },
    async evaluated(rollouts, seconds) {
      const { bytes } = progress
      await keep({
        ...progress,
        evaluated: progress.evaluated + rollouts.length,
        bytes: { ...bytes, rollouts: bytes.rollouts + (await append(paths.rollouts, rollouts)) },
        seconds: { ...progress.seconds, evaluation: progress.seconds.evaluation + seconds },
      })
    },
  }
}

/** Another rollouts.jsonl for a job, and the progress that goes with it: the same lines, graded otherwise. */
export function withRollouts(
  progress: Progress,
  rollouts: readonly RolloutLine[],
): { text: string; progress: Progress } {
  const text = rollouts.map((line) => `${JSON.stringify(line)}\n`).join('')
  return { text, progress: { ...progress, bytes: { ...progress.bytes, rollouts: Buffer.byteLength(text) } } }
}

/** Keeps the whole story of a failure, for whoever mends it; the next try removes it. */
export async function writeJobError(folder: string, story: string): Promise<void> {
  await writeFileAtomic(join(folder, errorFile), story)
}

/** Reads a finished job back. */
export async function readJob(folder: string): Promise<JobRecord> {
  const progress = await readProgress(folder)
  if (!progress) throw damaged(folder, 'it has no progress.json')
  return {
    progress,
    metrics: progress.steps === 0 ? [] : await readLines(join(folder, 'metrics.jsonl'), metricsSchema),
    rollouts: await readLines(join(folder, 'rollouts.jsonl'), rolloutSchema),
  }
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

function damaged(path: string, what: string): UserError {
  return new UserError(
    `${path} is damaged (${what}): delete that job's folder to run the job again, or use --fresh for all.`,
  )
}

async function readLines<T>(path: string, schema: z.ZodType<T>): Promise<T[]> {
  const text = await readFile(path, 'utf8')
  return text
    .split('\n')
    .slice(0, -1)
    .map((row, i) => {
      try {
        return schema.parse(JSON.parse(row))
      } catch {
        throw damaged(path, `line ${i + 1} is not what it should be`)
      }
    })
}

/** The run folder's small files as checked values. Reads only; every name is opened inside the folder. */
import { join } from 'node:path'
import type { z } from 'zod'
import { UserError } from '../errors.ts'
import { type Results, resultsSchema } from '../experiment/results.ts'
import { readInside } from './inside.ts'
import { type ExperimentRecord, experimentSchema, type JobProgress, progressSchema } from './record.ts'

/** Parses a file's text, or throws a UserError that says where it is and what is wrong with it. */
export function parse<T>(text: string, schema: z.ZodType<T>, where: string): T {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw damaged(where, (error as Error).message)
  }
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw damaged(where, `${issue.path.join('.')}: ${issue.message}`)
}

export const damaged = (where: string, what: string): UserError =>
  new UserError(`${where} is damaged (${what}): restore it, or run again with --fresh.`)

/** experiment.json and its text. @throws UserError for a folder that is no run. */
export async function readExperiment(folder: string): Promise<{ text: string; record: ExperimentRecord }> {
  const text = await readInside(folder, ['experiment.json'])
  if (text === null) {
    throw new UserError(`${folder} is no run folder: it has no experiment.json. Give a folder made by run.`)
  }
  return { text, record: parse(text, experimentSchema, join(folder, 'experiment.json')) }
}

const beginning: JobProgress = {
  steps: 0,
  evaluated: 0,
  bytes: { metrics: 0, rollouts: 0 },
  seconds: { train: 0, evaluation: 0 },
}

/** How far a job is; the beginning where its folder is not there yet. */
export async function readProgress(folder: string, job: string): Promise<JobProgress> {
  const text = await readInside(folder, [job, 'progress.json'])
  return text === null ? beginning : parse(text, progressSchema, join(folder, job, 'progress.json'))
}

/** results.json, or null where there is none. */
export async function readResults(folder: string): Promise<Results | null> {
  const text = await readInside(folder, ['results.json'])
  return text === null ? null : parse(text, resultsSchema, join(folder, 'results.json'))
}

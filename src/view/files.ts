/** The run folder's small files as checked values. Reads only; every name is opened inside the folder. */
import { join } from 'node:path'
import type { z } from 'zod'
import { UserError } from '../errors.ts'
import { type Results, resultsSchema } from '../record/results.ts'
import {
  type Progress,
  progressSchema,
  type RunRecord,
  recordSchema,
  schemaVersion,
} from '../record/schema.ts'
import { readInside } from './inside.ts'

/** Parses a file's text, or throws a UserError that says where it is and what is wrong with it. */
export function parse<T>(text: string, schema: z.ZodType<T>, where: string): T {
  const parsed = schema.safeParse(json(text, where))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw damaged(where, `${issue.path.join('.')}: ${issue.message}`)
}

function json(text: string, where: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw damaged(where, (error as Error).message)
  }
}

export const damaged = (where: string, what: string): UserError =>
  new UserError(`${where} is damaged (${what}): restore it, or run again with --fresh.`)

/** experiment.json and its text. @throws UserError for a folder that is no run, or that an older version wrote. */
export async function readExperiment(folder: string): Promise<{ text: string; record: RunRecord }> {
  const text = await readInside(folder, ['experiment.json'])
  if (text === null) {
    throw new UserError(`${folder} is no run folder: it has no experiment.json. Give a folder made by run.`)
  }
  const where = join(folder, 'experiment.json')
  const version = (json(text, where) as { schemaVersion?: unknown } | null)?.schemaVersion
  if (typeof version === 'number' && version < schemaVersion) {
    throw new UserError(
      `${folder} was written by an older message-board (schemaVersion ${version}; this one reads ${schemaVersion}): ` +
        'read its table.md, or run it again.',
    )
  }
  return { text, record: parse(text, recordSchema, where) }
}

/** How far a job is; undefined where its folder is not there yet. */
export async function readProgress(folder: string, job: string): Promise<Progress | undefined> {
  const text = await readInside(folder, [job, 'progress.json'])
  return text === null ? undefined : parse(text, progressSchema, join(folder, job, 'progress.json'))
}

/** results.json, or null where there is none. */
export async function readResults(folder: string): Promise<Results | null> {
  const text = await readInside(folder, ['results.json'])
  return text === null ? null : parse(text, resultsSchema, join(folder, 'results.json'))
}

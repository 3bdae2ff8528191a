/**
 * Tasks from files of rows, JSON Lines or Parquet, in GSM8K's schema, and `parts` where a row has some. Reads the files named, nothing else. Every
 * problem must have a question and a gold answer; a row without says its number and why.
 */

import { z } from 'zod'
import { UserError } from '../errors.ts'
import { readFile } from '../platform/files.ts'
import { basename } from '../platform/path.ts'
import { decodeText } from '../text-file.ts'
import { parseExactJson } from './exact-json.ts'
import { readParquet } from './parquet.ts'
import { checkSizes, splitPools } from './sizes.ts'
import type { Problem, Task } from './types.ts'

export interface FileOptions {
  train: number
  holdout: number
  /** Shuffles the problems before they are taken. */
  seed?: number
}

const text = z.string().trim().min(1)
const rowSchema = z.looseObject({
  question: text,
  gold: z.union([text, z.number()]).nullish(),
  answer: z.union([z.string(), z.number()]).nullish(),
  parts: z.array(text).min(1).nullish(),
})

/** An answer that is a number and nothing else. */
const bareNumber = /^-?\$?\d[\d,]*(\.\d+)?(\/\d+)?%?$/

/** GSM8K's convention: what follows the last `####`, commas removed; or the answer itself where it is a number. */
function goldOf(answer: string): string | null {
  const mark = answer.lastIndexOf('####')
  if (mark < 0) return bareNumber.test(answer.trim()) ? answer.trim().replaceAll(',', '') : null
  const gold = answer
    .slice(mark + 4)
    .trim()
    .replaceAll(',', '')
  return gold === '' ? null : gold
}

/** Question, gold and perhaps parts of a row. `refuse` makes the error for a row that lacks what it needs. */
export function readRow(row: unknown, refuse: (why: string) => Error): Omit<Problem, 'id'> {
  const parsed = rowSchema.safeParse(row)
  if (parsed.error?.issues.some(({ path }) => path[0] === 'parts')) {
    throw refuse('its "parts" must be a list of one or more texts')
  }
  if (!parsed.success || (parsed.data.gold ?? parsed.data.answer ?? null) === null) {
    throw refuse('it needs a "question" and a "gold", or an "answer" that ends in "#### gold"')
  }
  const { question, answer, parts } = parsed.data
  const gold = parsed.data.gold ?? goldOf(String(answer))
  if (gold === null) throw refuse('its "answer" does not end in "#### gold"')
  return { question, ...(parts && { parts }), gold: String(gold) }
}

/** Problems of JSON Lines text; blank lines are skipped. `path` names the file in the ids and the errors. */
export function parseJsonLines(text: string, path: string): Problem[] {
  const problems: Problem[] = []
  text.split('\n').forEach((line, index) => {
    if (line.trim() === '') return
    const refuse = (why: string) =>
      new UserError(`${path}, line ${index + 1}: ${why}. Fix or remove the line.`)
    let value: unknown
    try {
      value = parseExactJson(line)
    } catch (error) {
      throw refuse(`it is not valid JSON (${(error as Error).message})`)
    }
    problems.push({ id: `${basename(path)}:${index + 1}`, ...readRow(value, refuse) })
  })
  return problems
}

/** The bytes of a task file, as text. Throws UserError where it cannot be read or is no UTF-8 text. */
export async function readText(path: string): Promise<string> {
  let bytes: Uint8Array
  try {
    bytes = await readFile(path)
  } catch (error) {
    throw new UserError(
      `Cannot read the task file ${path} (${(error as NodeJS.ErrnoException).code}). Check the path.`,
    )
  }
  return decodeText(bytes, path)
}

/** Problems of a file of rows, by the ending of its name: Parquet, or else JSON Lines. */
export async function readProblems(path: string): Promise<Problem[]> {
  if (path.endsWith('.parquet')) {
    return (await readParquet(path)).map((row, index) => ({
      id: `${basename(path)}:${index + 1}`,
      ...readRow(row, (why) => new UserError(`${path}, row ${index + 1}: ${why}. Fix or remove the row.`)),
    }))
  }
  const text = await readText(path)
  if (text.trim() === '') throw new UserError(`The task file ${path} is empty. Copy or write it again.`)
  return parseJsonLines(text, path)
}

/**
 * Problems of a file of rows, `.parquet` or JSON Lines. Both sets come from it, or the held-out ones from a file of
 * their own with `holdoutPath`.
 */
export function fromFile(path: string, options: FileOptions & { holdoutPath?: string }): Task {
  const { train, holdout, seed = 0, holdoutPath } = options
  checkSizes(options)
  return {
    name: basename(path),
    config: { path, ...(holdoutPath === undefined ? {} : { holdoutPath }), train, holdout, seed },
    async load() {
      const pools = {
        train: await readProblems(path),
        holdout: holdoutPath === undefined ? null : await readProblems(holdoutPath),
      }
      return splitPools(pools, options, seed, holdoutPath === undefined ? path : `${path} or ${holdoutPath}`)
    },
  }
}

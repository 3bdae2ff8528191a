/**
 * Tasks from files: JSON Lines in GSM8K's schema, and SVAMP. Reads the files named, nothing else. Every problem
 * must have a question and a gold answer; a line without says its number and why.
 */
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { UserError } from '../errors.ts'
import { readJsonFile } from '../files.ts'
import { checkSizes, splitPools } from './sizes.ts'
import type { Problem, Task } from './types.ts'

export interface FileOptions {
  train: number
  holdout: number
  /** Shuffles the problems before they are taken. */
  seed?: number
}

const text = z.string().trim().min(1)
const lineSchema = z.looseObject({
  question: text,
  gold: z.union([text, z.number()]).optional(),
  answer: z.string().optional(),
})

/** GSM8K's convention: what follows the last `####`, commas removed; null where there is none. */
function goldOf(answer: string): string | null {
  const mark = answer.lastIndexOf('####')
  const gold = answer
    .slice(mark + 4)
    .trim()
    .replaceAll(',', '')
  return mark < 0 || gold === '' ? null : gold
}

/** Problems of JSON Lines text; blank lines are skipped. `name` begins the ids and, as `path`, the errors. */
export function parseJsonLines(text: string, path: string): Problem[] {
  const problems: Problem[] = []
  text.split('\n').forEach((line, index) => {
    if (line.trim() === '') return
    const refuse = (why: string) =>
      new UserError(`${path}, line ${index + 1}: ${why}. Fix or remove the line.`)
    let value: unknown
    try {
      value = JSON.parse(line)
    } catch (error) {
      throw refuse(`it is not valid JSON (${(error as Error).message})`)
    }
    const parsed = lineSchema.safeParse(value)
    if (!parsed.success || (parsed.data.gold ?? parsed.data.answer) === undefined) {
      throw refuse('it needs a "question" and a "gold", or an "answer" that ends in "#### gold"')
    }
    const { question, answer = '' } = parsed.data
    const gold = parsed.data.gold === undefined ? goldOf(answer) : String(parsed.data.gold)
    if (gold === null) throw refuse('its "answer" does not end in "#### gold"')
    problems.push({ id: `${basename(path)}:${index + 1}`, question, gold })
  })
  return problems
}

async function readJsonLines(path: string): Promise<Problem[]> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    throw new UserError(
      `Cannot read the task file ${path} (${(error as NodeJS.ErrnoException).code}). Check the path.`,
    )
  }
  return parseJsonLines(text, path)
}

/**
 * Problems of a JSON Lines file. Both sets come from it, or the held-out ones from a file of their own with
 * `holdoutPath`.
 */
export function jsonl(path: string, options: FileOptions & { holdoutPath?: string }): Task {
  const { train, holdout, seed = 0, holdoutPath } = options
  checkSizes(options)
  return {
    name: basename(path),
    config: { path, ...(holdoutPath === undefined ? {} : { holdoutPath }), train, holdout, seed },
    async load() {
      const pools = {
        train: await readJsonLines(path),
        holdout: holdoutPath === undefined ? null : await readJsonLines(holdoutPath),
      }
      return splitPools(pools, options, seed, holdoutPath === undefined ? path : `${path} or ${holdoutPath}`)
    },
  }
}

/** GSM8K from a folder with its `train.jsonl` and `test.jsonl`; held-out problems come from the test file. */
export function gsm8k(options: FileOptions & { folder?: string }): Task {
  const { folder = 'data/gsm8k', ...rest } = options
  const task = jsonl(join(folder, 'train.jsonl'), { ...rest, holdoutPath: join(folder, 'test.jsonl') })
  return { ...task, name: 'gsm8k' }
}

const svampSchema = z.array(
  z.looseObject({ ID: z.string(), Body: z.string(), Question: z.string(), Answer: z.number() }),
)

/** SVAMP from its `SVAMP.json`. */
export function svamp(options: FileOptions & { path?: string }): Task {
  const { path = 'data/svamp/SVAMP.json', train, holdout, seed = 0 } = options
  checkSizes(options)
  return {
    name: 'svamp',
    config: { path, train, holdout, seed },
    async load() {
      const rows = await readJsonFile(path, svampSchema)
      const problems = rows.map(({ ID, Body, Question, Answer }) => {
        const body = Body.trim()
        const stop = /[.!?,]$/.test(body) ? '' : '.'
        return { id: ID, question: `${body}${stop} ${Question.trim()}`, gold: String(Answer) }
      })
      return splitPools({ train: problems, holdout: null }, options, seed, path)
    },
  }
}

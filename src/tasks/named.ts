/**
 * The field's problem sets by name: GSM8K, SVAMP and MATH, from the hub and its cache, or from files that lie here.
 * Reads those files, and the network where the cache lacks them. Either source of a set gives the same problems, with
 * the same ids, in the same order.
 */

import { z } from 'zod'
import { UserError } from '../errors.ts'
import { readBoxed } from '../grade/answer.ts'
import { type HubOptions, hubSettings, openRepository } from '../hub/repository.ts'
import { join } from '../platform/path.ts'
import { numberText, parseExactJson } from './exact-json.ts'
import { type FileOptions, readProblems, readRow, readText } from './from-file.ts'
import { readParquet } from './parquet.ts'
import { splitSentences } from './parts.ts'
import { checkSizes, splitPools } from './sizes.ts'
import type { Problem, Task } from './types.ts'

/**
 * `sentences` deals a question's sentences to the seats as parts: each writer sees some of them, and the last one,
 * which asks. Problems of one sentence are left out: there is nothing to deal.
 */
export interface SplitOption {
  split?: 'sentences'
}

/** The problems with their sentences dealt, those of one sentence left out; or as they are without `split`. */
function dealt(problems: readonly Problem[], split: SplitOption['split']): Problem[] {
  if (split === undefined) return [...problems]
  return problems.flatMap((problem) => splitSentences(problem) ?? [])
}

function checkSplit(split: unknown): void {
  if (split !== undefined && split !== 'sentences') {
    throw new UserError(`split is ${JSON.stringify(split)}: give 'sentences' or leave it out.`)
  }
}

/** How the hub is reached; as Python's tools reach it when left out. */
type Hub = { hub?: HubOptions }

/** A set of the hub: the repository, and the revision that holds it. */
interface Source {
  name: string
  revision: string
}

const sources = {
  gsm8k: { name: 'openai/gsm8k', revision: 'main' },
  // That repository's own files have changed their form: the hub's conversion has one form for all.
  svamp: { name: 'ChilleD/SVAMP', revision: 'refs/convert/parquet' },
  math: { name: 'EleutherAI/hendrycks_math', revision: 'main' },
  math500: { name: 'HuggingFaceH4/MATH-500', revision: 'main' },
} satisfies Record<string, Source>

const describe = ({ name, revision }: Source) => `${name}@${revision}`

/**
 * Rows of the files of a set whose paths match, in the order of their paths; with their ordinal from 1.
 *
 * @throws UserError where the set cannot be had, or has no such file.
 */
async function hubRows(source: Source, pattern: RegExp, hub: HubOptions): Promise<Record<string, unknown>[]> {
  const repository = await openRepository({ type: 'dataset', ...source }, hub)
  const paths = repository.files.map(({ path }) => path).filter((path) => pattern.test(path))
  if (paths.length === 0) {
    throw new UserError(
      `${describe(source)} has no file like ${pattern.source} here: run again with a network or name a file of your own.`,
    )
  }
  const parts: Record<string, unknown>[][] = []
  for (const path of paths.sort()) {
    const file = await repository.fetch(path)
    parts.push(path.endsWith('.parquet') ? await readParquet(file) : await readJsonl(file))
  }
  return parts.flat()
}

async function readJsonl(path: string): Promise<Record<string, unknown>[]> {
  const lines = (await readText(path)).split('\n').filter((line) => line.trim() !== '')
  try {
    return lines.map((line) => parseExactJson(line) as Record<string, unknown>)
  } catch (error) {
    throw new UserError(`${path} is not JSON Lines (${(error as Error).message}). Delete it and run again.`)
  }
}

const reach = async (hub: HubOptions | undefined): Promise<HubOptions> =>
  hub ?? { settings: await hubSettings() }

/** Fits each row of a set, or says which one does not. `name` names the set in errors. */
function checkedRows<T>(rows: readonly unknown[], schema: z.ZodType<T>, name: string): T[] {
  return rows.map((row, index) => {
    const parsed = schema.safeParse(row)
    if (parsed.success) return parsed.data
    const [issue] = parsed.error.issues
    throw new UserError(
      `Row ${index + 1} of ${name} is not as it was (${issue.path.join('.')}: ${issue.message}): ` +
        'name a file of your own.',
    )
  })
}

/**
 * GSM8K (Cobbe et al., arXiv:2110.14168): training problems from its training split, held-out ones from its test
 * split. From the hub, or from `folder` with `train.jsonl` and `test.jsonl`.
 */
export function gsm8k(options: FileOptions & Hub & SplitOption & { folder?: string }): Task {
  const { folder, train, holdout, seed = 0, split: by } = options
  checkSizes(options)
  checkSplit(by)
  const { gsm8k: source } = sources
  const read = async (split: 'train' | 'test'): Promise<Problem[]> => {
    const problems =
      folder === undefined
        ? (await hubRows(source, new RegExp(`^main/${split}-.*\\.parquet$`), await reach(options.hub))).map(
            (row, i) =>
              readRow(
                row,
                (why) => new UserError(`Row ${i + 1} of ${describe(source)} is not as it was: ${why}.`),
              ),
          )
        : await readProblems(join(folder, `${split}.jsonl`))
    return dealt(
      problems.map((problem, i) => ({ ...problem, id: `gsm8k-${split}-${i + 1}` })),
      by,
    )
  }
  return {
    name: 'gsm8k',
    config: { from: folder ?? describe(source), ...(by && { split: by }), train, holdout, seed },
    async load() {
      const pools = { train: await read('train'), holdout: await read('test') }
      return splitPools(pools, options, seed, folder ?? describe(source))
    },
  }
}

const svampSchema = z.object({
  ID: z.string(),
  Body: z.string(),
  Question: z.string(),
  Answer: z
    .union([z.number(), z.string().regex(/^-?\d+(\.\d+)?$/)])
    .transform((answer) => numberText(String(answer))),
})

/** A row's question: the story, ended by a stop where it has none, and what is asked of it. */
export function svampQuestion({ Body, Question }: { Body: string; Question: string }): string {
  const body = Body.trim()
  return `${body}${/[.!?,]$/.test(body) ? '' : '.'} ${Question.trim()}`
}

/** The rows of an original `SVAMP.json`: one JSON list. */
async function readSvamp(path: string): Promise<unknown[]> {
  const text = await readText(path)
  let rows: unknown
  try {
    rows = parseExactJson(text)
  } catch (error) {
    throw new UserError(`${path} is not valid JSON (${(error as Error).message}). Fix or replace the file.`)
  }
  if (!Array.isArray(rows)) throw new UserError(`${path} is no list of problems. Fix or replace the file.`)
  return rows
}

/**
 * SVAMP (Patel et al., arXiv:2103.07191): both sets from its 1,000 problems, since its training problems are another
 * collection's. From the hub, or from its `SVAMP.json` at `path`.
 */
export function svamp(options: FileOptions & Hub & SplitOption & { path?: string }): Task {
  const { path, train, holdout, seed = 0, split } = options
  checkSizes(options)
  checkSplit(split)
  const { svamp: source } = sources
  const ordinal = ({ ID }: { ID: string }) => Number(/\d+$/.exec(ID)?.[0] ?? 0)
  return {
    name: 'svamp',
    config: { from: path ?? describe(source), ...(split && { split }), train, holdout, seed },
    async load() {
      const raw =
        path === undefined
          ? await hubRows(source, /^default\/(train|test)\/.*\.parquet$/, await reach(options.hub))
          : await readSvamp(path)
      const rows = checkedRows(raw, svampSchema, path ?? describe(source))
      // The hub's copy is dealt into two files: by number it is the original's order.
      const problems = [...rows]
        .sort((a, b) => ordinal(a) - ordinal(b))
        .map((row) => ({ id: row.ID, question: svampQuestion(row), gold: row.Answer }))
      return splitPools(
        { train: dealt(problems, split), holdout: null },
        options,
        seed,
        path ?? describe(source),
      )
    },
  }
}

const levelSchema = z.coerce.string().transform((level) => Number(/\d/.exec(level)?.[0] ?? Number.NaN))
const mathSchema = z.object({ problem: z.string(), solution: z.string(), level: levelSchema })
const math500Schema = z.object({
  problem: z.string(),
  answer: z.string(),
  level: levelSchema,
  unique_id: z.string(),
})

/**
 * MATH (Hendrycks et al., arXiv:2103.03874): training problems from its training split, held-out ones from MATH-500
 * (Lightman et al., arXiv:2305.20050), which is of its test split; both of the levels asked for, of 1 to 5. The gold of
 * a training problem is its solution's last box; a problem without one is left out. From the hub.
 */
export function math(options: FileOptions & Hub & { levels?: readonly number[] }): Task {
  const { train, holdout, seed = 0, levels = [1, 2, 3, 4, 5] } = options
  checkSizes(options)
  const known = [1, 2, 3, 4, 5]
  if (levels.length === 0 || levels.some((level) => !known.includes(level))) {
    throw new UserError(`levels is [${levels.join(', ')}]: give some of ${known.join(', ')}.`)
  }
  const asked = ({ level }: { level: number }) => levels.includes(level)
  return {
    name: 'math',
    config: {
      from: `${describe(sources.math)} and ${describe(sources.math500)}`,
      levels: [...levels].sort().join(','),
      train,
      holdout,
      seed,
    },
    async load() {
      const hub = await reach(options.hub)
      const trainRows = checkedRows(
        await hubRows(sources.math, /^[a-z_]+\/train-.*\.parquet$/, hub),
        mathSchema,
        describe(sources.math),
      )
      const testRows = checkedRows(
        await hubRows(sources.math500, /^test\.jsonl$/, hub),
        math500Schema,
        describe(sources.math500),
      )
      const pools = {
        train: trainRows
          .map((row, i) => ({ ...row, id: `math-train-${i + 1}`, gold: readBoxed(row.solution) }))
          .filter(asked)
          .flatMap(({ id, problem, gold }) => (gold === null ? [] : [{ id, question: problem, gold }])),
        holdout: testRows
          .filter(asked)
          .map(({ unique_id, problem, answer }) => ({ id: unique_id, question: problem, gold: answer })),
      }
      const named = `MATH at levels ${[...levels].sort().join(', ')}`
      return splitPools(pools, options, seed, named)
    },
  }
}

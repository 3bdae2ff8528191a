/**
 * A file of answers, one JSON line under each key: what was paid for once is kept, whatever ends the process, and is
 * looked up instead of asked for again. Touches that file only.
 */
import { type FileHandle, mkdir, open, readFile, truncate } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { z } from 'zod'
import { UserError } from './errors.ts'
import { decodeText } from './text-file.ts'

export interface KeyedLines<Line> {
  get(key: string): Line | undefined
  /** Keeps a line; one write each, so lines added at the same time do not mix. */
  add(line: Line): Promise<void>
  close(): Promise<void>
}

/**
 * Opens the file, making it and its folder; null keeps lines in memory alone. A last line that was cut short is removed.
 *
 * @throws UserError for a file that cannot be used, naming it and the line.
 */
export async function openKeyedLines<Line extends { key: string }>(
  path: string | null,
  schema: z.ZodType<Line>,
): Promise<KeyedLines<Line>> {
  const lines = path === null ? [] : await readLines(path, schema)
  const known = new Map(lines.map((line) => [line.key, line]))
  const file = path === null ? null : await openToAppend(path)
  return {
    get: (key) => known.get(key),
    async add(line) {
      await file?.appendFile(`${JSON.stringify(line)}\n`)
      known.set(line.key, line)
    },
    async close() {
      await file?.close()
    },
  }
}

async function openToAppend(path: string): Promise<FileHandle> {
  try {
    await mkdir(dirname(path), { recursive: true })
    return await open(path, 'a')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new UserError(`Cannot write the answers to ${path} (${code}): choose another --out.`)
  }
}

async function readLines<Line>(path: string, schema: z.ZodType<Line>): Promise<Line[]> {
  let bytes: Buffer
  try {
    bytes = await readFile(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return []
    throw new UserError(`Cannot read the answers in ${path} (${code}): choose another --out.`)
  }
  const whole = bytes.lastIndexOf(0x0a) + 1
  const lines = decodeText(bytes.subarray(0, whole), path).split('\n').slice(0, -1)
  const answers = lines.map((text, i) => {
    try {
      return schema.parse(JSON.parse(text))
    } catch {
      throw new UserError(`Line ${i + 1} of ${path} is no answer: delete that line or choose another --out.`)
    }
  })
  // Only once all else is known to be good is anything taken away.
  if (whole < bytes.length) await truncate(path, whole)
  return answers
}

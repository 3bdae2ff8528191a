/**
 * Files that are whole or absent, and JSON that is what it should be: what the project's readers and writers go
 * through, so that a kill at any moment leaves the old file or the new one and never half of either. Touches the
 * file system only.
 */

import { randomUUID } from 'node:crypto'
import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { z } from 'zod'
import { UserError } from './errors.ts'

/**
 * Makes `path` hold what `write` puts into a fresh file handle: a temporary file in the same folder (a rename is
 * atomic only within one file system), flushed to the disk, then renamed over `path`. The folder must exist.
 * If anything throws, `path` is untouched and the temporary file is removed.
 */
export async function writeAtomically(
  path: string,
  write: (file: FileHandle) => Promise<void>,
): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomUUID()}.tmp`)
  const file = await open(temporary, 'wx')
  try {
    try {
      await write(file)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  await syncFolder(dirname(path))
}

/** Writes a whole file (text as UTF-8), or nothing. */
export function writeFileAtomic(path: string, data: string | Uint8Array): Promise<void> {
  return writeAtomically(path, (file) => file.writeFile(data))
}

/** Writes a value as indented JSON ending in a newline, whole or not at all. */
export function writeJsonAtomic(path: string, value: unknown): Promise<void> {
  return writeFileAtomic(path, jsonText(value))
}

/** A value as such a file holds it. */
export const jsonText = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

/**
 * Reads a JSON file that must fit `schema`. A missing file is `undefined` when `optional`; otherwise a missing
 * file, broken JSON or a value that does not fit throws a UserError that names the file and the field.
 */
export async function readJsonFile<T>(path: string, schema: z.ZodType<T>): Promise<T>
export async function readJsonFile<T>(
  path: string,
  schema: z.ZodType<T>,
  options: { optional: true },
): Promise<T | undefined>
export async function readJsonFile<T>(
  path: string,
  schema: z.ZodType<T>,
  options?: { optional: true },
): Promise<T | undefined> {
  const text = await readTextFile(path, options)
  if (text === undefined) return undefined
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new UserError(`${path} is not valid JSON (${(error as Error).message}). Fix or replace the file.`)
  }
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const field = issue.path.length > 0 ? `field '${issue.path.join('.')}': ` : ''
  throw new UserError(
    `${path} does not hold what it should (${field}${issue.message}). Fix or replace the file.`,
  )
}

/** Bytes of the longest text that is read in one piece; the largest tokenizers take 35 MB. */
const LONGEST_TEXT = 3 << 24

/**
 * Reads a file of UTF-8 text, without a byte-order mark. A missing file is `undefined` when `optional`; one that is
 * missing otherwise, empty, too long, no text, or no file at all throws a UserError that says so.
 */
export async function readTextFile(
  path: string,
  { optional = false }: { optional?: boolean } = {},
): Promise<string | undefined> {
  let bytes: Uint8Array
  try {
    const found = await stat(path)
    // A pipe would be waited for, a device read without end.
    if (!found.isFile() && !found.isDirectory()) {
      throw new UserError(`${path} is a pipe or a device. Name a file.`)
    }
    if (found.size > LONGEST_TEXT) {
      throw new UserError(
        `${path} has ${found.size} bytes, more than the ${LONGEST_TEXT} of any such file. Check that it is the right one.`,
      )
    }
    bytes = await readFile(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    if (optional && code === 'ENOENT') return undefined
    throw new UserError(`Cannot read ${path} (${code}). Check the path.`)
  }
  if (bytes.length === 0) throw new UserError(`${path} is empty. Copy or download it again.`)
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new UserError(`${path} is no UTF-8 text. Save it as UTF-8, or copy it again.`)
  }
  if (text.startsWith(lfsPointer)) {
    throw new UserError(
      `${path} is a Git LFS pointer, not the file itself. Run 'git lfs pull' where it comes from.`,
    )
  }
  return text
}

/** What Git leaves in a large file's place where it was told not to fetch it, or cannot. */
export const lfsPointer = 'version https://git-lfs'

/** A rename is durable once its folder is flushed too; some systems cannot open a folder, and need no flush. */
async function syncFolder(folder: string): Promise<void> {
  let handle: FileHandle
  try {
    handle = await open(folder, 'r')
  } catch {
    return
  }
  try {
    await handle.sync()
  } catch {
    // Windows and some network file systems refuse to flush a folder: the rename stands all the same.
  } finally {
    await handle.close()
  }
}

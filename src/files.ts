/**
 * Files that are whole or absent, and JSON that is what it should be: the one door through which the project writes and
 * reads files, so that a kill at any moment leaves the old file or the new one and never half of either, and whatever
 * the system refuses is said in one sentence. Touches the file system only.
 */

import type { z } from 'zod'
import { hex, textOf, utf8 } from './bytes.ts'
import { UserError } from './errors.ts'
import {
  constants,
  type FileHandle,
  type FileStats,
  lstat,
  mkdir,
  open,
  readFile,
  rename,
  rm,
  stat,
  systemReason,
} from './platform/files.ts'
import { sha256 } from './platform/hash.ts'
import { basename, dirname, join } from './platform/path.ts'
import { decodeText } from './text-file.ts'

/** What to do where the system refuses to write, by its code. */
const remedies: Readonly<Record<string, string>> = {
  ENOSPC: 'free some space on that disk and give the same command again',
  EDQUOT: 'free some space within your quota and give the same command again',
  EFBIG: 'choose a file system that holds larger files',
  EROFS: 'choose a folder of another disk',
  EACCES: 'choose a folder that can be written',
  EPERM: 'choose a folder that can be written',
  EISDIR: 'remove what stands in its place',
  ENOTDIR: 'choose a path whose folders are no files',
  EEXIST: 'choose a path where nothing else stands',
  ENOTEMPTY: 'remove what stands in its place',
  ENOENT: 'choose a folder that is there',
  ENAMETOOLONG: 'choose a shorter path',
  ELOOP: 'remove the symbolic link in its place',
  ENXIO: 'remove what stands in its place',
  EMFILE: 'raise the limit of open files (ulimit -n) and give the same command again',
  ENFILE: 'close other programs and give the same command again',
  EINVAL: 'choose another --out',
  EIO: 'check that disk, or choose a folder of another',
}

/** The system's short name of what went wrong, such as ENOENT; undefined where the error is not the system's. */
export const codeOf = (error: unknown): string | undefined =>
  (error as { code?: string } | null | undefined)?.code

/** What the system says in an error, or null where the error is not the system's. */
function reasonOf(error: unknown): { code: string; reason: string } | null {
  const code = codeOf(error)
  if (error instanceof UserError || code === undefined) return null
  if (code === 'ERR_INVALID_ARG_VALUE') return { code: 'EINVAL', reason: 'no path may hold a zero byte' }
  const reason = systemReason(error)
  return reason === null ? null : { code, reason }
}

/** A UserError for what the system says of a path that cannot be written; any other error as it is. */
export function writeFailure(path: string, error: unknown): unknown {
  const found = reasonOf(error)
  if (!found) return error
  const remedy = remedies[found.code] ?? 'check that path and give the same command again'
  return new UserError(`${path} cannot be written (${found.reason}): ${remedy}.`, { cause: error })
}

/** A UserError for what the system says of a path that cannot be read; any other error as it is. */
export function readFailure(path: string, error: unknown): unknown {
  const found = reasonOf(error)
  if (!found) return error
  return new UserError(`${path} cannot be read (${found.reason}): check its permissions and that disk.`, {
    cause: error,
  })
}

/**
 * Makes `path` hold what `write` puts into a fresh file handle: a temporary file in the same folder (a rename is
 * atomic only within one file system), flushed to the disk, then renamed over `path`. The folder must exist.
 * If anything throws, `path` is untouched and the temporary file is removed.
 *
 * @throws UserError for a path that cannot be written, and whatever `write` throws.
 */
export async function writeAtomically(
  path: string,
  write: (file: FileHandle) => Promise<void>,
): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${crypto.randomUUID()}.tmp`)
  try {
    const file = await open(temporary, 'wx')
    try {
      await write(file)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    // On a full or vanished disk this may fail too: the first reason is the one to tell.
    await rm(temporary, { force: true }).catch(() => {})
    throw writeFailure(path, error)
  }
  await syncFolder(dirname(path))
}

/**
 * Makes the file at `path` hold its first `length` bytes and then `added` (text as UTF-8), flushed to the disk, and returns
 * its new length; a file that is not there is made. What a cut write left beyond `length` goes. If anything throws, the first
 * `length` bytes are untouched and nothing follows them, as far as the system allows.
 *
 * @throws UserError for a path that cannot be written, that is no regular file, or that is shorter than `length`.
 */
export async function appendAt(path: string, length: number, added: string | Uint8Array): Promise<number> {
  const bytes = typeof added === 'string' ? utf8(added) : added
  try {
    const file = await openRegular(path, constants.O_WRONLY | constants.O_CREAT)
    try {
      const { size } = await file.stat()
      if (size < length) {
        throw new UserError(
          `${path} was cut to ${size} bytes by another program while it was written (it had ${length}): ` +
            'find what changes it before you give the same command again.',
        )
      }
      if (size > length) await file.truncate(length)
      try {
        // A write may take less than it is given: each is asked for what is left.
        for (let done = 0; done < bytes.length; ) {
          done += (await file.write(bytes, done, bytes.length - done, length + done)).bytesWritten
        }
        await file.sync()
      } catch (error) {
        await file.truncate(length).catch(() => {})
        throw error
      }
    } finally {
      await file.close()
    }
  } catch (error) {
    throw writeFailure(path, error)
  }
  return length + bytes.length
}

/** Makes a folder, and those above it. @throws UserError where it cannot be made. */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path)
  } catch (error) {
    throw writeFailure(path, error)
  }
}

/** Removes a file, or a folder with all in it, if it is there; of a symbolic link, the link. @throws UserError. */
export async function remove(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true })
  } catch (error) {
    throw writeFailure(path, error)
  }
}

/**
 * Opens a regular file that is no symbolic link. Never waits, as opening a named pipe would.
 *
 * @throws UserError where something else stands in its place, and the system's own error for everything else.
 */
export async function openRegular(path: string, flags: number = constants.O_RDONLY): Promise<FileHandle> {
  const { O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants
  let file: FileHandle
  try {
    file = await open(path, flags | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    const found = await lstat(path).catch(() => null)
    if (found && !found.isFile()) throw misplaced(path, found, 'a file')
    throw error
  }
  const found = await file.stat()
  if (found.isFile()) return file
  await file.close()
  throw misplaced(path, found, 'a file')
}

/**
 * Whether a folder is at `path`.
 *
 * @throws UserError where something else is, a symbolic link to a folder included.
 */
export async function isRealFolder(path: string): Promise<boolean> {
  let found: FileStats
  try {
    found = await lstat(path)
  } catch (error) {
    if (isAbsence(error)) return false
    throw readFailure(path, error)
  }
  if (found.isDirectory()) return true
  throw misplaced(path, found, 'a folder')
}

function misplaced(path: string, found: FileStats, expected: string): UserError {
  const kind = found.isDirectory()
    ? 'a folder'
    : found.isSymbolicLink()
      ? 'a symbolic link'
      : found.isFIFO()
        ? 'a named pipe'
        : found.isFile()
          ? 'a file'
          : 'a device or a socket'
  return new UserError(`${path} is ${kind} where ${expected} should be: remove it, or put ${expected} there.`)
}

/** Whether the system says that there is nothing at a path. */
export const isAbsence = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes(codeOf(error) ?? '')

/** Longest file that is read whole, in bytes: what a string holds. */
const longestText = 2 ** 29 - 2 ** 10

/**
 * The text of a regular file that is no symbolic link, or undefined where there is none. Never waits.
 *
 * @throws UserError where something else is in its place, or it cannot be read.
 */
export async function readRegular(path: string): Promise<string | undefined> {
  let file: FileHandle | undefined
  try {
    file = await openRegular(path)
    const { size } = await file.stat()
    if (size > longestText) {
      throw new UserError(`${path} has ${size} bytes, and at most ${longestText} are read: replace the file.`)
    }
    return textOf(await file.readFile())
  } catch (error) {
    if (isAbsence(error)) return undefined
    throw readFailure(path, error)
  } finally {
    await file?.close()
  }
}

/** What a file's bytes are known by. */
export interface Digest {
  bytes: number
  sha256: string
}

/**
 * The digest of a regular file that is no symbolic link, or undefined where there is none; in memory for a part at a time.
 *
 * @throws UserError where something else is in its place, or it cannot be read.
 */
export async function digestFile(path: string): Promise<Digest | undefined> {
  const hash = sha256()
  let bytes = 0
  try {
    const file = await openRegular(path)
    try {
      const buffer = new Uint8Array(1 << 20)
      for (;;) {
        const { bytesRead } = await file.read(buffer, 0, buffer.length, null)
        if (bytesRead === 0) break
        hash.update(buffer.subarray(0, bytesRead))
        bytes += bytesRead
      }
    } finally {
      await file.close()
    }
  } catch (error) {
    if (isAbsence(error)) return undefined
    throw readFailure(path, error)
  }
  return { bytes, sha256: hex(hash.digest()) }
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
  return readJson(text, schema, path)
}

/** The value of the text of such a file, which came from `path`. @throws UserError as readJsonFile does. */
export function readJson<T>(text: string, schema: z.ZodType<T>, path: string): T {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    // Node quotes the text, whatever is in it.
    const why = (error as Error).message.replace(/\p{Cc}+/gu, ' ')
    throw new UserError(`${path} is not valid JSON (${why}). Fix or replace the file.`)
  }
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new UserError(
    `${path} does not hold what it should (${firstIssue(parsed.error)}). Fix or replace the file.`,
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
    const code = codeOf(error)
    if (code === undefined) throw error
    if (optional && code === 'ENOENT') return undefined
    throw new UserError(`Cannot read ${path} (${code}). Check the path.`)
  }
  if (bytes.length === 0) throw new UserError(`${path} is empty. Copy or download it again.`)
  const text = decodeText(bytes, path)
  if (text.startsWith(lfsPointer)) {
    throw new UserError(
      `${path} is a Git LFS pointer, not the file itself. Run 'git lfs pull' where it comes from.`,
    )
  }
  return text
}

/** What Git leaves in a large file's place where it was told not to fetch it, or cannot. */
export const lfsPointer = 'version https://git-lfs'

/** Where a value does not fit, and how. */
export function firstIssue({ issues: [{ path, message }] }: z.ZodError): string {
  return path.length > 0 ? `field '${path.join('.')}': ${message}` : message
}

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

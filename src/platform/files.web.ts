/**
 * Files of a browser: the private file system of the page's origin (OPFS), which outlives the tab; where there is none, the
 * thread's memory. The root of paths is a folder of the project's own. Errors are by the system's codes, as Node has them.
 *
 * In a worker a file is written in place; elsewhere by a stream, which a browser puts in the file's place as a whole when it
 * is closed. There are no links, no pipes and no rights.
 */
import { concat, utf8 } from '../bytes.ts'
import type { FileHandle, FileStats, FolderEntry } from './files.ts'
import type { Folder, Stored } from './folder.web.ts'
import { memoryFolder } from './memory-folder.web.ts'
import { basename, dirname, join } from './path.web.ts'

export const constants = { O_RDONLY: 0, O_WRONLY: 1, O_CREAT: 64, O_NOFOLLOW: 0, O_NONBLOCK: 0 }

/** What the system would say. */
const sayings: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or directory',
  ENOTDIR: 'not a directory',
  EISDIR: 'illegal operation on a directory',
  EEXIST: 'file already exists',
  ENOTEMPTY: 'directory not empty',
  ENOSPC: 'no space left for this page',
  EBUSY: 'another tab or worker is writing it',
}

class FileError extends Error {
  readonly code: string
  constructor(code: string, path: string, cause?: unknown) {
    super(`${code}: ${sayings[code]}, ${path}`, { cause })
    this.code = code
  }
}

export function systemReason(error: unknown): string | null {
  return error instanceof FileError ? `${error.code}: ${sayings[error.code]}` : null
}

/** The codes of what browsers throw. */
const codes: Readonly<Record<string, string>> = {
  NotFoundError: 'ENOENT',
  TypeMismatchError: 'ENOTDIR',
  QuotaExceededError: 'ENOSPC',
  NoModificationAllowedError: 'EBUSY',
  InvalidModificationError: 'ENOTEMPTY',
}

/** Does something to a path, and names by its code whatever the browser refuses. */
async function coded<T>(path: string, perform: () => Promise<T>, mismatch = 'ENOTDIR'): Promise<T> {
  try {
    return await perform()
  } catch (error) {
    const code = codes[(error as Error).name]
    if (code === undefined) throw error
    throw new FileError(code === 'ENOTDIR' ? mismatch : code, path, error)
  }
}

let opened: Promise<Folder> | undefined

/** The folder that paths begin at. */
function root(): Promise<Folder> {
  opened ??= openRoot()
  return opened
}

async function openRoot(): Promise<Folder> {
  try {
    const origin = (await navigator.storage.getDirectory()) as unknown as Folder
    return await origin.getDirectoryHandle('message-board', { create: true })
  } catch {
    // No secure context, or a window that keeps nothing.
    return memoryFolder()
  }
}

const namesOf = (path: string): string[] =>
  join('/', path)
    .split('/')
    .filter((name) => name !== '')

async function folderAt(path: string, create = false): Promise<Folder> {
  let folder = await root()
  for (const name of namesOf(path)) folder = await folder.getDirectoryHandle(name, { create })
  return folder
}

async function fileAt(path: string, create = false): Promise<Stored> {
  const above = await coded(path, () => folderAt(dirname(join('/', path))))
  return coded(path, () => above.getFileHandle(basename(path), { create }), 'EISDIR')
}

async function find(path: string): Promise<Folder | Stored> {
  if (namesOf(path).length === 0) return root()
  const above = await folderAt(dirname(join('/', path)))
  try {
    return await above.getFileHandle(basename(path))
  } catch (error) {
    if ((error as Error).name !== 'TypeMismatchError') throw error
    return above.getDirectoryHandle(basename(path))
  }
}

async function statsOf(found: Folder | Stored): Promise<FileStats> {
  const file = found.kind === 'file' ? await found.getFile() : { size: 0, lastModified: 0 }
  return {
    size: file.size,
    mtimeMs: file.lastModified,
    isFile: () => found.kind === 'file',
    isDirectory: () => found.kind === 'directory',
    isSymbolicLink: () => false,
    isFIFO: () => false,
  }
}

export const stat = (path: string): Promise<FileStats> => coded(path, async () => statsOf(await find(path)))
export const lstat = stat
export const realpath = (path: string): Promise<string> =>
  coded(path, async () => {
    await find(path)
    return join('/', path)
  })

export async function mkdir(path: string): Promise<void> {
  await coded(path, () => folderAt(path, true), 'EEXIST')
}

export async function entries(path: string): Promise<FolderEntry[]> {
  return coded(path, async () => {
    const found: FolderEntry[] = []
    for await (const [name, { kind }] of (await folderAt(path)).entries())
      found.push({ name, isFile: () => kind === 'file', isDirectory: () => kind === 'directory' })
    return found
  })
}

export const readdir = async (path: string): Promise<string[]> =>
  (await entries(path)).map(({ name }) => name)

export async function rm(
  path: string,
  { recursive = false, force = false }: { recursive?: boolean; force?: boolean },
): Promise<void> {
  try {
    await coded(path, async () => {
      const above = await folderAt(dirname(join('/', path)))
      await above.removeEntry(basename(path), { recursive })
    })
  } catch (error) {
    if (!force || !['ENOENT', 'ENOTDIR'].includes((error as FileError).code)) throw error
  }
}

export function discard(path: string): void {
  rm(path, { force: true }).catch(() => {})
}

export async function readFile(path: string): Promise<Uint8Array> {
  return bytesOf(await (await fileAt(path)).getFile())
}

const bytesOf = async (blob: Blob): Promise<Uint8Array<ArrayBuffer>> =>
  new Uint8Array(await blob.arrayBuffer())

/** Files alone, into the place of what is there. */
export async function rename(from: string, to: string): Promise<void> {
  await coded(from, async () => {
    const file = await fileAt(from)
    if (file.move === undefined) {
      await copyFile(from, to)
      return rm(from, {})
    }
    await file.move(await folderAt(dirname(join('/', to))), basename(to))
  })
}

export async function copyFile(from: string, to: string): Promise<void> {
  const bytes = await readFile(from)
  const file = await open(to, constants.O_WRONLY | constants.O_CREAT)
  try {
    await file.truncate(0)
    await file.writeFile(bytes)
  } finally {
    await file.close()
  }
}

export async function open(path: string, flags: number | 'r' | 'wx'): Promise<FileHandle> {
  if (flags === 'r' || flags === constants.O_RDONLY) return openToRead(path)
  const create = flags === 'wx' || (flags & constants.O_CREAT) !== 0
  if (flags === 'wx') {
    const isTaken = await fileAt(path).then(
      () => true,
      () => false,
    )
    if (isTaken) throw new FileError('EEXIST', path)
  }
  const file = await fileAt(path, create)
  return coded(path, () => openToWrite(file))
}

async function openToRead(path: string): Promise<FileHandle> {
  const file = await fileAt(path)
  // A picture of the file as it is now: a browser refuses to read one that was changed since.
  let blob = await coded(path, () => file.getFile())
  let next = 0
  const refuse = async (): Promise<never> => {
    throw new Error(`${path} was opened to be read`)
  }
  return {
    async read(into, offset, length, position) {
      const start = position ?? next
      const part = () => bytesOf(blob.slice(start, start + length))
      const bytes = await part().catch(async (error: Error) => {
        if (error.name !== 'NotReadableError') throw error
        blob = await file.getFile()
        return part()
      })
      into.set(bytes, offset)
      if (position === null) next += bytes.length
      return { bytesRead: bytes.length }
    },
    readFile: () => bytesOf(blob),
    stat: () => statsOf(file),
    write: refuse,
    writeFile: refuse,
    truncate: refuse,
    sync: async () => {},
    close: async () => {},
  }
}

/** What writes to a file, in place or by a stream. */
interface Target {
  write(bytes: Uint8Array, at: number): Promise<void>
  truncate(length: number): Promise<void>
  sync(): Promise<void>
  close(): Promise<void>
}

async function openToWrite(file: Stored): Promise<FileHandle> {
  const target = await targetOf(file)
  let { size } = await file.getFile()
  let next = 0
  const put = async (bytes: Uint8Array, at: number) => {
    await target.write(bytes, at)
    size = Math.max(size, at + bytes.length)
  }
  const refuse = async (): Promise<never> => {
    throw new Error('a file was opened to be written')
  }
  return {
    read: refuse,
    readFile: refuse,
    async write(bytes, offset = 0, length = bytes.length - offset, position = null) {
      await put(bytes.subarray(offset, offset + length), position ?? next)
      if (position === null) next += length
      return { bytesWritten: length }
    },
    async writeFile(data) {
      const bytes = typeof data === 'string' ? utf8(data) : data
      await put(bytes, next)
      next += bytes.length
    },
    stat: async () => ({ ...(await statsOf(file)), size }),
    async truncate(length) {
      await target.truncate(length)
      size = length
    },
    sync: () => target.sync(),
    close: () => target.close(),
  }
}

async function targetOf(file: Stored): Promise<Target> {
  if (file.createSyncAccessHandle !== undefined) {
    const inPlace = await patiently(() => file.createSyncAccessHandle!())
    return {
      async write(bytes, at) {
        for (let done = 0; done < bytes.length; )
          done += inPlace.write(bytes.subarray(done), { at: at + done })
      },
      truncate: async (length) => inPlace.truncate(length),
      sync: async () => inPlace.flush(),
      close: async () => inPlace.close(),
    }
  }
  const stream = await file.createWritable!({ keepExistingData: true })
  return {
    // The browser looks at the bytes later than the caller may change them.
    write: (bytes, at) => stream.write({ type: 'write', position: at, data: concat([bytes]) }),
    truncate: (size) => stream.write({ type: 'truncate', size }),
    sync: async () => {},
    close: () => stream.close(),
  }
}

/** A worker that was killed keeps its files open for a moment. */
async function patiently<T>(attempt: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await attempt()
    } catch (error) {
      if ((error as Error).name !== 'NoModificationAllowedError' || tries >= 20) throw error
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

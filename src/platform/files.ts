/**
 * The files that the project keeps things in: the system's here, those of the page's origin in files.web.ts. What both can
 * do, by Node's names and with its meaning, errors' codes included.
 */
import { rmSync, constants as systemConstants } from 'node:fs'
import * as files from 'node:fs/promises'
import { getSystemErrorMap } from 'node:util'

export interface FileStats {
  size: number
  mtimeMs: number
  isFile(): boolean
  isDirectory(): boolean
  isSymbolicLink(): boolean
  isFIFO(): boolean
}

export interface FileHandle {
  read(
    into: Uint8Array,
    offset: number,
    length: number,
    position: number | null,
  ): Promise<{ bytesRead: number }>
  /** Without a position, behind what was written last. */
  write(
    bytes: Uint8Array,
    offset?: number,
    length?: number,
    position?: number | null,
  ): Promise<{ bytesWritten: number }>
  /** All of it, behind what was written last; text as UTF-8. */
  writeFile(data: string | Uint8Array): Promise<void>
  readFile(): Promise<Uint8Array>
  stat(): Promise<FileStats>
  truncate(length: number): Promise<void>
  sync(): Promise<void>
  close(): Promise<void>
}

export interface FolderEntry {
  name: string
  isFile(): boolean
  isDirectory(): boolean
}

interface Files {
  open(path: string, flags: number | 'r' | 'wx'): Promise<FileHandle>
  readFile(path: string): Promise<Uint8Array>
  /** Of a symbolic link, what it leads to. */
  stat(path: string): Promise<FileStats>
  /** Of a symbolic link, the link. */
  lstat(path: string): Promise<FileStats>
  realpath(path: string): Promise<string>
  mkdir(path: string): Promise<void>
  /** The names in a folder. */
  readdir(path: string): Promise<string[]>
  /** The same with what each name is of. */
  entries(path: string): Promise<FolderEntry[]>
  rename(from: string, to: string): Promise<void>
  copyFile(from: string, to: string): Promise<void>
  rm(path: string, options: { recursive?: boolean; force?: boolean }): Promise<void>
}

const { O_RDONLY, O_WRONLY, O_CREAT, O_NOFOLLOW = 0, O_NONBLOCK = 0, COPYFILE_FICLONE } = systemConstants
export const constants = { O_RDONLY, O_WRONLY, O_CREAT, O_NOFOLLOW, O_NONBLOCK }

export const open: Files['open'] = files.open
export const readFile: Files['readFile'] = files.readFile
export const stat: Files['stat'] = files.stat
export const lstat: Files['lstat'] = files.lstat
export const realpath: Files['realpath'] = files.realpath
/** Makes a folder, and those above it. */
export const mkdir: Files['mkdir'] = async (path) => void (await files.mkdir(path, { recursive: true }))
export const readdir: Files['readdir'] = (path) => files.readdir(path)
export const entries: Files['entries'] = (path) => files.readdir(path, { withFileTypes: true })
export const rename: Files['rename'] = files.rename
/** Shares the bytes where the file system can. */
export const copyFile: Files['copyFile'] = (from, to) => files.copyFile(from, to, COPYFILE_FICLONE)
export const rm: Files['rm'] = files.rm

/** Removes a file before it returns, where the system can; a failure is nobody's matter. */
export function discard(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch {
    // As said.
  }
}

/** What the system says in an error, in words; null where the error is not the system's. */
export function systemReason(error: unknown): string | null {
  const { code, errno } = error as NodeJS.ErrnoException
  if (code === undefined || errno === undefined) return null
  const [, text] = getSystemErrorMap().get(errno) ?? []
  return text === undefined ? code : `${code}: ${text}`
}

/**
 * Opens files inside one folder and never outside it: a name that leads out, and a symbolic link anywhere on the
 * way, is refused. Touches the file system, reading only.
 */
import { codeOf } from '../files.ts'
import { constants, entries, type FileHandle, lstat, open, realpath } from '../platform/files.ts'
import { join } from '../platform/path.ts'

/** A name of one file or folder: not empty, not the folder itself or its parent, no separator, no NUL. */
function isPlainName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/\\\0]/.test(name)
}

/**
 * Opens the regular file at `names` under `root` for reading, or returns null where there is none that may be read.
 * `root` must be a real path (see realpath).
 */
export async function openInside(root: string, names: readonly string[]): Promise<FileHandle | null> {
  if (names.length === 0 || !names.every(isPlainName)) return null
  const folder = join(root, ...names.slice(0, -1))
  let file: FileHandle
  try {
    // The folders on the way must be what their names say; the last name is opened only if it is no link itself.
    if ((await realpath(folder)) !== folder) return null
    file = await open(join(folder, names.at(-1)!), constants.O_RDONLY | constants.O_NOFOLLOW)
  } catch (error) {
    if (isRefusal(error)) return null
    throw error
  }
  if ((await file.stat()).isFile()) return file
  await file.close()
  return null
}

/** Folders directly inside `root` that are no links, sorted. */
export async function foldersInside(root: string): Promise<string[]> {
  const found = await entries(root)
  return found
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map(({ name }) => name)
    .sort()
}

/** When the file or folder at `names` last changed, in milliseconds since 1970; null where there is none. */
export async function changedInside(root: string, names: readonly string[]): Promise<number | null> {
  if (!names.every(isPlainName)) return null
  try {
    return (await lstat(join(root, ...names))).mtimeMs
  } catch (error) {
    if (isRefusal(error)) return null
    throw error
  }
}

function isRefusal(error: unknown): boolean {
  const codes = ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM', 'EISDIR', 'ENAMETOOLONG', 'ENXIO']
  return codes.includes(codeOf(error) ?? '')
}

/**
 * Changes several files of a run folder together, whole or not at all: the new files are staged in a folder of their
 * own, a list of them is written last, and only then are they moved into place. A kill before the list leaves the old
 * files; a kill after it leaves moves that `settle` finishes. Touches the file system only; needs the folder's lock.
 *
 * A folder may come from anywhere, its list too: before anything is moved, all that it names must be plain paths inside
 * the folder, reached through no symbolic link, and what was staged must be what was written.
 */
import { z } from 'zod'
import { hex } from '../bytes.ts'
import { UserError } from '../errors.ts'
import {
  codeOf,
  digestFile,
  isRealFolder,
  jsonText,
  makeFolder,
  openRegular,
  readJson,
  readRegular,
  remove,
  writeFailure,
  writeFileAtomic,
} from '../files.ts'
import { rename } from '../platform/files.ts'
import { sha256 as hashing } from '../platform/hash.ts'
import { dirname, join } from '../platform/path.ts'

const stage = '.staged'
const list = join(stage, 'list.json')
const listSchema = z.strictObject({
  /** Staged under their numbers here, from 0. */
  files: z.array(z.strictObject({ path: z.string(), sha256: z.string() })),
  removed: z.array(z.string()),
})
type List = z.infer<typeof listSchema>

/** A path of plain names, divided by `/`: none is hidden, none leads up, and none means another thing elsewhere. */
export const isPlainPath = (path: string): boolean =>
  path.split('/').every((name) => /^[^./\\:\0][^/\\:\0]*$/.test(name))

/** Replaces files, by their paths inside `folder`, and removes others. Returns once they all are in place. */
export async function replaceFiles(
  folder: string,
  files: ReadonlyMap<string, string>,
  removed: readonly string[] = [],
): Promise<void> {
  await settle(folder)
  await makeFolder(join(folder, stage))
  const listed: List['files'] = []
  for (const [path, text] of files) {
    await writeFileAtomic(join(folder, stage, `${listed.length}`), text)
    listed.push({ path, sha256: sha256(text) })
  }
  const change: List = { files: listed, removed: [...removed] }
  await checkPaths(folder, change)
  await writeFileAtomic(join(folder, list), jsonText(change))
  await settle(folder)
}

/**
 * Finishes a change that was cut short after its list was written, and forgets one that was cut short before.
 *
 * @throws UserError, before anything is moved, for a list that no change of this folder left.
 */
export async function settle(folder: string): Promise<void> {
  const change = await readList(folder)
  if (change) {
    await checkPaths(folder, change)
    const left = await checkStaged(folder, change)
    for (const path of change.removed) await remove(join(folder, path))
    for (const number of left) {
      const target = join(folder, change.files[number].path)
      try {
        await rename(join(folder, stage, `${number}`), target)
      } catch (error) {
        throw writeFailure(target, error)
      }
    }
  }
  // The list first: without it the rest is work that was cut short.
  await remove(join(folder, list))
  await remove(join(folder, stage))
}

/** Whether a change waits to be finished: the files of the folder do not yet fit one another. */
export async function isUnsettled(folder: string): Promise<boolean> {
  return (await readList(folder)) !== undefined
}

async function readList(folder: string): Promise<List | undefined> {
  if (!(await isRealFolder(join(folder, stage)))) return undefined
  const path = join(folder, list)
  const text = await readRegular(path)
  return text === undefined ? undefined : readJson(text, listSchema, path)
}

/** Refuses a list that names anything but files of this folder. */
async function checkPaths(folder: string, { files, removed }: List): Promise<void> {
  for (const path of [...files.map((file) => file.path), ...removed]) {
    if (!isPlainPath(path))
      throw refusal(folder, `it names ${JSON.stringify(path)}, which is no file of this folder`)
    for (let above = dirname(path); above !== '.'; above = dirname(above)) {
      if (!(await isRealFolder(join(folder, above))))
        throw refusal(folder, `there is no folder ${above} for ${path}`)
    }
    const target = join(folder, path)
    const file = await openRegular(target).catch((error: unknown) => {
      // Made by this change, or removed by it already; one that may not be read may still be replaced.
      if (['ENOENT', 'EACCES'].includes(codeOf(error) ?? '')) return null
      throw error
    })
    await file?.close()
  }
}

/** The numbers of the staged files that are yet to be moved; refuses any that is not what was written. */
async function checkStaged(folder: string, { files }: List): Promise<number[]> {
  const left: number[] = []
  for (const [number, { path, sha256: expected }] of files.entries()) {
    const staged = await digestFile(join(folder, stage, `${number}`))
    if (staged) left.push(number)
    // Moved already, before the kill, where there is none.
    const found = staged ?? (await digestFile(join(folder, path)))
    if (found?.sha256 !== expected) throw refusal(folder, `the new ${path} is not whole`)
  }
  return left
}

function refusal(folder: string, what: string): UserError {
  return new UserError(
    `${join(folder, list)} cannot be followed (${what}): remove the folder ${join(folder, stage)} to keep the files as they are.`,
  )
}

const sha256 = (text: string): string => hex(hashing().update(text).digest())

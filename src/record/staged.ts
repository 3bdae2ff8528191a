/**
 * Changes several files of a run folder together, whole or not at all: the new files are staged in a folder of their
 * own, a list of them is written last, and only then are they moved into place. A kill before the list leaves the old
 * files; a kill after it leaves moves that `settle` finishes. Touches the file system only; needs the folder's lock.
 */
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { readJsonFile, writeFileAtomic, writeJsonAtomic } from '../files.ts'

const stage = '.staged'
const list = join(stage, 'list.json')
const listSchema = z.strictObject({ files: z.array(z.string()), removed: z.array(z.string()) })

/** Replaces files, by their paths inside `folder`, and removes others. `commit` returns once they all are in place. */
export async function replaceFiles(
  folder: string,
  files: ReadonlyMap<string, string>,
  removed: readonly string[] = [],
): Promise<void> {
  await settle(folder)
  await mkdir(join(folder, stage))
  const paths = [...files.keys()]
  for (const [i, path] of paths.entries()) {
    await writeFileAtomic(join(folder, stage, `${i}`), files.get(path)!)
  }
  await writeJsonAtomic(join(folder, list), { files: paths, removed })
  await settle(folder)
}

/** Finishes a change that was cut short after its list was written, and forgets one that was cut short before. */
export async function settle(folder: string): Promise<void> {
  const found = await readJsonFile(join(folder, list), listSchema, { optional: true })
  for (const path of found?.removed ?? []) await rm(join(folder, path), { force: true })
  for (const [i, path] of (found?.files ?? []).entries()) {
    await rename(join(folder, stage, `${i}`), join(folder, path)).catch((error: NodeJS.ErrnoException) => {
      // Moved already, before the kill.
      if (error.code !== 'ENOENT') throw error
    })
  }
  await rm(join(folder, stage), { recursive: true, force: true })
}

/** Whether a change waits to be finished: the files of the folder do not yet fit one another. */
export async function isUnsettled(folder: string): Promise<boolean> {
  return (await readJsonFile(join(folder, list), listSchema, { optional: true })) !== undefined
}

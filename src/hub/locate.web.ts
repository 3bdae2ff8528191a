/** Models by name in a browser: folders of its own files alone. Nothing is fetched that a page did not put there. */
import { UserError } from '../errors.ts'
import { stat } from '../platform/files.ts'
import type { LocatedModel } from './locate.ts'

export async function locateModel(model: string): Promise<LocatedModel> {
  const isFolder = await stat(model).then(
    (found) => found.isDirectory(),
    () => false,
  )
  if (isFolder) return { name: model, folder: model, commit: null }
  throw new UserError(
    `There is no checkpoint in ${model} of the browser's files: install it first (installPolicy).`,
  )
}

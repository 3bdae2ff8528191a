/**
 * Several runs as one folder of files that any web server serves, or that opens from disk: `index.html` lists and
 * compares them, and each has its report beside it. Reads run folders and writes that one folder.
 */

import { UserError } from '../errors.ts'
import { readFailure, writeFileAtomic } from '../files.ts'
import { mkdir, readdir } from '../platform/files.ts'
import { basename, join } from '../platform/path.ts'
import { listRun } from '../view/listing.ts'
import { openRun } from '../view/run-index.ts'
import type { BundledRun } from '../view/types.ts'
import { compress, reordered, writeReport } from './html.ts'
import { type EmbeddedData, pageEnd, pageStart, readPage } from './page.ts'

/**
 * Writes the bundle and returns the path of its index.
 *
 * @throws UserError for two runs of one name, a folder that is no run, and a folder to write in that is not empty.
 */
export async function writeBundle(folders: readonly string[], out: string): Promise<string> {
  const page = await readPage()
  const runs = await Promise.all(folders.map((folder) => openRun(folder)))
  const names = runs.map(({ folder }) => basename(folder))
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) {
    throw new UserError(
      `Two of the runs are called ${twice}, and each needs a name of its own: rename a folder.`,
    )
  }
  await mkdir(out)
  const found = await readdir(out).catch((error) => {
    throw readFailure(out, error)
  })
  if (found.length > 0) {
    throw new UserError(`${out} already holds other files: choose a new or empty folder with --out.`)
  }
  const bundled: BundledRun[] = []
  const columns: [id: string, data: EmbeddedData][] = []
  for (const [i, run] of runs.entries()) {
    const [name, view] = [names[i], run.view()]
    await mkdir(join(out, name))
    await writeReport(run.folder, join(out, name, 'report.html'))
    const all = run.columns()
    const heldOut = all.step.flatMap((step, board) => (step === 0 ? [board] : []))
    columns.push([`columns-${i}`, { base64: await compress(reordered(all, heldOut, view)) }])
    bundled.push({ listing: await listRun(name, run.folder), run: view })
  }
  const data = { runs: { json: bundled }, ...Object.fromEntries(columns) }
  const path = join(out, 'index.html')
  await writeFileAtomic(path, pageStart(page, 'Runs - message-board', { kind: 'bundle' }, data) + pageEnd)
  return path
}

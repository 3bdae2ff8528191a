/** The files that say what a run found: results.json, and the texts and the page made from it. */

import { writeFileAtomic } from '../files.ts'
import { join } from '../platform/path.ts'
import { resultsText } from '../record/folder.ts'
import type { Results } from '../record/results.ts'
import { hasPage } from '../report/built.ts'
import { writeReport } from '../report/html.ts'
import { post } from '../report/post.ts'
import { tableMarkdown } from '../report/table.ts'

/** The files that depend on the results alone, results.json first. */
export function resultTexts(results: Results): [name: string, text: string][] {
  return [
    ['results.json', resultsText(results)],
    ['table.md', tableMarkdown(results)],
    ['post.md', post(results)],
  ]
}

/** Writes all of them, and report.html where its page is to be had. */
export async function writeResults(folder: string, results: Results): Promise<void> {
  for (const [name, text] of resultTexts(results)) await writeFileAtomic(join(folder, name), text)
  if (hasPage()) await writeReport(folder)
}

/** The files that say what a run found: results.json, and the texts and the page made from it. */
import { join } from 'node:path'
import { writeFileAtomic } from '../files.ts'
import { resultsText } from '../record/folder.ts'
import type { Results } from '../record/results.ts'
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

/** Writes all of them, and report.html. */
export async function writeResults(folder: string, results: Results): Promise<void> {
  for (const [name, text] of resultTexts(results)) await writeFileAtomic(join(folder, name), text)
  await writeReport(folder)
}

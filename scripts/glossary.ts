/**
 * Writes into docs/glossary.md what the table of a run says, from the words that the pages and `--explain` use:
 *
 *   npx tsx scripts/glossary.ts
 */
import { fileURLToPath } from 'node:url'
import { glossary } from '../src/report/glossary.ts'
import { replaceSections } from './markdown.ts'

/** Each column, line and verdict with what is said of it. */
export const glossarySection = (): string =>
  Object.entries(glossary)
    .map(([term, says]) => `- **${term}**: ${says}`)
    .join('\n')

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await replaceSections(fileURLToPath(new URL('../docs/glossary.md', import.meta.url)), {
    table: glossarySection(),
  })
}

/** Markdown for the scripts that write pages of docs/ and figures into them. */
import { readFile } from 'node:fs/promises'
import { writeFileAtomic } from '../src/files.ts'

/** A table with its columns padded to equal width. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) =>
    Math.max(3, ...[head, ...rows].map((row) => [...row[column]].length)),
  )
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => cell + ' '.repeat(widths[column] - [...cell].length)).join(' | ')} |`
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n')
}

/** Replaces what stands between `<!-- name -->` and `<!-- /name -->` in a page, for each section by its name. */
export async function replaceSections(
  path: string,
  sections: Readonly<Record<string, string>>,
): Promise<void> {
  let page = await readFile(path, 'utf8')
  for (const [name, text] of Object.entries(sections)) {
    const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
    const [start, end] = [page.indexOf(open), page.indexOf(close)]
    if (start < 0 || end < start) throw new Error(`${path} lacks the markers ${open} and ${close}`)
    page = `${page.slice(0, start + open.length)}\n${text}\n${page.slice(end)}`
  }
  await writeFileAtomic(path, page)
}

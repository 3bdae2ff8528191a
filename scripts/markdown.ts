/** Markdown that the repository's formatter leaves as it is, for the scripts that write pages of docs/. */

/** A table with its columns padded to equal width. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) =>
    Math.max(3, ...[head, ...rows].map((row) => [...row[column]].length)),
  )
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => cell + ' '.repeat(widths[column] - [...cell].length)).join(' | ')} |`
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n')
}

/** The result table with the checks under it, for a terminal and as Markdown. Pure: reads results.json alone. */
import type { Results } from '../experiment/results.ts'
import { printableLine } from '../printable.ts'
import { checkLines } from './checks.ts'
import { tableHeader, tableRows } from './rows.ts'

/** For a terminal: aligned columns, then one line for each check. */
export function tableText(results: Results): string {
  const lines = alignedRows([tableHeader(results), ...tableRows(results)])
  const checks = checkLines(results).map((line) => line.map(printableLine))
  const width = Math.max(...checks.map(([what]) => what.length))
  return `${title(results)}\n\n${lines.join('\n')}\n\n${checks.map(([what, said]) => `${what.padEnd(width)}  ${said}`).join('\n')}\n`
}

/** Rows of equal length as lines: the first column to the left, the others to the right. */
export function alignedRows(cells: readonly (readonly string[])[]): string[] {
  const rows = cells.map((row) => row.map(printableLine))
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)))
  return rows.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column])))
      .join('  ')
      .trimEnd(),
  )
}

/** table.md. */
export function tableMarkdown(results: Results): string {
  const [header, ...rows] = [tableHeader(results), ...tableRows(results)].map(
    (cells) => `| ${cells.map((cell) => printableLine(cell).replaceAll('|', '\\|')).join(' | ')} |`,
  )
  const rule = `|${tableHeader(results)
    .map((_, column) => (column === 0 ? '---' : '---:'))
    .join('|')}|`
  const checks = checkLines(results).map(
    ([what, said]) => `- **${printableLine(what)}**: ${printableLine(said)}`,
  )
  return `# ${title(results)}\n\n${[header, rule, ...rows].join('\n')}\n\n${checks.join('\n')}\n`
}

function title({ model, task, seeds }: Results): string {
  return `${printableLine(model.name)} on ${printableLine(task.name)}: ${task.holdout} held-out problems, seeds ${seeds.join(', ')}`
}

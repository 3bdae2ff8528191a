/** The result tables with what they rest on, for a terminal and as Markdown. Pure: reads results.json alone. */

import { printableLine } from '../printable.ts'
import type { Results } from '../record/results.ts'
import { checkLines } from './checks.ts'
import { columns, hasTwoRounds, roundColumns, roundRows, tableHeader, tableRows } from './rows.ts'
import { changeSentence, said, trainingSentence } from './sentences.ts'

/** Rows up to which the terminal's table has one for each seed. */
const SEED_ROWS = 20

/** Columns that a narrow terminal does without, the first to go first; table.md has them all. */
const spared: (typeof columns)[number][] = ['minutes', 'chars', 'any_note', 'vote_acc', 'pass@k']

/** For a terminal of `width` characters: the finding, aligned columns, then one line for each check. */
export function tableText(results: Results, width = 120): string {
  const all = tableRows(results)
  const rows = all.length > SEED_ROWS ? tableRows(results, { perSeed: false }) : all
  const table = fitted([tableHeader(results), ...rows], width)
  const checks = checkLines(results).map((line) => line.map(printableLine))
  const label = Math.min(28, Math.max(...checks.map(([what]) => what.length)))
  return [
    title(results),
    '',
    ...[trainingSentence, changeSentence].flatMap((of) =>
      wrapped(printableLine(said(of(results))), width, 2),
    ),
    '',
    ...table,
    ...(rows === all ? [] : ['Each seed has its row in table.md.']),
    ...(hasTwoRounds(results) ? [] : ['', ...alignedRows([[...roundColumns], ...roundRows(results)])]),
    '',
    ...checks.flatMap(([what, found]) => wrapped(`${what.padEnd(label)}  ${found}`, width, label + 2)),
    '',
  ].join('\n')
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

/** Aligned rows of at most `width` characters, without as many spared columns as that takes. */
function fitted(rows: string[][], width: number): string[] {
  const kept = new Set(columns.keys())
  const lines = () => alignedRows(rows.map((row) => row.filter((_, column) => kept.has(column))))
  for (const column of spared) {
    if (Math.max(...lines().map((line) => line.length)) <= width) break
    kept.delete(columns.indexOf(column))
  }
  return lines()
}

/** A sentence as lines of at most `width` characters, broken between words; those after the first are indented. */
function wrapped(text: string, width: number, indent: number): string[] {
  const lines: string[] = []
  let rest = text
  while (rest.length > width) {
    const space = rest.lastIndexOf(' ', width)
    if (space <= indent) break
    lines.push(rest.slice(0, space).trimEnd())
    rest = ' '.repeat(indent) + rest.slice(space + 1)
  }
  return [...lines, rest]
}

/** table.md. */
export function tableMarkdown(results: Results): string {
  const checks = checkLines(results).map(
    ([what, found]) => `- **${printableLine(what)}**: ${printableLine(found)}`,
  )
  return [
    `# ${title(results)}`,
    '',
    printableLine(said(trainingSentence(results))),
    printableLine(said(changeSentence(results))),
    '',
    ...markdownTable(tableHeader(results), tableRows(results), 1),
    '',
    ...(hasTwoRounds(results)
      ? []
      : ['## By round', '', ...markdownTable(roundColumns, roundRows(results), 2), '']),
    ...checks,
    '',
  ].join('\n')
}

/** `words` columns hold words, and stand to the left. */
function markdownTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  words: number,
): string[] {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => printableLine(cell).replaceAll('|', '\\|')).join(' | ')} |`
  const rule = header.map((_, column) => (column < words ? '---' : '---:'))
  return [line(header), `|${rule.join('|')}|`, ...rows.map(line)]
}

function title({ model, task, seeds }: Results): string {
  return `${printableLine(model.name)} on ${printableLine(task.name)}: ${task.holdout} held-out problems, seeds ${seeds.join(', ')}`
}

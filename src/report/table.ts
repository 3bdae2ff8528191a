/** The result tables with what they rest on, for a terminal and as Markdown. Pure: reads results.json alone. */

import { printableLine } from '../printable.ts'
import type { Results } from '../record/results.ts'
import { type CheckLine, checkLines } from './checks.ts'
import { explained } from './glossary.ts'
import { fittedRows, type Line, line, type Piece, type Tone, textOf, wrapped } from './layout.ts'
import {
  columns,
  hasMarks,
  hasTwoRounds,
  MARKED,
  pooledName,
  roundColumns,
  roundRows,
  tableHeader,
  tableRows,
} from './rows.ts'
import { changeSentence, type Sentence, said, trainingSentence } from './sentences.ts'

/** Rows up to which the terminal's table has one for each seed. */
const SEED_ROWS = 20

/** Columns that a narrow terminal does without, the first to go first; table.md has them all. */
const spared: readonly (typeof columns)[number][] = [
  'minutes',
  'chars',
  'any_note',
  'vote_acc',
  'pass@k',
  'note_acc',
  'switched',
  'misled',
  'rescued',
]
const sparedByRound: readonly (typeof roundColumns)[number][] = [
  'chars',
  'cut',
  'any_right',
  'vote_right',
  'switched',
  'misled',
  'rescued',
]

/** Widths of the labels of lines under a table, at most. */
const LABEL = 28

export interface TableOptions {
  /** Characters of a line; 120 unless told. */
  width?: number
  /** Says below what each column and word means. */
  explain?: boolean
}

/** `tableLines` as text. */
export const tableText = (results: Results, width = 120): string => textOf(tableLines(results, { width }))

/** For a terminal: what was found, aligned columns, then one line for each check. */
export function tableLines(results: Results, { width = 120, explain = false }: TableOptions = {}): Line[] {
  const all = tableRows(results)
  const rows = all.length > SEED_ROWS ? tableRows(results, { perSeed: false }) : all
  const pooled = new Set(Object.keys(results.arms).map(pooledName))
  const table = fittedRows(
    [tableHeader(results), ...rows],
    width,
    spared.map((name) => columns.indexOf(name)),
  )
  const byRound = hasTwoRounds(results)
    ? undefined
    : fittedRows(
        [[...roundColumns], ...roundRows(results)],
        width,
        sparedByRound.map((name) => roundColumns.indexOf(name)),
      )
  const left = [...new Set([...table.left, ...(byRound?.left ?? [])])]
  const notes = [
    ...(hasMarks(results) ? [MARKED] : []),
    ...(rows === all ? [] : ['Each seed has its row in table.md.']),
    ...(left.length === 0 ? [] : [`Left out at this width: ${left.join(', ')}. table.md has them.`]),
    ...(explain ? [] : ['What each column and word means: --explain, or table.md.']),
  ]
  const checks = checkLines(results)
  return [
    ...[trainingSentence, changeSentence].flatMap((of) => sentenceLines(of(results), width)),
    [],
    ...wrapped([{ text: title(results), tone: 'strong' }], width),
    [],
    ...table.rows.map((row, i) => line(row, toneOf(rows[i - 1]?.[0], pooled))),
    ...(byRound ? [[], ...byRound.rows.map((row, i) => line(row, i === 0 ? 'faint' : undefined))] : []),
    [],
    ...notes.flatMap((text) => wrapped([{ text, tone: 'faint' }], width)),
    [],
    ...checkRows(checks, width),
    ...(explain ? explainedLines(wordsOf(results), width) : []),
  ]
}

/** The headline in its colour, and its figures. */
export function sentenceLines(sentence: Sentence, width: number): Line[] {
  const text = said(sentence)
  const { headline, tone } = sentence
  const at = text === headline ? headline.length : headline.length - 1
  const colour = tone === 'none' ? undefined : tone
  return wrapped([{ text: text.slice(0, at), tone: colour }, { text: text.slice(at) }], width, { indent: 2 })
}

/** The first row names the columns; an arm over its seeds stands out. */
const toneOf = (name: string | undefined, pooled: ReadonlySet<string>): Tone | undefined =>
  name === undefined ? 'faint' : pooled.has(name) ? 'strong' : undefined

/** Lines under a table. */
export function checkRows(checks: readonly CheckLine[], width: number): Line[] {
  return labelled(
    checks.map(([what, found, , tone]) => [what, verdictToned(found, tone)]),
    width,
  )
}

/** A found difference with its verdict's word in colour; other lines that have a colour have it as a whole. */
function verdictToned(found: string, tone: Tone | undefined): Piece[] {
  const at = tone === undefined ? -1 : found.indexOf(`: ${tone}. `)
  if (tone === undefined || at < 0) return [{ text: found, tone }]
  const [from, to] = [at + 2, at + 2 + tone.length]
  return [{ text: found.slice(0, from) }, { text: found.slice(from, to), tone }, { text: found.slice(to) }]
}

/** What is said of some columns and words. */
export function explainedLines(words: readonly string[], width: number): Line[] {
  return [
    [],
    line('What the columns and words mean', 'strong'),
    ...labelled(
      explained(words).map(([term, says]) => [term, [{ text: says }]]),
      width,
    ),
  ]
}

/** Lines with a label each, which stand under one another; a label that is too long for that has a line of its own. */
function labelled(lines: readonly (readonly [label: string, found: Piece[]])[], width: number): Line[] {
  const labels = lines.map(([what]) => printableLine(what))
  const label = Math.max(0, ...labels.map(({ length }) => length).filter((length) => length <= LABEL))
  const indent = label + 2
  return lines.flatMap(([, found], i) => {
    const isLong = labels[i].length > label
    const head: Line = [
      isLong ? { text: ' '.repeat(indent) } : { text: labels[i].padEnd(indent), tone: 'faint' },
    ]
    return [
      ...(isLong ? wrapped([{ text: labels[i], tone: 'faint' }], width, { indent: 2 }) : []),
      ...wrapped(found, width, { indent, head }),
    ]
  })
}

/** The columns and words of these results that something is said of. */
function wordsOf(results: Results): string[] {
  const { training, contrasts } = results
  return [
    ...tableHeader(results),
    ...(hasTwoRounds(results) ? [] : roundColumns),
    ...[...training, ...contrasts].map(({ verdict }) => verdict),
    ...checkLines(results).map(([what]) => what),
  ]
}

/** table.md. */
export function tableMarkdown(results: Results): string {
  const items = (lines: readonly (readonly [string, string, ...unknown[]])[]) =>
    lines.map(([what, found]) => `- **${printableLine(what)}**: ${printableLine(found)}`)
  return [
    `# ${title(results)}`,
    '',
    printableLine(said(trainingSentence(results))),
    printableLine(said(changeSentence(results))),
    '',
    ...markdownTable(tableHeader(results), tableRows(results), 1),
    '',
    ...(hasMarks(results) ? [MARKED, ''] : []),
    ...(hasTwoRounds(results)
      ? []
      : ['## By round', '', ...markdownTable(roundColumns, roundRows(results), 2), '']),
    ...items(checkLines(results)),
    '',
    '## What the columns and words mean',
    '',
    ...items(explained(wordsOf(results))),
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

/** Text for a terminal of some width: lines of pieces that may be coloured, tables that fit, sentences that wrap. Pure. */
import { printableLine } from '../printable.ts'
import type { Verdict } from '../stats/index.ts'

/** What a piece's colour says, where there is colour. */
export type Tone = Verdict | 'warning' | 'strong' | 'faint'

export interface Piece {
  text: string
  tone?: Tone
}

export type Line = readonly Piece[]

/** The lines as text without colour. */
export const textOf = (lines: readonly Line[]): string =>
  lines.map((line) => `${line.map(({ text }) => text).join('')}\n`).join('')

/** A line of one piece; an empty one without. */
export const line = (text = '', tone?: Tone): Line => (text === '' ? [] : [{ text, tone }])

const widthOf = (pieces: Line): number => pieces.reduce((sum, { text }) => sum + text.length, 0)

/** Before each word but the first; not within an interval or before one, nor after a minus: `+0.1 [0.0, +0.2]` is one. */
const BREAK = /(?<= )(?<! - )(?![ [])(?![^[]*\])/

/**
 * Pieces as lines of at most `width` characters, broken between words and never in one; those after the first are
 * indented. `head` starts the first line and is not broken.
 */
export function wrapped(
  pieces: readonly Piece[],
  width: number,
  { indent = 0, head = [] }: { indent?: number; head?: Line } = {},
): Line[] {
  const lines: Line[] = []
  let current: Piece[] = [...head]
  let length = widthOf(head)
  let isEmpty = true
  for (const { text, tone } of pieces) {
    for (const word of printableLine(text).split(BREAK)) {
      if (!isEmpty && length + word.trimEnd().length > width) {
        lines.push(trimmed(current))
        current = indent > 0 ? [{ text: ' '.repeat(indent) }] : []
        length = indent
      }
      const last = current.at(-1)
      if (!isEmpty && last && last.tone === tone) last.text += word
      else current.push({ text: word, tone })
      length += word.length
      isEmpty = false
    }
  }
  return [...lines, trimmed(current)]
}

/** Without the space before a break. */
function trimmed(pieces: readonly Piece[]): Line {
  return pieces.map((piece, i) =>
    i === pieces.length - 1 ? { ...piece, text: piece.text.trimEnd() } : piece,
  )
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

/**
 * Aligned rows of at most `width` characters, the first of which names the columns, without as many of the `spared`
 * ones as that takes, the first to go first; and the names of those that went.
 */
export function fittedRows(
  cells: readonly (readonly string[])[],
  width: number,
  spared: readonly number[],
): { rows: string[]; left: string[] } {
  const gone = new Set<number>()
  const rows = () => alignedRows(cells.map((row) => row.filter((_, column) => !gone.has(column))))
  for (const column of spared) {
    if (Math.max(...rows().map((row) => row.length)) <= width) break
    gone.add(column)
  }
  return { rows: rows(), left: cells[0].filter((_, column) => gone.has(column)) }
}

/** Cuts a model's text into pieces to show: plain, the final answer, and characters that would not be seen. Pure. */

import { HIDDEN } from '../printable.ts'

export interface Piece {
  text: string
  /** 'hidden': what would not be seen, by its code point, so that a text has no secrets. */
  kind: 'plain' | 'answer' | 'hidden'
}

/** Where a text states its answer, as [start, end), or null: the last box that holds it, or its last mention. */
export function answerSpan(text: string, answer: string | null): [start: number, end: number] | null {
  if (answer === null || answer === '') return null
  for (const box of ['\\boxed{', '\\fbox{']) {
    const start = text.lastIndexOf(`${box}${answer}}`)
    if (start >= 0) return [start, start + box.length + answer.length + 1]
  }
  // A list of boxes, or one written otherwise: from the last box to the end of its line.
  const box = text.lastIndexOf('\\boxed')
  if (box >= 0) {
    const end = text.indexOf('\n', box)
    return [box, Math.min(end < 0 ? text.length : end, box + 200)]
  }
  const start = text.lastIndexOf(answer)
  return start < 0 ? null : [start, start + answer.length]
}

/** The pieces of text[0, length), in order. */
export function pieces(text: string, answer: string | null, length = text.length): Piece[] {
  const span = answerSpan(text, answer)
  const found: Piece[] = []
  const add = (from: number, to: number, kind: 'plain' | 'answer') => {
    const part = text.slice(from, Math.min(to, length))
    let at = 0
    for (const match of part.matchAll(HIDDEN)) {
      if (match.index > at) found.push({ text: part.slice(at, match.index), kind })
      const code = match[0].codePointAt(0) ?? 0
      found.push({ text: `U+${code.toString(16).toUpperCase().padStart(4, '0')}`, kind: 'hidden' })
      at = match.index + match[0].length
    }
    if (at < part.length) found.push({ text: part.slice(at), kind })
  }
  if (!span || span[0] >= length) add(0, length, 'plain')
  else {
    add(0, span[0], 'plain')
    add(span[0], span[1], 'answer')
    add(span[1], length, 'plain')
  }
  return found
}

/** A place in a list of tokens, for the parser (expression.ts): looks ahead, steps on, and knows what a unit is. */
import { decimal } from './rational.ts'
import { type Token, Unreadable } from './tokens.ts'

export interface Cursor {
  /** The token so many places on, if there is one. */
  peek(ahead?: number): Token | undefined
  /** That token's text where it is a mark, else ''. */
  mark(ahead?: number): string
  advance(count?: number): void
  /** Steps over the mark `text` and says whether it stood here. */
  accept(text: string): boolean
  /** As `accept`; unreadable where it does not stand here. */
  expect(text: string): void
  /** Takes the first digit of the number that stands here and leaves the others: `\\frac12`. */
  takeDigit(): bigint | null
}

export function openCursor(tokens: readonly Token[]): Cursor {
  let at = 0
  /** What is left of a number of which the first digit has been taken. */
  let rest: Token | null = null
  const peek = (ahead = 0) => (rest && ahead === 0 ? rest : tokens[at + ahead])
  const mark = (ahead = 0) => {
    const token = peek(ahead)
    return token?.type === 'mark' ? token.text : ''
  }
  const advance = (count = 1) => {
    rest = null
    at += count
  }
  const accept = (text: string) => {
    if (mark() !== text) return false
    advance()
    return true
  }
  return {
    peek,
    mark,
    advance,
    accept,
    expect(text) {
      if (!accept(text)) throw new Unreadable()
    },
    takeDigit() {
      const token = peek()
      if (token?.type !== 'number' || !/^\d{2,}$/.test(token.digits)) return null
      const others = token.digits.slice(1)
      const value = decimal(others)
      if (!value) throw new Unreadable()
      rest = { type: 'number', value, rounded: false, digits: others, space: false }
      return BigInt(token.digits[0])
    },
  }
}

/**
 * How many tokens from here on write a unit: words and short units with their powers, quotients and products (`km/h`,
 * `m s^{-2}`, `\frac{\text{m}}{\text{s}}`), perhaps in brackets. 0 where there is none.
 */
export const unitLength = (cursor: Cursor): number => unitEnd(cursor, 0)

const UNIT_TYPES = new Set(['words', 'unit', 'half'])
const isUnit = (cursor: Cursor, i: number) => UNIT_TYPES.has(cursor.peek(i)?.type ?? '')
const isLetter = (cursor: Cursor, i: number) => cursor.peek(i)?.type === 'symbol'

/** The end of the product or quotient of units that begins at `i`, or `i`; so too the three below. */
function unitEnd(cursor: Cursor, i: number): number {
  let end = factorEnd(cursor, i, false)
  if (end === i) return i
  for (;;) {
    const joint = cursor.mark(end)
    const joined = joint === '/' || joint === '*' || joint === '-' ? end + 1 : end
    const lettersToo = joined > end ? joint === '/' : isLetter(cursor, end) && isUnit(cursor, end + 1)
    const next = factorEnd(cursor, joined, lettersToo)
    if (next === joined) return end
    end = next
  }
}

function factorEnd(cursor: Cursor, i: number, lettersToo: boolean): number {
  const { peek, mark } = cursor
  if (isUnit(cursor, i) || (lettersToo && isLetter(cursor, i))) return powerEnd(cursor, i + 1)
  const token = peek(i)
  if (token?.type === 'symbol' && token.text === 'mu' && isUnit(cursor, i + 1))
    return factorEnd(cursor, i + 1, false)
  if (mark(i) === '(') return bracketsEnd(cursor, i, ')')
  if (mark(i) !== 'frac' || mark(i + 1) !== '{') return i
  const above = bracketsEnd(cursor, i + 1, '}')
  if (above === i + 1 || mark(above) !== '{') return i
  const below = bracketsEnd(cursor, above, '}')
  return below === above ? i : below
}

function bracketsEnd(cursor: Cursor, i: number, close: string): number {
  const end = unitEnd(cursor, i + 1)
  return end > i + 1 && cursor.mark(end) === close ? powerEnd(cursor, end + 1) : i
}

function powerEnd({ peek, mark }: Cursor, i: number): number {
  if (mark(i) !== '^') return i
  const braced = mark(i + 1) === '{'
  let end = i + (braced ? 2 : 1)
  if (mark(end) === '-') end++
  if (peek(end)?.type !== 'number' || (braced && mark(end + 1) !== '}')) return i
  return end + (braced ? 2 : 1)
}

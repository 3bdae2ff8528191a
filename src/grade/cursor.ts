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
 * How many tokens from the `from`-th on write a unit: words and short units with their powers, quotients and products
 * (`km/h`, `m s^{-2}`, `\\frac{\\text{m}}{\\text{s}}`), perhaps in brackets. 0 where there is none.
 */
export function unitLength({ peek, mark }: Cursor, from = 0): number {
  const isUnit = (i: number) => /^(?:words|unit|half)$/.test(peek(i)?.type ?? '')
  const isLetter = (i: number) => peek(i)?.type === 'symbol'
  /** The end of one factor that begins at `i`, or `i` where none does. */
  function factor(i: number, lettersToo: boolean): number {
    if (isUnit(i) || (lettersToo && isLetter(i))) return power(i + 1)
    if (mark(i) === '(') return closed(i, ')')
    if (mark(i) !== 'frac' || mark(i + 1) !== '{') return i
    const above = closed(i + 1, '}')
    if (above === i + 1 || mark(above) !== '{') return i
    const below = closed(above, '}')
    return below === above ? i : below
  }
  /** The end of the unit in the brackets that open at `i`, or `i`. */
  function closed(i: number, close: string): number {
    const end = product(i + 1)
    return end > i + 1 && mark(end) === close ? power(end + 1) : i
  }
  function power(i: number): number {
    if (mark(i) !== '^') return i
    const braced = mark(i + 1) === '{'
    let end = i + (braced ? 2 : 1)
    if (mark(end) === '-') end++
    if (peek(end)?.type !== 'number' || (braced && mark(end + 1) !== '}')) return i
    return end + (braced ? 2 : 1)
  }
  function product(i: number): number {
    let end = factor(i, false)
    if (end === i) return i
    for (;;) {
      const joined = /^[/*-]$/.test(mark(end)) ? end + 1 : end
      const next = factor(joined, joined > end ? mark(end) === '/' : isLetter(end) && isUnit(end + 1))
      if (next === joined) return end
      end = next
    }
  }
  return product(from) - from
}

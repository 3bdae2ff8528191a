/**
 * Reads one written answer, LaTeX or plain, as a mathematical expression: a recursive-descent parser over tokens
 * (tokens.ts). Text and depth are bounded, so time is too; what it cannot read is null, never an exception. It decides
 * nothing (see math-equal.ts) and touches nothing.
 */
import { openCursor, unitLength } from './cursor.ts'
import { add, divide, type Rational } from './rational.ts'
import { type ElementaryFunction, FILLERS, type Reading, type Token, tokenize, Unreadable } from './tokens.ts'

/** Text longer than this (in UTF-16 units) is no answer and is not parsed. */
export const LONGEST_EXPRESSION = 1024

/** Nesting deeper than this is not parsed. */
const DEEPEST = 60

/** Lists of more items are not parsed: they are compared item by item. */
const LONGEST_LIST = 64

/** A power is (base, exponent), a root (radicand, index), a log (value, base). */
export type Operation =
  | 'add'
  | 'multiply'
  | 'divide'
  | 'negate'
  | 'power'
  | 'root'
  | 'log'
  | 'abs'
  | 'floor'
  | 'ceil'
  | 'factorial'
  | 'binomial'
  /** `x%`, worth x / 100. */
  | 'percent'
  /** An angle in degrees: worth x times pi / 180 in a function of it. */
  | 'degrees'
  /** `x million`, worth x times the second argument. */
  | 'scaled'
  /** `a \pm b`; `a \mp b` takes the opposite sign in the same choice. */
  | 'plusMinus'
  | 'minusPlus'
  | ElementaryFunction

export type Relation = '=' | '≈' | '<' | '>' | '<=' | '>=' | '!=' | 'in'
export type Bracket = '(' | '[' | '{' | ''

export type Expression =
  /** `rounded`: written with a decimal point, so perhaps rounded. */
  | { kind: 'number'; value: Rational; rounded: boolean }
  /** Digits with a base as subscript, such as 1101_2. */
  | { kind: 'based'; digits: string; base: string }
  /** A variable, one of the constants `pi`, `e`, `i`, `infinity`, or a set of numbers such as `ℝ`. */
  | { kind: 'symbol'; name: string }
  | { kind: 'call'; name: Operation; args: Expression[] }
  /** Tuple, interval or set; '' for a bare list (`1, 2`, `1 and 2`). `close` is the bracket of the opening's kind. */
  | { kind: 'list'; open: Bracket; close: Bracket; items: Expression[] }
  | { kind: 'matrix'; rows: Expression[][] }
  | { kind: 'union'; parts: Expression[] }
  /** `3 : 4`, `1 : 2 : 3`. */
  | { kind: 'ratio'; parts: Expression[] }
  /**
   * A time of day. `bare` is what else it may mean: `6:10` a ratio, the 10 of `10 AM` a number.
   */
  | { kind: 'time'; hour: number; minute: number; half: 'am' | 'pm' | null; bare: Expression | null }
  /** sides[0] operators[0] sides[1] operators[1] ... */
  | { kind: 'relation'; operators: Relation[]; sides: Expression[] }
  /** An answer in words, lower case. */
  | { kind: 'words'; text: string }

/** The expression that `text` writes, read in that way; or null. */
export function parseExpression(text: string, reading: Reading): Expression | null {
  if (text.length > LONGEST_EXPRESSION) return null
  try {
    return parseTokens(tokenize(text, reading))
  } catch (error) {
    if (error instanceof Unreadable) return null
    throw error
  }
}

/* Grammar */

const call = (name: Operation, ...args: Expression[]): Expression => ({ kind: 'call', name, args })
const whole = (n: bigint): Expression => ({ kind: 'number', value: { n, d: 1n }, rounded: false })

const RELATIONS = new Set(['=', '≈', '<', '>', '<=', '>=', '!=', 'in'])
const MATRICES = new Set(['matrix', 'pmatrix', 'bmatrix', 'smallmatrix', 'array'])
/** Letters that name functions: `f(x)` is one symbol and not a product. */
const FUNCTION_LETTERS = new Set([...'fghFGHPQ'])
const OPENS = new Map<string, Bracket>([
  ['(', '('],
  ['[', '['],
  ['\\{', '{'],
  ['{', '{'],
])
const CLOSES = new Map<string, Bracket>([
  [')', '('],
  [']', '['],
  ['\\}', '{'],
  ['}', '{'],
])

function parseTokens(tokens: readonly Token[]): Expression {
  const cursor = openCursor(tokens)
  const { peek, mark, advance, accept, expect } = cursor
  let depth = 0
  /** Open `|...|` groups: inside one, a bar closes it. */
  let bars = 0

  const nested = (parse: () => Expression): Expression => {
    if (++depth > DEEPEST) throw new Unreadable()
    const result = parse()
    depth--
    return result
  }
  const separates = (): boolean => mark() === ',' || mark() === ';'
  const ends = (): boolean => peek() === undefined || CLOSES.has(mark())
  /** Whether an item ends before the token so many places on. */
  const itemEnds = (ahead: number): boolean =>
    peek(ahead) === undefined ||
    CLOSES.has(mark(ahead)) ||
    RELATIONS.has(mark(ahead)) ||
    /^[,;]$/.test(mark(ahead))

  /** Items up to a closing bracket or the end; doubled and trailing separators count once. */
  function items(): Expression[] {
    const found: Expression[] = []
    while (separates()) advance()
    while (!ends()) {
      if (found.push(relation()) > LONGEST_LIST) throw new Unreadable()
      if (!ends() && !separates()) throw new Unreadable()
      while (separates()) advance()
    }
    return found
  }

  function relation(): Expression {
    const sides = [ratio()]
    const operators: Relation[] = []
    while (RELATIONS.has(mark())) {
      operators.push(mark() as Relation)
      advance()
      sides.push(ratio())
    }
    return operators.length === 0 ? sides[0] : { kind: 'relation', operators, sides }
  }

  function ratio(): Expression {
    const time = timeOfDay()
    if (time !== null) return time
    const parts = [union()]
    while (accept(':')) parts.push(union())
    return parts.length === 1 ? parts[0] : { kind: 'ratio', parts }
  }

  /** The half of the day that a token says; noon is the 12 of the one, midnight of the other. */
  function halfOf(token: Token | undefined): 'am' | 'pm' | null {
    if (token?.type === 'half') return token.text
    const text = token?.type === 'words' ? token.text : ''
    return text === 'noon' ? 'pm' : text === 'midnight' ? 'am' : null
  }

  /** `10:30`, `1:03 PM`, `10 AM`, `noon`, and nothing of the item after them; else null, and nothing is taken. */
  function timeOfDay(): Expression | null {
    const [first, second] = [peek(), mark(1) === ':' ? peek(2) : undefined]
    if (halfOf(first) !== null && first?.type === 'words' && itemEnds(1)) {
      advance()
      return { kind: 'time', hour: 12, minute: 0, half: halfOf(first), bare: null }
    }
    if (first?.type !== 'number' || !/^(?:[01]?\d|2[0-4])$/.test(first.digits)) return null
    const minutes = second?.type === 'number' && /^[0-5]\d$/.test(second.digits) ? second.digits : null
    const length = minutes === null ? 1 : 3
    const named = peek(length)
    const half = named?.type === 'half' || Number(first.digits) === 12 ? halfOf(named) : null
    if (half === null && minutes === null) return null
    const end = half === null ? length : length + 1
    if (!itemEnds(end)) return null
    const hour: Expression = { kind: 'number', value: first.value, rounded: false }
    const isByTheClock = /^1[0-2]$/.test(first.digits) && /[05]$/.test(minutes ?? '')
    const isRatio = second?.type === 'number' && half === null && minutes?.[0] !== '0' && !isByTheClock
    const bare: Expression | null = isRatio
      ? { kind: 'ratio', parts: [hour, { kind: 'number', value: second.value, rounded: false }] }
      : minutes === null
        ? hour
        : null
    advance(end)
    return { kind: 'time', hour: Number(first.digits), minute: Number(minutes ?? 0), half, bare }
  }

  function union(): Expression {
    const parts = [sum()]
    while (accept('cup')) parts.push(sum())
    return parts.length === 1 ? parts[0] : { kind: 'union', parts }
  }

  function sum(): Expression {
    let left = product()
    for (;;) {
      if (accept('+')) left = call('add', left, product())
      else if (accept('-')) left = call('add', left, call('negate', product()))
      else if (accept('±')) left = call('plusMinus', left, product())
      else if (accept('∓')) left = call('minusPlus', left, product())
      else return left
    }
  }

  function product(): Expression {
    let left = signed()
    for (;;) {
      if (skipUnits(left)) continue
      if (accept('*')) left = call('multiply', left, signed())
      else if (accept('/')) left = call('divide', left, signed())
      else if (startsFactor()) left = call('multiply', left, factor())
      else return left
    }
  }

  /**
   * Steps over a unit after a quantity where nothing of the item comes after it. Of a quantity with variables, a
   * single letter is one more variable.
   */
  function skipUnits(quantity: Expression): boolean {
    const first = peek()
    if (first?.type === 'unit' && first.text.length === 1 && hasVariable(quantity)) return false
    const length = unitLength(cursor)
    if (length === 0 || !itemEnds(length)) return false
    advance(length)
    return true
  }

  function hasVariable(e: Expression): boolean {
    return e.kind === 'symbol' ? e.name !== 'pi' : e.kind === 'call' && e.args.some(hasVariable)
  }

  function signed(): Expression {
    return nested(() => {
      if (accept('-')) return call('negate', signed())
      if (accept('+')) return signed()
      if (accept('±')) return call('plusMinus', whole(0n), signed())
      return factor()
    })
  }

  /** Whether what comes next multiplies what came before. Two numbers side by side do not. */
  function startsFactor(): boolean {
    const token = peek()
    if (token?.type === 'symbol' || token?.type === 'function' || token?.type === 'scale') return true
    if (token?.type === 'unit') return token.text.length === 1
    if (token?.type === 'number') return /^[!)}]$/.test(mark(-1))
    return (
      /^(?:frac|sqrt|binom|\(|\{|lfloor|lceil|begin [a-z]+)$/.test(mark()) || (mark() === '|' && bars === 0)
    )
  }

  /** A primary with its powers and what is written after it. */
  function factor(): Expression {
    let base = primary()
    for (;;) {
      const next = peek()
      if (accept('!')) base = call('factorial', base)
      else if (accept('%')) base = call('percent', base)
      else if (next?.type === 'scale') {
        advance()
        base = call('scaled', base, whole(next.factor))
      } else if (mark() === '°') base = degrees(base)
      else if (accept('^')) {
        if (mark() === '°' || (mark() === '{' && mark(1) === '°')) base = degrees(base)
        else if (mark() === '{' && peek(1)?.type === 'words') {
          // An ordinal: 5^{\text{th}}.
          advance()
          advance()
          expect('}')
        } else base = call('power', base, exponent())
      } else return base
    }
  }

  /** A degree sign after `value`. Of a temperature the scale is a unit, and so is the sign. */
  function degrees(value: Expression): Expression {
    const braced = accept('{')
    expect('°')
    if (braced) expect('}')
    const scale = peek()
    if (scale?.type !== 'symbol' || !/^[CF]$/.test(scale.text)) return call('degrees', value)
    advance()
    return value
  }

  const exponent = (): Expression => nested(() => (accept('-') ? call('negate', exponent()) : primary()))

  function primary(): Expression {
    return nested(() => {
      const token = peek()
      if (token === undefined) throw new Unreadable()
      if (token.type === 'number') {
        advance()
        return afterNumber(token)
      }
      if (token.type === 'symbol' || (token.type === 'unit' && token.text.length === 1)) {
        advance()
        return afterSymbol(token.text)
      }
      if (token.type === 'words' || token.type === 'unit') return words()
      if (token.type === 'function') {
        advance()
        return elementary(token.text)
      }
      if (token.type === 'scale') {
        advance()
        return whole(token.factor)
      }
      if (token.type === 'half') throw new Unreadable()
      return marked(token.text)
    })
  }

  /** A mixed number, digits with a base, or the number alone. */
  function afterNumber(token: Token & { type: 'number' }): Expression {
    const number: Expression = { kind: 'number', value: token.value, rounded: token.rounded }
    if (token.rounded || token.digits === '') return number
    if (mark() === '_') {
      advance()
      return { kind: 'based', digits: token.digits, base: subscript() }
    }
    if (mark() === 'frac' && isPlainFraction()) return call('add', number, primary())
    const [numerator, slash, denominator] = [peek(), mark(1), peek(2)]
    if (numerator?.type === 'number' && numerator.space && slash === '/' && denominator?.type === 'number') {
      advance(3)
      const part = divide(numerator.value, denominator.value)
      const value = part && add(token.value, part)
      if (!value) throw new Unreadable()
      return { kind: 'number', value, rounded: false }
    }
    return number
  }

  /** Whether the `\\frac` that comes next is one of two numbers: after a whole number, a mixed number. */
  function isPlainFraction(): boolean {
    let i = 1
    let digits = ''
    while (i < 8 && (peek(i)?.type === 'number' || mark(i) === '{' || mark(i) === '}')) {
      const token = peek(i++)
      digits += token?.type === 'number' ? `${token.digits} ` : mark(i - 1)
      if (/^(?:\{\d+ \}|\d )(?:\{\d+ \}|\d+ )$|^\d\d+ $/.test(digits)) return true
    }
    return false
  }

  function afterSymbol(letter: string): Expression {
    let name = letter
    for (;;) {
      if (accept("'")) name += "'"
      else if (accept('_')) name += `_${subscript()}`
      else break
    }
    if (FUNCTION_LETTERS.has(letter) && mark() === '(') {
      const inside = [peek(1), peek(2)]
      if ((inside[0]?.type === 'symbol' || inside[0]?.type === 'number') && mark(2) === ')') {
        name += `(${inside[0].type === 'number' ? inside[0].digits : inside[0].text})`
        advance(3)
      }
    }
    return { kind: 'symbol', name }
  }

  /** The text of a subscript: one token or a group. */
  function subscript(): string {
    const nameOf = (token: Token | undefined): string => {
      if (token === undefined || token.type === 'scale' || token.type === 'half') throw new Unreadable()
      return token.type === 'number' ? token.digits : token.text
    }
    if (!accept('{')) {
      const name = nameOf(peek())
      advance()
      return name
    }
    let name = ''
    while (!accept('}')) {
      name += nameOf(peek())
      advance()
    }
    return name
  }

  /** An answer in words: nothing but words up to the item's end. */
  function words(): Expression {
    const found: string[] = []
    for (;;) {
      const token = peek()
      if (token?.type !== 'words' && token?.type !== 'unit' && token?.type !== 'symbol') break
      found.push(token.text.toLowerCase())
      advance()
    }
    if (!ends() && !separates() && !RELATIONS.has(mark())) throw new Unreadable()
    return { kind: 'words', text: found.join(' ') }
  }

  /** `\sin x`, `\sin^2 x`, `\log_2 8`, `\ln(x + 1)`: without brackets the argument is the product that follows. */
  function elementary(name: string): Expression {
    let base: Expression | null = null
    let exponentOf: Expression | null = null
    for (;;) {
      if (accept('_')) base = argument()
      else if (accept('^')) exponentOf = exponent()
      else break
    }
    let inside: Expression
    if (mark() === '(' || mark() === '{') inside = primary()
    else {
      inside = signed()
      while (peek()?.type !== 'function' && mark() !== '(' && startsFactor() && !skipUnits(inside))
        inside = call('multiply', inside, factor())
    }
    const inverse = exponentOf?.kind === 'call' && exponentOf.name === 'negate' && isOne(exponentOf.args[0])
    const named = inverse && /^(?:sin|cos|tan)$/.test(name) ? `arc${name}` : name
    const value =
      named === 'ln'
        ? call('log', inside, { kind: 'symbol', name: 'e' })
        : named === 'log' || named === 'lg'
          ? call('log', inside, base ?? whole(10n))
          : call(named as ElementaryFunction, inside)
    return exponentOf === null || named !== name ? value : call('power', value, exponentOf)
  }

  const isOne = (e: Expression): boolean => e.kind === 'number' && e.value.n === e.value.d

  /** A command's argument: a group, one digit or one token. */
  function argument(): Expression {
    const digit = cursor.takeDigit()
    if (digit !== null) return whole(digit)
    return primary()
  }

  function marked(text: string): Expression {
    advance()
    if (text === 'frac') {
      const numerator = argument()
      return call('divide', numerator, argument())
    }
    if (text === 'binom') {
      const n = argument()
      return call('binomial', n, argument())
    }
    if (text === 'sqrt') {
      let index = whole(2n)
      if (accept('[')) {
        index = sum()
        expect(']')
      }
      return call('root', primary(), index)
    }
    if (text === '|') {
      bars++
      const inside = sum()
      bars--
      expect('|')
      return call('abs', inside)
    }
    if (text === 'lfloor' || text === 'lceil') {
      const inside = sum()
      expect(text === 'lfloor' ? 'rfloor' : 'rceil')
      return call(text === 'lfloor' ? 'floor' : 'ceil', inside)
    }
    if (text === 'empty') return { kind: 'list', open: '{', close: '{', items: [] }
    if (OPENS.has(text)) return bracketed(text)
    if (text.startsWith('begin ') && MATRICES.has(text.slice(6))) return matrix(text.slice(6))
    throw new Unreadable()
  }

  /** A group, tuple, interval or set. */
  function bracketed(opening: string): Expression {
    const outerBars = bars
    bars = 0
    const inside = items()
    bars = outerBars
    const [open, close] = [OPENS.get(opening), CLOSES.get(mark())]
    if (open === undefined || close === undefined) throw new Unreadable()
    advance()
    // A LaTeX group is closed by its own kind; ( and [ may close each other: an interval.
    if ((open === '{') !== (close === '{')) throw new Unreadable()
    if (opening === '{' && inside.length > 1) return { kind: 'list', open: '', close: '', items: inside }
    if (inside.length === 1 && opening !== '\\{') return inside[0]
    if (inside.length === 0 && opening !== '\\{') throw new Unreadable()
    const result: Expression = { kind: 'list', open, close, items: inside }
    // A capital U between brackets joins sets.
    const next = peek()
    if (next?.type === 'symbol' && next.text === 'U' && OPENS.has(mark(1))) {
      advance()
      const other = primary()
      return { kind: 'union', parts: other.kind === 'union' ? [result, ...other.parts] : [result, other] }
    }
    return result
  }

  function matrix(environment: string): Expression {
    const rows: Expression[][] = [[]]
    while (!accept(`end ${environment}`)) {
      if (accept('\\\\')) rows.push([])
      else if (!accept('&')) rows[rows.length - 1].push(sum())
    }
    return { kind: 'matrix', rows: rows.filter((row) => row.length > 0) }
  }

  // Words and signs that say nothing, before the answer.
  for (let token = peek(), first = true; token !== undefined; token = peek(), first = false) {
    const filler = token.type === 'words' && FILLERS.has(token.text)
    if (!filler && mark() !== '≈' && mark() !== '=' && (first || mark() !== ':')) break
    advance()
  }
  const found = items()
  if (peek() !== undefined || found.length === 0) throw new Unreadable()
  return found.length === 1 ? found[0] : { kind: 'list', open: '', close: '', items: found }
}

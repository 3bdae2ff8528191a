/**
 * Reads one written answer, LaTeX or plain, as a mathematical expression: a tokenizer and a recursive-descent
 * parser. Text and depth are bounded, so time is too; what it cannot read is null, never an exception. It decides
 * nothing (see math-equal.ts) and touches nothing.
 */
import { add, decimal, divide, type Rational, rational } from './rational.ts'

/** Text longer than this (in UTF-16 units) is no answer and is not parsed. */
export const LONGEST_EXPRESSION = 1024

/** Nesting deeper than this is not parsed. */
const DEEPEST = 60

/** Lists of more items are not parsed: they are compared item by item. */
const LONGEST_LIST = 64

const ELEMENTARY = [
  ...(['sin', 'cos', 'tan', 'cot', 'sec', 'csc', 'arcsin', 'arccos', 'arctan'] as const),
  ...(['sinh', 'cosh', 'tanh', 'exp'] as const),
]
export type ElementaryFunction = (typeof ELEMENTARY)[number]

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
  /** A variable, or one of the constants `pi`, `e`, `i`, `infinity`. */
  | { kind: 'symbol'; name: string }
  | { kind: 'call'; name: Operation; args: Expression[] }
  /** Tuple, interval or set; '' for a bare list (`1, 2`, `1 and 2`). `close` is the bracket of the opening's kind. */
  | { kind: 'list'; open: Bracket; close: Bracket; items: Expression[] }
  | { kind: 'matrix'; rows: Expression[][] }
  | { kind: 'union'; parts: Expression[] }
  /** `3 : 4`, `1 : 2 : 3`. */
  | { kind: 'ratio'; parts: Expression[] }
  /** sides[0] operators[0] sides[1] operators[1] ... */
  | { kind: 'relation'; operators: Relation[]; sides: Expression[] }
  /** An answer in words, lower case. */
  | { kind: 'words'; text: string }

/** Thrown inside this file alone, where text is no answer that the grammar knows. */
class Unreadable extends Error {}

/** The expression that `text` writes, or null. `thousands`: read 1,234 as one number rather than as two. */
export function parseExpression(text: string, options: { thousands: boolean }): Expression | null {
  if (text.length > LONGEST_EXPRESSION) return null
  try {
    return parseTokens(tokenize(text, options.thousands))
  } catch (error) {
    if (error instanceof Unreadable) return null
    throw error
  }
}

/* Tokens */

type Token = { space: boolean } & (
  | { type: 'number'; value: Rational; rounded: boolean; digits: string }
  /** A letter, a Greek letter or a constant. */
  | { type: 'symbol'; text: string }
  | { type: 'words'; text: string }
  /** A short unit such as `cm`, or a letter that may be one. */
  | { type: 'unit'; text: string }
  | { type: 'scale'; power: number }
  | { type: 'function'; text: string }
  /** An operator, a bracket, or a command with arguments such as `\frac`. */
  | { type: 'mark'; text: string }
)

type TokenBody = Token extends infer T ? (T extends Token ? Omit<T, 'space'> : never) : never

/** Characters and commands that only say how to set the text. */
const SPACE =
  /(?:[\s~\u00a0\u2009\u202f$€£¥"]|\\[$€£,;:!> ()[\]]|\\(?:quad|qquad|angle|displaystyle|textstyle|limits|left|right|[bB]igg?[lr]?|mleft|mright|hspace\{[^{}]*\}|boxed|fbox|pounds|euro)(?![a-zA-Z])\.?)+/y
const COMMAND = /\\([a-zA-Z]+)\*?/y
const LETTERS = /[A-Za-z]{3,}(?:['’-][A-Za-z]+)*|[A-Za-z]+/y
const PLAIN = /(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,4}(?![\dA-Za-z]))?/y
const GROUP = String.raw`(?:,|\{,\}|,?\\[!,;: ]\s?|[\u00a0\u2009\u202f ])`
const GROUPED = new RegExp(String.raw`\d{1,3}(${GROUP})\d{3}(?:${GROUP}\d{3})*(?!\d)(?:\.\d+)?`, 'y')
const REPEATING = /(\d*)\.(\d*)\\overline\s?\{(\d+)\}/y

const GREEK =
  'alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta kappa lambda mu nu xi rho sigma tau phi varphi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega ell'
/** LaTeX commands that stand for one token. */
const COMMANDS = new Map<string, TokenBody>([
  ...GREEK.split(' ').map((name): [string, TokenBody] => [name, { type: 'symbol', text: name }]),
  ['pi', { type: 'symbol', text: 'pi' }],
  ['infty', { type: 'symbol', text: 'infinity' }],
  ['imath', { type: 'symbol', text: 'i' }],
  ...[...ELEMENTARY, 'ln', 'log', 'lg'].map((name): [string, TokenBody] => [
    name,
    { type: 'function', text: name },
  ]),
  ...Object.entries({
    frac: 'frac',
    dfrac: 'frac',
    tfrac: 'frac',
    cfrac: 'frac',
    sqrt: 'sqrt',
    binom: 'binom',
    dbinom: 'binom',
    tbinom: 'binom',
    cdot: '*',
    times: '*',
    ast: '*',
    div: '/',
    pm: '±',
    mp: '∓',
    le: '<=',
    leq: '<=',
    leqslant: '<=',
    ge: '>=',
    geq: '>=',
    geqslant: '>=',
    lt: '<',
    gt: '>',
    ne: '!=',
    neq: '!=',
    in: 'in',
    approx: '≈',
    cup: 'cup',
    circ: '°',
    degree: '°',
    degrees: '°',
    emptyset: 'empty',
    varnothing: 'empty',
    lfloor: 'lfloor',
    rfloor: 'rfloor',
    lceil: 'lceil',
    rceil: 'rceil',
    lvert: '|',
    rvert: '|',
    vert: '|',
    langle: '(',
    rangle: ')',
    lbrace: '\\{',
    rbrace: '\\}',
    lbrack: '[',
    rbrack: ']',
    colon: ':',
    prime: "'",
  }).map(([name, text]): [string, TokenBody] => [name, { type: 'mark', text }]),
])
/** Commands whose braces hold text, or letters in another face. */
const FACES = new Set([
  ...['text', 'textbf', 'textit', 'textrm', 'textnormal', 'textsf', 'texttt', 'mbox', 'hbox', 'operatorname'],
  ...[
    'mathrm',
    'mathbf',
    'mathit',
    'mathsf',
    'mathbb',
    'mathcal',
    'boldsymbol',
    'bm',
    'emph',
    'vec',
    'underline',
  ],
])
const CHARACTERS: Record<string, string> = {
  '−': '-',
  '–': '-',
  '—': '-',
  '‐': '-',
  '‑': '-',
  '×': '*',
  '·': '*',
  '⋅': '*',
  '∗': '*',
  '÷': '/',
  '∕': '/',
  '⁄': '/',
  '√': '\\sqrt ',
  π: '\\pi ',
  θ: '\\theta ',
  '∞': '\\infty ',
  '≤': '<=',
  '⩽': '<=',
  '≥': '>=',
  '⩾': '>=',
  '≠': '!=',
  '≈': '\\approx ',
  '∈': '\\in ',
  '∪': '\\cup ',
  '±': '\\pm ',
  '∅': '\\emptyset ',
  '°': '\\degree ',
  '²': '^2',
  '³': '^3',
  '½': '\\frac{1}{2}',
  '⅓': '\\frac{1}{3}',
  '⅔': '\\frac{2}{3}',
  '¼': '\\frac{1}{4}',
  '¾': '\\frac{3}{4}',
  '⅕': '\\frac{1}{5}',
  '⅛': '\\frac{1}{8}',
  '％': '%',
  '，': ',',
}
const WRITTEN_OTHERWISE = new RegExp(`[${Object.keys(CHARACTERS).join('')}]`, 'gu')

/** Short units that read as units right after a number; single letters only after a space. */
const UNITS = new Set(
  'cm mm km nm kg mg ft yd in oz lb lbs hr hrs mi mph kph ml mL am pm sq cu deg rad sec min mins usd USD kWh Hz m g s h L l'.split(
    ' ',
  ),
)
/** Words for powers of ten. */
const SCALES = new Map([
  ['hundred', 2],
  ['thousand', 3],
  ['million', 6],
  ['billion', 9],
  ['trillion', 12],
])

/** The tokens of `text`; unreadable at the first thing that no answer is written with. */
function tokenize(source: string, thousands: boolean): Token[] {
  const text = source.normalize('NFC').replace(WRITTEN_OTHERWISE, (c) => CHARACTERS[c])
  const tokens: Token[] = []
  /** Ends of text groups (`\text{...}`): inside them runs of letters are words. */
  let textUntil = -1
  let space = false
  let at = 0
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at
    const found = pattern.exec(text)
    if (found) at = pattern.lastIndex
    return found
  }
  const push = (token: TokenBody): void => {
    tokens.push({ ...token, space } as Token)
    space = false
  }
  while (at < text.length) {
    if (at === textUntil) {
      textUntil = -1
      space = true
      at++
      continue
    }
    // A row's end is two backslashes, perhaps with a length.
    const rowEnd = match(/\\\\(?:\[[^\]]{0,9}\])?/y)
    if (rowEnd) {
      push({ type: 'mark', text: '\\\\' })
      continue
    }
    if (/\d/.test(text[at]) || (text[at] === '.' && /\d|\\overline/.test(text.slice(at + 1, at + 10)))) {
      push(readNumber(match, thousands))
      continue
    }
    if (match(SPACE)) {
      space = true
      continue
    }
    const command = match(COMMAND)
    if (command) {
      const name = command[1]
      const known = COMMANDS.get(name)
      if (known) push(known)
      else if (FACES.has(name)) {
        const end = text[at] === '{' ? groupEnd(text, at) : -1
        if (end < 0) throw new Unreadable()
        if (textUntil < 0) {
          textUntil = end
          at++
        }
        space = true
      } else if (name === 'begin' || name === 'end') {
        const environment = match(/\s?\{([a-z]+)\*?\}(?:\{[clr|]+\})?/y)
        if (!environment) throw new Unreadable()
        push({ type: 'mark', text: `${name} ${environment[1]}` })
      } else throw new Unreadable()
      continue
    }
    const letters = match(LETTERS)
    if (letters) {
      const run = letters[0]
      const previous = text[at - run.length - 1] ?? ' '
      const next = text.slice(at, at + 8)
      for (const token of readLetters(run, previous, next, textUntil >= 0)) push(token)
      continue
    }
    const mark = match(/\*\*|<=|>=|!=|:=|\\[{}%|]|[-+*/^_=<>()[\]{}|!%,;:&'.]/y)
    if (!mark) throw new Unreadable()
    // A full stop ends a sentence; anywhere else it is no part of an answer.
    if (mark[0] === '.') {
      if (/\S/.test(text.slice(at).replace(/[\s$*}\\)\]]/g, ''))) throw new Unreadable()
      continue
    }
    const simple: Record<string, string> = { '**': '^', '\\%': '%', '\\|': '|', ':=': '=' }
    push({ type: 'mark', text: simple[mark[0]] ?? mark[0] })
  }
  return tokens
}

/** Index of the brace that closes the one at `open`, or -1. */
function groupEnd(text: string, open: number): number {
  let depth = 0
  for (let i = open; i < text.length; i++) {
    if (text[i] === '\\') i++
    else if (text[i] === '{') depth++
    else if (text[i] === '}' && --depth === 0) return i
  }
  return -1
}

function readNumber(match: (p: RegExp) => RegExpExecArray | null, thousands: boolean): TokenBody {
  const repeating = match(REPEATING)
  if (repeating) {
    const [, whole, fixed, cycle] = repeating
    const start = decimal(`${whole || '0'}.${fixed}`)
    const nines = rational(BigInt(cycle), BigInt('9'.repeat(cycle.length)) * 10n ** BigInt(fixed.length))
    const value = start && nines && add(start, nines)
    if (!value) throw new Unreadable()
    return { type: 'number', value, rounded: false, digits: '' }
  }
  const grouped = thousands ? match(GROUPED) : null
  const written = grouped ?? match(PLAIN)
  if (!written) throw new Unreadable()
  const [digits, exponent] = written[0].replace(grouped ? /[^\d.]/g : /$^/g, '').split(/e/i)
  const value = decimal(digits, Number(exponent ?? 0))
  if (!value) throw new Unreadable()
  return { type: 'number', value, rounded: digits.includes('.'), digits: exponent ? '' : digits }
}

/** The tokens of a run of letters, given the character before it and the text after it. */
function readLetters(run: string, previous: string, next: string, inText: boolean): TokenBody[] {
  const lower = run.toLowerCase()
  if (lower === 'and' || lower === 'or') return [{ type: 'mark', text: ',' }]
  if (lower === 'percent' || lower === 'percentage' || lower === 'pct') return [{ type: 'mark', text: '%' }]
  const power = SCALES.get(lower)
  if (power !== undefined) return [{ type: 'scale', power }]
  if (run === 'x' && /\d|[ )]/.test(previous) && /^\s?10\s?(?:\^|\*\*)/.test(next))
    return [{ type: 'mark', text: '*' }]
  if (!inText) {
    if (run === 'sqrt') return [{ type: 'mark', text: 'sqrt' }]
    if (run === 'pi' || run === 'Pi') return [{ type: 'symbol', text: 'pi' }]
    if (run === 'inf' || lower === 'infinity' || run === 'oo') return [{ type: 'symbol', text: 'infinity' }]
    const known = COMMANDS.get(run)
    if (known?.type === 'function') return [known]
  }
  const afterDigit = /\d/.test(previous)
  if (afterDigit && /^(?:st|nd|rd|th)$/.test(run)) return []
  if (UNITS.has(run) && (run.length > 1 ? afterDigit || /[\s{}]/.test(previous) : /[\s{}]/.test(previous)))
    return [{ type: 'unit', text: run }]
  if (run.length === 1) return [{ type: 'symbol', text: run }]
  if (inText || ((run.length > 2 || FILLERS.has(lower)) && !/[\dA-Za-z^_]/.test(previous)))
    return [{ type: 'words', text: lower }]
  return [...run.replace(/[^A-Za-z]/g, '')].map((letter) => ({ type: 'symbol', text: letter }))
}

/* Grammar */

const call = (name: Operation, ...args: Expression[]): Expression => ({ kind: 'call', name, args })
const whole = (n: bigint): Expression => ({ kind: 'number', value: { n, d: 1n }, rounded: false })

const RELATIONS = new Set(['=', '≈', '<', '>', '<=', '>=', '!=', 'in'])
/** Words that may stand before an answer and say nothing. */
const FILLERS = new Set(
  'the final answer is are so therefore thus total of equals equal to about approximately approx roughly'.split(
    ' ',
  ),
)
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
  let at = 0
  let depth = 0
  /** Open `|...|` groups: inside one, a bar closes it. */
  let bars = 0
  /** What is left of a number of which `\frac12` has taken the first digit. */
  let rest: Token | null = null

  const peek = (ahead = 0): Token | undefined => (rest && ahead === 0 ? rest : tokens[at + ahead])
  const mark = (ahead = 0): string => {
    const token = peek(ahead)
    return token?.type === 'mark' ? token.text : ''
  }
  const advance = (): void => {
    rest = null
    at++
  }
  const accept = (text: string): boolean => {
    if (mark() !== text) return false
    advance()
    return true
  }
  const expect = (text: string): void => {
    if (!accept(text)) throw new Unreadable()
  }
  const nested = (parse: () => Expression): Expression => {
    if (++depth > DEEPEST) throw new Unreadable()
    const result = parse()
    depth--
    return result
  }
  const separates = (): boolean => mark() === ',' || mark() === ';'
  const ends = (): boolean => peek() === undefined || CLOSES.has(mark())

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
    const parts = [union()]
    while (accept(':')) parts.push(union())
    return parts.length === 1 ? parts[0] : { kind: 'ratio', parts }
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
   * Steps over words and units after a quantity, with their powers and quotients, where nothing of the item comes
   * after them. Of a quantity with variables, a single letter is one more variable.
   */
  function skipUnits(quantity: Expression): boolean {
    const first = peek()
    if (first?.type === 'unit' && first.text.length === 1 && hasVariable(quantity)) return false
    const isUnit = (i: number) => peek(i)?.type === 'words' || peek(i)?.type === 'unit'
    let i = mark() === '(' ? 1 : 0
    if (!isUnit(i)) return false
    while (isUnit(i)) {
      i++
      // A power of a unit: cm^2, cm^{2}.
      if (mark(i) === '^') i += mark(i + 1) === '{' ? 4 : 2
      // A quotient or a product of units (km/h), and a letter among words.
      if (/^[/*-]$/.test(mark(i)) && isUnit(i + 1)) i++
      else if (mark(i) === '/' && peek(i + 1)?.type === 'symbol') i += 2
      else if (peek(i)?.type === 'symbol' && isUnit(i + 1)) i++
    }
    if (mark() === '(' && mark(i++) !== ')') return false
    const next = mark(i)
    if (peek(i) !== undefined && !CLOSES.has(next) && !RELATIONS.has(next) && next !== ',' && next !== ';')
      return false
    for (; i > 0; i--) advance()
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
        base = call('scaled', base, whole(10n ** BigInt(next.power)))
      } else if (mark() === '°') base = degrees(base)
      else if (accept('^')) {
        if (mark() === '°' || (mark() === '{' && mark(1) === '°')) {
          const braced = accept('{')
          base = degrees(base)
          if (braced) expect('}')
        } else if (mark() === '{' && peek(1)?.type === 'words') {
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
    expect('°')
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
        return whole(10n ** BigInt(token.power))
      }
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
      for (let i = 0; i < 3; i++) advance()
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
        for (let i = 0; i < 3; i++) advance()
      }
    }
    return { kind: 'symbol', name }
  }

  /** The text of a subscript: one token or a group. */
  function subscript(): string {
    const nameOf = (token: Token | undefined): string => {
      if (token === undefined || token.type === 'scale') throw new Unreadable()
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
    const token = peek()
    if (token?.type === 'number' && /^\d{2,}$/.test(token.digits)) {
      const [first, others] = [token.digits[0], token.digits.slice(1)]
      const value = decimal(others)
      if (!value) throw new Unreadable()
      rest = { type: 'number', value, rounded: false, digits: others, space: false }
      return whole(BigInt(first))
    }
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

  // Words that say nothing, before the answer.
  for (let token = peek(); token !== undefined; token = peek()) {
    const filler = token.type === 'words' && FILLERS.has(token.text)
    if (!filler && !(at > 0 && (mark() === ':' || mark() === '='))) break
    advance()
  }
  const found = items()
  if (peek() !== undefined || found.length === 0) throw new Unreadable()
  return found.length === 1 ? found[0] : { kind: 'list', open: '', close: '', items: found }
}

/**
 * Splits one written answer, LaTeX or plain, into tokens: numbers, symbols, words, units and marks. What is only
 * setting (spaces, faces, dollar signs) goes; characters that are written otherwise in LaTeX become LaTeX.
 */
import { add, decimal, type Rational, rational } from './rational.ts'

const ELEMENTARY = [
  ...(['sin', 'cos', 'tan', 'cot', 'sec', 'csc', 'arcsin', 'arccos', 'arctan'] as const),
  ...(['sinh', 'cosh', 'tanh', 'exp'] as const),
]
export type ElementaryFunction = (typeof ELEMENTARY)[number]

/** Thrown by the tokenizer and the parser alone, at text that is no answer they know. */
export class Unreadable extends Error {}

/** Words that may stand before an answer and say nothing. */
export const FILLERS = new Set(
  'the final answer is are so therefore thus total of equals equal to about approximately approx roughly'.split(
    ' ',
  ),
)
export type Token = { space: boolean } & (
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
export function tokenize(source: string, thousands: boolean): Token[] {
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

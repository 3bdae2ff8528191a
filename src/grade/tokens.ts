/**
 * Splits one written answer, LaTeX or plain, into tokens: numbers, symbols, words, units and marks. What is only
 * setting (spaces, faces, dollar signs) goes.
 */
import { formulaOfWords, plainCharacters } from './characters.ts'
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
  | { type: 'scale'; factor: bigint }
  /** The half of the day of a time. */
  | { type: 'half'; text: 'am' | 'pm' }
  | { type: 'function'; text: string }
  /** An operator, a bracket, or a command with arguments such as `\frac`. */
  | { type: 'mark'; text: string }
)

type TokenBody = Token extends infer T ? (T extends Token ? Omit<T, 'space'> : never) : never

/** Characters and commands that only say how to set the text, and currencies before an amount. */
const SPACE =
  /(?:[ ~$€£¥₹¢"“”«»`]|\\[$€£,;:!> ()[\]]|(?<![A-Za-z\\])(?:(?:US|CA|AU|NZ|HK|[ACS]) ?(?=\}? ?\\?\$)|(?:USD|EUR|GBP|CAD|AUD|INR|Rs\.?) ?(?=\}? ?\\?\$?\d))|\\(?:quad|qquad|angle|displaystyle|textstyle|limits|left|right|[bB]igg?[lr]?|mleft|mright|hspace\{[^{}]*\}|boxed|fbox|pounds|euro|text(?:dollar|euro|sterling))(?![a-zA-Z])\.?)+/y
const COMMAND = /\\([a-zA-Z]+)\*?/y
const LETTERS = /[A-Za-z]{3,}(?:['’-][A-Za-z]+)*|[A-Za-z]+/y
const PLAIN = /(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,4}(?![\dA-Za-z]))?/y
const GROUP = String.raw`(?:,|\{,\}|,? ?\\[!,;: ] ?| )`
const GROUPED = new RegExp(String.raw`\d{1,3}(${GROUP})\d{3}(?:${GROUP}\d{3})*(?!\d)(?:\.\d+)?`, 'y')
const REPEATING = /(\d*)\.(\d*)\\overline ?\{(\d+)\}/y
/** The half of the day, after a number. */
const HALF = /([ap])\.? ?m\b\.?/iy

const GREEK =
  'alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta kappa lambda mu nu xi rho sigma tau phi varphi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega ell'
/** LaTeX commands that stand for one token. */
const COMMANDS = new Map<string, TokenBody>([
  ...GREEK.split(' ').map((name): [string, TokenBody] => [name, { type: 'symbol', text: name }]),
  ['pi', { type: 'symbol', text: 'pi' }],
  ['infty', { type: 'symbol', text: 'infinity' }],
  ['R', { type: 'symbol', text: 'ℝ' }],
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
    sim: '≈',
    simeq: '≈',
    cong: '≈',
    setminus: '-',
    backslash: '-',
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
    'Bbb',
    'mathcal',
    'boldsymbol',
    'bm',
    'emph',
    'vec',
    'underline',
  ],
])
/** Short units that read as units right after a number; single letters only after a space. */
const UNITS = new Set(
  'cm mm km nm kg mg ft yd in oz lb lbs hr hrs mi mph kph ml mL am pm sq cu deg rad sec min mins usd USD kWh Hz m g s h L l'.split(
    ' ',
  ),
)
/** Words for how many times a number is meant. */
const SCALES = new Map([
  ['dozen', 12n],
  ['hundred', 100n],
  ['thousand', 1000n],
  ['million', 10n ** 6n],
  ['billion', 10n ** 9n],
  ['trillion', 10n ** 12n],
])

/** No answer is longer with its characters written out. */
const LONGEST_TEXT = 2048

/** How a text is read where it may mean two things. */
export interface Reading {
  /** 1,234 is one number rather than a list of two. */
  thousands: boolean
  /** The letters after a number, as in `2 abc`, are variables rather than a unit in words. */
  variables: boolean
}

/** The tokens of `source`; unreadable at the first thing that no answer is written with. */
export function tokenize(source: string, { thousands, variables }: Reading): Token[] {
  const text = formulaOfWords(plainCharacters(source))
  if (text.length > LONGEST_TEXT) throw new Unreadable()
  const tokens: Token[] = []
  /** Ends of text groups (`\text{...}`): inside them runs of letters are words. */
  let textUntil = -1
  /** Whether that text is upright: there a capital after a number is a unit, `24\\text{ N}`. */
  let upright = false
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
      upright = false
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
    const half = tokens.at(-1)?.type === 'number' && match(HALF)
    if (half) {
      push({ type: 'half', text: half[1].toLowerCase() === 'a' ? 'am' : 'pm' })
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
        match(/ (?=\{)/y)
        const named = match(/\{ ?([a-z]{2,6}) ?\}/y)
        const its = named && COMMANDS.get(named[1])
        if (its?.type === 'function') {
          push(its)
          continue
        }
        if (named) at -= named[0].length
        const numbers = /bb/i.test(name) && match(/\{ ?([RZNQC]) ?\}| ?([RZNQC])(?![A-Za-z])/y)
        if (numbers) {
          push({ type: 'symbol', text: SETS[numbers[1] ?? numbers[2]] })
          continue
        }
        // Without braces a face is of the one character after it.
        const letter = match(/ ?([A-Za-z])/y)
        if (letter) {
          push({ type: 'symbol', text: letter[1] })
          continue
        }
        const end = text[at] === '{' ? groupEnd(text, at) : -1
        if (end < 0) throw new Unreadable()
        if (textUntil < 0) {
          textUntil = end
          upright = /^(?:text|textrm|textnormal|mathrm|mbox|hbox)$/.test(name)
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
      const before = text.slice(Math.max(0, at - run.length - 2), at - run.length)
      const next = text.slice(at, at + 16)
      if (/^[NJWVATKC]$/.test(run) && upright && tokens.at(-1)?.type === 'number') {
        push({ type: 'unit', text: run })
        continue
      }
      for (const token of readLetters(run, before, next, textUntil >= 0, variables)) push(token)
      continue
    }
    const mark = match(/\*\*|<=|>=|!=|:=|\\[{}%|]|[-+*/^_=<>()[\]{}|!%,;:&'.]/y)
    if (!mark) throw new Unreadable()
    // A full stop ends a sentence; anywhere else it is no part of an answer.
    if (mark[0] === '.') {
      // ... but of `sq. ft`.
      if (/^(?:words|unit)$/.test(tokens.at(-1)?.type ?? '') && /^ ?[a-z]/.test(text.slice(at, at + 2)))
        continue
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

/** The sets of numbers, by the letter of their face. */
const SETS: Record<string, string> = { R: 'ℝ', Z: 'ℤ', N: 'ℕ', Q: 'ℚ', C: 'ℂ' }

/** Words of two letters: where one is all that an answer says, it is no product of variables. */
const SHORT_WORDS = new Set(
  'no on up us go he it in at we me my so ok of is am an as be by do if to hi oh'.split(' '),
)

/** The tokens of a run of letters, given the two characters before it and some of the text after it. */
function readLetters(
  run: string,
  before: string,
  next: string,
  inText: boolean,
  variables: boolean,
): TokenBody[] {
  const lower = run.toLowerCase()
  /** What stands before the run, a space aside: a verdict does not depend on a space. */
  const previous = before.trimEnd().at(-1) ?? ''
  if (lower === 'and' || lower === 'or') return [{ type: 'mark', text: ',' }]
  if (lower === 'percent' || lower === 'percentage' || lower === 'pct') return [{ type: 'mark', text: '%' }]
  if (
    /^(?:minus|negative|plus)$/.test(lower) &&
    /^[ {}$]*(?:\\?\$|\\(?:[dtc]?frac|sqrt|pi)\b|[\d.(]|[b-hj-z]\b)/.test(next)
  )
    return [{ type: 'mark', text: lower === 'plus' ? '+' : '-' }]
  const factor = SCALES.get(lower)
  if (factor !== undefined) return [{ type: 'scale', factor }]
  if (/^[xX]$/.test(run) && /[\d)}]/.test(previous) && /^ ?10 ?(?:\^|\*\*)/.test(next))
    return [{ type: 'mark', text: '*' }]
  const known = COMMANDS.get(run)
  if (!inText) {
    if (run === 'sqrt') return [{ type: 'mark', text: 'sqrt' }]
    if (run === 'pi' || run === 'Pi') return [{ type: 'symbol', text: 'pi' }]
    if (run === 'inf' || lower === 'infinity' || run === 'oo') return [{ type: 'symbol', text: 'infinity' }]
    if (known?.type === 'function') return [known]
  }
  const afterFactor = /[\d})]/.test(previous)
  if (/^(?:st|nd|rd|th)$/.test(run) && /\d/.test(previous)) return []
  if (/^(?:st|nd|rd|th)$/.test(run) && before.endsWith('^{')) return [{ type: 'words', text: run }]
  if (UNITS.has(run) && (afterFactor || /(?:[ {]|\\[,;:!])$/.test(before)))
    return [{ type: 'unit', text: run }]
  if (run.length === 1) return [{ type: 'symbol', text: run }]
  const symbols = [...run.replace(/[^A-Za-z]/g, '')].map((text): TokenBody => ({ type: 'symbol', text }))
  if (inText) return [{ type: 'words', text: lower }]
  if (run.length === 2 && SHORT_WORDS.has(lower) && previous === '' && next.trim() === '')
    return [{ type: 'words', text: lower }]
  if (run.length === 2 && !FILLERS.has(lower)) return symbols
  if (/[A-Za-z^_]/.test(before.at(-1) ?? '')) return symbols
  if (afterFactor && (variables || !/[aeiouy]/i.test(run))) return symbols
  // Without a space, letters after a number are a word only where they look like one: `5apples` and not `2abc`.
  if (/[\d})]/.test(before.at(-1) ?? '') && run.length < 4) return symbols
  return [{ type: 'words', text: lower }]
}

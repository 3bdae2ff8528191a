/**
 * One way of writing for characters that stand for the same: Unicode's mathematics as LaTeX, invisible characters
 * gone, white space single; and sets that are named in words, as the sets. Pure, one pass for each table.
 */

const GREEK_LETTERS = [...'αβγδεζηθκλμνξπρστφχψωΓΔΘΛΣΦΨΩϵϕ']
const GREEK_NAMES =
  'alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega epsilon phi'

const CHARACTERS: Record<string, string> = {
  ...Object.fromEntries(GREEK_NAMES.split(' ').map((name, i) => [GREEK_LETTERS[i], `\\${name} `])),
  '−': '-',
  '–': '-',
  '—': '-',
  '‐': '-',
  '‑': '-',
  '‒': '-',
  '―': '-',
  '×': '*',
  '·': '*',
  '⋅': '*',
  '∗': '*',
  '∙': '*',
  '•': '*',
  '÷': '/',
  '∕': '/',
  '⁄': '/',
  '∶': ':',
  '√': '\\sqrt ',
  '∛': '\\sqrt[3]',
  '∜': '\\sqrt[4]',
  '∞': '\\infty ',
  '≤': '<=',
  '⩽': '<=',
  '≦': '<=',
  '≥': '>=',
  '⩾': '>=',
  '≧': '>=',
  '≠': '!=',
  '≈': '\\approx ',
  '≃': '\\approx ',
  '≅': '\\approx ',
  '∈': '\\in ',
  '∪': '\\cup ',
  '∖': '\\setminus ',
  '±': '\\pm ',
  '∓': '\\mp ',
  '∅': '\\emptyset ',
  '°': '\\degree ',
  º: '\\degree ',
  '′': "'",
  '⌊': '\\lfloor ',
  '⌋': '\\rfloor ',
  '⌈': '\\lceil ',
  '⌉': '\\rceil ',
  '⟨': '(',
  '⟩': ')',
  ℝ: '\\mathbb{R}',
  ℤ: '\\mathbb{Z}',
  ℕ: '\\mathbb{N}',
  ℚ: '\\mathbb{Q}',
  ℂ: '\\mathbb{C}',
}
const WRITTEN_OTHERWISE = new RegExp(`[${Object.keys(CHARACTERS).join('')}]`, 'gu')

/** Soft hyphens, zero-width characters, marks of direction, invisible operators, selectors, byte-order marks. */
export const INVISIBLE = /[\u00ad\u200b-\u200f\u2060-\u2064\u2066-\u2069\ufeff]|\ufe0f/g
/** Full-width ASCII and letters and digits in mathematical faces. */
const OTHER_FACE = /[\uff01-\uff5e\u{1d400}-\u{1d7ff}]/gu
const RAISED = /[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱ]+/g
const LOWERED = /[₀₁₂₃₄₅₆₇₈₉₊₋ₙ]+/g
const FRACTION = /[\u00bc-\u00be\u2150-\u215e\u2189]/g

/** `text` in the characters that the tokenizer reads. */
export function plainCharacters(text: string): string {
  return text
    .normalize('NFC')
    .replace(INVISIBLE, '')
    .replace(OTHER_FACE, (c) => c.normalize('NFKC'))
    .replace(RAISED, (run) => `^{${run.normalize('NFKC')}}`)
    .replace(LOWERED, (run) => `_{${run.normalize('NFKC')}}`)
    .replace(FRACTION, (c) => `\\frac{${c.normalize('NFKC').replace('⁄', '}{')}}`)
    .replace(WRITTEN_OTHERWISE, (c) => CHARACTERS[c])
    .replace(/\s+/g, ' ')
}

/** What is said in words of sets and of comparisons, with the formula that it stands for; the longer form first. */
const PHRASES: [RegExp, string][] = [
  [/\bper cent\b/gi, 'percent'],
  [/\b(?:the )?(?:empty|null) set\b/gi, '\\emptyset '],
  [/\b(?:the set of )?(?:all |any )?(?:the )?(?:non-?negative) real(?:s\b| numbers?\b)/gi, '[0,\\infty)'],
  [/\b(?:the set of )?(?:all |any )?(?:the )?positive real(?:s\b| numbers?\b)/gi, '(0,\\infty)'],
  [/\b(?:the set of )?(?:all |any )?(?:the )?negative real(?:s\b| numbers?\b)/gi, '(-\\infty,0)'],
  [
    /\b(?:the set of )?(?:all |any )?(?:the )?non-?zero real(?:s\b| numbers?\b)/gi,
    '\\mathbb{R} \\setminus 0',
  ],
  [/\b(?:the set of )?(?:all |any )?(?:the )?real(?:s\b| (?:number|value)s?\b)/gi, '\\mathbb{R}'],
  [/\b(?:for )?all real(?! values\b)\b/gi, ''],
  [/\\mathbb ?\{?R\}? ?\^ ?\{? ?\+ ?\}?/g, '(0,\\infty)'],
  [/\bapprox\./gi, '\\approx '],
  [/(?<=\d) divided by (?=[\d(\\])/gi, '/'],
  [/(?<=\d) times (?=\d)/gi, '*'],
  [/ squared\b/gi, '^2'],
  [/ cubed\b/gi, '^3'],
  [/\bout of(?= \d)| over(?= \d)|(?<=\d) in (?=\d{1,3}\W*$)/gi, '/'],
  [/(?<=^\W*\d+) to (?=\d+\W*$)/g, ':'],
  [/(?<=\d) and (?:a|one)[ -]half\b/gi, ' 1/2'],
  [/(?<=\d) and (?:a|one)[ -](?:quarter|fourth)\b/gi, ' 1/4'],
  [/(?<=\d) and (?:a|one)[ -]third\b/gi, ' 1/3'],
  [/(?<=\d) and two[ -]thirds\b/gi, ' 2/3'],
  [/(?<=\d) and three[ -](?:quarters|fourths)\b/gi, ' 3/4'],
  [/(?<=\d) in the morning\b/gi, ' AM'],
  [/(?<=\d) in the (?:afternoon|evening)\b/gi, ' PM'],
  [/\b(?:the set of )?all (?:the )?integers\b/gi, '\\mathbb{Z}'],
  [/,? ?\bexcept(?: for)?\b( ?\}?)(?: ?[a-z] ?=)?/gi, ' \\setminus $1'],
  [/\b(?:is )?(?:greater|more|larger) than or equal to\b/gi, '>='],
  [/\b(?:is )?(?:less|smaller) than or equal to\b/gi, '<='],
  [/\b(?:is )?(?:greater|more|larger) than\b/gi, '>'],
  [/\b(?:is )?(?:less|smaller) than\b/gi, '<'],
  [/\b(?:is )?(?:not equal to|unequal to)\b/gi, '!='],
  // A set given by its condition is the condition.
  [
    /\\\{ ?([a-z]) ?(?:\\in ?\\mathbb ?\{?R\}? ?)?(?:\\mid\b|\\vert\b|\\colon\b|\\,|[|:])[ :|]*(?=[^{}]*\1)((?:[^{}]|\{[^{}]*\})*)\\\}/g,
    '$2',
  ],
]

/** The base of a number in words: `101_{\text{two}}`. */
const BASES = ['two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten']
const BASE = new RegExp(String.raw`_ ?\{ ?\\(?:text|math)[a-z]* ?\{ ?(${BASES.join('|')}) ?\} ?\}`, 'gi')

/** `text`, of plain characters, with sets and comparisons that are named in words as formulas. */
export function formulaOfWords(text: string): string {
  if (!/[a-z]{2}|\\\{/i.test(text)) return text
  const numbered = text.replace(BASE, (_, name) => `_{${BASES.indexOf(name.toLowerCase()) + 2}}`)
  return PHRASES.reduce((so, [phrase, formula]) => so.replace(phrase, formula), numbered)
}

/** Whether `text` begins with a set that is named in words, such as `all real numbers except 2`. */
export const namesSet = (text: string): boolean =>
  /^[a-z]/i.test(text) && /^(?:\\mathbb|\\emptyset|[([])/.test(formulaOfWords(text))

/**
 * Finds the formulas in a sentence: where each begins and where it ends. A number is never cut out of what it is a
 * part of: `2x`, `3√2`, `3:4`, `x > 5`, `-\$0.50` and `10:30 AM` are one formula each. Decides nothing about answers,
 * and goes over the sentence once: what is looked ahead for is bounded.
 */

export interface Formula {
  start: number
  end: number
  /** As written, without the delimiters and spaces around it. */
  content: string
  /** Whether it stood between delimiters of mathematics. */
  delimited: boolean
}

/** Formulas between delimiters and groups in plain text are at most this long. */
const LONGEST = 400

/** `\( \)`, `\[ \]`, `$$ $$`, or `$ $`; a dollar sign inside, `\$`, closes nothing. */
const DELIMITED = new RegExp(
  [
    String.raw`\\\(([^\n]{1,${LONGEST}}?)\\\)`,
    String.raw`\\\[([^\n]{1,${LONGEST}}?)\\\]`,
    String.raw`\$\$((?:\\.|[^$\\\n]){1,${LONGEST}})\$\$`,
    String.raw`\$((?:\\.|[^$\\\n]){1,${LONGEST}})\$(?!\d)`,
  ].join('|'),
  'y',
)
/** Prose between two prices: `$5 and pays $`. */
const PROSE = /[A-Za-z]{3,}\s+[A-Za-z]{2,}|^\d[\d,.]*\s+[A-Za-z]{2,}/

/** Between two sentences. */
const SENTENCE_END =
  /(?<!\b(?:Mr|Mrs|Ms|Dr|St|vs|No|approx|a\.m|p\.m)\.)(?<=[.!?](?:[*$)"'”’]|\\[)\]]){0,4})\s+(?![\s+*/×÷=^])/g

const NUMBER =
  /(?:\d{1,3}(?:,\d{3})+(?!,?\d)|\d{1,3}(?: \d{3})+(?![,.]?\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d+(?![A-Za-z]))?|\.\d+/y
const SIGN = /(?:[-+−–‒±∓]|\\[mp][mp](?![a-z])|(?:minus|negative|plus)(?= )) ?/iy
const CURRENCY = /(?:\\?[$€£¥₹]|(?:US|CA|AU|NZ|HK)\\?\$) ?(?=[-−.\d])/y
const SYMBOL = /[√∛∜∞∅∑∫∠\p{No}\u0370-\u03ff\u2100-\u214f]/uy
/** A matrix, a set in braces, or any other command. */
const COMMANDS = [
  new RegExp(String.raw`\\begin\{([a-z]+)\*?\}[^\n]{0,${LONGEST}}?\\end\{\1\*?\}`, 'y'),
  new RegExp(String.raw`(?:\\left ?)?\\\{[^\n]{0,${LONGEST}}?\\\}`, 'y'),
  /\\(?:[a-zA-Z]+|[|!,;:%])/y,
]
const FUNCTION = /(?:a?(?:sin|cos|tan|cot|sec|csc)|arc(?:sin|cos|tan)|ln|log|exp|sqrt|pi)(?![a-z])/y
/** A variable, or a few capitals side by side. */
const NAME = /(?:[A-Z]{1,3}|[a-z])(?![A-Za-z]|['’](?!\())/y
/** What may stand right after a part of a formula and belongs to it. */
const ATTACHED = /[A-Za-z]+|['′]+(?=[\s(=])|!(?=[\d(.,;:)]| ?[+*/^=×÷-])|°[CF]?|[_^]/y
/** Signs and words of a number, and the half of the day of a time. */
const AFTER_NUMBER =
  / ?(?:\\?%|°[CF]?|(?:percent(?:age)?|per cent|pct|hundred|thousand|million|billion|trillion)\b)| ?[ap]\.? ?m\b\.?(?![a-z])|[€¢]/iy
/** What is attached to a number and is no mark of a sentence and no picture belongs to it, whatever it is: `5‰`. */
const UNKNOWN = /[^\s.,;:!?)*"'”’\]}$/–—<\-\p{So}\p{Cs}]\S{0,40}/uy
/** What goes on after a number and a space: the rest of a mixed number, a constant, a root. */
const MIXED =
  / (?:\d+\/\d+(?![\d/])|[¼-¾⅐-⅞π√∛]|pi\b|(?=sqrt ?[\d(]|(?:sin|cos|tan|log|ln)\b|\([a-z] ?[-+*/^])|[a-z](?=\^|[²³⁴]))/y
const OPERATOR =
  / ?(?:\*\*|<=|>=|!=|:=|[-−–](?! ?[A-Za-z]{2})|[+*/×÷·⋅∗^=<>≤≥⩽⩾≠≈±∓∪∈]|\/|[xX](?= ?\d)|:(?=\S)| : ?) ?| (?:plus|minus|times|divided by) (?=[-−$\\(\d]|[b-hj-z]\b)| (?=\\[a-zA-Z]|[√∛π])|(?<=(?:sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|\\[a-zA-Z]{2,9})(?:[_^]\{?[\w-]{1,9}\}?)?) (?=[-\d\\(√π]|[a-z](?![a-z]))/y
const RELATION = /[=<>≤≥⩽⩾≠≈∈∪]|\\(?:le|ge|lt|gt|ne|eq|approx|in|cup)/
const CLOSING: Record<string, RegExp> = { '(': /[)\]]/, '[': /[)\]]/, '{': /\}/, '|': /\|/ }

/** The formulas of a sentence, in order. */
export function formulas(sentence: string): Formula[] {
  const found: Formula[] = []
  for (let at = 0; at < sentence.length; ) {
    // Neither a raised digit nor a hyphen after a word begins a formula.
    const goesOn = /[\w)][-–−]/.test(sentence.slice(at - 1, at + 1)) || /[⁰¹²³⁴-⁹⁺⁻]/.test(sentence[at])
    const formula = goesOn ? null : formulaAt(sentence, at)
    if (formula !== null) {
      if (isSure(formula)) found.push(formula)
      at = formula.delimited ? formula.end : afterUnit(sentence, formula.end)
    } else at = Math.max(endOf(/[A-Za-z\d]+(?:['’-][A-Za-z]+)*/y, sentence, at), at + 1)
  }
  return found
}

/** Whether what stands between two dollar signs is words and no formula. */
const isProse = (content: string): boolean =>
  PROSE.test(
    content.replace(/\\[a-zA-Z]+(?:\{[^{}]*\})?|\b(?:hundred|thousand|million|billion|trillion)\b/g, ''),
  )

/** `line` in sentences; a full stop or an exclamation mark inside a formula ends none. */
export function sentences(line: string): string[] {
  const masked = line.replace(new RegExp(DELIMITED.source, 'g'), (formula) =>
    formula.replace(/[.!?](?!(?:\$\$?|\\[)\]])$)/g, '_'),
  )
  const found: string[] = []
  let start = 0
  for (const end of masked.matchAll(SENTENCE_END)) {
    found.push(line.slice(start, end.index))
    start = end.index + end[0].length
  }
  return [...found, line.slice(start)]
}

/** Whether it is a formula anywhere, and not only where one is expected: letters alone may be words. */
const isSure = (formula: Formula): boolean =>
  formula.delimited ||
  /\d|\\[a-z]/.test(formula.content) ||
  RELATION.test(formula.content) ||
  hasSymbol(formula.content)

const hasSymbol = (text: string): boolean => new RegExp(SYMBOL.source, 'u').test(text)

/** A sign or its word before a delimiter. */
const SIGN_BEFORE = /(?:[-−](?=[$\\])|(?:minus|negative) (?=\$|\\[([]))/iy

/** The formula that begins at `at`, or null. In plain text a formula has a number, a sign, a command or an operator. */
export function formulaAt(sentence: string, at: number): Formula | null {
  const unsigned = endOf(SIGN_BEFORE, sentence, at)
  const inner = unsigned > at ? formulaAt(sentence, unsigned) : null
  if (inner?.delimited && !/[=<>,]/.test(inner.content))
    return { ...inner, start: at, content: `-(${inner.content})` }
  DELIMITED.lastIndex = at
  const delimited = DELIMITED.exec(sentence)
  if (delimited) {
    const content = (delimited[1] ?? delimited[2] ?? delimited[3] ?? delimited[4]).trim()
    if (content !== '' && !(delimited[4] && isProse(content))) {
      // A sign or a word after the delimiter belongs to the number: `$25$%`, `$3$ million`.
      const closed = DELIMITED.lastIndex
      const end = /\d$/.test(content) ? endOf(AFTER_NUMBER, sentence, closed) : closed
      return { start: at, end, content: content + sentence.slice(closed, end), delimited: true }
    }
  }
  const end = runEnd(sentence, at)
  const content = sentence.slice(at, end).trim()
  const isBare = /^(?:[-–+−] )?[A-Za-z]*$/.test(content)
  return isBare ? null : { start: at, end, content, delimited: false }
}

/** Whether a formula, a group or a box of the sentence is opened and not closed: the text was cut in it. */
export function isCutOpen(sentence: string): boolean {
  let depth = 0
  for (let at = 0; at < sentence.length; ) {
    DELIMITED.lastIndex = at
    const delimited = /[\\$]/.test(sentence[at]) ? DELIMITED.exec(sentence) : null
    if (delimited) at = DELIMITED.lastIndex
    else if (/^\\[([]/.test(sentence.slice(at, at + 2))) return true
    else if (
      sentence[at] === '$' &&
      !/\d/.test(sentence[at - 1] ?? '') &&
      !/^ ?[-−.\d]/.test(sentence.slice(at + 1, at + 3))
    )
      return true
    else {
      if (sentence[at] === '{') depth++
      else if (sentence[at] === '}') depth--
      at += sentence[at] === '\\' ? 2 : 1
    }
  }
  return depth > 0
}

/** Where a match of a sticky pattern at `at` ends, or `at`. */
function endOf(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : at
}

/** The end of the run of plain mathematics that begins at `at`, or `at`. */
function runEnd(text: string, at: number): number {
  let end = operandEnd(text, at)
  while (end > at) {
    const operator = endOf(OPERATOR, text, end)
    if (operator === end) break
    const next = operandEnd(text, operator)
    if (next === operator) break
    end = next
  }
  return end > at ? endOf(UNKNOWN, text, end) : end
}

/** The end of an operand with its sign, its currency and all that is attached to it; `at` where there is none. */
function operandEnd(text: string, at: number): number {
  let start = endOf(CURRENCY, text, endOf(SIGN, text, at))
  start = endOf(CURRENCY, text, endOf(SIGN, text, start))
  let end = atomEnd(text, start)
  if (end === start) end = endOf(NAME, text, start)
  if (end === start) return at
  for (;;) {
    const number = /\d/.test(text[end - 1])
    let next = number ? endOf(MIXED, text, endOf(AFTER_NUMBER, text, end)) : end
    if (next === end) next = atomEnd(text, end)
    if (next === end) next = endOf(ATTACHED, text, end)
    if (next === end) return end
    end = next
  }
}

/** The end of a number, a symbol, a command or a group; `at` where none begins. */
function atomEnd(text: string, at: number): number {
  for (const pattern of [NUMBER, SYMBOL, ...COMMANDS, FUNCTION]) {
    const end = endOf(pattern, text, at)
    if (end > at) return end
  }
  return groupEnd(text, at)
}

/** The end of the bracketed group of mathematics that opens at `at`, or `at`: a remark in brackets is none. */
function groupEnd(text: string, at: number): number {
  if (!CLOSING[text[at]]) return at
  const open: string[] = []
  for (let i = at; i < Math.min(text.length, at + LONGEST); i++) {
    const c = text[i]
    if (c === '\n') return at
    if (open.length > 0 && CLOSING[open[open.length - 1]].test(c)) open.pop()
    else if (CLOSING[c] && !(c === '|' && open.length > 0)) open.push(c)
    else if (c === ')' || c === '}') return at
    if (open.length === 0) {
      const inside = text.slice(at + 1, i).replace(/\\[A-Za-z]+(?:\{[^{}]*\})?/g, '')
      return /[A-Za-z]{4}|\b(?:is|the|to|of|for)\b/.test(inside) ? at : i + 1
    }
  }
  return at
}

/** Past the unit after a quantity, so that `m/s` after a number is no formula of its own. */
function afterUnit(text: string, at: number): number {
  return endOf(/ ?[A-Za-z]+(?:[/·*^²³⁻¹][A-Za-z\d{}-]*)+(?! ?[=<>])/y, text, at)
}

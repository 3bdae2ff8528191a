/**
 * Reads the final answer out of a free-text reply, as it is written there. Touches nothing but the text.
 *
 * An answer is read only where the reply states one. In this order:
 *   1. the last closed `\boxed{}`;
 *   2. the last closed `<answer></answer>`;
 *   3. the last statement: `#### 42`, `A: 42`, or "answer" with `is`, `:` or `=` after it;
 *   4. a reply that is one number as a whole;
 *   5. a last sentence that is finished and concludes ("So she has 42 apples left."), or sets one number in bold.
 * Anything else reads null. A verifier that takes the last number of the text instead would give a reply that was
 * cut in its working the number it was cut at, and pay for luck.
 */
import { INVISIBLE, namesSet } from './characters.ts'
import { LONGEST_EXPRESSION } from './expression.ts'
import { type Formula, formulaAt, formulas, isCutOpen, sentences } from './formulas.ts'

/** Statements are looked for in this many characters at the reply's end. Boxes are looked for everywhere. */
const TAIL = 8192

/** What some models end with, after the answer. */
const REMARK = /\bI hope (?:it|this|that) (?:is correct|is right|helps)[.!]?$/i

/** The final answer as the reply states it, or null where it states none. */
export function readAnswer(reply: string): string | null {
  const boxed = readBoxed(reply)
  if (boxed !== null) return boxed
  const marked = displaysOnOneLine(
    reply
      .slice(-TAIL)
      .replace(/<<[^<>\n]*>>/g, '')
      .replace(INVISIBLE, '')
      .replace(/[\uff01-\uff5e]/g, (wide) => wide.normalize('NFKC'))
      .replace(/[^\S\n]+/g, ' '),
  )
    .trim()
    .replace(REMARK, '')
    .trim()
  const tail = withoutMarkup(marked)
  return readTagged(tail) ?? readStatement(tail) ?? readWhole(tail) ?? readConclusion(marked)
}

/** Mathematics set over several lines is one formula. */
function displaysOnOneLine(text: string): string {
  return text
    .replace(/\\(begin|end)\{(?:equation|align|aligned|gather|displaymath)\*?\}/g, (_, side) =>
      side === 'begin' ? '\\[' : '\\]',
    )
    .replace(/(?:\\\\)?\s*&\s*(?==)/g, ' ')
    .replace(/\\\[[\s\S]{0,600}?\\\]|\$\$[^$]{0,600}\$\$/g, (display) => display.replace(/\s+/g, ' '))
}

/** Without bold face, underlines around words and backticks; two stars between operands are a power. */
const withoutMarkup = (text: string): string =>
  text
    .replace(/`+/g, '')
    .replace(/(?<![\w)\]}])\*\*|\*\*(?![\w([{\\])/g, '')
    .replace(/(?<![\w\\)\]}^])(__?)([A-Za-z][^_\n]{0,200})\1(?![\w{\\(])/g, '$2')

/* 1. Boxes */

/**
 * The content of the last closed `\boxed{}` (or `\fbox{}`), or null without one; a box that was never closed is no
 * box, an empty one says nothing. Boxes side by side, with nothing but a separator between them, are one list: a
 * reply that boxes every option has not boxed the right one.
 */
export function readBoxed(reply: string): string | null {
  if (!reply.includes('\\boxed') && !reply.includes('\\fbox')) return null
  const boxes = closedBoxes(reply).filter(
    ({ start }) => !DENIED_BOX.test(reply.slice(Math.max(0, start - 24), start)),
  )
  const last = boxes.at(-1)
  if (last === undefined || last.content === TOO_LONG) return null
  const contents = [last.content]
  for (let i = boxes.length - 2; i >= 0 && contents.length <= MOST_JOINED; i--) {
    const [end, start] = [boxes[i].end, boxes[i + 1].start]
    if (start - end > 40 || !BETWEEN_BOXES.test(reply.slice(end, start))) break
    if (!contents.includes(boxes[i].content)) contents.unshift(boxes[i].content)
  }
  const answer = contents.join(', ')
  return answer.length > LONGEST_EXPRESSION ? null : answer
}

/** Words that deny what follows them. */
const DENIAL = String.raw`(?:\b(?:not|never|cannot|no longer|neither|hardly|anything but|far from|other than|different from|unlikely|impossible|in no way|nowhere near)\b|n['’]t\b)`

/** Before a box that is said not to be the answer. */
const DENIED_BOX = new RegExp(
  String.raw`(?:${DENIAL}(?: equal(?: to)?| be| going to be)? ?(?:\$|\\[([])? ?|(?:\\neq?|≠) ?)$`,
  'i',
)

/** What may stand between boxes that are one list: separators, and the name of the second. */
const BETWEEN_BOXES =
  /^(?:[\s$,;.]|\\[()[\]]|\\q?quad)*(?:and|or|\\text ?\{\s*(?:and|or)\s*\})?(?:[\s$,;.]|\\[()[\]]|\\q?quad)*(?:(?:\\angle ?)?(?:[A-Za-z]{1,3}|\\[a-z]{2,7})(?:_\{?\w{1,3}\}?)?\s*=\s*)?$/i

/** A list of more boxes than this is cut to as many: it is no answer either way. */
const MOST_JOINED = 16

interface Box {
  start: number
  end: number
  content: string
}

/** Stands for content that is too long to be an answer; no box can hold it. */
const TOO_LONG = '}'

/** All closed, non-empty boxes that lie in no other box, in order. One pass over the text. */
function closedBoxes(text: string): Box[] {
  /** Open braces: where a box's content begins, or null for any other brace. */
  const open: ({ start: number; inside: number } | null)[] = []
  const boxes: Box[] = []
  const opening = /\\(?:boxed|fbox)\s{0,3}\{|\\[\s\S]|[{}]/g
  for (let found = opening.exec(text); found; found = opening.exec(text)) {
    const token = found[0]
    if (token === '{') open.push(null)
    else if (token.length > 2) open.push({ start: found.index, inside: opening.lastIndex })
    else if (token === '}') {
      const box = open.pop()
      if (!box) continue
      // What is too long to be an answer is not copied: nested boxes would make that quadratic.
      const isLong = found.index - box.inside > LONGEST_EXPRESSION
      const inside = isLong ? TOO_LONG : unwrap(text.slice(box.inside, found.index))
      if (inside === '') continue
      const content = isLong
        ? TOO_LONG
        : signBefore(text, box.start) + inside + percentAfter(text, opening.lastIndex)
      // A box around boxes holds their answer.
      while (boxes.length > 0 && boxes[boxes.length - 1].start > box.start) boxes.pop()
      boxes.push({ start: box.start, end: found.index + 1, content })
    }
  }
  return boxes
}

/** The minus sign of a whole formula that stands before its box: `x = -\\boxed{5}`. */
const signBefore = (text: string, start: number): string =>
  /(?:^|[=$]|\\[([]) ?[-−](?: |\\[,;:! ])*(?:\\\$)?$/.test(text.slice(Math.max(0, start - 12), start))
    ? '-'
    : ''

/** The percent sign or word that stands right after a box. */
const percentAfter = (text: string, end: number): string =>
  /^(?:\$|\\\))? ?(?:\\?%|(?:percent|pct)\b)/.test(text.slice(end, end + 12)) ? '\\%' : ''

/** A box's content without the boxes, dollar signs and spaces around it. */
function unwrap(content: string): string {
  return content.replace(/\\(?:boxed|fbox)\s{0,3}(?=\{)/g, '').trim()
}

/* 2. Tags */

function readTagged(text: string): string | null {
  const lower = text.toLowerCase()
  const end = lower.lastIndexOf('</answer>')
  const start = lower.lastIndexOf('<answer>', end)
  if (end < 0 || start < 0) return null
  const content = text.slice(start + '<answer>'.length, end).trim()
  if (content === '' || content.length > LONGEST_EXPRESSION) return null
  return readStatement(content) ?? readStated(content, true) ?? content
}

/* 3. Statements */

/** `answer`, or the right option, as a noun, then `is`, `:` or `=`; or a heading of its own, or before a formula. "To answer this, ..." states nothing. */
const STATEMENT =
  /####|^[ \t]*A:(?=\s)|^\W{0,8}(?:the )?(?:final )?answer\s{0,3}(?=\$|\\[([])|(?<!\b(?:to|can|we|I) )\b(?:answers?|(?:correct|right|best) (?:option|choice))\b(?:[^\n.:=]{0,60}?(?:\b(?:is|are|be)\b|\b(?:is|are|was)n['’]t\b|(?<![!<>])[:=])|(?=\s*\n))|^\W{0,3}ans ?[.:=]/gim

/** At most this many statements are tried, from the last: a reply that repeats itself costs no more. */
const MOST_STATEMENTS = 8

const NEGATION = new RegExp(DENIAL, 'i')
/** What a sentence begins with that denies what it goes on with. */
const NEGATED = new RegExp(`^(?:[A-Za-z]+ ){0,2}${DENIAL}`, 'i')
/** Before a statement in its clause: it is asked, supposed or denied. */
const SUPPOSED =
  /(?:\b(?:if|suppose|supposing|assum\w{1,5}|whether|unless|doubt|deny|wrong|incorrect|nobody|no one|no way|(?:false|unlikely|impossible) that)\b|(?:\b(?:can)?not|n['’]t) (?:think|believe|say|mean|true|the case|sure|be (?:that|true)))[^.,;:\n]*$/i
/** A numbered heading or the first item of a numbered list. */
const NUMBERED = /^\(?\d{1,3}[.)] +\S/
const HEADING = /^\(?\d{1,3}[.):] +\S|^(?:step|part|case|section|problem|question|example|method|solution)\b/i

function readStatement(text: string): string | null {
  for (const statement of [...text.matchAll(STATEMENT)].slice(-MOST_STATEMENTS).reverse()) {
    const [start, end] = [statement.index, statement.index + statement[0].length]
    if (SUPPOSED.test(text.slice(Math.max(0, start - 80), start))) continue
    const after = text.slice(end).replace(/^[\s:*#=]+/, '')
    const line = after.split('\n', 1)[0]
    const isHash = statement[0] === '####'
    if ((isHash && HEADING.test(line)) || (/^:?\s*\n/.test(text.slice(end)) && NUMBERED.test(line))) continue
    // `A: ...` above `B: ...` is an option and no answer.
    if (/A:$/.test(statement[0]) && /^[ \t]*B:/m.test(after)) continue
    const sentence = sentences(line)[0]
    if (trimmed(sentence, /\s/, /[^\w?]/).endsWith('?')) continue
    const isLast = sentence.length === after.length
    const negated = NEGATION.test(statement[0]) || NEGATED.test(sentence)
    const answer = negated
      ? isLast
        ? readLast(`not ${sentence}`)
        : null
      : readStated(sentence, isLast, isHash)
    if (answer !== null) return answer
  }
  return null
}

/** Ends where a number of its words is still to come: an article, a preposition, a conjunction. */
const UNENDED =
  /\b(?:a|an|the|of|to|for|in|on|at|by|from|with|per|each|and|or|but|so|then|which|that|is|are|has|have)\W*$/i

/**
 * The answer that a stated sentence gives: what it begins with; or, where it is the reply's last, what it ends with.
 * A sentence without a full stop may have been cut: it may hold one formula, and words after it.
 */
function readStated(sentence: string, isLast: boolean, isHeading = false): string | null {
  const leading = readLeading(sentence, isHeading && !isLast)
  if (leading !== null || !isLast || isCutOpen(sentence)) return leading
  if (isFinished(sentence)) return readLast(sentence) ?? readWords(sentence)
  if (isHeading) return readWords(sentence)
  const found = formulas(sentence)
  const [only] = found
  if (found.length > 1 || (only && !/^ ?[\w%]+(?: [\w’'-]+){0,4}\W*$/.test(sentence.slice(only.end))))
    return null
  return only === undefined ? readWords(sentence) : UNENDED.test(sentence) ? null : readLast(sentence)
}

/* 4. The whole reply */

/**
 * A reply that is nothing but a number, with at most three words of unit, or one formula between delimiters. An
 * equation is a line of working: the reply may have been cut before the next.
 */
function readWhole(text: string): string | null {
  if (text.length > LONGEST_EXPRESSION) return null
  const bare = trimmed(text, /[\s*]/, /[\s*.]/)
  const formula = formulaAt(bare, 0)
  if (formula === null || formula.content.includes('=') || isArithmetic(formula)) return null
  const rest = bare.slice(formula.end)
  return (formula.delimited ? rest === '' : /^\$?(?: ?[A-Za-z]{1,20}(?![A-Za-z])){0,3}$/.test(rest))
    ? formula.content
    : null
}

/* 5. A conclusion */

const CONCLUDES =
  /^[\s*>-]*(?:and )?(?:so|thus|therefore|hence|consequently|in total|altogether|overall|finally|in conclusion|in summary|as a result|this means|that means)\b/i

function readConclusion(text: string): string | null {
  const sentence = sentences(text.slice(text.lastIndexOf('\n') + 1)).at(-1) ?? ''
  if (!isFinished(sentence)) return null
  const [bold, ...others] = sentence.matchAll(/\*\*([^*]+)\*\*/g)
  const isOne = bold !== undefined && others.length === 0 && bold[1].length < sentence.length - 8
  if (isOne && !isDenied(sentence, bold.index)) {
    const emphasised = readWhole(bold[1])
    if (emphasised !== null) return emphasised
  }
  return CONCLUDES.test(sentence) ? readLast(withoutMarkup(sentence)) : null
}

/* Sentences and what they hold */

/** Ends with a full stop or an exclamation mark, markup and closing brackets aside. */
const isFinished = (sentence: string): boolean => /[.!]$/.test(trimmed(sentence, /\s/, /[\s*_"'”’)\]}$\\]/))

/** `text` without the characters at its ends that match; one pass, however many there are. */
function trimmed(text: string, atStart: RegExp, atEnd: RegExp): string {
  let [start, end] = [0, text.length]
  while (start < end && atStart.test(text[start])) start++
  while (end > start && atEnd.test(text[end - 1])) end--
  return text.slice(start, end)
}

/** Words before an answer that say nothing of it. */
const OPENING =
  /^(?:(?:approximately|about|roughly|around|nearly|exactly|simply|just|only|therefore|thus|indeed|clearly|a total of|equal to|given by|approx\.?|(?:the )?(?:option|choice|number|value)) )+/i
/** The letter of an option; `A` before a word is an article. */
const OPTION = /^\(?([B-HJ]|A(?! [a-z]))[).:]?(?=$|[\s.,;])/
/** A sign of comparison without its left side. */
const COMPARES = /^(?:[≠<>≤≥]|!=|\\(?:neq?|[lg](?:eq?|t))(?![a-z]))/
/** Words of arithmetic after a number. */
const IN_WORDS =
  /^ (?:mod|choose|squared|cubed|to the (?:power|\w+ power)|times (?=[b-hj-z]\b|\d)|over (?=\d)|out of (?=\d)|in (?=\d{1,3}\W*$)|divided by|(?:more|less|fewer|greater) than (?=[b-hj-z]\b|\d|\$|\\)|and (?:a|one|two|three)[ -](?:half|thirds?|quarters?|fourths?)\b)/i
/** Between the items of a list; the second takes a unit before it. */
const JOINS = [/^ ?, ?(?:and |or )?(?=[^ ])|^ (?:and|or|to) /i, /^(?: [A-Za-z]+){1,2} (?:and|or) /]
/** Between the parts of one quantity: `3 hours 20 minutes`. */
const COMPOUND =
  /^ ?(?:hours?|hrs?|h|minutes?|mins?|days?|weeks?|months?|years?|feet|foot|ft|yards?|pounds?|lbs?|dollars?|meters?|metres?|kilometers?|km|miles?|degrees?),?(?: and)? $/i

/** The answer that a sentence begins with: mathematics between delimiters, numbers, an equation, an option. */
function readLeading(text: string, isHeading: boolean): string | null {
  const sentence = trimmed(text, /[\s*]/, /\s/).slice(0, LONGEST_EXPRESSION).replace(OPENING, '')
  if (namesSet(sentence) || COMPARES.test(sentence)) return trimmed(sentence, /\s/, /[\s.!*]/)
  const first = formulaAt(sentence, 0)
  if (first === null) return isCutOpen(sentence) ? null : (OPTION.exec(sentence)?.[1] ?? null)
  const list = [first]
  for (let next = nextItem(sentence, first); next !== null; next = nextItem(sentence, next)) list.push(next)
  const last = list[list.length - 1]
  const rest = sentence.slice(last.end)
  // A heading goes on in words that are no unit.
  if (isHeading && !/^[\w/-]*(?: [\w/-]+){0,3}\W*$/.test(rest)) return null
  if (!list.some((formula) => formula.delimited)) {
    if (/^ ?[-+*/×÷^=<>−]\W*$/.test(rest) && !isFinished(sentence)) return null
    if (list.some(isArithmetic) && !isFinished(sentence)) return null
    // A number in words of arithmetic is a part of them: `9 squared`, `1 out of 6`.
    if (IN_WORDS.test(rest)) return trimmed(sentence, /\s/, /[\s.!*]/)
    const whole = sentence.slice(0, last.end)
    return isCutOpen(whole) ? null : rightSide(whole.trim())
  }
  return list.map((formula) => formula.content).join(', ')
}

/** The next item of the list that `formula` is part of, or of one quantity in two units; null where none follows. */
function nextItem(sentence: string, formula: Formula): Formula | null {
  const rest = sentence.slice(formula.end, formula.end + 60)
  const compound = /^[A-Za-z ,]+(?=\d)/.exec(rest)?.[0] ?? ''
  const joins = [...JOINS.map((join) => join.exec(rest)?.[0] ?? ''), COMPOUND.test(compound) ? compound : '']
  for (const join of joins.filter((text) => text !== '')) {
    const next = formulaAt(sentence, formula.end + join.length)
    // `42, because` and `3.14 to 2 decimal places` go on in words.
    const isFigures =
      / to /.test(join) && /^ (?:decimal|significant|places)/.test(sentence.slice(next?.end ?? 0))
    if (next !== null && !isFigures && (next.delimited || /\d|[\\√π∞]|[=<>]/.test(next.content))) return next
  }
  return null
}

/** Numbers and operations alone, not carried out: a fraction is none. */
const isArithmetic = ({ content, delimited }: Formula): boolean =>
  !delimited && /^[\d\s.,+\-*/×÷^()−–$]+$/.test(content) && /[+*×÷^]|[\d)] ?[-−–]|\/.*\//.test(content)

/** The value of an equation that defines a name or carries out arithmetic: what its last equals sign is followed by. */
function rightSide(formula: string): string {
  const at = formula.lastIndexOf('=')
  if (at < 0 || /[<>!:]$/.test(formula.slice(0, at)) || /[<>≤≥≠]/.test(formula)) return formula
  const sides = formula.slice(0, at).split('=')
  const isDefinition = sides.every((side) =>
    /^\s*(?:[A-Za-z]\w{0,3}(?:\([a-z]\))?|[^A-Za-z\\]*)\s*$/.test(side),
  )
  return isDefinition ? formula.slice(at + 1).trim() : formula
}

/** An answer of at most three words: `no solution.` */
function readWords(sentence: string): string | null {
  const words = trimmed(sentence, /[\s*]/, /[.!*\s]/)
  return /^[A-Za-z'’-]+(?:\s[A-Za-z'’-]+){0,2}$/.test(words) && !/answer/i.test(words) && !UNENDED.test(words)
    ? words
    : null
}

/** Says that what follows it, in its clause, is not so. */
const DENIES = new RegExp(
  String.raw`(?:${DENIAL}|\b(?:without|instead of|rather than|exceeds?)\b|\b(?:less|more|greater|fewer|larger|smaller) than(?= $))(?:(?!\b(?:but|and|so|because|since)\b)[^.,;]){0,40}$|\bbetween (?:\S{1,20} and )?$`,
  'i',
)

const isDenied = (text: string, at: number): boolean => DENIES.test(text.slice(Math.max(0, at - 60), at))

/** The last number or mathematics of a sentence that it does not deny; of an equation, its value. */
function readLast(sentence: string): string | null {
  if (isCutOpen(sentence)) return null
  const text = sentence.slice(-2048)
  const stated = formulas(text).filter(({ start }) => !isDenied(text, start))
  const last = stated.at(-1)
  if (last === undefined) return null
  if (last.delimited) return last.content
  const before = stated.at(-2)
  const between = before === undefined || before.delimited ? '' : text.slice(before.end, last.start)
  const isRatio = between === ' to ' && /\bratio\b/i.test(text)
  if (before === undefined || !(isRatio || COMPOUND.test(between) || IN_WORDS.test(between)))
    return rightSide(last.content)
  return text.slice(before.start, last.end) + (/^ ?[A-Za-z]+/.exec(text.slice(last.end))?.[0] ?? '')
}

/**
 * Reads the final answer out of a free-text reply, as it is written there. Touches nothing but the text.
 *
 * An answer is read only where the reply states one. In this order:
 *   1. the last closed `\boxed{}`;
 *   2. the last statement: `#### 42`, or "answer" with `is`, `:` or `=` after it;
 *   3. a reply that is one number as a whole;
 *   4. a last sentence that is finished and concludes ("So she has 42 apples left."), or sets one number in bold.
 * Anything else reads null. A verifier that takes the last number of the text instead would give a reply that was
 * cut in its working the number it was cut at, and pay for luck.
 */
import { LONGEST_EXPRESSION } from './expression.ts'

/** Statements are looked for in this many characters at the reply's end. Boxes are looked for everywhere. */
const TAIL = 8192

/** What some models end with, after the answer. */
const REMARK = /\s*I hope (?:it|this|that) (?:is correct|is right|helps)[.!]?\s*$/i

/** The final answer as the reply states it, or null where it states none. */
export function readAnswer(reply: string): string | null {
  const boxed = readBoxed(reply)
  if (boxed !== null) return boxed
  const tail = reply
    .slice(-TAIL)
    .replace(/<<[^<>\n]*>>/g, '')
    .replace(REMARK, '')
    .trim()
  return readStatement(tail) ?? readWhole(tail) ?? readConclusion(tail)
}

/* 1. Boxes */

/**
 * The content of the last closed `\boxed{}` (or `\fbox{}`), or null without one; a box that was never closed is no
 * box, an empty one says nothing. Boxes side by side, with nothing but a separator between them, are one list: a
 * reply that boxes every option has not boxed the right one.
 */
export function readBoxed(reply: string): string | null {
  if (!reply.includes('\\boxed') && !reply.includes('\\fbox')) return null
  const boxes = closedBoxes(reply)
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

/** What may stand between boxes that are one list. */
const BETWEEN_BOXES =
  /^(?:[\s$,;.]|\\[()[\]]|\\q?quad)*(?:and|or|\\text\{\s*(?:and|or)\s*\})?(?:[\s$,;.]|\\[()[\]]|\\q?quad)*$/i

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
      const content = isLong ? TOO_LONG : unwrap(text.slice(box.inside, found.index))
      if (content === '') continue
      // A box around boxes holds their answer.
      while (boxes.length > 0 && boxes[boxes.length - 1].start > box.start) boxes.pop()
      boxes.push({ start: box.start, end: found.index + 1, content })
    }
  }
  return boxes
}

/** A box's content without the boxes, dollar signs and spaces around it. */
function unwrap(content: string): string {
  return content.replace(/\\(?:boxed|fbox)\s{0,3}(?=\{)/g, '').trim()
}

/* 2. Statements */

/** `answer` as a noun, then `is`, `:` or `=`; or a heading of its own. "To answer this, ..." states nothing. */
const STATEMENT =
  /####|(?<!\b(?:to|can|we|I) )\banswers?\b(?:[^\n.:=]{0,60}?(?:\b(?:is|are|be)\b|[:=])|(?=\**\s*\n))/gi

/** At most this many statements are tried, from the last: a reply that repeats itself costs no more. */
const MOST_STATEMENTS = 8

function readStatement(text: string): string | null {
  for (const statement of [...text.matchAll(STATEMENT)].slice(-MOST_STATEMENTS).reverse()) {
    const after = text.slice(statement.index + statement[0].length).replace(/^[\s:*#=]+/, '')
    const line = after.split('\n', 1)[0]
    const sentence = line.split(SENTENCE_END, 1)[0]
    // Only the reply's last sentence, when it is finished, may hold its answer elsewhere than at its beginning.
    const closes = sentence.length === after.length && isFinished(sentence)
    const answer = readLeading(sentence) ?? (closes ? (readLast(sentence) ?? readWords(sentence)) : null)
    if (answer !== null) return answer
  }
  return null
}

/* 3. The whole reply */

/**
 * A reply that is nothing but a number, with at most three words of unit, or one formula between delimiters. An
 * equation is a line of working: the reply may have been cut before the next.
 */
function readWhole(text: string): string | null {
  if (text.length > LONGEST_EXPRESSION) return null
  const bare = text.replace(/^[\s*]+|[\s*.]+$/g, '')
  const number = WHOLE_NUMBER.exec(bare)
  if (number) return number[1].trim()
  const [span] = mathSpans(bare)
  return span?.start === 0 && span.end === bare.length && !span.content.includes('=') ? span.content : null
}

/* 4. A conclusion */

const CONCLUDES =
  /^[\s*>-]*(?:and )?(?:so|thus|therefore|hence|consequently|in total|altogether|overall|finally|in conclusion|in summary|as a result|this means|that means)\b/i

function readConclusion(text: string): string | null {
  const sentence =
    text
      .slice(text.lastIndexOf('\n') + 1)
      .split(SENTENCE_END)
      .at(-1) ?? ''
  if (!isFinished(sentence)) return null
  const bold = [...sentence.matchAll(/\*\*([^*]+)\*\*/g)].map((match) => match[1])
  if (bold.length === 1 && bold[0].length < sentence.length - 8) {
    const emphasised = readWhole(bold[0])
    if (emphasised !== null) return emphasised
  }
  return CONCLUDES.test(sentence) ? readLast(sentence) : null
}

/* Sentences and what they hold */

/** Between two sentences. */
const SENTENCE_END = /(?<!\b(?:Mr|Mrs|Ms|Dr|St|vs|No)\.)(?<=[.!?]\**)\s+/

/** Ends with a full stop or an exclamation mark, markup and closing brackets aside. */
const isFinished = (sentence: string): boolean => /[.!][\s*_"'”’)\]}$\\]*$/.test(sentence)

const WRITTEN = String.raw`[-+\u2212\u2013]?\s?(?:\\?[$€£])?\s?(?:\d+\s\d+\/\d+|\d+\s?\/\s?\d+|\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\.\d+)(?:\s?\\?%|\s(?:percent|hundred|thousand|million|billion|trillion)\b)?`
/** One number, or several that are listed. */
const LEADING_NUMBERS = new RegExp(
  String.raw`^${WRITTEN}(?:\s?(?:,\s?(?:and\s|or\s)?|\sand\s|\sor\s)\s?${WRITTEN})*`,
)
const WHOLE_NUMBER = new RegExp(String.raw`^(${WRITTEN})(?:\s?[A-Za-z]+){0,3}$`)
const NUMBERS = new RegExp(String.raw`(?<![\w.,])${WRITTEN}(?!\w)`, 'g')
/** `\( \)`, `\[ \]`, `$$ $$`, or `$ $` around something that is not prose between two prices. */
const MATHS =
  /\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]|\$\$(.{1,400}?)\$\$|\$(?!\s)([^$]{1,400}?)(?<![\s\\])\$(?!\d)/g

interface Span {
  start: number
  end: number
  content: string
}

function mathSpans(sentence: string): Span[] {
  const spans: Span[] = []
  for (const match of sentence.matchAll(MATHS)) {
    const content = (match[1] ?? match[2] ?? match[3] ?? match[4]).trim()
    const prose = content.replace(/\\[a-zA-Z]+(?:\{[^{}]*\})?/g, '')
    if (!/[A-Za-z]{3,}\s+[A-Za-z]{2,}|^\d[\d,.]*\s+[A-Za-z]{2,}/.test(prose))
      spans.push({ start: match.index, end: match.index + match[0].length, content })
  }
  return spans
}

/** The answer that a sentence begins with: mathematics between delimiters, numbers, an equation. */
function readLeading(text: string): string | null {
  const sentence = text.replace(/^[\s*]+/, '').slice(0, LONGEST_EXPRESSION)
  // A box that was never closed: the reply was cut in its answer.
  if (/^[$\\([\s]*\\f?box/.test(sentence)) return null
  const spans = mathSpans(sentence)
  if (spans[0]?.start === 0) {
    let last = 0
    while (
      spans[last + 1] &&
      /^\s*(?:,|,?\s*(?:and|or))\s*$/.test(sentence.slice(spans[last].end, spans[last + 1].start))
    )
      last++
    return spans
      .slice(0, last + 1)
      .map((span) => span.content)
      .join(', ')
  }
  // The value of an equation is what its last equals sign is followed by.
  const value = sentence.replace(/^(?:(?:[A-Za-z]\w?|[^=A-Za-z]{1,80})=\s*)+/, '')
  const numbers = LEADING_NUMBERS.exec(value)
  if (numbers && !/^\s*(?:[-+*/×÷^\u2212]\s*[\d(]|\*\*\s*\d|\\)/.test(value.slice(numbers[0].length)))
    return numbers[0].trim()
  const rest = value.replace(/[.!,;:\s*]+$/, '')
  // Arithmetic that is not carried out counts where it was not cut off.
  if (/^[-(]*\s*\d/.test(rest) && /[+*/×÷^]|[\d)]\s*[-\u2212]/.test(rest))
    return isFinished(sentence) && /^[\d\s.,+\-*/×÷^()\u2212]+$/.test(rest) ? rest : null
  return /^(?:[-+]?[\\([{|√π]|[A-Za-z]\s?[=^+\-*/(])/.test(rest) ? rest : null
}

/** An answer of at most three words: `no solution.` */
function readWords(sentence: string): string | null {
  const words = sentence.replace(/[.!*\s]+$/, '')
  return /^[A-Za-z'’-]+(?:\s[A-Za-z'’-]+){0,2}$/.test(words) && !/answer/i.test(words) ? words : null
}

/** The last number or mathematics of a sentence; of an equation, its value. */
function readLast(sentence: string): string | null {
  const spans = mathSpans(sentence)
  const last = spans.at(-1)
  const number = [...sentence.matchAll(NUMBERS)]
    .filter((n) => spans.every((s) => n.index < s.start || n.index >= s.end))
    .at(-1)
  if (last && (!number || number.index < last.start)) return last.content
  return number?.[0].trim() ?? null
}

/**
 * Problems with parts: facts that are dealt to the seats of a board, so that each writer knows the question and its
 * own share alone. How parts are dealt, what a note carries of its share, and how a text becomes parts. Pure.
 */
import type { Problem } from './types.ts'

/**
 * The parts of a problem that seat `seat` (0-based, of `seats`) is dealt, in order: those at positions p with
 * p % seats = seat; where there are fewer parts than seats, the one at seat % parts, so that no seat goes empty.
 * Nothing for a problem without parts.
 */
export function partsOf(
  { parts = [] }: Pick<Problem, 'parts'>,
  seat: number,
  seats: number,
): readonly string[] {
  if (parts.length === 0) return []
  if (parts.length < seats) return [parts[seat % parts.length]]
  return parts.filter((_, p) => p % seats === seat)
}

/** Whole numbers and decimals as a text writes them, thousands' commas removed: `1,250` is 1250. */
function numbersIn(text: string): string[] {
  return (text.match(/\d+(?:,\d{3})*(?:\.\d+)?/g) ?? []).map((number) => number.replaceAll(',', ''))
}

/**
 * Whether a note carries its part: every number of the part stands in the note as a number of its own, outside
 * \boxed{}. A box is a guess at the answer, and its digits tell a reader nothing of the part; a number inside a
 * longer one (7 in 17) does not count. Null where the part has no number, so that there is nothing to count.
 */
export function carriesPart(note: string, part: string): boolean | null {
  const told = numbersIn(part)
  if (told.length === 0) return null
  const said = new Set(numbersIn(note.replace(/\\boxed\{[^}]*(\}|$)/g, ' ')))
  return told.every((number) => said.has(number))
}

/** Words whose full stop ends no sentence. */
const abbreviation = /(?:^|\s)(?:Mr|Mrs|Ms|Dr|St|vs|No|[A-Z]|a\.m|p\.m)\.$/

/**
 * The sentences of a text: each ends in `.`, `!` or `?`, perhaps with a closing quote, before white space and a
 * capital letter, a digit, a quote, a bracket or a currency sign. Nothing is lost but the white space between them.
 */
export function sentencesOf(text: string): string[] {
  const sentences: string[] = []
  let from = 0
  for (const { index, 0: space } of text.matchAll(
    /(?<=[.!?]["'\u2019\u201d)]?)\s+(?=["'\u2018\u201c($\u20ac\u00a3]?[\p{Lu}\d])/gu,
  )) {
    const sentence = text.slice(from, index)
    if (abbreviation.test(sentence)) continue
    sentences.push(sentence)
    from = index + space.length
  }
  sentences.push(text.slice(from))
  return sentences.map((sentence) => sentence.trim()).filter((sentence) => sentence !== '')
}

/**
 * The problem with its question's sentences dealt as parts: the last sentence, which asks, stays the question. Null
 * for a question of one sentence: there is nothing to deal, and whoever saw it would see all.
 */
export function splitSentences(problem: Problem): Problem | null {
  const parts = sentencesOf(problem.question)
  const question = parts.pop()
  return question === undefined || parts.length === 0 ? null : { ...problem, question, parts }
}

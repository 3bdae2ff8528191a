/** Decides whether a reply's final answer equals the gold. Touches nothing but its two arguments. */
import { readAnswer } from './answer.ts'

/** True when the reply states a final answer and it equals `gold`. Never throws; bounded in time and size. */
export function mathEqual(reply: string, gold: string): boolean {
  const answer = readAnswer(reply)
  return answer !== null && answersEqual(answer, gold)
}

/** True when two answers, without the text around them, are the same number. */
export function answersEqual(answer: string, gold: string): boolean {
  const a = plainNumber(answer)
  const b = plainNumber(gold)
  if (a === null || b === null) return answer.trim() === gold.trim()
  return a === b
}

/** A plain decimal number: sign, currency, thousands separators and a unit after it are allowed; else null. */
function plainNumber(text: string): number | null {
  const clean = text
    .replace(/\\(?:text|mathrm)\{[^{}]*\}/g, '')
    .replace(/\\[!,;: ]|[\s$€£,*{}\\]|\u2009/g, '')
    .replace(/\u2212/g, '-')
    .replace(/\.$/, '')
  const match = /^([-+]?(?:\d+(?:\.\d+)?|\.\d+))[a-z]*$/i.exec(clean)
  return match && match[1].length < 300 ? Number(match[1]) : null
}

/**
 * Reads the final answer out of a free-text reply. Touches nothing but the text.
 *
 * An answer is read only where the reply states one: the last closed `\boxed{}`; else the last explicit statement
 * (`#### 42`, `the answer is 42`, `Answer: 42`); else a reply that is nothing but a number or one equation; else a
 * last, finished sentence that concludes (`So she has 42 apples left.`). A reply cut off before its answer reads
 * null: a stray number of its working is never taken for an answer.
 */

/** Replies are read from their end; what is further back than this (in characters) is not looked at. */
const LONGEST = 65_536

/** What a box may hold: longer is no answer. */
const LONGEST_ANSWER = 1_024

const BOX = /\\(?:boxed|fbox)\s*\{/g

/** The content of the last closed, non-empty `\boxed{}` (or `\fbox{}`), or null. Nested braces are kept. */
export function readBoxed(reply: string): string | null {
  const text = reply.length > LONGEST ? reply.slice(-LONGEST) : reply
  const starts: number[] = []
  for (const match of text.matchAll(BOX)) starts.push(match.index + match[0].length)
  // Boxes are tried from the last; each scan is bounded, so the whole is linear.
  for (let i = starts.length - 1; i >= 0; i--) {
    const end = closingBrace(text, starts[i])
    if (end < 0) continue
    const inside = text.slice(starts[i], end).trim()
    if (inside !== '') return inside
  }
  return null
}

/** Index of the brace that closes the group opened just before `start`, or -1 within LONGEST_ANSWER characters. */
function closingBrace(text: string, start: number): number {
  const limit = Math.min(text.length, start + LONGEST_ANSWER)
  let depth = 1
  for (let i = start; i < limit; i++) {
    const c = text[i]
    if (c === '\\') i++
    else if (c === '{') depth++
    else if (c === '}' && --depth === 0) return i
  }
  return -1
}

const NUMBER = String.raw`[-+\u2212]?\s?[$€£]?\s?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s?\/\s?\d+)?%?`
const STATED = new RegExp(String.raw`(?:####|(?:final\s+)?answer(?:\s+is)?\s*[:=]?)[\s*$:]*(${NUMBER})`, 'gi')
const BARE = new RegExp(String.raw`^[\s*$]*(?:[^=\n]*=)?\s*(${NUMBER})[\s*$.]*$`)
const CONCLUDES = /^\W*(?:so|thus|therefore|hence|in total|altogether|finally|in conclusion)\b/i

/** The final answer as the reply states it, or null where it states none. */
export function readAnswer(reply: string): string | null {
  const boxed = readBoxed(reply)
  if (boxed !== null) return boxed
  const text = (reply.length > LONGEST ? reply.slice(-LONGEST) : reply).trim()
  const stated = [...text.matchAll(STATED)].at(-1)
  if (stated) return stated[1].trim()
  const bare = BARE.exec(text)
  if (bare) return bare[1].trim()
  const last = text.split(/\n|(?<=[.!?])\s+/).at(-1) ?? ''
  if (!CONCLUDES.test(last) || !/[.!]\W*$/.test(last)) return null
  return [...last.matchAll(new RegExp(NUMBER, 'g'))].at(-1)?.[0].trim() ?? null
}

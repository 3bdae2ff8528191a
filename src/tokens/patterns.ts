/**
 * The regular expressions of a tokenizer's files, held to what takes a bounded time. They come from whoever made the
 * checkpoint, and one such as `(a+)+b` would try exponentially many ways to fail. What is let through takes at most the
 * square of a text's length: a repetition is of one character's worth or of a fixed sequence, and no way through the pattern
 * has more than two of them, the second with nothing behind it that could fail. Every split of the known models is such.
 */
import { UserError } from '../errors.ts'

const LONGEST = 4096
/** A repetition of at most so many times is none: it costs a constant. */
const FEW = 8

/** One way through a group: what stands between two `|`. */
interface Branch {
  repetitions: number
  /** Something that must match stands behind two repetitions. */
  fails: boolean
}
interface Group {
  branch: Branch
  /** The worst of the branches before. */
  worst: Branch
  /** Whether it can match in more ways than one: it has alternatives, or a part that is optional or repeated. */
  varies: boolean
}

const emptyBranch = (): Branch => ({ repetitions: 0, fails: false })
const emptyGroup = (): Group => ({ branch: emptyBranch(), worst: emptyBranch(), varies: false })
const closed = ({ branch, worst }: Group): Branch => ({
  repetitions: Math.max(branch.repetitions, worst.repetitions),
  fails: branch.fails || worst.fails,
})

/** A class in brackets, an escape with what belongs to it, a group's beginning, or one character. */
const ATOM =
  /\[\^?\]?(?:\\[\s\S]|\[:\^?[a-z]+:\]|[^\]\\])*\]|\\(?:[pPxu]\{[^}]*\}|[\s\S])|\((?:\?(?:[a-zA-Z]*(?:-[a-zA-Z]*)?[:)]|[=!>]|<[=!]|P?<\w+>))?|[\s\S]/y
const QUANTIFIER = /(?:[*+?]|\{(\d+)(,?)(\d*)\})[?+]?/y

/** Why a pattern may take too long, in words for the end of a sentence; null where it may not. */
export function slowness(pattern: string): string | null {
  if (pattern.length > LONGEST) return `it has ${pattern.length} characters, more than ${LONGEST}`
  const open: Group[] = [emptyGroup()]
  for (let at = 0; at < pattern.length; ) {
    ATOM.lastIndex = at
    const atom = ATOM.exec(pattern)?.[0] ?? pattern[at]
    at += atom.length
    const group = open[open.length - 1]
    // `(?i)` sets what follows and holds nothing.
    if (/^\(\?[a-zA-Z-]*\)$/.test(atom)) continue
    if (atom[0] === '(') {
      open.push(emptyGroup())
      continue
    }
    if (atom === '|') {
      group.worst = closed(group)
      group.branch = emptyBranch()
      group.varies = true
      continue
    }
    if (/^\\(?:[1-9]|k)/.test(atom)) return 'it refers back to what it matched'
    let inside: Group | undefined
    if (atom === ')') {
      if (open.length === 1) return null
      inside = open.pop()
    }
    const outer = open[open.length - 1]
    QUANTIFIER.lastIndex = at
    const quantifier = QUANTIFIER.exec(pattern)
    if (quantifier) at += quantifier[0].length
    const [least, most] = bounds(quantifier)
    const within = inside ? closed(inside) : emptyBranch()
    if (most > FEW && inside?.varies) return 'it repeats a group that matches in several ways'
    const { branch } = outer
    if (least > 0 && branch.repetitions >= 2) branch.fails = true
    branch.repetitions += within.repetitions + (most > FEW ? 1 : 0)
    branch.fails ||= within.fails
    if (least !== most || inside?.varies) outer.varies = true
    if (branch.repetitions > 2 || branch.fails) return 'it has repetitions one behind the other'
  }
  return null
}

/** How often at least and at most. */
function bounds(quantifier: RegExpExecArray | null): [least: number, most: number] {
  if (!quantifier) return [1, 1]
  const [text, least, comma, most] = quantifier
  if (least !== undefined) {
    const many = most === '' ? Number.POSITIVE_INFINITY : Number(most)
    return [Number(least), comma === '' ? Number(least) : many]
  }
  return [text[0] === '+' ? 1 : 0, text[0] === '?' ? 1 : Number.POSITIVE_INFINITY]
}

/** Checks every pattern of a tokenizer's parts. @throws UserError with one that may take too long. */
export function checkPatterns(path: string, parts: unknown): void {
  const left = [parts]
  while (left.length > 0) {
    const part = left.pop()
    if (typeof part !== 'object' || part === null) continue
    for (const [name, value] of Object.entries(part)) {
      left.push(value)
      const why = name === 'Regex' && typeof value === 'string' ? slowness(value) : null
      if (why === null) continue
      const shown = value.length > 80 ? `${value.slice(0, 80)}...` : value
      throw new UserError(
        `${path} cannot be used: its pattern ${JSON.stringify(shown)} may take without end (${why}). Use a Llama or Qwen tokenizer.`,
      )
    }
  }
}

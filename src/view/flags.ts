/**
 * What the table of boards needs to know of a post, in one printable character, and where each post's is found. Pure;
 * shared with the browser.
 */
import type { Side } from './types.ts'

/** Bits of a flag. */
export const bit = {
  right: 1,
  cut: 2,
  /** Gave no answer that the verifier could read. */
  silent: 4,
  /** Its answer differs from that of its seat's latest earlier post. */
  switched: 8,
} as const

/** 48 is '0': sixteen values from '0' to '?', all of one byte in UTF-8. */
export const encodeFlag = (bits: number): string => String.fromCharCode(48 + bits)

/** The bits of the character at `index`. */
export const flagAt = (flags: string, index: number): number => flags.charCodeAt(index) - 48

/** How the flags of a side's boards are laid out: one for each post, round by round, then one for a vote. */
export interface Layout {
  /** Characters a board. */
  width: number
  /** Where each round begins, and how many posts it has. */
  rounds: { start: number; posts: number }[]
  /** Flags whose `right` is a score of the board: the last round's, one seat's, or the vote's. */
  scores: number[]
  /** The last round's posts whose seat has spoken before, each with its latest earlier post. */
  turns: { post: number; before: number }[]
}

export function layoutOf({ rounds, final }: Pick<Side, 'rounds' | 'final'>): Layout {
  const starts: number[] = []
  let width = 0
  for (const { speakers } of rounds) {
    starts.push(width)
    width += speakers.length
  }
  const last = rounds.length - 1
  const lastSpeakers = rounds[last].speakers
  const turns = lastSpeakers.flatMap((seat, i) => {
    for (let r = last - 1; r >= 0; r--) {
      const at = rounds[r].speakers.indexOf(seat)
      if (at >= 0) return [{ post: starts[last] + i, before: starts[r] + at }]
    }
    return []
  })
  const posts = lastSpeakers.map((_, i) => starts[last] + i)
  return {
    width: final === 'vote' ? width + 1 : width,
    rounds: rounds.map(({ speakers }, r) => ({ start: starts[r], posts: speakers.length })),
    scores: final === 'each' ? posts : final === 'vote' ? [width] : [posts[lastSpeakers.indexOf(final.seat)]],
    turns,
  }
}

/** Where each board's flags begin; one more than there are boards, so that the last is the length of all. */
export function flagStarts(job: readonly number[], widths: readonly number[]): Uint32Array {
  const starts = new Uint32Array(job.length + 1)
  for (let i = 0; i < job.length; i++) starts[i + 1] = starts[i] + widths[job[i]]
  return starts
}

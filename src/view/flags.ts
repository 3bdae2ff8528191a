/** What the table of boards needs to know of a post, in one printable character. Pure; shared with the browser. */

/** Bits of a flag. */
export const bit = {
  right: 1,
  cut: 2,
  /** Gave no answer that the verifier could read. */
  silent: 4,
  /** Of a reply: its answer differs from its writer's own note's. */
  switched: 8,
} as const

/** 48 is '0': sixteen values from '0' to '?', all of one byte in UTF-8. */
export const encodeFlag = (bits: number): string => String.fromCharCode(48 + bits)

/** The bits of the character at `index`. */
export const flagAt = (flags: string, index: number): number => flags.charCodeAt(index) - 48

/**
 * Text of others (servers, files, models) as it may be printed and put into files that are printed: what would act on a
 * terminal, or show as nothing, is written by its code. Pure.
 */

/**
 * Characters that show as nothing or change how others are laid out: controls (but for tab and line feed), zero-width
 * and bidirectional marks, byte-order marks, tags.
 */
export const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  // biome-ignore lint/suspicious/noMisleadingCharacterClass: each is a character of its own here
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu

/** Such characters as JSON writes them, `\u001b`, so that a JSON text stays the same value. Lines stay lines. */
export const printable = (text: string): string => text.replace(HIDDEN, codes)

/** The same on one line, so that no text makes up a line of its own. */
export const printableLine = (text: string): string => printable(text).replaceAll('\n', '\\n')

const codes = (character: string) =>
  Array.from(
    { length: character.length },
    (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`,
  ).join('')

/** Characters of what a server said that an error shows. */
const SHOWN = 200

/** A text of a server's on one line, cut where it is long, and without the secrets that some servers repeat. */
export function shown(text: string, secrets: readonly string[] = []): string {
  const hidden = secrets.reduce((left, secret) => left.replaceAll(secret, '[hidden]'), text)
  const line = hidden
    .slice(0, 10 * SHOWN)
    .replace(/\s+/g, ' ')
    .trim()
  return line.length > SHOWN ? `${line.slice(0, SHOWN)}...` : line
}

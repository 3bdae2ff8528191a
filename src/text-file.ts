/** Text as people save it: UTF-8, with or without a byte-order mark. Any other encoding is named, never guessed. */
import { UserError } from './errors.ts'

/**
 * The text of a file's bytes, without its byte-order mark. `path` names the file in errors.
 *
 * @throws UserError for bytes that are not UTF-8, naming UTF-16 where they look like it.
 */
export function decodeText(bytes: Uint8Array, path: string): string {
  const [first, second] = bytes
  const hasMark = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)
  // Without a mark: the text of every format here begins with ASCII, of which UTF-16 makes one byte 0.
  if (hasMark || first === 0 || second === 0)
    throw new UserError(`${path} is saved as UTF-16. Save it as UTF-8.`)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    throw new UserError(`${path} is not UTF-8 text. Save it as UTF-8.`)
  }
}

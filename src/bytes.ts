/** Bytes and text, wherever JavaScript runs. Pure. */

const encoder = new TextEncoder()
// A byte-order mark is a character like any other.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export const utf8 = (text: string): Uint8Array<ArrayBuffer> => encoder.encode(text)

/** Text of UTF-8; what is none becomes replacement characters. */
export const textOf = (bytes: Uint8Array): string => decoder.decode(bytes)

/** All parts behind one another, in one array of their own. */
export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

export const hex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')

/** Bytes that become one string at a time: more arguments than that do not fit the stack. */
const PORTION = 3 << 13

export function base64(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; at += PORTION)
    text += btoa(String.fromCharCode(...bytes.subarray(at, at + PORTION)))
  return text
}

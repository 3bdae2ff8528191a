/** Numbers of files without the loss of a digit: what a double does not hold stays as it is written. Pure. */

const NUMBER = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([-+]?\d{1,6}))?$/

/** The digits of a number and the power of ten of the last, or null where `text` writes none. */
function digitsOf(text: string): string | null {
  const parts = NUMBER.exec(text)
  if (!parts) return null
  const [, sign, whole, fraction = '', exponent = '0'] = parts
  const written = `${whole}${fraction}`
  const digits = written.replace(/^0+/, '').replace(/0+$/, '')
  if (digits === '') return '0'
  const zeros = written.length - written.replace(/0+$/, '').length
  return `${sign}${digits}e${Number(exponent) - fraction.length + zeros}`
}

/** Whether the double nearest to the number that `text` writes is written with the same digits; true for any other text. */
const isExact = (text: string): boolean => {
  const digits = digitsOf(text)
  return digits === null || digits === digitsOf(String(Number(text)))
}

/** A number as text: shortest where a double holds it (`145.0` is `145`), else as written, an integer without `.0`. */
export const numberText = (text: string): string =>
  isExact(text) ? String(Number(text)) : text.replace(/\.0+$/, '')

/** An integer as a number where that holds all of its digits, else as text. */
export const integerValue = (value: bigint): number | string =>
  Number.isSafeInteger(Number(value)) ? Number(value) : value.toString()

/**
 * The value of JSON text, with each number that a double does not hold as a string of its digits.
 *
 * @throws SyntaxError as JSON.parse does.
 */
export function parseExactJson(text: string): unknown {
  const value: unknown = JSON.parse(text)
  let lost = false
  const quoted = text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) => {
    if (token.startsWith('"') || isExact(token)) return token
    lost = true
    return `"${token}"`
  })
  return lost ? JSON.parse(quoted) : value
}

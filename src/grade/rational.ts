/** Exact fractions of bounded size: the arithmetic under the verifier. Pure; too large a result is null. */

/** n / d, not reduced; d > 0. */
export interface Rational {
  n: bigint
  d: bigint
}

/** Numerators and denominators of more hexadecimal digits than this are not computed with (4,096 bits). */
const WIDEST_HEX = 1024

const abs = (x: bigint): bigint => (x < 0n ? -x : x)
const hexDigits = (x: bigint): number => abs(x).toString(16).length

/** n / d with the sign in n, or null where d is 0 or either is too large. */
export function rational(n: bigint, d = 1n): Rational | null {
  if (d === 0n || hexDigits(n) > WIDEST_HEX || hexDigits(d) > WIDEST_HEX) return null
  return d < 0n ? { n: -n, d: -d } : { n, d }
}

/** The value of plain decimal digits such as `12`, `12.50` or `.5`, times 10^exponent. */
export function decimal(digits: string, exponent = 0): Rational | null {
  const [whole, fraction = ''] = digits.split('.')
  const shift = exponent - fraction.length
  if (Math.abs(shift) > WIDEST_HEX) return null
  const n = BigInt(`${whole}${fraction}` || '0')
  return shift >= 0 ? rational(n * 10n ** BigInt(shift)) : rational(n, 10n ** BigInt(-shift))
}

export const add = (a: Rational, b: Rational) => rational(a.n * b.d + b.n * a.d, a.d * b.d)
export const subtract = (a: Rational, b: Rational) => rational(a.n * b.d - b.n * a.d, a.d * b.d)
export const multiply = (a: Rational, b: Rational) => rational(a.n * b.n, a.d * b.d)
export const divide = (a: Rational, b: Rational) => rational(a.n * b.d, a.d * b.n)
export const negate = (a: Rational): Rational => ({ n: -a.n, d: a.d })
export const magnitude = (a: Rational): Rational => ({ n: abs(a.n), d: a.d })
/** Negative, 0 or positive as a - b is. */
export const compare = (a: Rational, b: Rational): bigint => a.n * b.d - b.n * a.d

/** The integer that `a` is, or null where it is none. */
export const integer = (a: Rational): bigint | null => (a.n % a.d === 0n ? a.n / a.d : null)

/** The largest integer at most `a`. */
export function floor(a: Rational): bigint {
  const q = a.n / a.d
  return a.n % a.d !== 0n && a.n < 0n ? q - 1n : q
}

/** a^e for an integer e, or null where it is undefined or too large. */
export function power(a: Rational, e: bigint): Rational | null {
  const size = abs(e)
  if (a.n === 0n) return e > 0n ? a : null
  const unit = abs(a.n) === a.d
  if (
    !unit &&
    (size > 4096n || BigInt(Math.max(hexDigits(a.n), hexDigits(a.d)) - 1) * size > BigInt(WIDEST_HEX))
  )
    return null
  if (unit) return { n: a.n > 0n || size % 2n === 0n ? 1n : -1n, d: 1n }
  return e >= 0n
    ? rational(a.n ** size, a.d ** size)
    : rational(a.d ** size * (a.n < 0n && size % 2n ? -1n : 1n), abs(a.n) ** size)
}

/** The exact k-th root of `a`, or null where that is not rational (or not real). */
export function root(a: Rational, k: bigint): Rational | null {
  if (k < 1n || k > 64n || (a.n < 0n && k % 2n === 0n)) return null
  const reduced = reduce(a)
  const n = integerRoot(abs(reduced.n), k)
  const d = integerRoot(reduced.d, k)
  return n === null || d === null ? null : { n: a.n < 0n ? -n : n, d }
}

/** The same value in lowest terms. */
export function reduce(a: Rational): Rational {
  let [x, y] = [abs(a.n), a.d]
  while (y !== 0n) [x, y] = [y, x % y]
  return { n: a.n / x, d: a.d / x }
}

/** The exact k-th root of x >= 0 by Newton's method from above, or null. */
function integerRoot(x: bigint, k: bigint): bigint | null {
  if (x < 2n) return x
  let guess = 1n << (BigInt(hexDigits(x) * 4) / k + 1n)
  for (;;) {
    const next = ((k - 1n) * guess + x / guess ** (k - 1n)) / k
    if (next >= guess) return guess ** k === x ? guess : null
    guess = next
  }
}

/** The nearest double, also for numerators and denominators beyond a double's range. */
export function toNumber(a: Rational): number {
  const n = Number(a.n)
  const d = Number(a.d)
  if (Number.isFinite(n) && Number.isFinite(d)) return n / d
  const shift = BigInt(Math.max(0, Math.min(hexDigits(a.n), hexDigits(a.d)) * 4 - 256))
  return Number(a.n >> shift) / Number(a.d >> shift)
}

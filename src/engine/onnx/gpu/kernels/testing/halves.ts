/** Halves by their bits, for tests and benchmarks: JavaScript has no arrays of them everywhere. */

const single = new Float32Array(1)
const bits = new Uint32Array(single.buffer)

export function fromHalf(half: number): number {
  const [exponent, fraction] = [(half >> 10) & 31, half & 1023]
  const sign = half & 0x8000 ? -1 : 1
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25))
}

/** Of a number less than 65504, rounded to the nearest, at a tie to the even. */
export function toHalf(value: number): number {
  single[0] = value
  const sign = (bits[0] >>> 16) & 0x8000
  const size = Math.abs(single[0])
  // Below the least normal number halves are evenly spaced, as they are between two powers of two.
  const exponent = Math.max(-14, ((bits[0] >>> 23) & 255) - 127)
  const steps = size * 2 ** (10 - exponent)
  const below = Math.floor(steps)
  const rest = steps - below
  const rounded = below + (rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? 1 : 0)
  return sign | (rounded + 1024 * (exponent + 14))
}

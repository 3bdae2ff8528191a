/**
 * The two 16-bit floating-point formats of checkpoints, converted from and to float32. Pure.
 *
 * bfloat16 is the upper half of a float32; float16 is IEEE 754 binary16. Narrowing rounds to nearest, ties to
 * even, as numpy and PyTorch do; a NaN stays a NaN.
 */

/** Widens `from` into the start of `into`. */
export function bf16ToF32(from: Uint16Array, into: Float32Array): void {
  const bits = new Uint32Array(into.buffer, into.byteOffset, from.length)
  for (let i = 0; i < from.length; i++) bits[i] = from[i] << 16
}

/** Widens `from` into the start of `into`. */
export function f16ToF32(from: Uint16Array, into: Float32Array): void {
  for (let i = 0; i < from.length; i++) into[i] = f16Values[from[i]]
}

/** Narrows `from` into the start of `into`. False when a finite value became infinite. */
export function f32ToBf16(from: Float32Array, into: Uint16Array): boolean {
  const bits = new Uint32Array(from.buffer, from.byteOffset, from.length)
  let fits = true
  for (let i = 0; i < bits.length; i++) {
    const word = bits[i]
    if (Number.isNaN(from[i])) {
      into[i] = (word >>> 16) | 0x40 // quiet: a payload in the lower half alone would round to infinity
      continue
    }
    // Half of the last kept place, less one where that place is even: ties go to even, carries into the exponent.
    into[i] = (word + 0x7fff + ((word >>> 16) & 1)) >>> 16
    if ((into[i] & 0x7fff) === 0x7f80 && Number.isFinite(from[i])) fits = false
  }
  return fits
}

/** Narrows `from` into the start of `into`. False when a finite value became infinite. */
export function f32ToF16(from: Float32Array, into: Uint16Array): boolean {
  let fits = true
  for (let i = 0; i < from.length; i++) {
    const sign = from[i] < 0 || Object.is(from[i], -0) ? 0x8000 : 0
    into[i] = sign | f16Bits(Math.abs(from[i]))
    if ((into[i] & 0x7fff) === 0x7c00 && Number.isFinite(from[i])) fits = false
  }
  return fits
}

/** Every float16 by its bits. */
const f16Values = Float32Array.from({ length: 0x10000 }, (_, bits) => {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY
  if (exponent === 0) return sign * fraction * 2 ** -24
  return sign * (0x400 + fraction) * 2 ** (exponent - 25)
})

/** The bits of a non-negative value (or NaN) as float16. */
function f16Bits(value: number): number {
  if (Number.isNaN(value)) return 0x7e00
  if (value >= 65520) return 0x7c00 // halfway between the largest float16 and the next power of two
  // Below 2^-14 the places are 2^-24 wide (subnormals); above, 2^-10 of the value's power of two.
  const exponent = value < 2 ** -14 ? -14 : Math.floor(Math.log2(value))
  const places = roundHalfEven(value * 2 ** (10 - exponent))
  // A normal number has 1,024 to 2,048 places: adding them to the exponent's field adds the implied leading one,
  // and carries into the next exponent where rounding reached 2,048.
  return places + (value < 2 ** -14 ? 0 : (exponent + 14) << 10)
}

function roundHalfEven(value: number): number {
  const floor = Math.floor(value)
  const rest = value - floor
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor
}

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
  const bits = new Uint32Array(from.buffer, from.byteOffset, from.length)
  let fits = true
  for (let i = 0; i < bits.length; i++) {
    const sign = (bits[i] >>> 16) & 0x8000
    const magnitude = bits[i] & 0x7fffffff
    if (magnitude >= F16_SUBNORMAL && magnitude < F16_INFINITE) {
      // From the exponent's bias of 127 to 15; 13 places are rounded off, ties to even, carries into the exponent.
      into[i] = sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13)
    } else if (magnitude < F16_SUBNORMAL) {
      into[i] = sign | roundHalfEven(Math.abs(from[i]) * 2 ** 24)
    } else if (magnitude > 0x7f800000) {
      into[i] = sign | 0x7e00
    } else {
      into[i] = sign | 0x7c00
      if (magnitude < 0x7f800000) fits = false
    }
  }
  return fits
}

/** float32's bits of 2^-14, below which a float16 is subnormal (a multiple of 2^-24). */
const F16_SUBNORMAL = 0x38800000
/** float32's bits of 65520, halfway between the largest float16 and the next power of two. */
const F16_INFINITE = 0x477ff000

/** Every float16 by its bits. */
const f16Values = Float32Array.from({ length: 0x10000 }, (_, bits) => {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY
  if (exponent === 0) return sign * fraction * 2 ** -24
  return sign * (0x400 + fraction) * 2 ** (exponent - 25)
})

function roundHalfEven(value: number): number {
  const floor = Math.floor(value)
  const rest = value - floor
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor
}

/** Sizes of what is computed at once: few, where a device keeps a buffer for each. */

/** Blocks of positions and chunks of targets that training and scoring go by; both divide the sizes below. */
export const FRUGAL = { blocks: 4, chunks: 4 }

/** Rungs to an octave: a size grows by 9% on average, and buffers of all rungs take 6 times the largest's memory. */
const RUNGS = 4
/** Every rung is a multiple of this, which kernels for four or eight numbers at once can read. */
const MULTIPLE = 16

/** The least rung of a ladder of multiples of 16, about 2^(1/4) apart, that is at least `size`. */
export function rungAbove(size: number): number {
  for (let k = 0; ; k++) {
    const rung = MULTIPLE * Math.ceil(2 ** (k / RUNGS))
    if (rung >= size) return rung
  }
}

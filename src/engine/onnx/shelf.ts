/**
 * Arrays that the jobs of a lane use one after another. They lie outside V8's heap: made anew for every job they have V8 look for
 * garbage several times a second, 10 ms each time.
 */
export interface Shelf {
  /** Zeros, to be used until the next `clear`. */
  take(length: number): Float32Array
  /** Takes all arrays back. */
  clear(): void
}

/** `keeps`: arrays stay between jobs, each as long as the longest that was asked for in its place; else they are garbage. */
export function openShelf(keeps: boolean): Shelf {
  const kept: Float32Array[] = []
  let taken = 0
  return {
    take(length) {
      const known = keeps ? kept[taken] : undefined
      if (known !== undefined && known.length >= length) {
        taken++
        return known.subarray(0, length).fill(0)
      }
      const made = new Float32Array(length)
      if (keeps) kept[taken++] = made
      return made
    },
    clear() {
      taken = 0
    },
  }
}

/**
 * Seeded randomness: every random draw in the project comes from here, so a seed fully decides a run.
 *
 * Streams are keyed, not threaded: `random(17, 'notes', step, problem)` is the same stream whatever was drawn
 * before it. That is what lets a resumed run, or another order of work, give the same result.
 */

/** One part of a stream's key. */
export type SeedPart = number | string

/** A stream of pseudo-random numbers. */
export interface Random {
  /** Uniform in [0, 1), 32 bits of resolution. */
  next(): number
  /** Uniform integer in [0, n). */
  int(n: number): number
  /** One element of a non-empty list, uniformly. */
  pick<T>(items: readonly T[]): T
  /** A shuffled copy (Fisher-Yates). */
  shuffle<T>(items: readonly T[]): T[]
  /** Standard normal (Box-Muller). */
  normal(): number
}

/** A 32-bit seed for a key: FNV-1a over its parts, finished with murmur3's mixer. */
export function seedOf(...key: readonly SeedPart[]): number {
  let hash = 0x811c9dc5
  for (const part of key) {
    const text = `${typeof part === 'number' ? '#' : '$'}${part}\u0000`
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/** `n` seeds of one key, each of its own. */
export function seedsOf(n: number, ...key: readonly SeedPart[]): number[] {
  return Array.from({ length: n }, (_, i) => seedOf(...key, i))
}

/** The stream for a key (sfc32, PractRand-tested; four words of state seeded from the key). */
export function random(...key: readonly SeedPart[]): Random {
  let a = seedOf(...key, 'a') | 0
  let b = seedOf(...key, 'b') | 0
  let c = seedOf(...key, 'c') | 0
  let counter = 1
  const next32 = (): number => {
    const result = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (c << 21) | (c >>> 11)
    c = (c + result) | 0
    return result >>> 0
  }
  for (let i = 0; i < 12; i++) next32()
  const next = () => next32() / 0x1_0000_0000
  const int = (n: number) => Math.floor(next() * n)
  return {
    next,
    int,
    pick: (items) => items[int(items.length)],
    shuffle(items) {
      const copy = items.slice()
      for (let i = copy.length - 1; i > 0; i--) {
        const j = int(i + 1)
        const held = copy[i]
        copy[i] = copy[j]
        copy[j] = held
      }
      return copy
    },
    normal: () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
  }
}

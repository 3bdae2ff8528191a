/** Arguments to values, and back to one sentence where an argument cannot be. Pure. */
import { InvalidArgumentError } from 'commander'

/** A whole number of at least `least`. */
export function wholeNumber(least = 1): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least) {
      throw new InvalidArgumentError(`Give a whole number of at least ${least}.`)
    }
    return value
  }
}

/** A difference of two shares: above 0, below 1. */
export function effectSize(text: string): number {
  const value = Number(text)
  if (!(value > 0 && value < 1)) throw new InvalidArgumentError('Give a share between 0 and 1, such as 0.05.')
  return value
}

export function positiveNumber(text: string): number {
  const value = Number(text)
  if (!(value > 0 && value < Number.POSITIVE_INFINITY))
    throw new InvalidArgumentError('Give a number above 0.')
  return value
}

/** An option that may be given several times. */
export const listed = (text: string, before: string[] = []): string[] => [...before, text]

/** Comma-separated seeds: 17,18. */
export function seedList(text: string): number[] {
  const seeds = text.split(',').map((part) => (/^\d+$/.test(part.trim()) ? Number(part) : Number.NaN))
  if (seeds.some(Number.isNaN)) throw new InvalidArgumentError('Give seeds such as 17,18.')
  return seeds
}

/** A part of the jobs: 3/16 is the third of sixteen. */
export function shardNumber(text: string): { k: number; n: number } {
  const [, k, n] = /^(\d+)\/(\d+)$/.exec(text) ?? []
  if (k === undefined || Number(k) < 1 || Number(k) > Number(n) || Number(n) > 100_000) {
    throw new InvalidArgumentError('Give a shard such as 3/16: from 1/16 to 16/16.')
  }
  return { k: Number(k), n: Number(n) }
}

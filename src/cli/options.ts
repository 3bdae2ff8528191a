/** Arguments to values, and back to one sentence where an argument cannot be. Pure. */
import { InvalidArgumentError } from 'commander'
import { type ArmName, armNames } from '../experiment/arms.ts'

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

/** `both`, or one of the arms. */
export function armChoice(text: string): readonly ArmName[] {
  if (text === 'both') return armNames
  const arm = armNames.find((name) => name === text)
  if (!arm) throw new InvalidArgumentError(`Give ${armNames.join(', ')} or both.`)
  return [arm]
}

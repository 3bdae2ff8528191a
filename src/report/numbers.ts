/** Numbers as reports write them. Pure. */
import type { Interval } from '../stats/index.ts'

/** Three decimals, as in the reference: the smallest step of 120 problems x 4 replies is 0.002. */
export const three = (value: number): string => value.toFixed(3)

/** With its sign, so that a difference is never mistaken for a level. */
export const signed = (value: number): string => `${value < 0 ? '-' : '+'}${Math.abs(value).toFixed(3)}`

/** A difference with its interval. */
export const difference = ({
  delta,
  ci95: [low, high],
}: {
  delta: number
  ci95: Readonly<Interval>
}): string => `${signed(delta)} [${signed(low)}, ${signed(high)}]`

/** A level with its interval. */
export const level = (value: number, [low, high]: Readonly<Interval>): string =>
  `${three(value)} [${three(low)}, ${three(high)}]`

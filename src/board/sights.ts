/**
 * Who reads whom: a `Sight` is a pure function from a seat to the posts that it is shown. One line makes a new one;
 * its name stands in the record. Touches nothing.
 */
import type { Random } from '../random.ts'
import type { Ref } from './types.ts'

/** What else a sight may look at. */
export interface View {
  /** The reader's own round, from 0. */
  round: number
  /** Seats that spoke in the round before. */
  before: readonly number[]
  /** A stream of this problem, seat and round alone, for sights that vary. */
  draw: Random
}

/**
 * What seat `seat` of `seats` (0-based) sees, in the order shown. A number is that seat's post in the round before; a
 * pair [round, seat] is one of any earlier round.
 */
export type Sight = (seat: number, seats: number, view: View) => readonly (number | Ref)[]

/** A function under the name that records show, whatever a bundler that shortens names makes of its own. */
export function named<F extends (...parts: never[]) => unknown>(name: string, sight: F): F {
  return Object.defineProperty(sight, 'name', { value: name })
}

/** Each seat sees its own post alone: the baseline, in which nobody reads anybody. */
export const own: Sight = named('own', (seat) => [seat])

/** Each seat sees every post of the round before, in the order of the seats: all readers share one prompt. */
export const shared: Sight = named('shared', (_seat, _seats, { before }) => before)

/** Each seat sees its own post, then its right-hand neighbour's. */
export const ring: Sight = named('ring', (seat, seats) => (seats > 1 ? [seat, (seat + 1) % seats] : [seat]))

/** Seat 0, the hub, sees every post; the others see the hub's and their own. */
export const star: Sight = named('star', (seat, _seats, { before }) => (seat === 0 ? before : [0, seat]))

/** Seat 0 sees its own post; each other one sees its left-hand neighbour's, then its own. */
export const chain: Sight = named('chain', (seat) => (seat === 0 ? [0] : [seat - 1, seat]))

/** Each seat sees `k` of the posts, drawn anew for each problem, in the order of the seats. */
export function randomOf(k: number): Sight {
  return named(`random ${k}`, (_seat, _seats, { before, draw }) =>
    draw
      .shuffle(before)
      .slice(0, k)
      .sort((a, b) => a - b),
  )
}

/** Each seat sees every post of all earlier rounds, the oldest first. Every seat must have spoken in each. */
export const everything: Sight = named('everything', (_seat, seats, { round }) =>
  Array.from({ length: round * seats }, (_, i): Ref => [Math.floor(i / seats), i % seats]),
)

/** The sights that a command line can name. */
export const sights: Readonly<Record<string, Sight>> = { own, shared, ring, star, chain }

/** Who is told what of a problem whose facts are dealt among the seats. Pure. */
import type { Problem } from './types.ts'

/**
 * The parts of seat `seat` of `seats` (0-based), in the problem's order. Parts are dealt in turn: with more parts than
 * seats a seat gets several, with fewer, parts are dealt again from the first. None where the problem has none.
 */
export function partsOf({ parts = [] }: Pick<Problem, 'parts'>, seat: number, seats: number): string[] {
  if (parts.length === 0) return []
  if (parts.length < seats) return [parts[seat % parts.length]]
  return parts.filter((_, part) => part % seats === seat)
}

/**
 * How the generated worlds keep their problems apart: a hash of what identifies a problem decides its slice, so that
 * slices are disjoint by construction, whatever seeds they are drawn with. Pure.
 */
import { UserError } from '../errors.ts'
import { seedOf } from '../random.ts'

/** 10% of all problems are held out, 20% are for RL, 70% are the corpus that the built-in policy learned from. */
export type Slice = 'corpus' | 'train' | 'holdout'

/** The slice of whatever `identity` identifies. */
export function sliceOfKey(identity: string): Slice {
  const tenth = seedOf('slice', identity) % 10
  return tenth === 0 ? 'holdout' : tenth <= 2 ? 'train' : 'corpus'
}

/** A drawn problem: what decides its slice, and what no two problems of a set may share. */
export interface Drawn {
  slice: Slice
  unique: string
}

/**
 * The first `count` problems of one slice in the order of their indices, with those indices; no two share their
 * `unique`. Throws a UserError, naming `what`, where 1,000 indices in a row bring nothing new.
 */
export function drawSlice<P extends Drawn>(
  slice: Slice,
  count: number,
  draw: (index: number) => P,
  what: string,
): (P & { index: number })[] {
  const found = new Map<string, P & { index: number }>()
  let lastFound = 0
  for (let index = 0; found.size < count; index++) {
    if (index - lastFound > 1000) {
      throw new UserError(`${what} has too few ${slice} problems for ${count}: ask for fewer.`)
    }
    const problem = draw(index)
    if (problem.slice !== slice || found.has(problem.unique)) continue
    lastFound = index
    found.set(problem.unique, { ...problem, index })
  }
  return [...found.values()]
}

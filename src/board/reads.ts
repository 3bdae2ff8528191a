/** Who reads whom: a `Reads` is a pure function from a reader to the notes it sees. Touches nothing. */
import { UserError } from '../errors.ts'
import type { Reads } from './types.ts'

/** Each reader sees its own note alone: the baseline, in which nobody reads anybody. */
export const own: Reads = (reader) => [reader]

/** Each reader sees every note in the order posted: all readers share one prompt. */
export const shared: Reads = (_reader, copies) => Array.from({ length: copies }, (_, note) => note)

/** The boards that a command line can name. */
export const boards: Readonly<Record<string, Reads>> = { own, shared }

/** The whole layout, `[reader][position] = note`: what a run records, and where a bad layout is refused. */
export function layout(reads: Reads, copies: number): number[][] {
  return Array.from({ length: copies }, (_, reader) => {
    const notes = reads(reader, copies)
    const valid = notes.every((note) => Number.isInteger(note) && note >= 0 && note < copies)
    if (!valid || notes.length === 0 || new Set(notes).size !== notes.length) {
      throw new UserError(
        `The board "${reads.name}" gives reader ${reader} of ${copies} the notes [${notes.join(', ')}]: ` +
          `return one or more different note indices from 0 to ${copies - 1}.`,
      )
    }
    return notes
  })
}

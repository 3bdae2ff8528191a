/**
 * notes.json of a run folder: what a person says of a run, beside what it found. No part of the record: it decides
 * nothing, may change at any time, and stays where a run is started afresh. Touches that file only.
 */

import { UserError } from '../errors.ts'
import { readRegular, writeJsonAtomic } from '../files.ts'
import { join } from '../platform/path.ts'
import { readRecord } from './folder.ts'
import { mostNotes, type Notes, notesSchema, tagSchema } from './schema.ts'

const notesFile = 'notes.json'

export const noNotes: Notes = { note: '', tags: [] }

/** @throws UserError for a file that is not what this version writes. */
export async function readNotes(folder: string): Promise<Notes> {
  const file = join(folder, notesFile)
  const text = await readRegular(file)
  if (text === undefined) return noNotes
  try {
    return notesSchema.parse(JSON.parse(text))
  } catch {
    throw new UserError(`${file} is not what message-board note and tag write: mend or delete it.`)
  }
}

/** Changes the note of a run, or tells it where `note` is left out. @throws UserError for a folder that is no run. */
export async function noteRun(folder: string, note?: string): Promise<Notes> {
  await readRecord(folder)
  const now = await readNotes(folder)
  return note === undefined ? now : writeNotes(folder, { ...now, note })
}

/** Adds tags to a run and takes others away. @throws UserError for a folder that is no run, and what is no tag. */
export async function tagRun(
  folder: string,
  { add = [], remove = [] }: { add?: readonly string[]; remove?: readonly string[] },
): Promise<Notes> {
  await readRecord(folder)
  const { note, tags } = await readNotes(folder)
  if (add.length + remove.length === 0) return { note, tags }
  return writeNotes(folder, { note, tags: [...tags, ...add].filter((tag) => !remove.includes(tag)) })
}

/** Changes what is said of the run in a folder. @throws UserError for a tag that is none, and a note that is too long. */
export async function writeNotes(folder: string, { note, tags }: Notes): Promise<Notes> {
  const notes: Notes = { note: note.trim(), tags: [...new Set(tags)] }
  const odd = notes.tags.find((tag) => !tagSchema.safeParse(tag).success)
  if (odd !== undefined) {
    throw new UserError(
      `${JSON.stringify(odd)} is no tag: give a word of letters, digits, "-", "_" and ".", of 40 characters at most.`,
    )
  }
  if (notes.note.length > mostNotes.characters || notes.tags.length > mostNotes.tags) {
    throw new UserError(
      `A run has room for ${mostNotes.tags} tags and a note of ${mostNotes.characters} characters: shorten it.`,
    )
  }
  await writeJsonAtomic(join(folder, notesFile), notes)
  return notes
}

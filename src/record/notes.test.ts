import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { noNotes, readNotes, writeNotes } from './notes.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'notes-'))
})
afterAll(() => rm(folder, { recursive: true }))

it('keeps what a person says of a run', async () => {
  expect(await readNotes(folder)).toEqual(noNotes)
  const notes = { note: ' The first with long notes.\n', tags: ['keep', 'λ-2', 'keep'] }
  expect(await writeNotes(folder, notes)).toEqual({
    note: 'The first with long notes.',
    tags: ['keep', 'λ-2'],
  })
  expect(await readNotes(folder)).toEqual({ note: 'The first with long notes.', tags: ['keep', 'λ-2'] })
})

it('refuses what is no tag, what is too long, and a file that is another', async () => {
  const before = await readNotes(folder)
  for (const tag of ['two words', '', '-x', 'a,b', 'x'.repeat(41)]) {
    await expect(writeNotes(folder, { ...before, tags: [tag] })).rejects.toThrow('is no tag')
  }
  await expect(writeNotes(folder, { ...before, note: 'x'.repeat(10_001) })).rejects.toThrow('shorten it')
  expect(await readNotes(folder)).toEqual(before)
  await writeFile(join(folder, 'notes.json'), '{"tags": 3}')
  await expect(readNotes(folder)).rejects.toThrow('mend or delete it')
})

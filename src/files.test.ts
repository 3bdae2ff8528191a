import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { UserError } from './errors.ts'
import { readJsonFile, writeAtomically, writeFileAtomic, writeJsonAtomic } from './files.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'files-'))
})
afterEach(() => rm(folder, { recursive: true }))

test('a file is replaced whole and leaves nothing beside it', async () => {
  const path = join(folder, 'a.txt')
  await writeFileAtomic(path, 'a long first text')
  await writeFileAtomic(path, 'short')
  expect(await readFile(path, 'utf8')).toBe('short')
  expect(await readdir(folder)).toEqual(['a.txt'])
})

test('a writer that throws half-way leaves the old file and no temporary one', async () => {
  const path = join(folder, 'a.txt')
  await writeFile(path, 'old')
  const failing = writeAtomically(path, async (file) => {
    await file.write('half of the n')
    throw new Error('disk full')
  })
  await expect(failing).rejects.toThrow('disk full')
  expect(await readFile(path, 'utf8')).toBe('old')
  expect(await readdir(folder)).toEqual(['a.txt'])
})

test('json is indented and ends in a newline', async () => {
  await writeJsonAtomic(join(folder, 'a.json'), { b: [1] })
  expect(await readFile(join(folder, 'a.json'), 'utf8')).toBe('{\n  "b": [\n    1\n  ]\n}\n')
})

describe('readJsonFile', () => {
  const schema = z.object({ step: z.number() })
  const path = () => join(folder, 'state.json')

  test('gives what fits', async () => {
    await writeJsonAtomic(path(), { step: 3 })
    expect(await readJsonFile(path(), schema)).toEqual({ step: 3 })
  })

  test('names the file and the field of what does not', async () => {
    await writeJsonAtomic(path(), { step: 'three' })
    await expect(readJsonFile(path(), schema)).rejects.toThrow(
      /state\.json .*field 'step': .*expected number/,
    )
    await writeFile(path(), '{"step": 3')
    await expect(readJsonFile(path(), schema)).rejects.toThrow(/state\.json is not valid JSON/)
    await expect(readJsonFile(path(), schema)).rejects.toBeInstanceOf(UserError)
  })

  test('a missing file is an error, or undefined where it is optional', async () => {
    await expect(readJsonFile(path(), schema)).rejects.toThrow(/Cannot read .*state\.json \(ENOENT\)/)
    expect(await readJsonFile(path(), schema, { optional: true })).toBeUndefined()
  })
})

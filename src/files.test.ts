import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { UserError } from './errors.ts'
import {
  appendAt,
  digestFile,
  isRealFolder,
  makeFolder,
  readJsonFile,
  readRegular,
  remove,
  writeAtomically,
  writeFailure,
  writeFileAtomic,
  writeJsonAtomic,
} from './files.ts'

const linux = process.platform === 'linux'

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
    await file.writeFile('half of the n')
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

  test('reads past a byte-order mark, and names what is no UTF-8', async () => {
    const marked = join(folder, 'marked.json')

    await writeFile(marked, '\ufeff{"a": 1}')

    expect(await readJsonFile(marked, z.object({ a: z.number() }))).toEqual({ a: 1 })

    await writeFile(marked, Buffer.from('\ufeff{"a": 1}', 'utf16le'))

    await expect(readJsonFile(marked, z.unknown())).rejects.toThrow(/marked\.json is .*UTF-16/)
  })

  test('gives what fits', async () => {
    await writeJsonAtomic(path(), { step: 3 })
    expect(await readJsonFile(path(), schema)).toEqual({ step: 3 })
  })

  test('takes a byte-order mark for none, as editors write it', async () => {
    await writeFile(path(), Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from('{"step": 3}')]))
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
    await writeFile(path(), 'two\nlines \u001b[31m')
    await expect(readJsonFile(path(), schema)).rejects.toThrow(/^\P{Cc}*two lines\P{Cc}*$/u)
  })

  test('a missing file is an error, or undefined where it is optional', async () => {
    await expect(readJsonFile(path(), schema)).rejects.toThrow(/Cannot read .*state\.json \(ENOENT\)/)
    expect(await readJsonFile(path(), schema, { optional: true })).toBeUndefined()
  })
})

describe('what the system refuses', () => {
  const path = () => join(folder, 'log.jsonl')

  test.each([
    [
      'ENOSPC',
      -28,
      /log cannot be written \(ENOSPC: no space left on device\): free some space .* same command again\.$/,
    ],
    ['EDQUOT', -122, /: free some space within your quota/],
    ['EROFS', -30, /read-only file system\): choose a folder of another disk/],
    ['EMFILE', -24, /too many open files\): raise the limit of open files \(ulimit -n\)/],
    ['EWHAT', -9999, /log cannot be written \(EWHAT\): check that path/],
  ])('is one sentence, for %s too', (code, errno, expected) => {
    const error = writeFailure('log', Object.assign(new Error('from the system'), { code, errno })) as Error
    expect(error).toBeInstanceOf(UserError)
    expect(error.message).toMatch(expected)
    expect(error.cause).toMatchObject({ code })
  })

  test('is told from what is no fault of the system', () => {
    for (const error of [new Error('ours'), new UserError('said'), new TypeError()]) {
      expect(writeFailure('log', error)).toBe(error)
    }
  })

  test('leaves nothing beside the file', async () => {
    await mkdir(path())
    await expect(writeFileAtomic(path(), 'text')).rejects.toThrow(/log.jsonl cannot be written \(EISDIR/)
    await expect(writeFileAtomic(join(path(), 'no/place'), 'text')).rejects.toThrow(
      /no\/place cannot be written/,
    )
    await writeFile(join(folder, 'file'), '')
    await expect(makeFolder(join(folder, 'file/below'))).rejects.toThrow(/below cannot be written \(ENOTDIR/)
    expect((await readdir(folder)).sort()).toEqual(['file', 'log.jsonl'])
  })

  test.runIf(linux)('is the end of a limit, and what was written before stands', async () => {
    // A limit on the size of files, and the signal ignored that goes with it: a disk that is full at 4 KiB.
    const url = new URL('./files.ts', import.meta.url).href
    const program = `
      import { appendAt } from '${url}'
      process.on('SIGXFSZ', () => {})
      const path = process.argv[1]
      const length = await appendAt(path, 0, 'x'.repeat(4000) + '\\n')
      await appendAt(path, length, 'y'.repeat(4000) + '\\n').catch((error) => console.log(error.name, error.message))
    `
    const command = 'ulimit -f 4; exec "$0" --import tsx --input-type=module -e "$1" "$2"'
    const said = execFileSync('bash', ['-c', command, process.execPath, program, path()], {
      encoding: 'utf8',
    })
    expect(said).toMatch(/^UserError .*log.jsonl cannot be written \(EFBIG: .*\n$/)
    expect(await readFile(path(), 'utf8')).toBe(`${'x'.repeat(4000)}\n`)
  })
})

describe('appendAt', () => {
  const path = () => join(folder, 'log.jsonl')

  test('adds to the bytes that count, and drops what follows them', async () => {
    const length = await appendAt(path(), 0, 'Ünä\n')
    expect(length).toBe(6)
    await writeFile(path(), 'half a l', { flag: 'a' })
    expect(await appendAt(path(), length, 'two\n')).toBe(10)
    expect(await readFile(path(), 'utf8')).toBe('Ünä\ntwo\n')
    await expect(appendAt(path(), 11, 'three\n')).rejects.toThrow(/cut to 10 bytes by another program/)
  })

  test('goes through nothing but a file', async () => {
    const thesis = join(folder, 'thesis.txt')
    await writeFile(thesis, 'years of work')
    await symlink(thesis, path())
    await expect(appendAt(path(), 0, 'x')).rejects.toThrow(/is a symbolic link where a file should be/)
    await rm(path())
    await symlink(join(folder, 'nowhere'), path())
    await expect(appendAt(path(), 0, 'x')).rejects.toThrow(/is a symbolic link/)
    await rm(path())
    await mkdir(path())
    await expect(appendAt(path(), 0, 'x')).rejects.toThrow(/is a folder where a file should be/)
    expect((await readdir(folder)).sort()).toEqual(['log.jsonl', 'thesis.txt'])
    expect(await readFile(thesis, 'utf8')).toBe('years of work')
  })
})

describe('reading what should be a file', () => {
  test('tells absence from what stands in its place, and waits for nothing', async () => {
    const path = join(folder, 'a')
    for (const read of [readRegular, digestFile]) {
      expect(await read(path)).toBeUndefined()
      expect(await read(join(folder, 'b/c'))).toBeUndefined()
    }
    expect(await isRealFolder(path)).toBe(false)
    await writeFile(path, 'text')
    expect(await readRegular(path)).toBe('text')
    expect(await digestFile(path)).toEqual({
      bytes: 4,
      sha256: '982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1',
    })
    await expect(isRealFolder(path)).rejects.toThrow(/a is a file where a folder should be/)
    await remove(path)
    await remove(path)
    if (linux) {
      execFileSync('mkfifo', [path])
      for (const read of [readRegular, digestFile])
        await expect(read(path)).rejects.toThrow(/a is a named pipe where/)
    }
    await mkdir(join(folder, 'folder'))
    expect(await isRealFolder(join(folder, 'folder'))).toBe(true)
    await symlink(join(folder, 'folder'), join(folder, 'link'))
    await expect(isRealFolder(join(folder, 'link'))).rejects.toThrow(/link is a symbolic link where a folder/)
    await expect(readRegular(join(folder, 'link'))).rejects.toThrow(/link is a symbolic link where a file/)
  })
})

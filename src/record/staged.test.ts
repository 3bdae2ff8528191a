import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { UserError } from '../errors.ts'
import { isUnsettled, replaceFiles, settle } from './staged.ts'

let root: string
let folder: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'staged-'))
  folder = join(root, 'run')
  await mkdir(join(folder, 'job'), { recursive: true })
  await writeFile(join(root, 'thesis.txt'), 'years of work')
  await writeFile(join(folder, 'a.txt'), 'old a')
})
afterEach(() => rm(root, { recursive: true }))

const read = (...names: string[]) => readFile(join(folder, ...names), 'utf8')

const sha = async (text: string) =>
  Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(text))).toString('hex')

/** What a kill after the list was written leaves, with any names. */
async function stage(files: [path: string, text: string][], removed: string[] = []): Promise<void> {
  await mkdir(join(folder, '.staged'))
  for (const [i, [, text]] of files.entries()) await writeFile(join(folder, '.staged', `${i}`), text)
  const listed = await Promise.all(files.map(async ([path, text]) => ({ path, sha256: await sha(text) })))
  await writeFile(join(folder, '.staged/list.json'), JSON.stringify({ files: listed, removed }))
}

describe('replaceFiles', () => {
  it('replaces, makes and removes files, and leaves nothing beside them', async () => {
    await writeFile(join(folder, 'page.html'), '')
    await replaceFiles(
      folder,
      new Map([
        ['a.txt', 'new a'],
        ['job/b.txt', 'new b'],
      ]),
      ['page.html'],
    )
    expect([await read('a.txt'), await read('job/b.txt')]).toEqual(['new a', 'new b'])
    expect((await readdir(folder)).sort()).toEqual(['a.txt', 'job'])
  })

  it('refuses a path that leads out before anything is changed', async () => {
    const files = new Map([['../thesis.txt', 'gone']])
    await expect(replaceFiles(folder, files)).rejects.toThrow(/names "..\/thesis.txt"/)
    expect(await readFile(join(root, 'thesis.txt'), 'utf8')).toBe('years of work')
    expect(await isUnsettled(folder)).toBe(false)
  })
})

describe('settle', () => {
  it('finishes what was cut short after its list, from any move on', async () => {
    await stage([
      ['a.txt', 'new a'],
      ['job/b.txt', 'new b'],
    ])
    await rm(join(folder, '.staged/0'))
    await writeFile(join(folder, 'a.txt'), 'new a')
    expect(await isUnsettled(folder)).toBe(true)
    await settle(folder)
    expect([await read('a.txt'), await read('job/b.txt')]).toEqual(['new a', 'new b'])
    expect(await isUnsettled(folder)).toBe(false)
  })

  it('forgets what was cut short before its list', async () => {
    await mkdir(join(folder, '.staged'))
    await writeFile(join(folder, '.staged/0'), 'half of the n')
    expect(await isUnsettled(folder)).toBe(false)
    await settle(folder)
    expect((await readdir(folder)).sort()).toEqual(['a.txt', 'job'])
    expect(await read('a.txt')).toBe('old a')
  })

  it('neither writes nor removes outside of the folder, whatever a received list says', async () => {
    await symlink(root, join(folder, 'link'))
    await symlink(join(root, 'thesis.txt'), join(folder, 'link.txt'))
    const out = join(root, 'thesis.txt')
    const odd = [
      '../thesis.txt',
      out,
      'job/../../thesis.txt',
      'link/thesis.txt',
      'link.txt',
      '',
      '.',
      'job/',
      '.lock-1',
    ]
    for (const path of [...odd, 'job', 'a\0.txt', 'C:\\thesis.txt', '.staged/list.json', 'no/b.txt']) {
      for (const [files, removed] of [
        [[[path, 'gone']], []],
        [[['a.txt', 'new a']], [path]],
      ] as [[string, string][], string[]][]) {
        await stage(files, removed)
        await expect(settle(folder), path).rejects.toThrow(UserError)
        expect(await readFile(out, 'utf8')).toBe('years of work')
        expect(await read('a.txt')).toBe('old a')
        expect(await isUnsettled(folder)).toBe(true)
        await rm(join(folder, '.staged'), { recursive: true })
      }
    }
  })

  it('moves nothing that is not what was staged', async () => {
    await stage([
      ['a.txt', 'new a'],
      ['job/b.txt', 'new b'],
    ])
    await writeFile(join(folder, '.staged/1'), 'new c')
    await expect(settle(folder)).rejects.toThrow(
      /the new job\/b.txt is not whole.*remove the folder .*\.staged/,
    )
    await rm(join(folder, '.staged/1'))
    await expect(settle(folder)).rejects.toThrow(/the new job\/b.txt is not whole/)
    await symlink(join(root, 'thesis.txt'), join(folder, '.staged/1'))
    await expect(settle(folder)).rejects.toThrow(/1 is a symbolic link/)
    expect(await read('a.txt')).toBe('old a')
  })

  it('refuses a stage or a list that is something else', async () => {
    await symlink(root, join(folder, '.staged'))
    await expect(settle(folder)).rejects.toThrow(/\.staged is a symbolic link where a folder should be/)
    expect(await readdir(root)).toContain('thesis.txt')
    await rm(join(folder, '.staged'))
    await mkdir(join(folder, '.staged/list.json'), { recursive: true })
    await expect(settle(folder)).rejects.toThrow(/list\.json is a folder where a file should be/)
    await rm(join(folder, '.staged/list.json'), { recursive: true })
    await writeFile(join(folder, '.staged/list.json'), 'null')
    await expect(settle(folder)).rejects.toThrow(UserError)
  })
})

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { UserError } from '../errors.ts'
import { differences, openRunFolder } from './folder.ts'
import { isLock, lockFolder } from './lock.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'folder-'))
})
afterEach(() => rm(folder, { recursive: true }))

const visible = async (path: string) => (await readdir(path)).filter((name) => !isLock(name)).sort()

const record = (steps: number) => ({ identity: { train: { steps } }, note: 'free' })

describe('openRunFolder', () => {
  it('makes a new folder, and continues it for an equal identity', async () => {
    const path = join(folder, 'a/b')
    ;(await openRunFolder(path, record(1))).release()
    ;(await openRunFolder(path, { ...record(1), note: 'changed' })).release()
    expect(JSON.parse(await readFile(join(path, 'experiment.json'), 'utf8'))).toMatchObject({
      schemaVersion: 1,
      identity: { train: { steps: 1 } },
      note: 'changed',
    })
    expect(await visible(path)).toEqual(['experiment.json'])
  })

  it('refuses a folder that holds other files, and leaves them alone even when told to start afresh', async () => {
    await writeFile(join(folder, 'thesis.txt'), 'years of work')
    for (const fresh of [false, true]) {
      await expect(openRunFolder(folder, record(1), { fresh })).rejects.toThrow(/already holds other files/)
    }
    await writeFile(join(folder, 'experiment.json'), '{"kind":"something else"}')
    await expect(openRunFolder(folder, record(1), { fresh: true })).rejects.toThrow(/not written by/)
    expect((await readdir(folder)).sort()).toEqual(['experiment.json', 'thesis.txt'])
  })

  it('removes only a run when told to start afresh', async () => {
    ;(await openRunFolder(folder, record(1))).release()
    for (const name of ['base-1', 'recipe-s17', 'my-notes']) await mkdir(join(folder, name))
    await writeFile(join(folder, 'results.json'), '{}')
    ;(await openRunFolder(folder, record(2), { fresh: true })).release()
    expect(await visible(folder)).toEqual(['experiment.json', 'my-notes'])
  })

  it('refuses a path that is a file', async () => {
    await writeFile(join(folder, 'file'), '')
    await expect(openRunFolder(join(folder, 'file'), record(1))).rejects.toThrow(UserError)
    await expect(openRunFolder(join(folder, 'file/below'), record(1))).rejects.toThrow(UserError)
  })

  it('removes what a killed writer left', async () => {
    await writeFile(join(folder, '.experiment.json.1234.tmp'), '{"ki')
    ;(await openRunFolder(folder, record(1))).release()
    expect(await visible(folder)).toEqual(['experiment.json'])
  })
})

describe('the lock', () => {
  it('keeps a second run out while the first lives', async () => {
    const release = await lockFolder(folder)
    await expect(lockFolder(folder)).rejects.toThrow(new RegExp(`process ${process.pid} `))
    release()
    ;(await lockFolder(folder))()
    expect(await readdir(folder)).toEqual(['.lock-2'])
  })

  it('is taken over from a dead process', async () => {
    const child = spawn(process.execPath, ['-e', ''])
    await once(child, 'exit')
    await writeFile(
      join(folder, '.lock-1'),
      JSON.stringify({ pid: child.pid, host: hostname(), started: '1' }),
    )
    ;(await lockFolder(folder))()
  })

  it.skipIf(process.platform !== 'linux')(
    'is taken over when its process id is another process by now',
    async () => {
      await writeFile(
        join(folder, '.lock-1'),
        JSON.stringify({ pid: process.pid, host: hostname(), started: '1' }),
      )
      ;(await lockFolder(folder))()
    },
  )

  it('is never taken from another machine, nor from an owner that cannot be read', async () => {
    await writeFile(join(folder, '.lock-1'), JSON.stringify({ pid: 1, host: 'elsewhere', started: null }))
    await expect(lockFolder(folder)).rejects.toThrow(/on elsewhere/)
    await writeFile(join(folder, '.lock-1'), 'gibberish')
    await expect(lockFolder(folder)).rejects.toThrow(/delete that file/)
  })

  it('goes to exactly one of many who find a dead owner', async () => {
    const stale = JSON.stringify({ pid: 2 ** 30, host: hostname(), started: null })
    for (let round = 1; round <= 30; round++) {
      const [last] = (await readdir(folder)).filter(isLock)
      await writeFile(join(folder, last ?? '.lock-1'), stale)
      const tries = await Promise.allSettled(Array.from({ length: 12 }, () => lockFolder(folder)))
      const won = tries.filter((result) => result.status === 'fulfilled')
      expect(won).toHaveLength(1)
      won[0].value()
      expect(await readdir(folder)).toHaveLength(1)
    }
  })
})

describe('differences', () => {
  it('names each setting that differs, with both values', () => {
    expect(differences({ a: { b: 1, c: [1] }, d: 'x' }, { a: { b: 2, c: [1] }, e: null })).toEqual([
      'a.b: 1 before, 2 now',
      'd: "x" before, absent now',
      'e: absent before, null now',
    ])
    expect(differences({ a: [1, 2] }, { a: [1, 2] })).toEqual([])
  })
})

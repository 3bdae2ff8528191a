import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isHeld, isLock, lives, lockFolder, type Owner, thisProcess } from './lock.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lock-'))
})
afterEach(() => rm(folder, { recursive: true }))

const linux = process.platform === 'linux'
const write = (owner: Partial<Owner>, name = '.lock-1') =>
  writeFile(join(folder, name), JSON.stringify({ ...thisProcess(), ...owner }))

describe('the lock', () => {
  it('keeps a second run out while the first lives', async () => {
    const release = await lockFolder(folder)
    await expect(lockFolder(folder)).rejects.toThrow(new RegExp(`process ${process.pid} `))
    expect(await isHeld(folder)).toBe(true)
    release()
    expect(await isHeld(folder)).toBe(false)
    ;(await lockFolder(folder))()
    expect(await readdir(folder)).toEqual(['.lock-2'])
  })

  it('is taken over from a dead process', async () => {
    const child = spawn(process.execPath, ['-e', ''])
    await once(child, 'exit')
    await write({ pid: child.pid, started: '1' })
    expect(await isHeld(folder)).toBe(false)
    ;(await lockFolder(folder))()
  })

  it.skipIf(!linux)('is taken over when its process id is another process by now', async () => {
    await write({ started: '1' })
    ;(await lockFolder(folder))()
  })

  it.skipIf(!linux)('is taken over from a process that has ended and that nobody has asked', async () => {
    // The shell becomes a program that never asks how its child ended: the child stays a zombie.
    const parent = spawn('sh', ['-c', 'sleep 0.05 & echo $!; exec sleep 30'])
    try {
      const [line] = await once(parent.stdout, 'data')
      const pid = Number(line)
      const state = async () => (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1][0]
      while ((await state()) !== 'Z') await new Promise((resolve) => setTimeout(resolve, 10))
      await write({ pid, started: null })
      expect(await isHeld(folder)).toBe(false)
      ;(await lockFolder(folder))()
    } finally {
      parent.kill()
    }
  })

  it('is never taken from an owner that cannot be asked or read', async () => {
    for (const other of [{ host: 'elsewhere' }, { namespace: 'pid:[1]' }]) {
      await write({ pid: 2 ** 30, ...other })
      await expect(lockFolder(folder)).rejects.toThrow(/process 1073741824 on .*delete that file/)
      expect(await isHeld(folder)).toBe(true)
    }
    for (const text of ['gibberish', 'null', '{"pid":1}', '{"pid":-1,"host":"x"}']) {
      await writeFile(join(folder, '.lock-1'), text)
      await expect(lockFolder(folder)).rejects.toThrow(/an unknown process.*delete that file/)
      expect(await isHeld(folder)).toBe(true)
    }
  })

  it('is no lock where a link, a folder or a pipe stands, and says so at once', async () => {
    const path = join(folder, '.lock-1')
    const odd: [string, () => Promise<unknown>][] = [
      ['a symbolic link', () => symlink(join(folder, 'nowhere'), path)],
      ['a folder', () => mkdir(path)],
      ...(linux ? [['a named pipe', () => once(spawn('mkfifo', [path]), 'exit')] as const] : []),
    ] as never
    for (const [what, make] of odd) {
      await make()
      await expect(lockFolder(folder)).rejects.toThrow(new RegExp(`lock-1 is ${what} .*: remove it`))
      expect(await isHeld(folder)).toBe(false)
      expect(await readdir(folder)).toEqual(['.lock-1'])
      await rm(path, { recursive: true })
    }
  })

  it('does not count by names that no run gave', async () => {
    for (const name of ['.lock-0', '.lock-007', '.lock-99999999999999999999']) {
      expect(isLock(name)).toBe(false)
      await writeFile(join(folder, name), 'x')
    }
    ;(await lockFolder(folder))()
    await writeFile(join(folder, '.lock-999999999999999'), '')
    await expect(lockFolder(folder)).rejects.toThrow(/no lock that a run of this folder made/)
  })

  it('says in one sentence that a folder cannot be written', async () => {
    await expect(lockFolder(join(folder, 'gone'))).rejects.toThrow(/gone cannot be written \(ENOENT/)
    expect(await isHeld(join(folder, 'gone'))).toBe(false)
  })

  it('goes to exactly one of many who find a dead owner', async () => {
    for (let round = 1; round <= 30; round++) {
      const [last] = (await readdir(folder)).filter(isLock)
      await write({ pid: 2 ** 30, started: null }, last)
      const tries = await Promise.allSettled(Array.from({ length: 12 }, () => lockFolder(folder)))
      const won = tries.filter((result) => result.status === 'fulfilled')
      expect(won).toHaveLength(1)
      won[0].value()
      expect(await readdir(folder)).toHaveLength(1)
    }
  })
})

describe('lives', () => {
  const initial = 'pid:[4026531836]'
  const machine = '0123456789abcdef0123456789abcdef'
  const here: Owner = { ...thisProcess(), machine, boot: 'now', namespace: initial }
  const dead = { ...here, pid: 2 ** 30 }

  it('knows a machine that was started again from another of its name', () => {
    expect(lives(dead, here)).toBe(false)
    expect(lives({ ...dead, boot: 'before' }, here)).toBe(false)
    expect(lives({ ...dead, boot: 'before', machine: machine.replace('0', '1') }, here)).toBe(true)
    expect(lives({ ...dead, boot: 'before', machine: null }, { ...here, machine: null })).toBe(true)
    // What an image says of itself is true of all containers made of it.
    expect(
      lives({ ...dead, boot: 'before', machine: 'uninitialized' }, { ...here, machine: 'uninitialized' }),
    ).toBe(true)
    expect(lives({ ...dead, boot: 'before', namespace: 'pid:[7]' }, { ...here, namespace: 'pid:[7]' })).toBe(
      true,
    )
  })

  it('asks about a process id only where it counts', () => {
    expect(lives({ ...dead, namespace: 'pid:[7]' }, here)).toBe(true)
    expect(lives(here, here)).toBe(true)
  })
})

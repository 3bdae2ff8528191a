/**
 * One process writes a run folder at a time: a numbered lock file names its owner, and a dead owner loses the folder.
 * Touches the file system and asks the operating system whether a process lives.
 *
 * Of the files `.lock-1`, `.lock-2`, ... the highest tells who owns the folder; an empty one was given back. Taking
 * over is making the next number, which the file system grants to one process alone, and the highest number never
 * falls, so a process that looked long ago cannot mistake what it saw for what is: either its number is taken, or it
 * finds a higher one when it looks again. (Removing a dead owner's file and making a new one would let one of two
 * such processes remove the other's.)
 */
import { randomUUID } from 'node:crypto'
import { readFileSync, truncateSync } from 'node:fs'
import { link, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { UserError } from '../errors.ts'

const lockName = /^\.lock-(\d+)$/

/** Whether a file's name is that of a lock. */
export const isLock = (name: string): boolean => lockName.test(name)

interface Owner {
  pid: number
  host: string
  /** When that process started, as the system counts: a reused process id is another process. Null: unknown. */
  started: string | null
}

/**
 * Takes the lock of a folder and returns what gives it back. Given back too when this process exits; after a
 * kill the next process takes it over.
 *
 * @throws UserError while a living process holds it.
 */
export async function lockFolder(folder: string): Promise<() => void> {
  const mine = JSON.stringify({ pid: process.pid, host: hostname(), started: startOf(process.pid) })
  // Linking a finished file makes the lock appear whole: no reader ever sees half an owner.
  const draft = join(folder, `.lock.${randomUUID()}.tmp`)
  const pathOf = (number: number) => join(folder, `.lock-${number}`)
  let number: number
  await writeFile(draft, mine)
  try {
    for (;;) {
      const last = (await lockNumbers(folder)).at(-1) ?? 0
      if (last > 0) {
        const text = await readFile(pathOf(last), 'utf8').catch(absent)
        // Removed since: there is a higher one.
        if (text === null) continue
        refuseLiving(text, pathOf(last))
      }
      number = last + 1
      if (!(await link(draft, pathOf(number)).then(() => true, taken))) continue
      if ((await lockNumbers(folder)).at(-1) === number) break
      await rm(pathOf(number), { force: true })
    }
  } finally {
    await rm(draft, { force: true })
  }
  for (const lower of await lockNumbers(folder)) if (lower < number) await rm(pathOf(lower), { force: true })

  const release = () => {
    process.removeListener('exit', release)
    try {
      if (readFileSync(pathOf(number), 'utf8') === mine) truncateSync(pathOf(number))
    } catch {
      // Gone with its folder: nothing is left to give back.
    }
  }
  process.once('exit', release)
  return release
}

/** Whether a living process, or one that cannot be asked, holds the lock of a folder. Looks only. */
export async function isHeld(folder: string): Promise<boolean> {
  const last = (await lockNumbers(folder)).at(-1)
  if (last === undefined) return false
  const text = await readFile(join(folder, `.lock-${last}`), 'utf8').catch(absent)
  if (text === null || text === '') return false
  const owner = parseOwner(text)
  return owner === null || isAlive(owner)
}

async function lockNumbers(folder: string): Promise<number[]> {
  const numbers = (await readdir(folder)).flatMap((name) => lockName.exec(name)?.slice(1).map(Number) ?? [])
  return numbers.sort((a, b) => a - b)
}

function absent(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null
  throw error
}

function taken(error: NodeJS.ErrnoException): false {
  if (error.code === 'EEXIST') return false
  throw error
}

/** Throws unless the lock was given back or its owner is dead. */
function refuseLiving(text: string, path: string): void {
  if (text === '') return
  const owner = parseOwner(text)
  if (owner !== null && !isAlive(owner)) return
  const who = owner === null ? 'an unknown process' : `process ${owner.pid} on ${owner.host}`
  throw new UserError(
    `${path} says that ${who} is writing this folder: wait for it, choose another --out, or delete that file ` +
      'if you are sure that it is not running.',
  )
}

function parseOwner(text: string): Owner | null {
  try {
    const owner = JSON.parse(text) as Owner
    return Number.isInteger(owner.pid) && typeof owner.host === 'string' ? owner : null
  } catch {
    return null
  }
}

function isAlive(owner: Owner): boolean {
  // Nothing can be asked about a process of another machine: it is taken to live.
  if (owner.host !== hostname()) return true
  try {
    process.kill(owner.pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
  const started = startOf(owner.pid)
  return owner.started === null || started === null || owner.started === started
}

/** A process's start time in clock ticks since boot (field 22 of Linux's /proc/PID/stat); null elsewhere. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The second field is the command in parentheses and may itself hold spaces and parentheses.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null
  } catch {
    return null
  }
}

/**
 * One process writes a run folder at a time: a numbered lock file names its owner, and a dead owner loses the folder.
 * Touches the file system and asks the operating system whether a process lives.
 *
 * Of the files `.lock-1`, `.lock-2`, ... the highest tells who owns the folder; an empty one was given back. Taking
 * over is making the next number, which the file system grants to one process alone, and the highest number never
 * falls, so a process that looked long ago cannot mistake what it saw for what is: either its number is taken, or it
 * finds a higher one when it looks again. (Removing a dead owner's file and making a new one would let one of two
 * such processes remove the other's.)
 *
 * An owner is dead only where that is known: its process id is asked about in the same namespace of process ids, since
 * the same boot of the same machine, or the machine itself was started again. Any other owner (of another machine, of
 * another container) cannot be asked and is taken to live.
 */
import { randomUUID } from 'node:crypto'
import { readFileSync, readlinkSync, truncateSync } from 'node:fs'
import { link, readdir, rm, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { UserError } from '../errors.ts'
import { readRegular, writeFailure } from '../files.ts'

// Numbers that a double holds exactly, and no two ways to write one.
const lockName = /^\.lock-([1-9]\d{0,14})$/
const lastNumber = 999_999_999_999_999

/** Whether a file's name is that of a lock. */
export const isLock = (name: string): boolean => lockName.test(name)

/** Where processes outside of all containers count (Linux fixes its number). */
const initialNamespace = 'pid:[4026531836]'

const identifier = z.string().nullable()
const ownerSchema = z.object({
  pid: z.number().int().positive(),
  host: z.string(),
  /** What tells two machines of one name apart, as far as the system says (Linux: /etc/machine-id). */
  machine: identifier,
  /** One start of the machine (Linux: boot_id). */
  boot: identifier,
  /** Where the process id counts: containers have namespaces of their own (Linux: /proc/self/ns/pid). */
  namespace: identifier,
  /** When that process started, as the system counts: a reused process id is another process. */
  started: identifier,
})
export type Owner = z.infer<typeof ownerSchema>

/** This process as the owner of a lock. */
export function thisProcess(): Owner {
  return {
    pid: process.pid,
    host: hostname(),
    machine: orNull(() => readFileSync('/etc/machine-id', 'utf8')),
    boot: orNull(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    namespace: orNull(() => readlinkSync('/proc/self/ns/pid')),
    started: statOf(process.pid)?.started ?? null,
  }
}

/**
 * Takes the lock of a folder and returns what gives it back. Given back too when this process exits; after a
 * kill the next process takes it over.
 *
 * @throws UserError while a living process, or one that cannot be asked, holds it, where something that is no lock
 * stands in its place, and where the folder cannot be written.
 */
export async function lockFolder(folder: string): Promise<() => void> {
  const mine = JSON.stringify(thisProcess())
  // Linking a finished file makes the lock appear whole: no reader ever sees half an owner.
  const draft = join(folder, `.lock.${randomUUID()}.tmp`)
  const pathOf = (number: number) => join(folder, `.lock-${number}`)
  let number: number
  try {
    try {
      await writeFile(draft, mine)
      for (;;) {
        const last = (await lockNumbers(folder)).at(-1) ?? 0
        if (last > 0) {
          // A link to nowhere, a folder or a pipe is refused here.
          const text = await readRegular(pathOf(last))
          // Removed since: there is a higher one.
          if (text === undefined) continue
          refuseLiving(text, pathOf(last))
        }
        if (last >= lastNumber) {
          throw new UserError(`${pathOf(last)} is no lock that a run of this folder made: delete that file.`)
        }
        number = last + 1
        if (!(await link(draft, pathOf(number)).then(() => true, taken))) continue
        if ((await lockNumbers(folder)).at(-1) === number) break
        await rm(pathOf(number), { force: true })
      }
    } finally {
      await rm(draft, { force: true }).catch(() => {})
    }
    for (const lower of await lockNumbers(folder))
      if (lower < number) await rm(pathOf(lower), { force: true })
  } catch (error) {
    throw writeFailure(folder, error)
  }

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

/**
 * Whether a living process, or one that cannot be asked, holds the lock of a folder. Looks only, and never throws: what
 * is no lock file is no lock, and a folder that cannot be read is for whoever reads the rest of it to refuse.
 */
export async function isHeld(folder: string): Promise<boolean> {
  try {
    const last = (await lockNumbers(folder)).at(-1)
    const text = last === undefined ? '' : await readRegular(join(folder, `.lock-${last}`))
    if (text === undefined || text === '') return false
    const owner = parseOwner(text)
    return owner === null || lives(owner)
  } catch {
    return false
  }
}

async function lockNumbers(folder: string): Promise<number[]> {
  const numbers = (await readdir(folder)).flatMap((name) => lockName.exec(name)?.slice(1).map(Number) ?? [])
  return numbers.sort((a, b) => a - b)
}

function taken(error: NodeJS.ErrnoException): false {
  if (error.code === 'EEXIST') return false
  throw error
}

/** Throws unless the lock was given back or its owner is dead. */
function refuseLiving(text: string, path: string): void {
  if (text === '') return
  const owner = parseOwner(text)
  if (owner !== null && !lives(owner)) return
  const who = owner === null ? 'an unknown process' : `process ${owner.pid} on ${owner.host}`
  throw new UserError(
    `${path} says that ${who} is writing this folder: wait for it, choose another --out, or delete that file ` +
      'if you are sure that it is not running.',
  )
}

function parseOwner(text: string): Owner | null {
  try {
    return ownerSchema.parse(JSON.parse(text))
  } catch {
    return null
  }
}

/** Whether the owner of a lock lives, as far as this process (`here`) can tell: one that cannot be asked does. */
export function lives(owner: Owner, here: Owner = thisProcess()): boolean {
  if (owner.host !== here.host) return true
  if (owner.boot !== here.boot) {
    // The same machine, started again: nothing of before runs. Otherwise it is another one of the same name. Images of
    // containers may share a machine's identifier, so it counts outside of them alone.
    const known = /^[0-9a-f]{32}$/.test(owner.machine ?? '') && owner.namespace === initialNamespace
    return !known || owner.machine !== here.machine || here.namespace !== initialNamespace
  }
  if (owner.namespace !== here.namespace) return true
  try {
    process.kill(owner.pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
  const stat = statOf(owner.pid)
  if (stat === null) return true
  return !stat.ended && (owner.started === null || owner.started === stat.started)
}

/** What Linux says of a process (/proc/PID/stat), or null where it says nothing. */
function statOf(pid: number): { started: string; ended: boolean } | null {
  const stat = orNull(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  if (stat === null) return null
  // The second field is the command in parentheses and may itself hold spaces and parentheses: these are from the third on.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state, threads, started] = [fields[0], Number(fields[17]), fields[19]]
  // A zombie has ended and waits for its parent to ask how, unless only its first thread has.
  return { started, ended: (state === 'Z' || state === 'X') && threads <= 1 }
}

function orNull(read: () => string): string | null {
  try {
    return read().trim() || null
  } catch {
    return null
  }
}

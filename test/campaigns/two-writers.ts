/**
 * Several processes that want one run folder, killed at any moment: at most one of them writes it at a time, no dead one
 * keeps it, and what they leave together is byte for byte what one alone leaves.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { UserError } from '../../src/errors.ts'
import { random } from '../../src/random.ts'
import { openRunFolder } from '../../src/record/folder.ts'
import { openJobLog } from '../../src/record/job-log.ts'
import { isLock } from '../../src/record/lock.ts'
import { planJobs } from '../../src/record/plan.ts'
import { finishSample, sampleRecord } from '../../src/record/testing/samples.ts'
import { type Campaign, type Extent, isProgram, main, roundsOf } from './rounds.ts'

/** A round that takes longer than this hangs, in milliseconds. */
const SLOW = 60_000
const WRITERS = 3

const program = fileURLToPath(import.meta.url)
const record = sampleRecord()
const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

/** Takes the folder when it can, and takes every job to its end; `turn` says whose turn it is, outside of the folder. */
async function write(folder: string, turn: string, slow: number): Promise<void> {
  const run = await openWhenFree(folder)
  const mine = `${process.pid}`
  const other = await readFile(turn, 'utf8').catch(() => '')
  if (other !== '' && (await isRunning(Number(other)))) throw new Error(`process ${other} writes too`)
  await writeFile(turn, mine)
  for (const { name, seed } of planJobs(record)) {
    const log = await openJobLog(join(folder, name), { trains: seed !== null })
    await finishSample(log, 3, async (path, text) => {
      await pause(slow)
      await writeFile(path, text)
    })
    // Whoever began while this one is not over has taken the turn.
    if ((await readFile(turn, 'utf8')) !== mine) throw new Error('another process took the turn')
  }
  await writeFile(turn, '')
  run.release()
}

async function openWhenFree(folder: string) {
  for (;;) {
    try {
      return await openRunFolder(folder, record)
    } catch (error) {
      if (!(error instanceof UserError && / is writing this folder/.test(error.message))) throw error
      await pause(2)
    }
  }
}

/** Whether a process runs: one that has ended and that nobody has asked yet does not. */
async function isRunning(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  return stat !== null && !/\) [ZX] /.test(stat)
}

/** A process that waits to be told what to write, with what it came to. */
interface Writer {
  child: ChildProcess
  begin(folder: string, turn: string, slow: number): void
  /** Null: it came to the end; otherwise why not. */
  ended: Promise<string | null>
}

async function startWriter(): Promise<Writer> {
  const child = fork(program, ['--writer'], {
    execArgv: ['--import', 'tsx'],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  let errors = ''
  child.stderr?.on('data', (text) => {
    errors += text
  })
  const ended = once(child, 'close').then(([code, signal]) =>
    code === 0 ? null : signal === 'SIGKILL' ? 'killed' : errors,
  )
  await once(child, 'message')
  return { child, begin: (...what) => child.send(what), ended }
}

async function round(number: number, seed: number, folder: string, writers: Writer[]) {
  const r = random('two-writers', seed, number)
  const [run, turn] = [join(folder, 'run'), join(folder, 'turn')]
  await mkdir(run)
  const waiting = [...writers]
  const begun = new Map<Writer, string | null | undefined>()
  const begin = () => {
    const writer = waiting.shift()
    if (!writer) return
    begun.set(writer, undefined)
    void writer.ended.then((why) => begun.set(writer, why))
    writer.begin(run, turn, r.int(8))
  }
  for (let i = 0; i < WRITERS; i++) begin()
  const count = { kills: 0, killedWriters: 0 }
  const isOver = () => [...begun.values()].some((why) => why !== undefined && why !== 'killed')
  while (!isOver()) {
    await pause(r.int(60))
    const living = [...begun].filter(([, why]) => why === undefined).map(([writer]) => writer)
    const isLocked = (await readdir(run)).some(isLock)
    if (!isLocked || living.length === 0 || waiting.length === 0) continue
    const { child } = r.pick(living)
    if ((await readFile(turn, 'utf8').catch(() => '')) === `${child.pid}`) count.killedWriters++
    child.kill('SIGKILL')
    count.kills++
    begin()
  }
  const failures: string[] = []
  for (const writer of writers) if (!begun.has(writer)) writer.child.kill('SIGKILL')
  for (const [writer] of begun) {
    const why = await writer.ended
    if (why !== null && why !== 'killed') failures.push(why)
  }
  return { ...count, failures, files: await filesOf(run) }
}

/** All files of a run folder but its locks and their drafts. */
async function filesOf(root: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {}
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || isLock(entry.name) || entry.name.startsWith('.lock.')) continue
    const path = join(entry.parentPath, entry.name)
    files[path.slice(root.length)] = await readFile(path, 'latin1')
  }
  return files
}

/** `kills`: of one round, at most. */
export async function twoWriters(extent: Extent & { kills?: number }): Promise<Campaign> {
  const { seed, kills: most = 6 } = extent
  let rounds = 0
  const scratch = await mkdtemp(join(tmpdir(), 'campaign-writers-'))
  const outcomes = { 'killed while it wrote': 0, 'killed while it waited': 0 }
  const failures: string[] = []
  let slowest = 0
  try {
    const alone = join(scratch, 'alone')
    await mkdir(alone)
    await write(join(alone, 'run'), join(alone, 'turn'), 0)
    const expected = await filesOf(join(alone, 'run'))
    for (const number of roundsOf(extent)) {
      rounds++
      const folder = join(scratch, `round-${number}`)
      await mkdir(folder)
      const writers = await Promise.all(Array.from({ length: WRITERS + most }, startWriter))
      const started = performance.now()
      const fail = (what: string) => failures.push(`round ${number} of seed ${seed}: ${what}`)
      const late = setTimeout(() => {
        fail('it hangs')
        for (const { child } of writers) child.kill('SIGKILL')
      }, SLOW)
      const found = await round(number, seed, folder, writers)
      clearTimeout(late)
      slowest = Math.max(slowest, Math.round(performance.now() - started))
      outcomes['killed while it wrote'] += found.killedWriters
      outcomes['killed while it waited'] += found.kills - found.killedWriters
      for (const failure of found.failures) fail(failure)
      if (!isDeepStrictEqual(found.files, expected)) fail('the folder is not what one writer leaves')
      await rm(folder, { recursive: true })
    }
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
  return { seed, rounds, outcomes, slowestMs: slowest, grownMiB: null, failures }
}

if (process.argv[2] === '--writer') {
  process.once('message', ([folder, turn, slow]: [string, string, number]) => {
    void write(folder, turn, slow).then(() => process.exit(0))
  })
  process.send?.('ready')
} else if (isProgram(import.meta.url)) await main(import.meta.url, 50, twoWriters)

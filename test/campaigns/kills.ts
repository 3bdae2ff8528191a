/**
 * Runs of the command line, killed: at one of their writes, in the middle of one, at any moment, by Ctrl-C or by a system
 * that shuts down. The same command goes on each time, and in the end the folder is, timings aside, byte for byte that of a
 * run which nothing stopped. Then half of them are graded again by another verifier, killed in the same ways.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Random, random } from '../../src/random.ts'
import { readResults } from '../../src/record/folder.ts'
import { type Results, withoutTimings } from '../../src/record/results.ts'
import { writeTinyModel } from '../../src/selftest/tiny-model.ts'
import { type Campaign, campaign, type Extent, isProgram, main, type Outcome } from './rounds.ts'

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const cli = here('../../src/cli/main.ts')
const dies = here('dies.ts')
/** A run of this experiment writes some 380 times. */
const experimentText = (model: string, more = '') => `
import { tinyExperiment } from ${JSON.stringify(here('../../src/experiment/testing/tiny-experiment.ts'))}
export default tinyExperiment(${JSON.stringify(model)}, { seeds: [17], evaluation: { baseRuns: 1, problemsAtOnce: 4 }, ${more} })
`
/** A verifier that says otherwise of every other reply; it is made to change what a run says, not to be right. */
const otherGrader = `grader: {
  name: 'length by threes', version: '1',
  grade: (reply) => ({ answer: String(reply.length % 3), correct: reply.length % 3 === 0 }),
}`

/** Timings, and the checksums of what holds some. */
const timed =
  /"(seconds|minutes|finishedAt|writtenAt|startedAt)":\s*(\{[^{}]*\}|[^,}]*)|"(metrics|seal)":\s*"[0-9a-f]{64}"|"metrics":\s*\d+/g

/** What a run leaves, timings aside. */
async function filesOf(root: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {}
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    // Pages are made of the rest, and tell minutes.
    if (!entry.isFile() || /^(?:\.lock|report\.html$|table\.md$)/.test(entry.name)) continue
    const path = join(entry.parentPath, entry.name)
    const text = await readFile(path, 'latin1')
    const isTimed = entry.name === 'progress.json' || entry.name === 'metrics.jsonl'
    files[path.slice(root.length + 1)] =
      entry.name === 'results.json'
        ? JSON.stringify(withoutTimings((await readResults(root)) as Results))
        : entry.name === 'experiment.json'
          ? withoutCommand(text)
          : isTimed
            ? text.replace(timed, '')
            : text
  }
  return files
}

/** A record without the command that made it, which the run that nothing stops has not: it is called, and not typed. */
function withoutCommand(record: string): string {
  const { command, seal, ...rest } = JSON.parse(record)
  return JSON.stringify(rest)
}

/** Around the place where two texts part. */
function firstDifference(found = 'it is not there', expected = 'it is there'): string {
  let at = 0
  while (at < found.length && found[at] === expected[at]) at++
  const around = (text: string) => JSON.stringify(text.slice(Math.max(0, at - 60), at + 60))
  return `${around(found)}, and ${around(expected)} in a run that nothing stopped`
}

/** Longest that one start may take, in milliseconds: some two seconds where nothing else runs. */
const LONGEST = 120_000
/** Starts of one run that are killed. */
const KILLS = 8

type Ending = { code: number | null; signal: NodeJS.Signals | null; said: string }

function start(args: readonly string[], point?: string): { child: ChildProcess; ended: Promise<Ending> } {
  const loaded = point === undefined ? [] : ['--import', dies]
  const child = spawn(process.execPath, ['--import', 'tsx', ...loaded, cli, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, DIES: point ?? '' },
  })
  let said = ''
  child.stderr?.on('data', (text) => {
    said += text
  })
  const late = setTimeout(() => child.kill('SIGABRT'), LONGEST)
  const ended = once(child, 'close').then(([code, signal]) => {
    clearTimeout(late)
    if (signal === 'SIGABRT') throw new Error(`it hangs: ${said}`)
    return { code, signal, said }
  })
  return { child, ended }
}

/** A sentence, or nothing: no trace of where in the program it was. */
const hasStack = (said: string) => /^\s+at .+:\d+:\d+/m.test(said)

/**
 * Starts a command once more, which writes about `writes` times in some seconds, and kills it in one of the ways; tells in
 * which, or that it came to its end before.
 */
async function startAndKill(r: Random, args: readonly string[], writes: number): Promise<string> {
  const isAtWrite = r.next() < 0.7
  const where = r.pick(['before', 'within', 'after'])
  const signal = r.pick(['SIGKILL', 'SIGKILL', 'SIGTERM', 'SIGINT'] as const)
  const { child, ended } = start(args, isAtWrite ? `${1 + r.int(writes)} ${where}` : undefined)
  let timer: NodeJS.Timeout | undefined
  if (!isAtWrite) timer = setTimeout(() => child.kill(signal), 400 + r.int(4000))
  const { code, signal: by, said } = await ended
  clearTimeout(timer)
  if (hasStack(said)) throw new Error(`a stack: ${said}`)
  if (code === 0) return 'came to its end'
  if (by === 'SIGKILL') return isAtWrite ? `killed ${where} a write` : 'killed at any moment'
  // Before the program has begun to listen, a signal ends it as it ends any.
  if (code === 130 || code === 143 || by === signal) return `stopped by ${signal}`
  throw new Error(`it ended with ${code ?? by}: ${said}`)
}

/** Lets a command come to its end. */
async function end(args: readonly string[]): Promise<void> {
  const { code, said } = await start(args).ended
  if (code !== 0) throw new Error(`${args[0]} ends with ${code}: ${said}`)
}

function assertSame(found: Record<string, string>, expected: Record<string, string>): void {
  for (const name of new Set([...Object.keys(expected), ...Object.keys(found)])) {
    if (found[name] !== expected[name])
      throw new Error(`${name}: ${firstDifference(found[name], expected[name])}`)
  }
}

export async function kills(extent: Extent): Promise<Campaign> {
  const around = await mkdtemp(join(tmpdir(), 'campaign-kills-'))
  const counts: Record<string, number> = {}
  try {
    const model = join(around, 'model')
    await writeTinyModel(model, 1)
    const file = join(around, 'experiment.ts')
    await writeFile(file, experimentText(model))
    const other = join(around, 'other.ts')
    await writeFile(other, experimentText(model, otherGrader))
    const alone = join(around, 'alone')
    await end(['run', file, '--out', alone])
    const expected = await filesOf(alone)
    const regraded = join(around, 'regraded')
    await cp(alone, regraded, { recursive: true })
    await end(['regrade', regraded, other])
    const expectedRegraded = await filesOf(regraded)

    const round = async (number: number, folder: string, happens: () => void): Promise<Outcome> => {
      const r = random('kills', extent.seed, number)
      const out = join(folder, 'run')
      const jobs = r.next() < 0.2 ? ['--jobs', '2'] : []
      const beat = setInterval(happens, 1000)
      const untilEnd = async (times: number, args: readonly string[], writes: number, name: string) => {
        for (let nth = 0; nth < times; nth++) {
          const how = name + (await startAndKill(r, args, writes))
          counts[how] = (counts[how] ?? 0) + 1
          if (how.endsWith('came to its end')) break
        }
        await end(args)
      }
      try {
        await untilEnd(KILLS, ['run', file, ...jobs, '--out', out], 120, '')
        assertSame(await filesOf(out), expected)
        if (r.next() < 0.5) {
          await untilEnd(KILLS, ['regrade', out, other], 40, 'regrade: ')
          assertSame(await filesOf(out), expectedRegraded)
        }
      } finally {
        clearInterval(beat)
      }
      return { kind: 'as if nothing had stopped it' }
    }
    const found = await campaign({ ...extent, secrets: [], longest: 2 * (KILLS + 1) * LONGEST, round })
    return { ...found, outcomes: { ...found.outcomes, ...counts }, grownMiB: null }
  } finally {
    await rm(around, { recursive: true, force: true, maxRetries: 5 })
  }
}

if (isProgram(import.meta.url)) await main(import.meta.url, 50, kills)

/** What the campaigns share: their rounds are watched for stacks, hangs, memory and files that are written outside. */
import { lstat, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { UserError } from '../../src/errors.ts'

/** What a round came to: it went well, or was refused in this sentence. */
export type Outcome = { kind: string; said?: string }

export interface Campaign {
  seed: number
  /** Those that were played. */
  rounds: number
  /** Rounds by what they came to. */
  outcomes: Record<string, number>
  slowestMs: number
  /** The process's memory at its most, less what it was before. */
  grownMiB: number
  /** What must not be: a stack, a hang, a file outside, a secret in a sentence; with the round to do again. */
  failures: string[]
}

/** Longest that nothing may happen in a round, and that a round may take. */
const HANG = { silent: 10_000, whole: 120_000 }

/** Which rounds are played. */
export interface Extent {
  seed: number
  /** So many at most. */
  rounds: number
  /** No other is begun after so many minutes; without limit when left out. */
  minutes?: number
  /** This round alone. */
  only?: number
}

export interface CampaignOptions extends Extent {
  /** What must be in no sentence and in no file's name. */
  secrets: readonly string[]
  /** One round, which writes into `folder` alone, and says when anything happens. */
  round: (number: number, folder: string, happens: () => void) => Promise<Outcome>
}

export async function campaign(options: CampaignOptions): Promise<Campaign> {
  const { seed, rounds, minutes = Number.POSITIVE_INFINITY, only, secrets, round } = options
  const end = performance.now() + 60_000 * minutes
  const scratch = await mkdtemp(join(tmpdir(), 'campaign-'))
  const outcomes: Record<string, number> = {}
  const failures: string[] = []
  let slowestMs = 0
  let now = 0
  const fail = (what: string) => failures.push(`round ${now} of seed ${seed}: ${what}`)
  const unhandled = (error: unknown) => {
    fail(`unhandled: ${error instanceof Error ? error.stack : String(error)}`)
  }
  const warned = (warning: Error) => fail(`warned: ${warning.message}`)
  process.on('unhandledRejection', unhandled)
  process.on('warning', warned)
  const before = process.memoryUsage().rss
  let most = before
  const watch = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss)
  }, 50)
  try {
    const last = only === undefined ? rounds : only + 1
    for (now = only ?? 0; now < last && performance.now() < end; now++) {
      const around = join(scratch, `round-${now}`)
      const folder = join(around, 'inside')
      await mkdir(folder, { recursive: true })
      const started = performance.now()
      const outcome = await watched((happens) => round(now, folder, happens)).catch(
        (error: unknown): Outcome => {
          if (error instanceof UserError) return { kind: 'refused', said: error.message }
          fail(error instanceof Error ? (error.stack ?? error.message) : String(error))
          return { kind: 'stack' }
        },
      )
      slowestMs = Math.max(slowestMs, performance.now() - started)
      outcomes[outcome.kind] = (outcomes[outcome.kind] ?? 0) + 1
      // Some of it may still be at work.
      if (outcome.kind === 'stack') continue
      const { said } = outcome
      if (said !== undefined && (said.includes('\n') || said.length > 1500)) fail(`no sentence: ${said}`)
      const names = await readdir(around, { recursive: true })
      for (const secret of secrets) {
        if (said?.includes(secret)) fail(`a secret is said: ${said}`)
        if (names.some((name) => name.includes(secret))) fail(`a secret names a file: ${names.join(' ')}`)
      }
      const outside = names.filter((name) => name !== 'inside' && !name.startsWith(join('inside', '/')))
      if (outside.length > 0) fail(`written outside: ${outside.join(' ')}`)
      for (const name of names) {
        const file = join(around, name)
        if (!(await lstat(file)).isFile()) continue
        const text = await readFile(file, 'latin1')
        if (secrets.some((secret) => text.includes(secret))) fail(`a secret is in ${name}`)
      }
      await rm(around, { recursive: true })
    }
    const outside = (await readdir(scratch)).filter((name) => !/^round-\d+$/.test(name))
    if (outside.length > 0) fail(`written outside: ${outside.join(' ')}`)
  } finally {
    clearInterval(watch)
    process.removeListener('unhandledRejection', unhandled)
    process.removeListener('warning', warned)
    await rm(scratch, { recursive: true, force: true, maxRetries: 5 })
  }
  const grownMiB = Math.round((most - before) / 2 ** 20)
  const done = Object.values(outcomes).reduce((sum, count) => sum + count, 0)
  return { seed, rounds: done, outcomes, slowestMs: Math.round(slowestMs), grownMiB, failures }
}

/** Rejects where nothing happens for too long, by a clock that stands while this process does not get to run. */
async function watched<T>(work: (happens: () => void) => Promise<T>): Promise<T> {
  const tick = 100
  let silent = 0
  let whole = 0
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setInterval(() => {
      silent += tick
      whole += tick
      if (silent > HANG.silent || whole > HANG.whole) {
        reject(new Error(`it hangs: nothing for ${silent / 1000} s, after ${whole / 1000} s`))
      }
    }, tick)
  })
  const happens = () => {
    silent = 0
  }
  try {
    return await Promise.race([work(happens), late])
  } finally {
    clearInterval(timer)
  }
}

/** Runs a campaign from the command line: --seed, --rounds, --minutes, --only; the exit code is 1 where it failed. */
export async function main(run: (extent: Extent) => Promise<Campaign>) {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: '1' },
      rounds: { type: 'string', default: '1000' },
      minutes: { type: 'string' },
      only: { type: 'string' },
    },
  })
  const number = (text: string | undefined) => (text === undefined ? undefined : Number(text))
  const found = await run({
    seed: Number(values.seed),
    rounds: Number(values.rounds),
    minutes: number(values.minutes),
    only: number(values.only),
  })
  process.stdout.write(`${JSON.stringify(found, null, 2)}\n`)
  process.exitCode = found.failures.length === 0 ? 0 : 1
}

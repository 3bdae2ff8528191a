/**
 * What the campaigns share: their rounds are watched for stacks, hangs, memory and files that are written outside. Each is
 * a program of its own:
 *
 *     npx tsx test/campaigns/NAME.ts [--rounds N] [--minutes N] [--seed N] [--only ROUND] [--store]
 *
 * What it found is printed; with --store it is kept too, and scripts/robustness.ts writes docs/robustness.md of what is kept.
 */
import { execFileSync } from 'node:child_process'
import { appendFile, lstat, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { UserError } from '../../src/errors.ts'

/** What a round came to: it went well, or was refused in this sentence. */
export type Outcome = { kind: string; said?: string }

const count = z.number().int().nonnegative()
export const campaignSchema = z.object({
  seed: count,
  /** Those that were played. */
  rounds: count,
  /** What they came to, and how often. */
  outcomes: z.record(z.string(), count),
  slowestMs: z.number(),
  /** The process's memory at its most, less what it was before; null where other processes do the work. */
  grownMiB: z.number().nullable(),
  /** What must not be: a stack, a hang, a file outside, a secret in a sentence; with the round to do again. */
  failures: z.array(z.string()),
})
export type Campaign = z.infer<typeof campaignSchema>

/** Campaigns that were stored, a line each. */
export const storedCampaignSchema = campaignSchema.extend({
  campaign: z.string(),
  commit: z.string(),
  minutes: z.number(),
})
export const storedCampaigns = fileURLToPath(new URL('../../bench/results/campaigns.jsonl', import.meta.url))

/** Longest that nothing may happen in a round, and that a round may take unless told, in milliseconds. */
const SILENT = 10_000
const LONGEST = 120_000

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

/** The numbers of the rounds to play, until the time is over. */
export function* roundsOf({ rounds, minutes = Number.POSITIVE_INFINITY, only }: Extent): Generator<number> {
  const end = performance.now() + 60_000 * minutes
  const last = only === undefined ? rounds : only + 1
  for (let number = only ?? 0; number < last && performance.now() < end; number++) yield number
}

/** How many were played, by what they came to. */
export const sumOf = (outcomes: Readonly<Record<string, number>>): number =>
  Object.values(outcomes).reduce((sum, count) => sum + count, 0)

export interface CampaignOptions extends Extent {
  /** What must be in no sentence and in no file's name. */
  secrets: readonly string[]
  /** Longest that a round may take, in milliseconds; two minutes when left out. */
  longest?: number
  /** One round, which writes into `folder` alone, and says when anything happens. */
  round: (number: number, folder: string, happens: () => void) => Promise<Outcome>
}

export async function campaign(options: CampaignOptions): Promise<Campaign> {
  const { seed, secrets, longest = LONGEST, round } = options
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
    for (const number of roundsOf(options)) {
      now = number
      const around = join(scratch, `round-${now}`)
      const folder = join(around, 'inside')
      await mkdir(folder, { recursive: true })
      const started = performance.now()
      const outcome = await watched(longest, (happens) => round(number, folder, happens)).catch(
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
  return { seed, rounds: sumOf(outcomes), outcomes, slowestMs: Math.round(slowestMs), grownMiB, failures }
}

/**
 * Inputs one after the other within this process, each checked by `check`, which says what was checked and calls `fail` for
 * what did not hold. None may take more than `slow` milliseconds of this process's own time.
 */
export async function fuzz(
  extent: Extent,
  slow: number,
  check: (number: number, fail: (what: string) => void) => string | Promise<string>,
): Promise<Campaign> {
  const { seed } = extent
  const outcomes: Record<string, number> = {}
  const failures: string[] = []
  let slowestMs = 0
  const before = process.memoryUsage.rss()
  let most = before
  for (const number of roundsOf(extent)) {
    const fail = (what: string) => failures.push(`round ${number} of seed ${seed}: ${what}`)
    const start = process.cpuUsage()
    let kind = 'stack'
    try {
      kind = await check(number, fail)
    } catch (error) {
      fail(`thrown: ${(error as Error).stack}`)
    }
    const { user, system } = process.cpuUsage(start)
    const ms = (user + system) / 1000
    slowestMs = Math.max(slowestMs, ms)
    if (ms > slow) fail(`took ${ms.toFixed(0)} ms`)
    outcomes[kind] = (outcomes[kind] ?? 0) + 1
    most = Math.max(most, process.memoryUsage.rss())
  }
  const grownMiB = Math.round((most - before) / 2 ** 20)
  return {
    seed,
    rounds: sumOf(outcomes),
    outcomes,
    slowestMs: Math.round(slowestMs),
    grownMiB,
    failures,
  }
}

/** Rejects where nothing happens for too long, by a clock that stands while this process does not get to run. */
async function watched<T>(longest: number, work: (happens: () => void) => Promise<T>): Promise<T> {
  const tick = 100
  let silent = 0
  let whole = 0
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setInterval(() => {
      silent += tick
      whole += tick
      if (silent > SILENT || whole > longest) {
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

/** Runs a campaign from the command line; the exit code is 1 where it failed. `rounds`: as many when nothing is said. */
export async function main(url: string, rounds: number, run: (extent: Extent) => Promise<Campaign>) {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: '1' },
      rounds: { type: 'string', default: `${rounds}` },
      minutes: { type: 'string' },
      only: { type: 'string' },
      store: { type: 'boolean', default: false },
    },
  })
  const number = (text: string | undefined) => (text === undefined ? undefined : Number(text))
  const started = performance.now()
  const found = await run({
    seed: Number(values.seed),
    rounds: Number(values.rounds),
    minutes: number(values.minutes),
    only: number(values.only),
  })
  process.stdout.write(`${JSON.stringify(found, null, 2)}\n`)
  process.exitCode = found.failures.length === 0 ? 0 : 1
  if (!values.store) return
  const line: z.infer<typeof storedCampaignSchema> = {
    campaign: basename(fileURLToPath(url), '.ts'),
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    minutes: Math.round((performance.now() - started) / 6000) / 10,
    ...found,
  }
  await appendFile(storedCampaigns, `${JSON.stringify(line)}\n`)
}

/** Whether a module is the program that was started. */
export const isProgram = (url: string): boolean => url === pathToFileURL(process.argv[1] ?? '').href

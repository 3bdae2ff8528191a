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

export interface CampaignOptions {
  seed: number
  rounds: number
  /** Do this round alone. */
  only?: number
  /** What must be in no sentence and in no file's name. */
  secrets: readonly string[]
  /** One round, which writes into `folder` alone, and says when anything happens. */
  round: (number: number, folder: string, happens: () => void) => Promise<Outcome>
}

export async function campaign({ seed, rounds, only, secrets, round }: CampaignOptions): Promise<Campaign> {
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
    for (now = only ?? 0; now < (only === undefined ? rounds : only + 1); now++) {
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
    const left = await readdir(scratch)
    if (left.length > 0) fail(`written outside: ${left.join(' ')}`)
  } finally {
    clearInterval(watch)
    process.removeListener('unhandledRejection', unhandled)
    process.removeListener('warning', warned)
    await rm(scratch, { recursive: true, force: true })
  }
  const grownMiB = Math.round((most - before) / 2 ** 20)
  return { seed, rounds, outcomes, slowestMs: Math.round(slowestMs), grownMiB, failures }
}

/** Rejects where nothing happens for too long. */
async function watched<T>(work: (happens: () => void) => Promise<T>): Promise<T> {
  const started = performance.now()
  let last = started
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setInterval(() => {
      const now = performance.now()
      if (now - last > HANG.silent || now - started > HANG.whole) {
        reject(new Error(`it hangs: nothing for ${now - last} ms, after ${now - started} ms`))
      }
    }, 100)
  })
  const happens = () => {
    last = performance.now()
  }
  try {
    return await Promise.race([work(happens), late])
  } finally {
    clearInterval(timer)
  }
}

/** Runs a campaign from the command line: --seed, --rounds, --only; the exit code is 1 where it failed. */
export async function main(
  run: (options: { seed: number; rounds: number; only?: number }) => Promise<Campaign>,
) {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: '1' },
      rounds: { type: 'string', default: '1000' },
      only: { type: 'string' },
    },
  })
  const only = values.only === undefined ? undefined : Number(values.only)
  const found = await run({ seed: Number(values.seed), rounds: Number(values.rounds), only })
  process.stdout.write(`${JSON.stringify(found, null, 2)}\n`)
  process.exitCode = found.failures.length === 0 ? 0 : 1
}

/** What the project asks of the machine that it runs on: Node's here, a browser's in machine.web.ts. */
import { setMaxListeners } from 'node:events'
import { createRequire } from 'node:module'
import { arch, availableParallelism, cpus, platform, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'

/** Threads that compute at once. */
export const cores: () => number = availableParallelism

/** Bytes of memory that this process may fill. */
export const memoryBytes = (): number =>
  Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY)

/** The machine, for the record of a run. */
export const machine = () => ({
  processor: cpus()[0]?.model ?? 'unknown',
  cores: cpus().length,
  memoryGiB: Math.round(totalmem() / 2 ** 30),
  system: `${platform()} ${arch()}`,
})

/** What runs JavaScript, and its version, for the record of a run. */
export const platformVersions = (): Record<string, string> => ({ node: process.version })

/** The built-in policy's folder. It stands beside src/ in a checkout and beside dist/ in an installed package. */
export const builtInModel: string = fileURLToPath(new URL('../../policies/small', import.meta.url))

/** This package's version. */
export const packageVersion: string = (
  createRequire(import.meta.url)('../../package.json') as { version: string }
).version

/** Says something to whoever watches, beside all results. */
export const say = (text: string): void => void process.stderr.write(`${text}\n`)

/** A setting of the environment; undefined where there is none. */
export const environment = (name: string): string | undefined => process.env[name]

/** An error with all that is known of it. */
export const wholeStory = (error: unknown): string => inspect(error)

/** Lets any number of jobs listen to a signal without a warning. */
export const allowListeners = (signal: AbortSignal): void => setMaxListeners(0, signal)

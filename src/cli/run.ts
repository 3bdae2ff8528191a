/** `message-board run`: lays the flags over an experiment, runs it, and prints its table. */
import { basename, join } from 'node:path'
import { UserError } from '../errors.ts'
import { defineExperiment, type Experiment } from '../experiment/config.ts'
import { runExperiment } from '../experiment/run.ts'
import { tableText } from '../report/table.ts'
import { loadExperimentFile } from './experiment-file.ts'
import { withFlags } from './flags.ts'
import type { RunFlags } from './main.ts'
import { progress } from './progress.ts'

/** Runs; true when every job finished. On Ctrl-C the process ends with 130 and says how to go on. */
export async function run(file: string | undefined, flags: RunFlags): Promise<boolean> {
  const experiment = withFlags(await experimentOf(file), flags)
  const out = flags.out ?? join('runs', file ? basename(file).replace(/\.[cm]?[jt]s$/, '') : 'default')
  const { onEvent, end } = flags.json ? { onEvent: undefined, end: () => {} } : progress(process.stderr)

  // Every file is whole at any moment, so stopping at once loses the step in hand and nothing else.
  const interrupted = () => {
    end()
    process.stderr.write(`\nStopped. The same command goes on from here: what is finished is in ${out}.\n`)
    process.exit(130)
  }
  process.once('SIGINT', interrupted)
  process.once('SIGTERM', interrupted)
  try {
    const results = await runExperiment(experiment, { out, fresh: flags.fresh, arms: flags.arm, onEvent })
    end()
    process.stdout.write(flags.json ? `${JSON.stringify(results, null, 2)}\n` : `\n${tableText(results)}`)
    if (!flags.json) process.stderr.write(`\nAll of it is in ${out}.\n`)
    if (results.failed.length > 0) {
      const names = results.failed.map(({ job }) => job).join(', ')
      process.stderr.write(`${names} failed: the same command tries again and keeps the rest.\n`)
    }
    return results.failed.length === 0
  } catch (error) {
    end()
    throw error
  } finally {
    process.removeListener('SIGINT', interrupted)
    process.removeListener('SIGTERM', interrupted)
  }
}

async function experimentOf(file: string | undefined): Promise<Experiment> {
  if (file === undefined) return defineExperiment()
  if (!/\.[cm]?[jt]s$/.test(file)) {
    throw new UserError(
      `${file} is no experiment file: give a TypeScript or JavaScript file, or no file at all.`,
    )
  }
  return loadExperimentFile(file)
}

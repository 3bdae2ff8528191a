/** `message-board run`: runs the experiment that it is asked for, or goes on with one, and prints its table. */
import { join } from 'node:path'
import { isHost } from '../engine/onnx/devices.ts'
import { UserError } from '../errors.ts'
import type { RunEvent } from '../experiment/job.ts'
import { runExperiment, runShard } from '../experiment/run.ts'
import { tensorboardLog } from '../log/tensorboard.ts'
import { tableLines } from '../report/table.ts'
import type { Dashboard } from '../serve/server.ts'
import { askedOf } from './asked.ts'
import type { RunFlags } from './flags.ts'
import { openJobPool } from './job-pool.ts'
import { progress } from './progress.ts'
import { start, stopped } from './serve.ts'
import { stopOnSignals } from './signals.ts'
import { lineWidth, print, printJson, printLines, say, tell } from './terminal.ts'

/**
 * Runs; true when every job finished.
 *
 * @throws Interrupted after Ctrl-C, once the engine's threads have stopped. A second Ctrl-C ends the process at once:
 * every file is whole at any moment, so that loses the step in hand and nothing else.
 */
export async function run(what: string | undefined, given: RunFlags): Promise<boolean> {
  const { experiment, command, flags } = await askedOf(what, given)
  const { out } = flags
  const { onEvent, end } = flags.json ? { onEvent: undefined, end: () => {} } : progress(process.stderr)
  const { signal, ignore } = stopOnSignals(
    `Stopped. The same command goes on from here: what is finished is in ${out}.`,
  )
  const extras = watchers(out, flags)
  const { engine } = experiment
  const onHost = engine.name === 'onnx' && engine.device !== 'auto' && isHost(engine.device)
  const pool = onHost && (flags.jobs ?? 1) > 1 ? openJobPool({ command, out }) : undefined
  try {
    const options = {
      out,
      command,
      fresh: flags.fresh,
      arms: flags.arm,
      runJob: pool?.runJob,
      jobs: flags.jobs ?? experiment.choices.engine?.urls?.length,
      onEvent: (event: RunEvent) => {
        onEvent?.(event)
        extras.onEvent(event)
      },
      signal,
    }
    const maxSeeds = maxSeedsOf(flags)
    if (flags.shard) {
      if (maxSeeds !== undefined) {
        throw new UserError(
          '--until-resolved looks at all jobs, and a shard has some: leave one of them out.',
        )
      }
      const { failed } = await runShard(experiment, flags.shard, options)
      end()
      await extras.settled()
      sayFailed(failed)
      if (!flags.json) tell(`\nThis part is in ${out}: message-board merge makes one run of all parts.\n`)
      await extras.linger()
      return failed.length === 0
    }
    const results = await runExperiment(experiment, { ...options, maxSeeds })
    end()
    await extras.settled()
    if (flags.json) printJson(results)
    else {
      print('\n')
      printLines(tableLines(results, { width: lineWidth(), explain: flags.explain }))
      tell(`\nAll of it is in ${out}: open ${join(out, 'report.html')} to look into it.\n`)
    }
    sayFailed(results.failed)
    await extras.linger()
    return results.failed.length === 0
  } finally {
    end()
    ignore()
    pool?.close()
    await extras.close()
  }
}

function sayFailed(failed: readonly { job: string }[]): void {
  if (failed.length === 0) return
  const names = failed.map(({ job }) => job).join(', ')
  say(`${names} failed: the same command tries again and keeps the rest.`)
}

/** The two flags mean something together alone. */
function maxSeedsOf({ untilResolved, maxSeeds }: RunFlags): number | undefined {
  if (untilResolved && maxSeeds === undefined) {
    throw new UserError('--until-resolved needs a limit: give --max-seeds N, such as --max-seeds 6.')
  }
  if (!untilResolved && maxSeeds !== undefined) {
    throw new UserError('--max-seeds is the limit of --until-resolved: give both or neither.')
  }
  return maxSeeds
}

/** What else follows a run: its dashboard and its TensorBoard log, where they are asked for. */
function watchers(out: string, { ui, log, json }: RunFlags) {
  const toLog = log === 'tensorboard' ? tensorboardLog(out) : undefined
  let dashboard: Promise<Dashboard> | undefined
  /** What is left to write: one thing after another. */
  let work: Promise<unknown> = Promise.resolve()
  return {
    onEvent(event: RunEvent) {
      // The folder is there once the plan is.
      if (ui && event.type === 'plan' && !dashboard) {
        dashboard = start(out, {})
        work = Promise.all([work, dashboard.then(({ url }) => say(`The run is at ${url}`))])
      }
      if (toLog && event.type === 'step') work = work.then(() => toLog(event.job, event.metrics))
      // Told at the end, by `settled`.
      work.catch(() => {})
    },
    /** Resolves when all is written. @throws what could not be. */
    settled: () => work,
    /** A person who is looking goes on looking after the run's end; a program that reads the results waits for it. */
    async linger() {
      if (!dashboard || json) return
      const end = stopped()
      tell(`\nThe finished run stays at ${(await dashboard).url}: Ctrl-C ends it.\n`)
      await end
    },
    async close() {
      await (await dashboard?.catch(() => undefined))?.close()
    },
  }
}

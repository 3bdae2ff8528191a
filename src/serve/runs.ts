/** The runs that the server has open: each read once, kept up to date while anybody watches it. Reads only. */
import { eventOf, follow } from '../view/follow.ts'
import type { RunIndex } from '../view/run-index.ts'
import type { LiveEvent } from '../view/types.ts'

/** How often a watched run is looked at, in milliseconds. */
const EVERY = 400
/** Runs kept open that nobody watches. */
const KEPT = 4

export interface OpenRuns {
  /** The run at `folder`, as it is now. */
  get: (folder: string) => Promise<RunIndex>
  /** Calls `tell` at once and after each change, until the returned function is called. */
  watch: (folder: string, tell: (event: LiveEvent | { trouble: string }) => void) => () => void
  close: () => void
}

interface OpenRun {
  /** Reads what is new, opening the run first where that has not succeeded yet. */
  refresh: () => Promise<RunIndex>
  watchers: Set<(event: LiveEvent | { trouble: string }) => void>
  timer: NodeJS.Timeout | undefined
  /** Counts the times that watching began: an older round of looking ends when it sees a newer one. */
  round: number
}

export function openRuns(): OpenRuns {
  const runs = new Map<string, OpenRun>()

  const find = (folder: string): OpenRun => {
    const run = runs.get(folder) ?? {
      refresh: follow(folder),
      watchers: new Set(),
      timer: undefined,
      round: 0,
    }
    // The one asked for last is the last to be forgotten.
    runs.delete(folder)
    runs.set(folder, run)
    const idle = [...runs].filter(([, { watchers }]) => watchers.size === 0)
    for (const [name] of idle.slice(0, -KEPT)) runs.delete(name)
    return run
  }

  /** `told` is the version that the watchers know; whoever else reads the run meanwhile takes nothing from them. */
  const poll = async (run: OpenRun, round: number, told: string | null): Promise<void> => {
    let known = told
    try {
      const index = await run.refresh()
      if (index.version() !== told) for (const tell of run.watchers) tell(eventOf(index))
      known = index.version()
    } catch (error) {
      for (const tell of run.watchers) tell(troubleOf(error))
      known = null
    }
    if (run.watchers.size === 0 || run.round !== round) return
    run.timer = setTimeout(() => void poll(run, round, known), EVERY)
  }

  return {
    get(folder) {
      return find(folder).refresh()
    },
    watch(folder, tell) {
      const run = find(folder)
      run.watchers.add(tell)
      if (run.watchers.size === 1) void poll(run, ++run.round, null)
      else
        run.refresh().then(
          (index) => tell(eventOf(index)),
          (error) => tell(troubleOf(error)),
        )
      return () => {
        run.watchers.delete(tell)
        if (run.watchers.size === 0) clearTimeout(run.timer)
      }
    },
    close() {
      for (const run of runs.values()) {
        clearTimeout(run.timer)
        run.watchers.clear()
      }
    },
  }
}

const troubleOf = (error: unknown) => ({ trouble: error instanceof Error ? error.message : String(error) })

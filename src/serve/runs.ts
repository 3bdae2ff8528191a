/** The runs that the server has open: each read once, kept up to date while anybody watches it. Reads only. */
import { openRun, type RunIndex } from '../view/run-index.ts'
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
  /** Reads what is new, opening the run first where that has not succeeded yet; true where something is new. */
  refresh: () => Promise<{ index: RunIndex; changed: boolean }>
  watchers: Set<(event: LiveEvent | { trouble: string }) => void>
  timer: NodeJS.Timeout | undefined
}

export function openRuns(): OpenRuns {
  const runs = new Map<string, OpenRun>()

  const find = (folder: string): OpenRun => {
    const run = runs.get(folder) ?? { refresh: refresher(folder), watchers: new Set(), timer: undefined }
    // The one asked for last is the last to be forgotten.
    runs.delete(folder)
    runs.set(folder, run)
    const idle = [...runs].filter(([, { watchers }]) => watchers.size === 0)
    for (const [name] of idle.slice(0, -KEPT)) runs.delete(name)
    return run
  }

  const poll = async (run: OpenRun, told: boolean): Promise<void> => {
    let done = told
    try {
      const { index, changed } = await run.refresh()
      if (changed || !told) for (const tell of run.watchers) tell(eventOf(index))
      done = true
    } catch (error) {
      for (const tell of run.watchers) tell(troubleOf(error))
      done = false
    }
    if (run.watchers.size > 0) run.timer = setTimeout(() => void poll(run, done), EVERY)
  }

  return {
    async get(folder) {
      return (await find(folder).refresh()).index
    },
    watch(folder, tell) {
      const run = find(folder)
      run.watchers.add(tell)
      if (run.watchers.size === 1) void poll(run, false)
      else
        run.refresh().then(
          ({ index }) => tell(eventOf(index)),
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

/** Refreshes follow one another: a run is never read by two at a time. */
function refresher(folder: string): OpenRun['refresh'] {
  let index: RunIndex | undefined
  let last: Promise<unknown> = Promise.resolve()
  return () => {
    const next = last
      .catch(() => {})
      .then(async () => {
        if (index) return { index, changed: await index.refresh() }
        index = await openRun(folder, { live: true })
        return { index, changed: true }
      })
    last = next
    return next
  }
}

const eventOf = (index: RunIndex): LiveEvent => ({
  run: index.view(),
  boards: { epoch: index.epoch(), count: index.columns().job.length },
})

const troubleOf = (error: unknown) => ({ trouble: error instanceof Error ? error.message : String(error) })

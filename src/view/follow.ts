/** Follows a run that is being written: reads what is new when asked, and says what a page does not have yet. Reads only. */
import { openRun, type RunIndex } from './run-index.ts'
import type { BoardUpdate, LiveEvent } from './types.ts'

/** What reads on in a run, opening it first where that has not succeeded yet. A run is never read by two at a time. */
export function follow(folder: string): () => Promise<RunIndex> {
  let index: RunIndex | undefined
  let last: Promise<unknown> = Promise.resolve()
  return () => {
    const next = last
      .catch(() => {})
      .then(async () => {
        if (index) await index.refresh()
        else index = await openRun(folder, { live: true })
        return index
      })
    last = next
    return next
  }
}

export const eventOf = (index: RunIndex): LiveEvent => ({
  run: index.view(),
  boards: { epoch: index.epoch(), count: index.columns().job.length },
})

/** Boards in one answer: so that none takes long. */
const MOST_BOARDS = 20_000

/** Boards that a page does not have yet; all of them where its numbering is not this one. */
export function boardUpdate(
  run: RunIndex,
  has: { epoch: string | null; from: number; fromProblem: number },
): BoardUpdate {
  const epoch = run.epoch()
  const same = has.epoch === epoch
  const { job, problems } = run.columns()
  const from = same ? Math.min(has.from, job.length) : 0
  const fromProblem = same ? Math.min(has.fromProblem, problems.id.length) : 0
  return { epoch, from, fromProblem, columns: run.part(from, from + MOST_BOARDS, fromProblem) }
}

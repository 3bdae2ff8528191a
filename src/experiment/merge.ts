/** One run of the folders of its shards, with what it found. Touches the file system only. */
import { mergeRuns } from '../record/merge.ts'
import type { Results } from '../record/results.ts'
import { noted } from './record.ts'
import { summarise } from './results.ts'
import { finishedJobs, storedOutcomes } from './stored.ts'
import { writeResults } from './write-results.ts'

/**
 * Joins run folders of one experiment into `out`, and writes its results there.
 *
 * @throws UserError for folders of different experiments, or that lack a job or have it twice.
 */
export async function mergeShards(folders: readonly string[], out: string): Promise<Results> {
  const run = await mergeRuns(folders, out)
  try {
    const record = run.record()
    const jobs = await finishedJobs(out, record)
    const outcomes = await storedOutcomes({ folder: out, jobs })
    const results = summarise({ record, failed: [], finishedAt: new Date().toISOString() }, outcomes)
    await writeResults(out, results)
    if (!results.sequential) await run.update({ history: noted(record) })
    return results
  } finally {
    run.release()
  }
}

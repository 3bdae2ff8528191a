/**
 * Grades the stored rollouts of a run again, after the verifier has changed, without sampling anything. Rewrites the
 * run folder's grades and results, all of them or none.
 *
 * Grades of training were paid as rewards, so they are history and stay; how many would be others is counted. Where
 * none would, the run is the one that the new verifier would have made, and may be continued with it. Where some
 * would, `run` goes on refusing the folder: its policies were trained for another verifier.
 */

import { UserError } from '../errors.ts'
import { mathGrader } from '../grade/grader.ts'
import type { Grader } from '../grade/types.ts'
import { readdir } from '../platform/files.ts'
import { join } from '../platform/path.ts'
import { graderName } from '../record/facts.ts'
import { readRecord, recordText } from '../record/folder.ts'
import { progressText, readJob, readProgress, withRollouts } from '../record/job-log.ts'
import { lockFolder } from '../record/lock.ts'
import { isJobFolder } from '../record/plan.ts'
import type { Look, Results } from '../record/results.ts'
import type { Regrade, RolloutLine, RunRecord } from '../record/schema.ts'
import { replaceFiles, settle } from '../record/staged.ts'
import { writeReport } from '../report/html.ts'
import { oneMore } from '../stats/looks.ts'
import { type JobOutcome, outcomeOf } from './job.ts'
import { summarise } from './results.ts'
import { openStoredRun, type StoredRun } from './stored.ts'
import { resultTexts } from './write-results.ts'

export interface Regraded extends Regrade {
  before: Results
  /** The same as `before` where no grade and no version changed: then nothing was written. */
  results: Results
  /** Whether `run` may continue the folder with the new verifier. */
  continues: boolean
}

/**
 * Grades a run's posts again: with `grader`, or with the project's own where the run used that.
 *
 * @throws UserError for a folder that is no finished run, that a living process is writing, that is damaged, or whose
 * verifier is not the project's own while none is given.
 */
export async function regrade(folder: string, grader?: Grader): Promise<Regraded> {
  // Before the lock, so that nothing is put into a folder of others.
  await readRecord(folder)
  const release = await lockFolder(folder)
  try {
    await settle(folder)
    const run = await openStoredRun(folder)
    const { record, results: before } = run
    const now = grader ?? ownGrader(run)
    const counts = { evaluation: { changed: 0, of: 0 }, training: { changed: 0, of: 0 } }
    const files = new Map<string, string>()
    const outcomes: JobOutcome[] = []
    // Every job's folder is read whole before anything is written.
    for (const name of (await readdir(folder)).filter(isJobFolder).sort()) {
      // One that failed before it began holds nothing to grade.
      if (!(await readProgress(join(folder, name)))) continue
      const stored = await readJob(join(folder, name))
      const rollouts = stored.rollouts.map((line) => regraded(line, now, counts))
      const { text, progress } = withRollouts(stored.progress, rollouts)
      files.set(join(name, 'rollouts.jsonl'), text)
      files.set(join(name, 'progress.json'), progressText(name, progress))
      const job = run.jobs.find((one) => one.name === name)
      if (job) outcomes.push(outcomeOf(job, { ...stored, rollouts, progress }))
    }

    const [from, to] = [graderName(record.identity.shared.grader), graderName(now)]
    const changes: Regrade = { from, to, ...counts }
    const continues = counts.training.changed === 0
    if (from === to && counts.evaluation.changed === 0) {
      return { ...changes, before, results: before, continues }
    }
    const history = { ...record.history, regrades: [...(record.history?.regrades ?? []), changes] }
    const { shared } = record.identity
    const graded: RunRecord = {
      ...record,
      history,
      versions: { ...record.versions, grader: to },
      identity: {
        ...record.identity,
        shared: {
          ...shared,
          grader: { name: now.name, version: now.version },
          versions: { ...shared.versions, grader: to },
        },
      },
    }
    const inOrder = run.jobs.flatMap(({ name }) => outcomes.filter(({ job }) => job.name === name))
    const { results, seeds } = resultsOf(run, graded, inOrder)
    for (const [path, text] of resultTexts(results)) files.set(path, text)
    const kept = continues ? graded : { ...graded, identity: record.identity, versions: record.versions }
    files.set('experiment.json', recordText({ ...kept, seeds }))
    // The page is made from the folder, so it can only follow; until then there is none, rather than an old one.
    await replaceFiles(folder, files, ['report.html'])
    await writeReport(folder)
    return { ...changes, before, results, continues }
  } finally {
    release()
  }
}

function ownGrader({ folder, record }: StoredRun): Grader {
  const { grader } = record.identity.shared
  if (grader.name === mathGrader.name) return mathGrader
  throw new UserError(
    `${folder} was graded by a verifier of its experiment's own, "${grader.name}": name the experiment file that has it.`,
  )
}

/** A line graded again, if it is of an evaluation; every changed grade is counted. */
function regraded(
  line: RolloutLine,
  grader: Grader,
  counts: Pick<Regrade, 'evaluation' | 'training'>,
): RolloutLine {
  const count = line.phase === 'train' ? counts.training : counts.evaluation
  const rounds = line.rounds.map((posts) =>
    posts.map((post) => {
      const graded = { ...post, ...grader.grade(post.text, line.problem.gold) }
      count.of++
      if (graded.correct !== post.correct) count.changed++
      return graded
    }),
  )
  return line.phase === 'train' ? line : { ...line, rounds }
}

/** The run's results from other outcomes. Where seeds were added until resolved, the looks are taken again. */
function resultsOf(
  { results: before }: StoredRun,
  record: RunRecord,
  outcomes: readonly JobOutcome[],
): { results: Results; seeds: number[] } {
  const { looks } = record
  let taken: readonly Look[] = []
  for (let seeds = looks?.first ?? before.seeds; ; seeds = oneMore(seeds)) {
    const results = summarise(
      {
        record: { ...record, seeds },
        failed: before.failed,
        finishedAt: before.timing.finishedAt,
        before: taken,
      },
      outcomes.filter(({ job }) => job.seed === null || seeds.includes(job.seed)),
    )
    const { sequential, contrasts } = results
    const last = seeds.length >= before.seeds.length
    const open = contrasts.some(({ verdict }) => verdict === 'unresolved')
    if (!sequential || !open || last) return { results, seeds }
    taken = sequential.taken
  }
}

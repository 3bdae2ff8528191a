/**
 * Grades the stored rollouts of a run again, after the verifier has changed, without sampling anything. Rewrites the
 * run folder's grades and results, all of them or none.
 *
 * Grades of training were paid as rewards, so they are history and stay; how many would be others is counted. Where
 * none would, the run is the one that the new verifier would have made, and may be continued with it. Where some
 * would, `run` goes on refusing the folder: its policies were trained for another verifier.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Board, Post } from '../board/types.ts'
import { UserError } from '../errors.ts'
import { jsonText } from '../files.ts'
import { mathGrader } from '../grade/grader.ts'
import type { Grader } from '../grade/types.ts'
import { writeReport } from '../report/html.ts'
import { isJobFolder, readRecord, recordText } from './folder.ts'
import { type JobOutcome, type RolloutLine, readProgressOf } from './job.ts'
import { lockFolder } from './lock.ts'
import { oneMore } from './looks.ts'
import {
  evaluationFacts,
  graderName,
  type Look,
  type Regrade,
  type Results,
  type RunFacts,
  summarise,
} from './results.ts'
import { replaceFiles, settle } from './staged.ts'
import { openStoredRun, type StoredRun, storedOutcomes } from './stored.ts'
import { resultTexts } from './write-results.ts'

export interface Regraded extends Regrade {
  before: Results
  /** The same as `before` where no grade and no version changed: then nothing was written. */
  results: Results
  /** Whether `run` may continue the folder with the new verifier. */
  continues: boolean
}

/**
 * Grades a run's notes and replies again: with `grader`, or with the project's own where the run used that.
 *
 * @throws UserError for a folder that is no finished run, that a living process is writing, or whose verifier is not
 * the project's own while none is given.
 */
export async function regrade(folder: string, grader?: Grader): Promise<Regraded> {
  // Before the lock, so that nothing is put into a folder of others.
  await readRecord(folder)
  const release = await lockFolder(folder)
  try {
    await settle(folder)
    const run = await openStoredRun(folder)
    const now = grader ?? ownGrader(run)
    const { config, record, results: before } = run
    const counts = {
      evaluation: { changed: 0, of: 0 },
      training: { changed: 0, of: 0 },
    }
    const files = new Map<string, string>()
    const boards = new Map<string, Board[]>()
    for (const name of (await readdir(folder)).filter(isJobFolder).sort()) {
      const job = await regradeJob(folder, name, now, counts)
      boards.set(name, job.boards)
      files.set(join(name, 'rollouts.jsonl'), job.rollouts)
      files.set(join(name, 'progress.json'), jsonText(job.progress))
    }

    const [from, to] = [before.versions.grader, graderName(now)]
    const regrade: Regrade = { from, to, ...counts }
    const continues = counts.training.changed === 0
    if (from === to && counts.evaluation.changed === 0) {
      return { ...regrade, before, results: before, continues }
    }
    const { name, version } = now
    const history = { ...record.history, regrades: [...(record.history?.regrades ?? []), regrade] }
    const outcomes = (await storedOutcomes(run)).map((outcome) => ({
      ...outcome,
      boards: boards.get(outcome.job.name)!,
    }))
    const results = resultsOf(run, outcomes, {
      config: { ...before.config, grader: { name, version } },
      evaluation: evaluationFacts({ ...config, grader: now }),
      versions: { ...before.versions, grader: to },
      regrades: history.regrades,
    })
    for (const [path, text] of resultTexts(results)) files.set(path, text)
    const identity = record.identity as { config: object; versions: object }
    files.set(
      'experiment.json',
      recordText({
        ...record,
        seeds: results.seeds,
        history,
        identity: continues
          ? {
              ...identity,
              config: { ...identity.config, grader: { name, version } },
              versions: { ...identity.versions, grader: to },
            }
          : identity,
      }),
    )
    // The page is made from the folder, so it can only follow; until then there is none, rather than an old one.
    await replaceFiles(folder, files, ['report.html'])
    await writeReport(folder)
    return { ...regrade, before, results, continues }
  } finally {
    release()
  }
}

function ownGrader({ folder, config: { grader } }: StoredRun): Grader {
  if (grader.name === mathGrader.name) return mathGrader
  throw new UserError(
    `${folder} was graded by a verifier of its experiment's own, "${grader.name}": name the experiment file that has it.`,
  )
}

/** A job's log with its evaluation graded again, and the boards of that evaluation. */
async function regradeJob(
  folder: string,
  name: string,
  grader: Grader,
  counts: Pick<Regrade, 'evaluation' | 'training'>,
): Promise<{ rollouts: string; progress: object; boards: Board[] }> {
  const progress = await readProgressOf(join(folder, name))
  const bytes = await readFile(join(folder, name, 'rollouts.jsonl')).catch(() => Buffer.alloc(0))
  const boards: Board[] = []
  const lines = bytes
    .subarray(0, progress.bytes.rollouts)
    .toString('utf8')
    .split('\n')
    .slice(0, -1)
    .map((text) => {
      const line = JSON.parse(text) as RolloutLine
      const { phase, problem } = line
      const count = phase === 'train' ? counts.training : counts.evaluation
      const again = <P extends Post>(post: P): P => {
        const graded = { ...post, ...grader.grade(post.text, problem.gold) }
        count.of++
        if (graded.correct !== post.correct) count.changed++
        return graded
      }
      const regraded = { ...line, notes: line.notes.map(again), replies: line.replies.map(again) }
      if (phase === 'train') return text
      boards.push({ problemId: problem.id, notes: regraded.notes, replies: regraded.replies })
      return JSON.stringify(regraded)
    })
  const rollouts = lines.map((line) => `${line}\n`).join('')
  return {
    rollouts,
    progress: { ...progress, bytes: { ...progress.bytes, rollouts: Buffer.byteLength(rollouts) } },
    boards,
  }
}

/** The run's results from other outcomes. Where seeds were added until resolved, the looks are taken again. */
function resultsOf(
  run: StoredRun,
  outcomes: readonly JobOutcome[],
  changes: Pick<RunFacts, 'config' | 'evaluation' | 'versions' | 'regrades'>,
): Results {
  const { results: before, record } = run
  const plan = record.looks
  let looks: readonly Look[] = []
  for (let seeds = plan?.first ?? before.seeds; ; seeds = oneMore(seeds)) {
    const results = summarise(
      {
        model: before.model,
        task: before.task,
        seeds,
        dropped: before.checks.decontamination.dropped,
        failed: before.failed,
        finishedAt: before.timing.finishedAt,
        looks: plan && { plan, before: looks },
        read: record.history?.read,
        ...changes,
      },
      outcomes.filter(({ job }) => job.trained === null || seeds.includes(job.trained.seed)),
    )
    const { sequential, delta } = results
    const last = seeds.length >= before.seeds.length
    if (!sequential || delta?.verdict !== 'unresolved' || last) return results
    looks = sequential.taken
  }
}

/**
 * Measures influence in a run's folder: scores the posts of its evaluations again without each note that they were
 * shown, on any engine that scores, and keeps what was found beside the job's logs. What was measured is not measured
 * again. Asks the experiment's engines; writes influence.jsonl alone.
 *
 * A run keeps texts and not tokens, so a text is tokenised anew, with its stop token where it was not cut: of the same
 * policy's text nearly always the same tokens, and the same in both scores that are subtracted.
 */

import { type Effect, type InfluenceSummary, summariseInfluence } from '../board/influence.ts'
import type { Played } from '../board/play.ts'
import type { Rollout } from '../board/policy-writer.ts'
import type { Protocol } from '../board/protocol.ts'
import type { Episode } from '../board/types.ts'
import { UserError } from '../errors.ts'
import type { LocateOptions } from '../hub/locate.ts'
import { join } from '../platform/path.ts'
import { checkRunFolder, readRecord } from '../record/folder.ts'
import { appendInfluence, readInfluence } from '../record/influence.ts'
import { readJob } from '../record/job-log.ts'
import { lockFolder } from '../record/lock.ts'
import type { Job } from '../record/plan.ts'
import type { RolloutLine } from '../record/schema.ts'
import type { Problem } from '../tasks/types.ts'
import { effectsOf, traceOf } from '../train/influence.ts'
import type { Experiment } from './config.ts'
import { findModels, openEngines } from './engine.ts'
import { evaluationSampling, type JobAuthor, openAuthors } from './job.ts'
import { recordOf } from './record.ts'
import { finishedJobs } from './stored.ts'

export interface InfluenceOptions extends Pick<LocateOptions, 'onDownload' | 'onNotice'> {
  /** The run's folder. */
  out: string
  /** Jobs to measure, by name; all that are finished unless told. */
  jobs?: readonly string[]
  onProgress?: (progress: { job: string; problems: number; of: number }) => void
  signal?: AbortSignal
}

export interface Influence {
  schemaVersion: 2
  jobs: (InfluenceSummary & { job: string; problems: number })[]
}

/**
 * How much each note moved each post that read it, in the evaluations of a run.
 *
 * @throws UserError for a folder that is no run of this experiment, or a job that is not finished.
 */
export async function measureInfluence(
  experiment: Experiment,
  { out, jobs: asked, onProgress = () => {}, signal, ...locate }: InfluenceOptions,
): Promise<Influence> {
  const record = await readRecord(out)
  const split = await experiment.task.load()
  const found = await findModels(experiment, locate)
  // The stored looks are no matter here: nothing is compared.
  await checkRunFolder(out, { ...(await recordOf(experiment, found, split)), looks: record.looks })
  const finished = await finishedJobs(out, record)
  const missing = asked?.find((name) => !finished.some((job) => job.name === name))
  if (missing) {
    const names = finished.map(({ name }) => name).join(', ')
    throw new UserError(`${out} has no finished job ${missing}: its finished jobs are ${names || 'none'}.`)
  }
  const release = await lockFolder(out)
  const engines = openEngines(experiment, found, locate.onNotice)
  const summaries: Influence['jobs'] = []
  try {
    for (const job of finished.filter(({ name }) => asked?.includes(name) ?? true)) {
      summaries.push(await measureJob(job))
    }
  } finally {
    await engines.close()
    release()
  }
  return { schemaVersion: 2, jobs: summaries }

  async function measureJob(job: Job): Promise<Influence['jobs'][number]> {
    const folder = join(out, job.name)
    const arm = experiment.arms[job.arm]
    const { progress, rollouts } = await readJob(folder)
    const lines = rollouts.filter(({ phase }) => phase === 'evaluation')
    const episodes = lines.map(({ problem, rounds }): Episode => ({ problemId: problem.id, rounds }))
    const known = await readInfluence(
      folder,
      episodes.map(({ problemId }) => problemId),
    )
    const measured = known.lines.map(({ effects }) => effects)
    let { bytes } = known
    if (measured.length < lines.length) {
      const checkpoint = progress.steps > 0 ? join(folder, `checkpoint-${progress.steps}`) : null
      const authors = await openAuthors(engines, arm, job.seed, checkpoint)
      try {
        while (measured.length < lines.length) {
          signal?.throwIfAborted()
          const some = lines.slice(measured.length, measured.length + experiment.evaluation.problemsAtOnce)
          const effects = await effectsOf(
            some.map((line) => playedAgain(line, authors, arm.protocol)),
            {
              authors,
              protocol: arm.protocol,
              sampling: evaluationSampling(arm.protocol, experiment.evaluation.sampling),
              readTokens: experiment.board.readTokens,
            },
          )
          bytes = await appendInfluence(
            folder,
            bytes,
            some.map(({ problem }, i) => ({ problem: problem.id, effects: effects[i].map(plain) })),
          )
          measured.push(...effects.map((each) => each.map(plain)))
          onProgress({ job: job.name, problems: measured.length, of: lines.length })
        }
      } finally {
        for (const { policy } of authors.values()) policy.dispose()
      }
    }
    const seats = arm.protocol.seats.length
    const together = episodes.map((episode, i) => ({ episode, effects: measured[i] }))
    return { job: job.name, problems: lines.length, ...summariseInfluence(together, seats) }
  }
}

/** A kept board with the tokens of its texts. */
function playedAgain(
  { problem, rounds }: RolloutLine,
  authors: ReadonlyMap<string, JobAuthor>,
  protocol: Protocol,
): Played<Rollout> {
  const traces = rounds.map((posts) =>
    posts.map(({ seat, text, cut }) => traceOf(authors.get(protocol.seats[seat].policy)!, text, cut)),
  )
  return { problem: problem as Problem, board: 0, episode: { problemId: problem.id, rounds }, traces }
}

const plain = ({ note, post, change }: Effect) => ({
  note: [...note] as [number, number],
  post: [...post] as [number, number],
  // As JSON keeps it: a run that goes on ends with what one in a single go does.
  change: Number(change.toFixed(4)),
})

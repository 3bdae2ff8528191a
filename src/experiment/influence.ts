/**
 * Measures influence in a run's folder: scores the posts of its evaluations again without each note that they were
 * shown, on any engine that scores, and keeps what was found beside the job's logs. What was measured is not measured
 * again. Asks the experiment's engines; writes influence.jsonl alone.
 *
 * A run keeps texts and not tokens, so a text is tokenised anew, with its stop token where it was not cut: of the same
 * policy's text nearly always the same tokens, and the same in both scores that are subtracted.
 */
import { join } from 'node:path'
import { type Effect, type InfluenceSummary, summariseInfluence } from '../board/influence.ts'
import type { Played } from '../board/play.ts'
import type { Rollout } from '../board/policy-writer.ts'
import type { Episode, Ref } from '../board/types.ts'
import { UserError } from '../errors.ts'
import type { LocateOptions } from '../hub/locate.ts'
import { checkRunFolder, readRecord } from '../record/folder.ts'
import { appendInfluence, readInfluence } from '../record/influence.ts'
import { readJob } from '../record/job-log.ts'
import { lockFolder } from '../record/lock.ts'
import type { Job } from '../record/plan.ts'
import type { RolloutLine } from '../record/schema.ts'
import type { Problem } from '../tasks/types.ts'
import { scoreWithout } from '../train/tools.ts'
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
          const effects = await effectsOf(some, authors, arm.protocol)
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

  /** The effects of each line's posts on those that read them. */
  async function effectsOf(
    lines: readonly RolloutLine[],
    authors: ReadonlyMap<string, JobAuthor>,
    protocol: Experiment['arms'][string]['protocol'],
  ): Promise<Effect[][]> {
    const played = lines.map(({ problem, rounds }): Played<Rollout> => {
      const traces = rounds.map((posts) =>
        posts.map(({ seat, text, cut }): Rollout => {
          const { tokenizer } = authors.get(protocol.seats[seat].policy)!
          const tokens = tokenizer.encode(text)
          const completion = cut || tokenizer.stop.length === 0 ? tokens : [...tokens, tokenizer.stop[0]]
          return { prompt: [], completion, logprobs: [] }
        }),
      )
      return {
        problem: problem as Problem,
        board: 0,
        episode: { problemId: problem.id, rounds },
        traces,
      }
    })
    const asks = played.flatMap((one) =>
      one.episode.rounds.flatMap((posts, round) =>
        posts
          // An empty text has no probability to change.
          .filter((_, i) => one.traces[round][i].completion.length > 0)
          .flatMap(({ seat, reads }) => {
            const post: Ref = [round, seat]
            return [[], ...reads.map((note) => [note])].map((without) => ({ played: one, post, without }))
          }),
      ),
    )
    const scores = await scoreWithout(asks, {
      authors,
      protocol,
      sampling: evaluationSampling(protocol, experiment.evaluation.sampling),
      readTokens: experiment.board.readTokens,
    })
    const effects = new Map(played.map((one): [Played<Rollout>, Effect[]] => [one, []]))
    let whole = 0
    asks.forEach(({ played: one, post, without: [note] }, i) => {
      if (note === undefined) whole = scores[i]
      else effects.get(one)!.push({ note, post, change: whole - scores[i] })
    })
    return [...effects.values()]
  }
}

const plain = ({ note, post, change }: Effect) => ({
  note: [...note] as [number, number],
  post: [...post] as [number, number],
  // As JSON keeps it: a run that goes on ends with what one in a single go does.
  change: Number(change.toFixed(4)),
})

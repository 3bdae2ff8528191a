/**
 * A run's evaluations as logs of Inspect (inspect_ai), one file for each job: `inspect view` shows them, and
 * `read_eval_log` and `samples_df` read them. Reads a run folder and writes those files.
 *
 * A problem is a sample, and each answer that counts is an epoch of it, so that Inspect's accuracy, a mean over epochs
 * and then over samples, is pass@1. The prompt is what the last speaker saw, where it is known (view/prompt.ts), and the
 * whole board stands in the sample's metadata. The format is version 2 of Inspect's log (`EvalLog` in
 * inspect_ai/log/_log.py), as JSON.
 */

import { finalScores, vote } from '../board/counts.ts'
import type { Final } from '../board/protocol.ts'
import type { Post } from '../board/types.ts'
import { UserError } from '../errors.ts'
import { writeJsonAtomic } from '../files.ts'
import { mkdir } from '../platform/files.ts'
import { join } from '../platform/path.ts'
import { isFinished, type Job } from '../record/plan.ts'
import type { RolloutLine } from '../record/schema.ts'
import { changedInside } from '../view/inside.ts'
import { promptOf } from '../view/prompt.ts'
import { armOf, type ExportedRun, readExported, readRun } from './jobs.ts'

/** Writes the logs of all finished evaluations into `out` and returns their paths. @throws UserError where there is none. */
export async function exportInspect(folder: string, out: string): Promise<string[]> {
  const run = await readRun(folder)
  const paths: string[] = []
  await mkdir(out)
  for (const job of run.jobs) {
    const { progress, rollouts } = await readExported(run, job)
    if (!isFinished(progress, run.record.identity)) continue
    const changed = await changedInside(run.folder, [job.name, 'progress.json'])
    const finished = new Date(changed ?? 0)
    const log = inspectLog(run, job, {
      rollouts: rollouts.filter(({ phase }) => phase === 'evaluation'),
      created: finished.toISOString(),
    })
    // A name by which Inspect finds logs in a folder: it begins with a time.
    const time = `${finished.toISOString().slice(0, 19).replaceAll(':', '-')}+00-00`
    const path = join(out, `${time}_${fileName(log.eval.task)}_${job.name}.json`)
    await writeJsonAtomic(path, log)
    paths.push(path)
  }
  if (paths.length === 0) {
    throw new UserError(`No evaluation in ${folder} is finished: run the experiment to its end first.`)
  }
  return paths
}

const fileName = (text: string) => text.replace(/[^\w.-]+/g, '-').slice(0, 60)

/** One job's evaluation as Inspect's log. */
export function inspectLog(
  run: ExportedRun,
  job: Job,
  { rollouts, created }: { rollouts: readonly RolloutLine[]; created: string },
) {
  const { record, name, notes } = run
  const { shared } = record.identity
  const arm = armOf(run, job)
  const { protocol } = arm
  const scorer = shared.grader.name
  const samples = rollouts.flatMap((line) => samplesOf(line, arm.protocol, { model: record.model, scorer }))
  const means = rollouts.map(({ problem, rounds }) =>
    mean(finalScores({ problemId: problem.id, rounds }, protocol.final)),
  )
  const last = protocol.rounds[protocol.rounds.length - 1]
  const config = { ...shared.evaluation.sampling, ...last.sampling.evaluation }
  const id = `${name}/${job.name}`
  return {
    version: 2,
    status: 'success',
    eval: {
      eval_id: id,
      run_id: name,
      created,
      task: shared.task.name,
      task_id: shared.task.name,
      task_version: 0,
      task_args: shared.task,
      solver: protocol.name,
      ...(notes.tags.length > 0 && { tags: notes.tags }),
      dataset: {
        name: shared.task.name,
        samples: rollouts.length,
        sample_ids: rollouts.map(({ problem }) => problem.id),
        shuffled: false,
      },
      model: record.model,
      model_generate_config: {
        temperature: config.temperature,
        top_p: config.topP,
        max_tokens: last.maxTokens,
      },
      model_args: job.seed === null ? {} : { adapter: job.name },
      config: { epochs: Math.max(1, ...samples.map(({ epoch }) => epoch)), epochs_reducer: ['mean'] },
      packages: record.versions,
      metadata: {
        run: name,
        job: job.name,
        arm: job.arm,
        seed: job.seed,
        trained: job.seed !== null,
        credit: arm.credit.name,
        grader: `${shared.grader.name} ${shared.grader.version}`,
        ...(notes.note !== '' && { note: notes.note }),
      },
    },
    plan: {
      name: protocol.name,
      steps: protocol.rounds.map((round) => ({
        solver: round.name,
        params: { sees: round.sees, max_tokens: round.maxTokens },
      })),
    },
    results: {
      total_samples: samples.length,
      completed_samples: samples.length,
      scores: [
        {
          name: scorer,
          scorer,
          reducer: 'mean',
          params: {},
          metrics: {
            accuracy: { name: 'accuracy', value: mean(means), params: {} },
            stderr: { name: 'stderr', value: standardError(means), params: {} },
          },
        },
      ],
    },
    stats: { started_at: '', completed_at: created, model_usage: {} },
    samples,
  }
}

/** A board as samples: one for each answer that counts. */
function samplesOf(
  { problem, rounds }: RolloutLine,
  protocol: Parameters<typeof promptOf>[0] & { final: Final },
  { model, scorer }: { model: string; scorer: string },
) {
  const scores = finalScores({ problemId: problem.id, rounds }, protocol.final)
  const last = rounds.length - 1
  return finalPosts(rounds[last], protocol.final).map((post, i) => {
    const chat = promptOf(protocol, problem, rounds, [last, post.seat])
    const asked = chat ?? [{ role: 'user', content: problem.question }]
    const message = { role: 'assistant', content: post.text, source: 'generate', model }
    return {
      id: problem.id,
      epoch: i + 1,
      input: asked,
      target: problem.gold,
      messages: [...asked, message],
      output: {
        model,
        choices: [{ message, stop_reason: post.cut ? 'max_tokens' : 'stop' }],
        completion: post.text,
      },
      scores: {
        [scorer]: { value: scores[i] === 1 ? 'C' : 'I', answer: post.answer ?? '' },
      },
      metadata: {
        seat: protocol.seats[post.seat].name,
        prompt_known: chat !== null,
        ...(problem.parts && { parts: problem.parts }),
        board: rounds.map((posts, r) => ({ round: protocol.rounds[r].name, posts })),
      },
    }
  })
}

/** The posts behind a board's scores: of a vote, the first of those that won it. */
function finalPosts(posts: readonly Post[], final: Final): Post[] {
  if (final === 'each') return [...posts]
  if (final === 'vote') return [vote(posts) ?? posts[0]]
  return posts.filter(({ seat }) => seat === final.seat)
}

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length

/** Of the mean over problems, as Inspect's stderr has it; 0 of a single one. */
function standardError(values: readonly number[]): number {
  if (values.length < 2) return 0
  const centre = mean(values)
  const variance = values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1)
  return Math.sqrt(variance / values.length)
}

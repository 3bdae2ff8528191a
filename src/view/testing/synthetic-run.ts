/**
 * Writes a run folder of any size without a model, for tests and benchmarks of what shows runs: real questions, made-up
 * notes and replies that are right as often as they are told to be. Its figures say nothing about any policy.
 */
import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import type { Post, Reply } from '../../board/types.ts'
import { configRecord, defineExperiment } from '../../experiment/config.ts'
import { type Progress, planJobs, type RolloutLine, readOutcome } from '../../experiment/job.ts'
import { evaluationFacts, summarise } from '../../experiment/results.ts'
import { writeFileAtomic, writeJsonAtomic } from '../../files.ts'
import { random } from '../../random.ts'
import { post } from '../../report/post.ts'
import { tableMarkdown } from '../../report/table.ts'
import type { Problem } from '../../tasks/types.ts'
import { wordProblems } from '../../tasks/word-problems.ts'

export interface SyntheticRun {
  holdout?: number
  train?: number
  steps?: number
  problemsPerStep?: number
  seeds?: number[]
  learningRate?: number
  /** Sentences of working in a note or reply, on average. */
  sentences?: number
  /** Share of replies that are right after training, by arm. */
  trained?: { baseline: number; recipe: number }
  /** Texts that take the place of the first notes of the first held-out problem. */
  hostile?: string[]
  /** A job that failed before it finished: it has half of its evaluation and no place in the results. */
  failed?: string
  /** Leaves the run as if it had been stopped after so many jobs: no results. */
  stopAfter?: number
}

/** Writes the run into `folder`; the same choices give the same files. */
export async function writeSyntheticRun(folder: string, choices: SyntheticRun = {}): Promise<void> {
  const {
    steps = 40,
    problemsPerStep = 12,
    seeds = [17, 18],
    sentences = 3,
    trained = { baseline: 0.66, recipe: 0.74 },
    hostile = [],
  } = choices
  const sizes = { train: choices.train ?? 96, holdout: choices.holdout ?? 120 }
  const experiment = defineExperiment({
    task: wordProblems(sizes),
    seeds,
    train: { steps, problemsPerStep, learningRate: choices.learningRate ?? 2e-3 },
    engine: { threads: 2 },
  })
  const split = await experiment.task.load()
  const { copies } = experiment.board
  await mkdir(folder, { recursive: true })
  const versions = {
    'message-board': '0.1.0',
    node: 'v20.20.2',
    grader: 'math-1',
    'onnxruntime-node': '1.30.0',
  }
  await writeJsonAtomic(join(folder, 'experiment.json'), {
    kind: 'message-board experiment',
    schemaVersion: 1,
    identity: {
      config: configRecord(experiment),
      model: '00',
      data: { train: split.train.length, holdout: split.holdout.length, sha256: '00' },
      versions,
    },
    model: 'word-problems (made up)',
    arms: ['baseline', 'recipe'],
    seeds,
    versions,
    machine: { processor: 'made up', cores: 2, memoryGiB: 24, system: 'linux x64' },
  })

  const jobs = planJobs(experiment)
  for (const job of jobs.slice(0, choices.stopAfter)) {
    const stream = random('synthetic', job.name)
    const arm = job.trained?.arm
    const path = join(folder, job.name)
    await mkdir(path, { recursive: true })
    const rollouts = await lines(join(path, 'rollouts.jsonl'))
    const metrics = await lines(join(path, 'metrics.jsonl'))
    const board = (problem: Problem, skill: number, noteSkill: number) => {
      // Some problems are hard for every copy.
      const ease = random('synthetic', problem.id).next() - 0.5
      const write = (chance: number, limit: number): Post => {
        const correct = stream.next() < chance + ease * 0.9
        const cut = stream.next() < (limit < 60 ? 0.3 : 0.05)
        const answer = correct ? problem.gold : cut ? null : String(stream.int(90) + 2)
        const text =
          working(split.train, stream, sentences) +
          (answer === null ? '' : ` So the answer is \\boxed{${answer}}.`)
        return { text, tokens: Math.ceil(text.length / 4), answer, correct, cut }
      }
      const notes = Array.from({ length: copies }, () => write(noteSkill, 48))
      const replies = Array.from({ length: copies }, (_, reader): Reply => {
        const reads = job.reads(reader, copies)
        const help = reads.some((note) => notes[note].correct) ? 0.08 : -0.08
        return { ...write(skill + help, 96), reads }
      })
      return { problem, notes, replies }
    }
    const last = job.trained ? steps : 0
    for (let step = 1; step <= last; step++) {
      const progress = 1 - Math.exp((-3 * step) / steps)
      const goal = arm === 'recipe' ? trained.recipe : trained.baseline
      const skill = 0.52 + (goal - 0.48) * progress
      const played = Array.from({ length: problemsPerStep }, (_, i) =>
        board(split.train[(step * problemsPerStep + i) % split.train.length], skill, skill - 0.15),
      )
      for (const one of played) await rollouts.write({ phase: 'train', step, ...one } satisfies RolloutLine)
      const replies = played.flatMap((one) => one.replies)
      const notes = played.flatMap((one) => one.notes)
      await metrics.write({
        step,
        reward: share(replies),
        informative: 0.7,
        noteAcc: share(notes),
        loss: 0.01,
        gradNorm: 1 + stream.next(),
        learningRate: 2e-3 * (1 - step / steps),
        clippedShare: 0,
        logprobDrift: 1e-7,
        replyChars: replies.reduce((sum, reply) => sum + reply.text.length, 0) / replies.length,
        repliesCut: replies.filter((reply) => reply.cut).length / replies.length,
        sampledTokens: [...notes, ...replies].reduce((sum, each) => sum + each.tokens, 0),
        trainedTokens: replies.reduce((sum, each) => sum + each.tokens, 0),
        seconds: { notes: 0.1, replies: 0.2, forwardBackward: 0.3, optimStep: 0.01 },
      })
    }
    const half = job.name === choices.failed
    const evaluated = half ? split.holdout.slice(0, split.holdout.length >> 1) : split.holdout
    const skill = arm ? trained[arm] : job.name === 'base-shared' ? 0.56 : 0.53
    for (const [i, problem] of evaluated.entries()) {
      const one = board(problem, skill, arm ? 0.48 : 0.34)
      if (i === 0) {
        for (const [n, text] of hostile.entries()) one.notes[n % copies] = { ...one.notes[n % copies], text }
      }
      await rollouts.write({ phase: 'evaluation', ...one } satisfies RolloutLine)
    }
    const bytes = { metrics: await metrics.close(), rollouts: await rollouts.close() }
    await writeJsonAtomic(join(path, 'progress.json'), {
      schemaVersion: 1,
      steps: last,
      evaluated: evaluated.length,
      bytes,
      seconds: { train: last * 0.61, evaluation: evaluated.length * 0.01 },
    } satisfies Progress)
  }
  if (choices.stopAfter !== undefined) return
  const results = summarise(
    {
      model: { name: 'word-problems (made up)', sha256: '00' },
      task: { name: experiment.task.name, train: split.train.length, holdout: split.holdout.length },
      config: configRecord(experiment),
      evaluation: evaluationFacts(experiment),
      seeds,
      dropped: split.dropped,
      versions,
      failed: choices.failed === undefined ? [] : [{ job: choices.failed, why: 'step 3 failed: made up.' }],
      finishedAt: '2026-01-01T00:00:00.000Z',
    },
    await Promise.all(
      jobs.filter(({ name }) => name !== choices.failed).map((job) => readOutcome(folder, job)),
    ),
  )
  await writeJsonAtomic(join(folder, 'results.json'), results)
  await writeFileAtomic(join(folder, 'table.md'), tableMarkdown(results))
  await writeFileAtomic(join(folder, 'post.md'), post(results))
}

const share = (posts: readonly Post[]) => posts.filter(({ correct }) => correct).length / posts.length

/** Sentences of any problems with sums after them: as varied as texts are, and about as hard to compress. */
function working(problems: readonly Problem[], stream: ReturnType<typeof random>, sentences: number): string {
  return Array.from({ length: Math.max(1, sentences + stream.int(3) - 1) }, () => {
    const told = stream.pick(problems).question.split(/(?<=[.?]) /)
    const [a, b] = [stream.int(900) + 2, stream.int(90) + 2]
    return `${stream.pick(told).replace('?', '.')} That is ${a} + ${b} = ${a + b}.`
  }).join('\n')
}

/** A file of JSON lines; `close` returns its bytes. */
async function lines(path: string) {
  const file = await open(path, 'w')
  let waiting: string[] = []
  let bytes = 0
  const flush = async () => {
    const text = waiting.join('')
    waiting = []
    bytes += Buffer.byteLength(text)
    await file.writeFile(text)
  }
  return {
    async write(value: unknown) {
      waiting.push(`${JSON.stringify(value)}\n`)
      if (waiting.length >= 256) await flush()
    },
    async close() {
      await flush()
      await file.close()
      return bytes
    },
  }
}

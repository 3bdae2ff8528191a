/**
 * Writes a run folder of any size without a model, for tests and benchmarks of what shows runs: real questions and real
 * protocols, made-up posts that are right as often as they are told to be. Its figures say nothing about any policy.
 */
import { createHash } from 'node:crypto'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { countEpisodes } from '../../board/counts.ts'
import {
  type Protocol,
  type ProtocolChoices,
  protocolRecord,
  resolveProtocol,
  sharedPolicy,
  sightOf,
} from '../../board/protocol.ts'
import { board, debate, proposers } from '../../board/protocols.ts'
import { own, ring, shared } from '../../board/sights.ts'
import { type Episode, type Post, postOf } from '../../board/types.ts'
import { readOutcome } from '../../experiment/job.ts'
import { summarise } from '../../experiment/results.ts'
import { writeFileAtomic } from '../../files.ts'
import { type Random, random } from '../../random.ts'
import { recordText, resultsText } from '../../record/folder.ts'
import { progressText } from '../../record/job-log.ts'
import { type Job, planJobs } from '../../record/plan.ts'
import {
  type ArmRecord,
  kind,
  type MetricsLine,
  type Progress,
  protocolSchema,
  type RunRecord,
  schemaVersion,
} from '../../record/schema.ts'
import type { Problem } from '../../tasks/types.ts'
import { wordProblems } from '../../tasks/word-problems.ts'

export interface SyntheticArm {
  protocol: ProtocolChoices
  /** Share of final posts that are right after training. */
  skill: number
  /** Whether notes are paid too, with made-up credit. */
  paysNotes?: boolean
  learningRate?: number
}

export interface SyntheticRun {
  holdout?: number
  train?: number
  steps?: number
  problemsPerStep?: number
  seeds?: number[]
  learningRate?: number
  /** Sentences of working in a post, on average. */
  sentences?: number
  /** The first is the baseline. */
  arms?: Record<string, SyntheticArm>
  /** Sentences of each problem that are dealt among the seats. */
  parts?: number
  /** Texts that take the place of the first posts of the first held-out problem. */
  hostile?: string[]
  /** A job that failed before it finished: it has half of its evaluation and no place in the results. */
  failed?: string
  /** Leaves the run as if it had been stopped after so many jobs: no results. */
  stopAfter?: number
}

/** The default experiment's arms. */
export const twoArms: Record<string, SyntheticArm> = {
  baseline: { protocol: board({ reads: own }), skill: 0.66 },
  recipe: { protocol: board({ reads: shared }), skill: 0.74 },
}

/** Debates of three turns beside the default's arms. */
export const threeArms: Record<string, SyntheticArm> = {
  ...twoArms,
  debate: { protocol: debate({ turns: 3 }), skill: 0.8, learningRate: 5e-4 },
}

/** Three proposers whose aggregator answers for all, against a vote of those who read. */
export const aggregated: Record<string, SyntheticArm> = {
  voting: { protocol: board({ reads: shared, final: 'vote' }), skill: 0.66 },
  aggregator: { protocol: proposers({ seats: 4 }), skill: 0.7, paysNotes: true },
}

/** Sixteen seats in a ring, whose notes are paid. */
export const ringOf16: Record<string, SyntheticArm> = {
  ring: { protocol: board({ reads: ring, seats: 16 }), skill: 0.7, paysNotes: true },
}

const model = { name: 'word-problems (made up)', sha256: '00' }
const grader = { name: 'math', version: '1' }
const sampling = { temperature: 0.9, topP: 0.95 }

/** Writes the run into `folder`; the same choices give the same files. */
export async function writeSyntheticRun(folder: string, choices: SyntheticRun = {}): Promise<void> {
  const { steps = 40, problemsPerStep = 12, seeds = [17, 18], arms = twoArms, hostile = [] } = choices
  const task = wordProblems({ train: choices.train ?? 96, holdout: choices.holdout ?? 120 })
  const split = await task.load()
  const protocols = new Map(
    Object.entries(arms).map(([name, { protocol }]) => [
      name,
      resolveProtocol(protocol, { copies: 4, noteTokens: 48, replyTokens: 96 }),
    ]),
  )
  const versions = {
    'message-board': '0.1.0',
    node: 'v20.20.2',
    grader: `${grader.name} ${grader.version}`,
    'onnxruntime-node': '1.30.0',
  }
  const record: RunRecord = {
    kind,
    schemaVersion,
    identity: {
      shared: {
        task: { name: task.name, ...task.config },
        data: {
          train: split.train.length,
          holdout: split.holdout.length,
          dropped: split.dropped,
          sha256: '00',
        },
        evaluation: { baseRuns: 3, problemsAtOnce: 40, sampling, readTokens: null },
        template: {},
        grader,
        engine: { name: 'made up' },
        versions,
      },
      arms: Object.fromEntries(
        Object.entries(arms).map(([name, { paysNotes, learningRate }]) => [
          name,
          armRecord(protocols.get(name)!, {
            steps,
            problemsPerStep,
            learningRate: learningRate ?? choices.learningRate ?? 2e-3,
            credit: paysNotes ? 'leaveOneOut rescore' : 'ownAnswer',
          }),
        ]),
      ),
    },
    arms: Object.keys(arms),
    baseline: Object.keys(arms)[0],
    contrasts: Object.keys(arms)
      .slice(1)
      .map((arm) => ({ arm, against: Object.keys(arms)[0] })),
    seeds,
    model: model.name,
    versions,
    machine: { processor: 'made up', cores: 2, memoryGiB: 24, system: 'linux x64' },
  }
  await mkdir(folder, { recursive: true })
  await rm(join(folder, 'results.json'), { force: true })
  await writeFileAtomic(join(folder, 'experiment.json'), recordText(record))

  const jobs = planJobs(record)
  for (const job of jobs.slice(0, choices.stopAfter)) {
    await writeJob(folder, job, {
      arm: arms[job.arm],
      protocol: protocols.get(job.arm)!,
      steps,
      problemsPerStep,
      learningRate: choices.learningRate ?? 2e-3,
      train: split.train.map((problem) => dealt(problem, choices.parts)),
      holdout: split.holdout
        .slice(0, job.name === choices.failed ? split.holdout.length >> 1 : undefined)
        .map((problem) => dealt(problem, choices.parts)),
      sentences: choices.sentences ?? 3,
      hostile,
    })
  }
  if (choices.stopAfter !== undefined) return
  const { failed } = choices
  const results = summarise(
    {
      record,
      failed: failed === undefined ? [] : [{ job: failed, why: 'step 3 failed: made up.' }],
      finishedAt: '2026-01-01T00:00:00.000Z',
    },
    await Promise.all(jobs.filter(({ name }) => name !== failed).map((job) => readOutcome(folder, job))),
  )
  await writeFileAtomic(join(folder, 'results.json'), resultsText(results))
}

function armRecord(
  protocol: Protocol,
  settings: { steps: number; problemsPerStep: number; learningRate: number; credit: string },
): ArmRecord {
  const { credit, ...train } = settings
  return {
    protocol: protocolSchema.parse(protocolRecord(protocol)),
    credit: { name: credit },
    train: { ...train, boards: 1 },
    sampling: { trained: { ...sampling, topP: 1 }, context: sampling },
    policies: { [sharedPolicy]: { model: model.name, sha256: model.sha256, adapter: null, trained: true } },
  }
}

const dealt = (problem: Problem, parts = 0): Problem =>
  parts === 0
    ? problem
    : { ...problem, parts: Array.from({ length: parts }, (_, i) => `Clue ${i + 1} of ${problem.id}.`) }

interface JobWriting {
  arm: SyntheticArm
  protocol: Protocol
  steps: number
  problemsPerStep: number
  learningRate: number
  train: readonly Problem[]
  holdout: readonly Problem[]
  sentences: number
  hostile: readonly string[]
}

async function writeJob(folder: string, job: Job, writing: JobWriting): Promise<void> {
  const { arm, protocol, steps, problemsPerStep, learningRate, train, holdout, hostile } = writing
  const stream = random('synthetic', job.name)
  const path = join(folder, job.name)
  await mkdir(path, { recursive: true })
  const rollouts = await lines(join(path, 'rollouts.jsonl'))
  const metrics = await lines(join(path, 'metrics.jsonl'))
  const played = (problem: Problem, skills: { first: number; last: number }) => ({
    problem,
    rounds: playMadeUp(problem, protocol, skills, stream, () => working(train, stream, writing.sentences)),
  })
  const taken = job.seed === null ? 0 : steps
  const tokens = { sampled: 0, scored: 0, trained: 0 }
  for (let step = 1; step <= taken; step++) {
    const progress = 1 - Math.exp((-3 * step) / steps)
    const last = 0.52 + (arm.skill - 0.48) * progress
    const boards = Array.from({ length: problemsPerStep }, (_, i) =>
      played(train[(step * problemsPerStep + i) % train.length], { first: last - 0.15, last }),
    )
    const credits = boards.map(({ rounds }) => creditOf(rounds, arm.paysNotes ?? false, stream))
    for (const [i, one] of boards.entries()) {
      await rollouts.write({ phase: 'train', step, ...one, credit: credits[i] })
    }
    const line = metricsOf(step, protocol, boards, credits, {
      gradNorm: 1 + stream.next(),
      learningRate: (arm.learningRate ?? learningRate) * (1 - step / steps),
      paysNotes: arm.paysNotes ?? false,
    })
    tokens.sampled += line.sampledTokens
    tokens.scored += line.scoredTokens
    tokens.trained += line.trainedTokens
    await metrics.write(line)
  }
  const after = job.seed === null ? { first: 0.34, last: 0.53 } : { first: 0.48, last: arm.skill }
  for (const [i, problem] of holdout.entries()) {
    const one = played(problem, after)
    if (i === 0) {
      const first = one.rounds[0]
      for (const [n, text] of hostile.entries())
        first[n % first.length] = { ...first[n % first.length], text }
    }
    await rollouts.write({ phase: 'evaluation', ...one })
  }
  const written = { metrics: await metrics.close(), rollouts: await rollouts.close() }
  const progress: Progress = {
    schemaVersion,
    steps: taken,
    trained: true,
    tokens,
    evaluated: holdout.length,
    bytes: { metrics: written.metrics.bytes, rollouts: written.rollouts.bytes },
    sha256: { metrics: written.metrics.sha256, rollouts: written.rollouts.sha256 },
    checkpoint: {},
    seconds: { train: taken * 0.61, evaluation: holdout.length * 0.01 },
  }
  await writeFileAtomic(join(path, 'progress.json'), progressText(job.name, progress))
}

/** Plays a problem with posts that are right by chance: the later a round the surer, and surer beside a right post. */
function playMadeUp(
  problem: Problem,
  protocol: Protocol,
  { first, last }: { first: number; last: number },
  stream: Random,
  write: () => string,
): Post[][] {
  // Some problems are hard for every copy.
  const ease = 0.9 * (random('synthetic', problem.id).next() - 0.5)
  const episode: { problemId: string; rounds: Post[][] } = { problemId: problem.id, rounds: [] }
  const rounds = protocol.rounds.length
  for (const [r, { speakers, maxTokens }] of protocol.rounds.entries()) {
    const skill = rounds === 1 ? last : first + ((last - first) * r) / (rounds - 1)
    episode.rounds.push(
      speakers.map((seat): Post => {
        const reads = sightOf(protocol, r, seat, stream) ?? []
        const help = r === 0 ? 0 : reads.some((ref) => postOf(episode, ref)?.correct) ? 0.08 : -0.08
        const correct = stream.next() < skill + help + ease
        const cut = stream.next() < (maxTokens < 60 ? 0.3 : 0.05)
        const answer = correct ? problem.gold : cut ? null : String(stream.int(90) + 2)
        const text = write() + (answer === null ? '' : ` So the answer is \\boxed{${answer}}.`)
        return { seat, reads, text, tokens: Math.ceil(text.length / 4), answer, correct, cut }
      }),
    )
  }
  return episode.rounds
}

/** Final posts earn their own correctness; notes, where they are paid, a little more where they are right. */
function creditOf(
  rounds: readonly (readonly Post[])[],
  paysNotes: boolean,
  stream: Random,
): (number | null)[][] {
  return rounds.map((posts, r) =>
    posts.map((post) => {
      if (r === rounds.length - 1) return Number(post.correct)
      return paysNotes ? Math.round(1000 * (0.2 * Number(post.correct) + 0.1 * stream.normal())) / 1000 : null
    }),
  )
}

function metricsOf(
  step: number,
  protocol: Protocol,
  boards: readonly { problem: Problem; rounds: Post[][] }[],
  credits: readonly (number | null)[][][],
  made: { gradNorm: number; learningRate: number; paysNotes: boolean },
): MetricsLine {
  const episodes = boards.map(({ problem, rounds }): Episode => ({ problemId: problem.id, rounds }))
  const counts = countEpisodes(episodes)
  const tokensOf = (r: number) =>
    boards.reduce((sum, { rounds }) => sum + rounds[r].reduce((all, { tokens }) => all + tokens, 0), 0)
  const all = protocol.rounds.map((_, r) => tokensOf(r))
  const sampled = all.reduce((sum, tokens) => sum + tokens, 0)
  const last = protocol.rounds.length - 1
  return {
    step,
    reward: counts.rounds[last].right,
    informative: 0.7,
    noteAcc: counts.noteAcc,
    loss: 0.01 / step,
    gradNorm: made.gradNorm,
    learningRate: made.learningRate,
    clippedShare: 0,
    logprobDrift: 1e-7,
    entropy: 0.2 + 0.3 / step,
    kl: step % 5 === 0 ? 1e-3 * step : null,
    replyChars: counts.replyChars,
    repliesCut: counts.repliesCut,
    sampledTokens: sampled,
    scoredTokens: made.paysNotes ? 3 * all[last] : 0,
    trainedTokens: made.paysNotes ? sampled : all[last],
    effective: made.paysNotes ? 2.5 : null,
    rounds: protocol.rounds.map(({ name }, r) => {
      const { right, chars, tokens, cut } = counts.rounds[r]
      const paid = credits.flatMap((each) => each[r]).filter((value) => value !== null)
      const mean = paid.reduce((sum, value) => sum + value, 0) / paid.length
      return {
        name,
        right,
        chars,
        tokens,
        cut,
        credit:
          paid.length === 0
            ? null
            : {
                mean,
                spread: Math.sqrt(paid.reduce((sum, value) => sum + (value - mean) ** 2, 0) / paid.length),
                informative: r === last ? 0.7 : 1,
                withOwn: r === last ? 1 : 0.6,
                unpaid: 0,
              },
      }
    }),
    seconds: {
      rounds: protocol.rounds.map((_, r) => 0.1 * (r + 1)),
      credit: made.paysNotes ? 0.05 : 0,
      forwardBackward: 0.3,
      optimStep: 0.01,
    },
  }
}

/** Sentences of any problems with sums after them: as varied as texts are, and about as hard to compress. */
function working(problems: readonly Problem[], stream: Random, sentences: number): string {
  return Array.from({ length: Math.max(1, sentences + stream.int(3) - 1) }, () => {
    const told = stream.pick(problems).question.split(/(?<=[.?]) /)
    const [a, b] = [stream.int(900) + 2, stream.int(90) + 2]
    return `${stream.pick(told).replace('?', '.')} That is ${a} + ${b} = ${a + b}.`
  }).join('\n')
}

/** A file of JSON lines; `close` returns its bytes and their SHA-256. */
async function lines(path: string) {
  const file = await open(path, 'w')
  const hash = createHash('sha256')
  let waiting: string[] = []
  let bytes = 0
  const flush = async () => {
    const text = waiting.join('')
    waiting = []
    bytes += Buffer.byteLength(text)
    hash.update(text)
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
      return { bytes, sha256: hash.digest('hex') }
    },
  }
}

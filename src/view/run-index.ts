/**
 * Reads a run folder, finished or still being written, into what the report and the server show. Keeps no texts in
 * memory: it knows where each board lies in its file. Reads only, and only up to the lengths that progress.json
 * names, so that work in hand is never shown half done.
 */
import { randomUUID } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { realpath } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { finalScores, latestBefore, sameAnswer } from '../board/counts.ts'
import type { Episode, Post } from '../board/types.ts'
import { UserError } from '../errors.ts'
import { beginning } from '../record/job-log.ts'
import { isHeld } from '../record/lock.ts'
import type { Results } from '../record/results.ts'
import {
  type MetricsLine,
  metricsSchema,
  type Progress,
  type RunRecord,
  rolloutSchema,
} from '../record/schema.ts'
import { damaged, parse, readExperiment, readProgress, readResults } from './files.ts'
import { bit, encodeFlag, type Layout, layoutOf } from './flags.ts'
import { changedInside, openInside, readInside } from './inside.ts'
import { isDone, type JobFacts, jobStates, secondsLeft, stepsOf, tokensPerSecond } from './jobs.ts'
import { type SidedJob, sidedJobs, sidesOf } from './sides.ts'
import { addStep, emptyTrace } from './trace.ts'
import type { BoardColumns, BoardText, RunView, Side, TraceColumns } from './types.ts'

/** What is known of one job, and how far its files were read. */
interface JobState {
  planned: SidedJob
  progress: Progress
  changed: number | null
  read: { metrics: number; rollouts: number; lines: number }
  metrics: MetricsLine[]
  trace: TraceColumns
  /** Final answers of the evaluation so far. */
  scores: { all: number; right: number }
}

export interface RunIndex {
  /** The run folder's real path. */
  folder: string
  /** Names this numbering of the boards; another one means that the run was started afresh. */
  epoch: () => string
  view: () => RunView
  /** Grows at the end only, within an epoch. */
  columns: () => BoardColumns
  /** Boards `from` up to `to`, with the problems from number `fromProblem` on. */
  part: (from: number, to: number, fromProblem: number) => BoardColumns
  /** Names what is shown: another one means that something changed. */
  version: () => string
  /** Reads what is new. Calls must not overlap. */
  refresh: () => Promise<void>
  /** The texts of boards, by their numbers. */
  texts: (boards: readonly number[]) => Promise<BoardText[]>
}

/**
 * Opens a run folder and reads all that is in it. Only a `live` view says that a run is under way: any other is a
 * picture of the folder as it is, whoever is writing it.
 *
 * @throws UserError for a folder that is no run, or whose files are not what they should be.
 */
export async function openRun(path: string, { live = false } = {}): Promise<RunIndex> {
  const folder = await realpath(path).catch(() => {
    throw new UserError(`There is no folder ${path}: give the folder of a run, such as runs/default.`)
  })
  let state = await readState(folder, live)

  const refresh = async () => {
    const text = await readInside(folder, ['experiment.json'])
    try {
      if (text !== state.text || !(await update(folder, state, live))) state = await readState(folder, live)
    } catch (error) {
      // What was read in part is read again from the beginning.
      state = { ...state, text: '' }
      throw error
    }
  }
  return {
    folder,
    epoch: () => state.epoch,
    version: () => fingerprint(state),
    view: () => viewOf(folder, state),
    columns: () => state.columns,
    part: (from, to, fromProblem) => partOf(state, from, to, fromProblem),
    refresh,
    texts: (boards) => readTexts(folder, state, boards),
  }
}

interface IndexState {
  epoch: string
  text: string
  record: RunRecord
  sides: Side[]
  /** By side. */
  layouts: Layout[]
  jobs: JobState[]
  columns: BoardColumns
  /** Where board i lies in its job's rollouts.jsonl, and where its flags begin. */
  places: { start: number; length: number; flags: number }[]
  problemNumbers: Map<string, number>
  results: Results | null
  running: boolean
}

/** Equal as long as nothing that is shown changed. */
const fingerprint = (state: IndexState) =>
  [
    state.epoch,
    state.running,
    state.results?.timing.finishedAt,
    ...state.jobs.flatMap(({ progress, changed }) => [
      progress.steps,
      progress.evaluated,
      progress.bytes.rollouts,
      changed,
    ]),
  ].join(' ')

async function readState(folder: string, live: boolean): Promise<IndexState> {
  const { text, record } = await readExperiment(folder)
  const sides = sidesOf(record)
  const state: IndexState = {
    epoch: randomUUID(),
    text,
    record,
    sides,
    layouts: sides.map(layoutOf),
    jobs: sidedJobs(record, sides).map((planned) => ({
      planned,
      progress: beginning(planned.steps > 0),
      changed: null,
      read: { metrics: 0, rollouts: 0, lines: 0 },
      metrics: [],
      trace: emptyTrace(sides[planned.side].rounds.length),
      scores: { all: 0, right: 0 },
    })),
    columns: {
      job: [],
      step: [],
      problem: [],
      flags: '',
      problems: { id: [], question: [], gold: [], parts: [] },
    },
    places: [],
    problemNumbers: new Map(),
    results: null,
    running: false,
  }
  await update(folder, state, live)
  return state
}

/** Reads what was added since the last time; false where the run went back, so that all must be read again. */
async function update(folder: string, state: IndexState, live: boolean): Promise<boolean> {
  state.running = live && (await isHeld(folder))
  for (const [number, job] of state.jobs.entries()) {
    const { name } = job.planned
    const path = join(folder, name)
    const progress = (await readProgress(folder, name)) ?? beginning(job.planned.steps > 0)
    const { metrics, rollouts } = progress.bytes
    if (metrics < job.read.metrics || rollouts < job.read.rollouts) return false
    const changes = await Promise.all(
      [[name], [name, 'progress.json']].map((names) => changedInside(folder, names)),
    )
    job.changed = changes[0] === null ? null : Math.max(...changes.map((at) => at ?? 0))
    job.progress = progress
    await readNew(folder, [name, 'metrics.jsonl'], job.read.metrics, metrics, async (line, at) => {
      job.metrics.push(parse(line.toString('utf8'), metricsSchema, `${path}/metrics.jsonl, byte ${at}`))
    })
    job.read.metrics = metrics
    await readRollouts(folder, state, number, job)
  }
  const results = await readResults(folder)
  const { holdout } = state.record.identity.shared.data
  const failed = new Set(results?.failed.map(({ job }) => job))
  // Results of an earlier run, of fewer seeds or before a failed job was tried again, say nothing of this one.
  const current = state.jobs.every(
    ({ planned, progress }) =>
      isDone({ problems: holdout, progress }) || (!state.running && failed.has(planned.name)),
  )
  state.results = current ? results : null
  return true
}

async function readRollouts(folder: string, state: IndexState, number: number, job: JobState): Promise<void> {
  const { columns, places, problemNumbers } = state
  const side = state.sides[job.planned.side]
  const layout = state.layouts[job.planned.side]
  const file = join(folder, job.planned.name, 'rollouts.jsonl')
  let pending: { step: number; episodes: Episode[] } = { step: 0, episodes: [] }
  const flushStep = () => {
    const { step, episodes } = pending
    if (episodes.length > 0) addStep(job.trace, step, job.metrics[step - 1], episodes)
    pending = { step: 0, episodes: [] }
  }
  // One string for all new flags: adding to the column board by board would copy it as often.
  const flags: string[] = []
  let at = columns.flags.length
  await readNew(
    folder,
    [job.planned.name, 'rollouts.jsonl'],
    job.read.rollouts,
    job.progress.bytes.rollouts,
    async (bytes, start) => {
      job.read.lines++
      const where = `${file}, line ${job.read.lines}`
      const { phase, step = 0, problem, rounds } = parse(bytes.toString('utf8'), rolloutSchema, where)
      const episode: Episode = { problemId: problem.id, rounds }
      if (!isPlayed(episode, side)) {
        throw damaged(where, `its posts are not those of the protocol "${side.protocol}" in experiment.json`)
      }
      let problemNumber = problemNumbers.get(problem.id)
      if (problemNumber === undefined) {
        problemNumber = problemNumbers.size
        problemNumbers.set(problem.id, problemNumber)
        columns.problems.id.push(problem.id)
        columns.problems.question.push(problem.question)
        columns.problems.gold.push(problem.gold)
        columns.problems.parts.push(problem.parts ?? [])
      }
      columns.job.push(number)
      columns.step.push(phase === 'train' ? step : 0)
      columns.problem.push(problemNumber)
      flags.push(boardFlags(episode, side))
      places.push({ start, length: bytes.length, flags: at })
      at += layout.width
      if (phase === 'evaluation') {
        const scores = finalScores(episode, side.final)
        job.scores.all += scores.length
        job.scores.right += scores.reduce((sum, score) => sum + score, 0)
      } else {
        if (pending.step !== step) flushStep()
        pending.step = step
        pending.episodes.push(episode)
      }
    },
  )
  flushStep()
  columns.flags += flags.join('')
  job.read.rollouts = job.progress.bytes.rollouts
}

/** Whether a board's posts are by the seats that its protocol lets speak, in each round. */
function isPlayed({ rounds }: Episode, side: Side): boolean {
  return (
    rounds.length === side.rounds.length &&
    side.rounds.every(
      ({ speakers }, r) =>
        rounds[r].length === speakers.length && speakers.every((seat, i) => rounds[r][i].seat === seat),
    )
  )
}

/** See flags.ts. */
function boardFlags(episode: Episode, { final }: Side): string {
  const { rounds } = episode
  const bits = (post: Post, r: number) => {
    const before = latestBefore(rounds, r, post.seat)
    return (
      (post.correct ? bit.right : 0) |
      (post.cut ? bit.cut : 0) |
      (post.answer === null ? bit.silent : 0) |
      (before && !sameAnswer(post.answer, before.answer) ? bit.switched : 0)
    )
  }
  const posts = rounds.flatMap((each, r) => each.map((post) => encodeFlag(bits(post, r))))
  const vote = final === 'vote' ? [encodeFlag(finalScores(episode, final)[0] === 1 ? bit.right : 0)] : []
  return [...posts, ...vote].join('')
}

function partOf(
  { columns, places }: IndexState,
  from: number,
  to: number,
  fromProblem: number,
): BoardColumns {
  const { job, step, problem, flags, problems } = columns
  const flagsAt = (board: number) => (board < places.length ? places[board].flags : flags.length)
  return {
    job: job.slice(from, to),
    step: step.slice(from, to),
    problem: problem.slice(from, to),
    flags: flags.slice(flagsAt(from), flagsAt(to)),
    problems: {
      id: problems.id.slice(fromProblem),
      question: problems.question.slice(fromProblem),
      gold: problems.gold.slice(fromProblem),
      parts: problems.parts.slice(fromProblem),
    },
  }
}

function viewOf(folder: string, { record, sides, jobs, results, running }: IndexState): RunView {
  const { identity, model, arms, baseline, contrasts, seeds, versions, machine } = record
  const { task, data } = identity.shared
  const facts = jobs.map(
    (job): JobFacts => ({
      ...job,
      problems: data.holdout,
      failed: results?.failed.find((failure) => failure.job === job.planned.name)?.why,
    }),
  )
  const states = jobStates(facts, running)
  const left = secondsLeft(facts)
  return {
    name: basename(folder),
    model,
    task: task.name,
    seeds,
    arms,
    baseline,
    contrasts,
    sides,
    identity,
    versions,
    machine,
    sizes: { train: data.train, holdout: data.holdout },
    state: running ? 'running' : results ? 'finished' : 'stopped',
    eta: left.includes(null) ? null : left.reduce((sum: number, seconds) => sum + (seconds ?? 0), 0),
    jobs: jobs.map(({ planned, progress, metrics, trace, scores }, i) => ({
      name: planned.name,
      side: planned.side,
      seed: planned.seed,
      state: states[i],
      ...(states[i] === 'failed' ? { why: facts[i].failed } : {}),
      steps: { done: progress.steps, of: stepsOf(facts[i]) },
      problems: { done: progress.evaluated, of: data.holdout },
      passAt1: scores.all === 0 ? null : scores.right / scores.all,
      seconds: progress.seconds,
      tokensPerSecond: tokensPerSecond(metrics),
      eta: left[i],
      trace,
    })),
    results,
  }
}

async function readTexts(folder: string, state: IndexState, boards: readonly number[]): Promise<BoardText[]> {
  const files = new Map<number, FileHandle>()
  try {
    const texts: BoardText[] = []
    for (const board of boards) {
      const job = state.columns.job[board]
      const names = [state.jobs[job].planned.name, 'rollouts.jsonl']
      const file = files.get(job) ?? (await openInside(folder, names))
      if (!file) throw new UserError(`${join(folder, ...names)} is gone: reload the page.`)
      files.set(job, file)
      const { start, length } = state.places[board]
      const { buffer } = await file.read({ buffer: Buffer.alloc(length), position: start })
      const { rounds, credit } = parse(buffer.toString('utf8'), rolloutSchema, join(folder, ...names))
      texts.push(credit ? { rounds, credit } : { rounds })
    }
    return texts
  } finally {
    for (const file of files.values()) await file.close()
  }
}

/** Calls `take` with each line of a file between two offsets that are both at the start of a line. */
async function readNew(
  folder: string,
  names: readonly string[],
  from: number,
  to: number,
  take: (line: Buffer, start: number) => Promise<void>,
): Promise<void> {
  if (to <= from) return
  const file = await openInside(folder, names)
  if (!file) throw damaged(join(folder, ...names), 'it is missing')
  try {
    let rest: Buffer[] = []
    let start = from
    for (let position = from; position < to; ) {
      const { bytesRead, buffer } = await file.read({
        buffer: Buffer.alloc(Math.min(1 << 20, to - position)),
        position,
      })
      if (bytesRead === 0) {
        throw damaged(join(folder, ...names), 'it is shorter than progress.json says')
      }
      position += bytesRead
      let chunk = buffer.subarray(0, bytesRead)
      for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10)) {
        const line =
          rest.length === 0 ? chunk.subarray(0, end) : Buffer.concat([...rest, chunk.subarray(0, end)])
        rest = []
        await take(line, start)
        start += line.length + 1
        chunk = chunk.subarray(end + 1)
      }
      if (chunk.length > 0) rest.push(chunk)
    }
  } finally {
    await file.close()
  }
}

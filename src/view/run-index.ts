/**
 * Reads a run folder, finished or still being written, into what the report and the server show. Keeps no texts in
 * memory: it knows where each board lies in its file. Reads only, and only up to the lengths that progress.json
 * names, so that work in hand is never shown half done.
 */

import { finalScores, latestBefore, sameAnswer } from '../board/counts.ts'
import type { Effect } from '../board/influence.ts'
import type { Episode, Post } from '../board/types.ts'
import { textOf } from '../bytes.ts'
import { UserError } from '../errors.ts'
import { readRegular } from '../files.ts'
import { type FileHandle, realpath } from '../platform/files.ts'
import { basename, join } from '../platform/path.ts'
import { readAtWork, readRecord, readResults } from '../record/folder.ts'
import { influenceFile, readInfluence } from '../record/influence.ts'
import { beginning, errorFile, parseLine, readAdded, readProgress } from '../record/job-log.ts'
import { Damage, type LogPosition, logStart } from '../record/lines.ts'
import { noNotes, readNotes } from '../record/notes.ts'
import { isFinished } from '../record/plan.ts'
import { type JobFacts, jobStates, secondsLeft, tokensPerSecond } from '../record/progress.ts'
import type { Results } from '../record/results.ts'
import {
  type MetricsLine,
  metricsSchema,
  type Notes,
  type Progress,
  type RunRecord,
  rolloutSchema,
} from '../record/schema.ts'
import { bit, encodeFlag, type Layout, layoutOf } from './flags.ts'
import { changedInside, openInside } from './inside.ts'
import { type SidedJob, sidedJobs, sidesOf } from './sides.ts'
import { addStep, emptyTrace } from './trace.ts'
import type { BoardColumns, BoardText, RunView, Side, TraceColumns } from './types.ts'

/** What is known of one job, and how far its logs were read. */
interface JobReading {
  planned: SidedJob
  /** Null: it has not begun. */
  progress: Progress | null
  read: { metrics: LogPosition; rollouts: LogPosition }
  metrics: MetricsLine[]
  trace: TraceColumns
  /** Final answers of the evaluation so far. */
  scores: { all: number; right: number }
  /** Why its last try failed, in one line. */
  failure: string | null
  /** By problem, as the file was when it last changed; read once it is asked for. */
  influence: { changed: number | null; effects: ReadonlyMap<string, Effect[]> }
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
    try {
      const record = await readRecord(folder)
      const isSame = JSON.stringify(record) === state.recorded
      if (!isSame || !(await update(folder, state, live))) state = await readState(folder, live)
    } catch (error) {
      // What was read in part is read again from the beginning.
      state = { ...state, recorded: '' }
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
  record: RunRecord
  /** The record as JSON, to see whether it is another. */
  recorded: string
  sides: Side[]
  /** By side. */
  layouts: Layout[]
  jobs: JobReading[]
  columns: BoardColumns
  /** Where board i lies in its job's rollouts.jsonl, and where its flags begin. */
  places: { start: number; length: number; flags: number }[]
  problemNumbers: Map<string, number>
  results: Results | null
  notes: Notes
  /** Names of the jobs at work; null: nobody works on the run. */
  atWork: string[] | null
}

/** Equal as long as nothing that is shown changed. */
const fingerprint = ({ epoch, atWork, results, notes, jobs }: IndexState) =>
  JSON.stringify([
    epoch,
    atWork,
    notes,
    results?.timing.finishedAt,
    jobs.map(({ progress, failure }) => [
      progress?.steps,
      progress?.evaluated,
      progress?.bytes.rollouts,
      failure,
    ]),
  ])

async function readState(folder: string, live: boolean): Promise<IndexState> {
  const record = await readRecord(folder)
  const sides = sidesOf(record)
  const state: IndexState = {
    epoch: crypto.randomUUID(),
    record,
    recorded: JSON.stringify(record),
    sides,
    layouts: sides.map(layoutOf),
    jobs: sidedJobs(record, sides).map((planned) => ({
      planned,
      progress: null,
      read: { metrics: logStart(), rollouts: logStart() },
      metrics: [],
      trace: emptyTrace(sides[planned.side].rounds.length),
      scores: { all: 0, right: 0 },
      failure: null,
      influence: { changed: null, effects: new Map() },
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
    notes: noNotes,
    atWork: null,
  }
  await update(folder, state, live)
  return state
}

/** Reads what was added since the last time; false where the run went back, so that all must be read again. */
async function update(folder: string, state: IndexState, live: boolean): Promise<boolean> {
  state.atWork = live ? await readAtWork(folder) : null
  for (const [number, job] of state.jobs.entries()) {
    const path = join(folder, job.planned.name)
    const progress = await readProgress(path)
    const { bytes } = progress ?? beginning(false)
    if (bytes.metrics < job.read.metrics.bytes || bytes.rollouts < job.read.rollouts.bytes) return false
    job.progress = progress ?? null
    job.failure = progress ? await failureOf(path) : null
    if (!progress) continue
    job.read.metrics = await readAdded(path, 'metrics', job.read.metrics, progress, (line) => {
      job.metrics.push(parseLine(line, metricsSchema))
    })
    await readRollouts(path, state, number, progress)
  }
  state.notes = await readNotes(folder)
  const results = await readResults(folder)
  const failed = new Set(results?.failed.map(({ job }) => job))
  // Results of an earlier run, of fewer seeds or before a failed job was tried again, say nothing of this one.
  const current = state.jobs.every(
    ({ planned, progress }) =>
      (progress && isFinished(progress, state.record.identity)) ||
      (state.atWork === null && failed.has(planned.name)),
  )
  state.results = current ? results : null
  return true
}

/** The first line of what a job left that failed; the next try removes it. */
async function failureOf(path: string): Promise<string | null> {
  const story = await readRegular(join(path, errorFile))
  return story === undefined ? null : (story.split('\n')[0] ?? '').slice(0, 500)
}

async function readRollouts(
  path: string,
  state: IndexState,
  number: number,
  progress: Progress,
): Promise<void> {
  const { columns, places, problemNumbers } = state
  const job = state.jobs[number]
  const side = state.sides[job.planned.side]
  const layout = state.layouts[job.planned.side]
  let pending: { step: number; episodes: Episode[] } = { step: 0, episodes: [] }
  const flushStep = () => {
    const { step, episodes } = pending
    if (episodes.length > 0) addStep(job.trace, step, job.metrics[step - 1], episodes)
    pending = { step: 0, episodes: [] }
  }
  // One string for all new flags: adding to the column board by board would copy it as often.
  const flags: string[] = []
  let at = columns.flags.length
  job.read.rollouts = await readAdded(path, 'rollouts', job.read.rollouts, progress, (bytes, start) => {
    const { phase, step = 0, problem, rounds } = parseLine(bytes, rolloutSchema)
    const episode: Episode = { problemId: problem.id, rounds }
    if (!isPlayed(episode, side)) {
      throw new Damage(`its posts are not those of the protocol "${side.protocol}"`)
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
  })
  flushStep()
  columns.flags += flags.join('')
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

function viewOf(folder: string, { record, sides, jobs, results, notes, atWork }: IndexState): RunView {
  const { identity, model, arms, baseline, contrasts, seeds, versions, machine, devices = [] } = record
  const { task, data } = identity.shared
  const whys = jobs.map(
    ({ planned, failure }) =>
      results?.failed.find((failed) => failed.job === planned.name)?.why ?? failure ?? undefined,
  )
  const facts = jobs.map(
    ({ planned, progress, metrics }, i): JobFacts => ({
      name: planned.name,
      steps: planned.steps,
      problems: data.holdout,
      progress,
      metrics,
      failed: whys[i] !== undefined,
    }),
  )
  const states = jobStates(facts, atWork)
  const left = secondsLeft(facts, atWork)
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
    devices,
    sizes: { train: data.train, holdout: data.holdout },
    notes,
    state: atWork ? 'running' : results ? 'finished' : 'stopped',
    eta: left.all,
    jobs: jobs.map(({ planned, progress, metrics, trace, scores }, i) => ({
      name: planned.name,
      side: planned.side,
      seed: planned.seed,
      state: states[i],
      ...(states[i] === 'failed' ? { why: whys[i] } : {}),
      // A budget of tokens may end a training before its last step.
      steps: { done: progress?.steps ?? 0, of: progress?.trained ? progress.steps : planned.steps },
      problems: { done: progress?.evaluated ?? 0, of: data.holdout },
      passAt1: scores.all === 0 ? null : scores.right / scores.all,
      seconds: progress?.seconds ?? { train: 0, evaluation: 0 },
      tokensPerSecond: tokensPerSecond(metrics),
      eta: left.jobs[i],
      trace,
    })),
    results,
  }
}

async function readTexts(folder: string, state: IndexState, boards: readonly number[]): Promise<BoardText[]> {
  const { columns, jobs, places } = state
  const files = new Map<number, FileHandle>()
  const influence = new Map<number, ReadonlyMap<string, Effect[]>>()
  try {
    const texts: BoardText[] = []
    for (const board of boards) {
      const job = columns.job[board]
      const names = [jobs[job].planned.name, 'rollouts.jsonl']
      const file = files.get(job) ?? (await openInside(folder, names))
      if (!file) throw new UserError(`${join(folder, ...names)} is gone: reload the page.`)
      files.set(job, file)
      const { start, length } = places[board]
      const line = await readAt(file, start, length)
      const { rounds, credit, problem } = rolloutSchema.parse(JSON.parse(textOf(line)))
      const measured = influence.get(job) ?? (await influenceOf(folder, state, job))
      influence.set(job, measured)
      const effects = columns.step[board] === 0 ? measured.get(problem.id) : undefined
      texts.push({ rounds, ...(credit && { credit }), ...(effects && { influence: effects }) })
    }
    return texts
  } finally {
    for (const file of files.values()) await file.close()
  }
}

async function readAt(file: FileHandle, start: number, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length)
  await file.read(bytes, 0, length, start)
  return bytes
}

/** What was measured of a job, by problem: read anew where its file is another than the last time. */
async function influenceOf(
  folder: string,
  { columns, jobs }: IndexState,
  number: number,
): Promise<ReadonlyMap<string, Effect[]>> {
  const job = jobs[number]
  const { name } = job.planned
  const changed = await changedInside(folder, [name, influenceFile])
  if (changed !== job.influence.changed) {
    const evaluated = columns.job.flatMap((each, i) =>
      each === number && columns.step[i] === 0 ? [columns.problems.id[columns.problem[i]]] : [],
    )
    const { lines } = await readInfluence(join(folder, name), evaluated)
    job.influence = { changed, effects: new Map(lines.map(({ problem, effects }) => [problem, effects])) }
  }
  return job.influence.effects
}

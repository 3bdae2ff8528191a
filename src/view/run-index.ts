/**
 * Reads a run folder, finished or still being written, into what the report and the server show. Keeps no texts in
 * memory: it knows where each board lies in its file. Reads only, and only up to the lengths that progress.json
 * names, so that work in hand is never shown half done.
 */
import { randomUUID } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { realpath } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { sameAnswer, whatReadersDid } from '../board/readers.ts'
import type { Board } from '../board/types.ts'
import { UserError } from '../errors.ts'
import { isHeld } from '../experiment/lock.ts'
import type { Results } from '../experiment/results.ts'
import { damaged, parse, readExperiment, readProgress, readResults } from './files.ts'
import { bit, encodeFlag } from './flags.ts'
import { changedInside, openInside, readInside } from './inside.ts'
import {
  type JobFacts,
  jobStates,
  type PlannedJob,
  plannedJobs,
  secondsLeft,
  tokensPerSecond,
} from './jobs.ts'
import {
  type ExperimentRecord,
  type JobProgress,
  metricsSchema,
  rolloutSchema,
  type StepRecord,
} from './record.ts'
import type { BoardColumns, BoardText, RunView, TracePoint } from './types.ts'

/** What is known of one job, and how far its files were read. */
interface JobState {
  planned: PlannedJob
  progress: JobProgress
  changed: number | null
  read: { metrics: number; rollouts: number; lines: number }
  metrics: StepRecord[]
  trace: TracePoint[]
  /** Replies of the evaluation so far. */
  replies: { all: number; right: number }
}

export interface RunIndex {
  /** The run folder's real path. */
  folder: string
  /** Names this numbering of the boards; another one means that the run was started afresh. */
  epoch: () => string
  view: () => RunView
  /** Grows at the end only, within an epoch. */
  columns: () => BoardColumns
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
    refresh,
    texts: (boards) => readTexts(folder, state, boards),
  }
}

interface IndexState {
  epoch: string
  text: string
  record: ExperimentRecord
  jobs: JobState[]
  columns: BoardColumns
  /** Where board i lies in its job's rollouts.jsonl. */
  places: { start: number; length: number }[]
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
  const jobs = plannedJobs(record)
  const starts = await Promise.all(jobs.map(({ name }) => readProgress(folder, name)))
  const state: IndexState = {
    epoch: randomUUID(),
    text,
    record,
    jobs: jobs.map((planned, i) => ({
      planned,
      progress: starts[i],
      changed: null,
      read: { metrics: 0, rollouts: 0, lines: 0 },
      metrics: [],
      trace: [],
      replies: { all: 0, right: 0 },
    })),
    columns: { job: [], step: [], problem: [], flags: '', problems: { id: [], question: [], gold: [] } },
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
    const progress = await readProgress(folder, name)
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
  const isDone = ({ planned, progress }: JobState) =>
    progress.steps === planned.steps && progress.evaluated === state.record.identity.data.holdout
  const failed = new Set(results?.failed.map(({ job }) => job))
  // Results of an earlier run, of fewer seeds or before a failed job was tried again, say nothing of this one.
  const current = state.jobs.every((job) => isDone(job) || (!state.running && failed.has(job.planned.name)))
  state.results = current ? results : null
  return true
}

async function readRollouts(folder: string, state: IndexState, number: number, job: JobState): Promise<void> {
  const { columns, places, problemNumbers, record } = state
  const { copies } = record.identity.config.board
  const file = join(folder, job.planned.name, 'rollouts.jsonl')
  let pending: { step: number; boards: Board[] } = { step: 0, boards: [] }
  const flushStep = () => {
    if (pending.boards.length > 0) job.trace.push(tracePoint(pending.step, pending.boards))
    pending = { step: 0, boards: [] }
  }
  // One string for all new flags: adding to the column board by board would copy it as often.
  const flags: string[] = []
  await readNew(
    folder,
    [job.planned.name, 'rollouts.jsonl'],
    job.read.rollouts,
    job.progress.bytes.rollouts,
    async (bytes, start) => {
      job.read.lines++
      const where = `${file}, line ${job.read.lines}`
      const { phase, step = 0, problem, notes, replies } = parse(bytes.toString('utf8'), rolloutSchema, where)
      if (notes.length !== copies || replies.length !== copies) {
        const found = `${notes.length} notes and ${replies.length} replies`
        throw damaged(where, `it has ${found} where experiment.json has ${copies} copies`)
      }
      let problemNumber = problemNumbers.get(problem.id)
      if (problemNumber === undefined) {
        problemNumber = problemNumbers.size
        problemNumbers.set(problem.id, problemNumber)
        columns.problems.id.push(problem.id)
        columns.problems.question.push(problem.question)
        columns.problems.gold.push(problem.gold)
      }
      columns.job.push(number)
      columns.step.push(phase === 'train' ? step : 0)
      columns.problem.push(problemNumber)
      flags.push(boardFlags({ problemId: problem.id, notes, replies }))
      places.push({ start, length: bytes.length })
      if (phase === 'evaluation') {
        job.replies.all += replies.length
        job.replies.right += replies.filter((reply) => reply.correct).length
      } else {
        if (pending.step !== step) flushStep()
        pending.step = step
        pending.boards.push({ problemId: problem.id, notes, replies })
      }
    },
  )
  flushStep()
  columns.flags += flags.join('')
  job.read.rollouts = job.progress.bytes.rollouts
}

function boardFlags({ notes, replies }: Board): string {
  const bits = (post: Board['notes'][number]) =>
    (post.correct ? bit.right : 0) | (post.cut ? bit.cut : 0) | (post.answer === null ? bit.silent : 0)
  return [
    ...notes.map(bits),
    ...replies.map(
      (reply, copy) => bits(reply) | (sameAnswer(reply.answer, notes[copy].answer) ? 0 : bit.switched),
    ),
  ]
    .map(encodeFlag)
    .join('')
}

function tracePoint(step: number, boards: readonly Board[]): TracePoint {
  const { noteAcc, voteAcc, rescued, misled, noteChars, replyChars, notesCut, repliesCut } =
    whatReadersDid(boards)
  const replies = boards.flatMap((board) => board.replies)
  const reward = replies.filter((reply) => reply.correct).length / replies.length
  return {
    step,
    reward,
    noteAcc,
    voteAcc,
    rescued,
    misled,
    noteChars,
    replyChars,
    notesCut,
    repliesCut,
  }
}

function viewOf(folder: string, { record, jobs, results, running }: IndexState): RunView {
  const { identity, seeds, arms, versions, machine } = record
  const facts = jobs.map(
    (job): JobFacts => ({
      ...job,
      problems: identity.data.holdout,
      failed: results?.failed.find((failure) => failure.job === job.planned.name)?.why,
    }),
  )
  const states = jobStates(facts, running)
  const left = secondsLeft(facts)
  return {
    name: basename(folder),
    model: record.model,
    task: identity.config.task.name,
    seeds,
    arms,
    copies: identity.config.board.copies,
    config: identity.config,
    versions,
    machine,
    sizes: { train: identity.data.train, holdout: identity.data.holdout },
    state: running ? 'running' : results ? 'finished' : 'stopped',
    eta: left.includes(null) ? null : left.reduce((sum: number, seconds) => sum + (seconds ?? 0), 0),
    jobs: jobs.map(({ planned, progress, metrics, trace, replies }, i) => ({
      name: planned.name,
      role: planned.role,
      seed: planned.seed,
      reads: planned.reads,
      state: states[i],
      ...(states[i] === 'failed' ? { why: facts[i].failed } : {}),
      steps: { done: progress.steps, of: planned.steps },
      problems: { done: progress.evaluated, of: identity.data.holdout },
      passAt1: replies.all === 0 ? null : replies.right / replies.all,
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
      const { notes, replies } = parse(buffer.toString('utf8'), rolloutSchema, join(folder, ...names))
      texts.push({ notes, replies })
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

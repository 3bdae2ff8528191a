/**
 * How each job of a run stands and how long the rest will take, from what its folder says. Pure functions; the dashboard,
 * the list of runs and the terminal share them.
 */
import type { MetricsLine, Progress } from './schema.ts'

export type JobState = 'waiting' | 'running' | 'stopped' | 'finished' | 'failed'

/** What is known of one job. */
export interface JobFacts {
  name: string
  /** Training steps that its arm takes; 0 for a base. */
  steps: number
  /** Held-out problems to evaluate. */
  problems: number
  /** Null: it has not begun. */
  progress: Progress | null
  /** Of its steps so far; the latest are enough. */
  metrics: readonly Pick<MetricsLine, 'seconds'>[]
  /** Whether its last try failed. */
  failed: boolean
}

/** What is left of a job. A job that reads its tokens rather than its steps may be over sooner. */
function leftOf({ steps, problems, progress }: JobFacts): { steps: number; problems: number } {
  if (!progress) return { steps, problems }
  return {
    steps: progress.trained ? 0 : Math.max(0, steps - progress.steps),
    problems: Math.max(0, problems - progress.evaluated),
  }
}

function isDone(job: JobFacts): boolean {
  return (job.progress?.trained ?? false) && leftOf(job).problems === 0
}

/**
 * The state of each job. `atWork` names those that a living process is working on (see readAtWork); the others of a run
 * under way that are not over wait for their turn, begun or not.
 */
export function jobStates(jobs: readonly JobFacts[], atWork: readonly string[] | null): JobState[] {
  return jobs.map((job) => {
    if (isDone(job)) return 'finished'
    if (atWork?.includes(job.name)) return 'running'
    if (job.failed) return 'failed'
    return atWork !== null || job.progress === null ? 'waiting' : 'stopped'
  })
}

/** Steps whose pace tells how long the next ones will take. */
const LATEST = 8

/** Seconds that a step worked. */
const busySeconds = ({ seconds }: Pick<MetricsLine, 'seconds'>): number =>
  sum(seconds.rounds) + seconds.credit + seconds.forwardBackward + seconds.optimStep

/** New tokens a second over the latest training steps, or null without any. */
export function tokensPerSecond(
  metrics: readonly Pick<MetricsLine, 'seconds' | 'sampledTokens'>[],
): number | null {
  const latest = metrics.slice(-LATEST)
  const seconds = sum(latest.map(busySeconds))
  return seconds > 0 ? sum(latest.map(({ sampledTokens }) => sampledTokens)) / seconds : null
}

/** Wall-clock seconds left: of each job once it is at work, and of all of them. Null where no pace is known yet. */
export interface TimeLeft {
  jobs: (number | null)[]
  all: number | null
}

/**
 * How long the rest takes: each job at its own latest pace or, before it has one, at the others'. Those at work go on;
 * the others follow in their order, each where one ends first, as many at a time as are at work now. A job that failed
 * counts where it will be tried again, which is when nothing is at work.
 */
export function secondsLeft(jobs: readonly JobFacts[], atWork: readonly string[] | null): TimeLeft {
  const stepPace = (job: JobFacts) => mean(job.metrics.slice(-LATEST).map(busySeconds))
  const problemPace = ({ progress }: JobFacts) =>
    progress && progress.evaluated > 0 ? progress.seconds.evaluation / progress.evaluated : null
  const paces = { step: mean(jobs.map(stepPace)), problem: mean(jobs.map(problemPace)) }
  const cost = (count: number, pace: number | null) => (count === 0 ? 0 : pace === null ? null : count * pace)
  const each = jobs.map((job) => {
    const left = leftOf(job)
    const train = cost(left.steps, stepPace(job) ?? paces.step)
    const evaluation = cost(left.problems, problemPace(job) ?? paces.problem)
    return train === null || evaluation === null ? null : train + evaluation
  })
  return { jobs: each, all: makespan(jobStates(jobs, atWork), each, atWork !== null) }
}

/** Seconds until all jobs that will still be worked on have ended. */
function makespan(
  states: readonly JobState[],
  each: readonly (number | null)[],
  running: boolean,
): number | null {
  const of = (...which: JobState[]) => each.filter((_, i) => which.includes(states[i]))
  const begun = of('running')
  const queue = running ? of('waiting') : of('waiting', 'stopped', 'failed')
  const lanes: number[] = []
  for (const seconds of begun) {
    if (seconds === null) return null
    lanes.push(seconds)
  }
  if (lanes.length === 0) lanes.push(0)
  for (const seconds of queue) {
    if (seconds === null) return null
    const first = lanes.indexOf(Math.min(...lanes))
    lanes[first] += seconds
  }
  return Math.max(...lanes)
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

function mean(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null)
  return known.length === 0 ? null : sum(known) / known.length
}

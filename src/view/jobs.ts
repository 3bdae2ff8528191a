/** How each job of a run stands and how long the rest will take. Pure functions of what its files say. */
import type { MetricsLine, Progress } from '../record/schema.ts'
import type { SidedJob } from './sides.ts'
import type { JobState } from './types.ts'

/** What is known of one job. */
export interface JobFacts {
  planned: Pick<SidedJob, 'steps'>
  /** Held-out problems to evaluate. */
  problems: number
  progress: Progress
  metrics: readonly MetricsLine[]
  /** When its folder last changed, in milliseconds since 1970; null: not there yet. */
  changed: number | null
  failed: string | undefined
}

export const isDone = ({ problems, progress }: Pick<JobFacts, 'problems' | 'progress'>): boolean =>
  progress.trained && progress.evaluated === problems

/**
 * The state of each job. Jobs run one at a time, and nothing in the folder names the one at work: it is the
 * unfinished one whose folder changed last.
 */
export function jobStates(jobs: readonly JobFacts[], running: boolean): JobState[] {
  const open = jobs.filter((job) => !isDone(job))
  const latest = Math.max(...open.map(({ changed }) => changed ?? 0))
  return jobs.map((job) => {
    if (isDone(job)) return 'finished'
    if (running && latest > 0 && job.changed === latest) return 'running'
    if (!running && job.failed !== undefined) return 'failed'
    return job.changed === null ? 'waiting' : 'stopped'
  })
}

/** Steps whose pace tells how long the next ones will take. */
const LATEST = 8

const busy = ({ seconds: { rounds, credit, forwardBackward, optimStep } }: MetricsLine) =>
  rounds.reduce((sum, value) => sum + value, 0) + credit + forwardBackward + optimStep

/** New tokens a second over the latest training steps, or null without any. */
export function tokensPerSecond(metrics: readonly MetricsLine[]): number | null {
  const latest = metrics.slice(-LATEST)
  const seconds = latest.reduce((sum, step) => sum + busy(step), 0)
  return seconds > 0 ? latest.reduce((sum, step) => sum + step.sampledTokens, 0) / seconds : null
}

/** Steps that a job is to take. Training that a budget of tokens ended is over before its settings' last step. */
export const stepsOf = ({ planned, progress }: Pick<JobFacts, 'planned' | 'progress'>): number =>
  progress.trained ? progress.steps : planned.steps

/**
 * Seconds left of each job, at its own latest pace or, before it has one, at the others'. Null where no job has one.
 */
export function secondsLeft(jobs: readonly JobFacts[]): (number | null)[] {
  const mean = (values: (number | null)[]) => {
    const known = values.filter((value) => value !== null)
    return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length
  }
  const stepPace = (job: JobFacts) => mean(job.metrics.slice(-LATEST).map(busy))
  const problemPace = ({ progress }: JobFacts) =>
    progress.evaluated > 0 ? progress.seconds.evaluation / progress.evaluated : null
  const paces = { step: mean(jobs.map(stepPace)), problem: mean(jobs.map(problemPace)) }
  const cost = (count: number, pace: number | null) => (count === 0 ? 0 : pace === null ? null : count * pace)
  return jobs.map((job) => {
    const train = cost(stepsOf(job) - job.progress.steps, stepPace(job) ?? paces.step)
    const evaluation = cost(job.problems - job.progress.evaluated, problemPace(job) ?? paces.problem)
    return train === null || evaluation === null ? null : train + evaluation
  })
}

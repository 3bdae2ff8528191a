/** Which jobs a run has, how each one stands and how long the rest will take. Pure functions of what its files say. */
import type { ExperimentRecord, JobProgress, StepRecord } from './record.ts'
import type { JobState, Role, RunView } from './types.ts'

/** A job as experiment.json implies it. */
export interface PlannedJob {
  name: string
  role: Role
  seed: number | null
  reads: string
  steps: number
}

/** The jobs of a run, in the order in which they are run (see experiment/job.ts). */
export function plannedJobs({ identity: { config }, arms, seeds }: ExperimentRecord): PlannedJob[] {
  const { baseline, recipe } = config.arms
  const base = (name: string, role: Role, reads: string) => ({ name, role, seed: null, reads, steps: 0 })
  return [
    ...Array.from({ length: config.evaluation.baseRuns }, (_, i) =>
      base(`base-${i + 1}`, 'base', baseline.reads),
    ),
    base('base-shared', 'base-shared', recipe.reads),
    ...seeds.flatMap((seed) =>
      arms.map((arm) => ({
        name: `${arm}-s${seed}`,
        role: arm,
        seed,
        reads: config.arms[arm].reads,
        steps: config.train.steps,
      })),
    ),
  ]
}

/** What is known of one job. */
export interface JobFacts {
  planned: PlannedJob
  /** Held-out problems to evaluate. */
  problems: number
  progress: JobProgress
  metrics: readonly StepRecord[]
  /** When its folder last changed, in milliseconds since 1970; null: not there yet. */
  changed: number | null
  failed: string | undefined
}

export const isDone = ({ planned, problems, progress }: JobFacts): boolean =>
  progress.steps === planned.steps && progress.evaluated === problems

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

const busy = ({ seconds }: StepRecord) => Object.values(seconds).reduce((sum, value) => sum + value, 0)

/** New tokens a second over the latest training steps, or null without any. */
export function tokensPerSecond(metrics: readonly StepRecord[]): number | null {
  const latest = metrics.slice(-LATEST)
  const seconds = latest.reduce((sum, step) => sum + busy(step), 0)
  return seconds > 0 ? latest.reduce((sum, step) => sum + step.sampledTokens, 0) / seconds : null
}

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
    const train = cost(job.planned.steps - job.progress.steps, stepPace(job) ?? paces.step)
    const evaluation = cost(job.problems - job.progress.evaluated, problemPace(job) ?? paces.problem)
    return train === null || evaluation === null ? null : train + evaluation
  })
}

/** Share of all steps and held-out problems that is done. A step and a problem are taken to cost the same. */
export function shareDone(jobs: RunView['jobs']): number {
  const total = (of: 'done' | 'of') => jobs.reduce((sum, job) => sum + job.steps[of] + job.problems[of], 0)
  return total('of') === 0 ? 0 : total('done') / total('of')
}

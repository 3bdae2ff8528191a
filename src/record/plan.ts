/**
 * The jobs that a record implies, in the order in which they are run. Pure: the same for whoever runs, resumes, watches
 * or reads a folder.
 *
 *   base job       the untrained model, evaluated under a protocol: `base-ARM-1`, where ARM is the first arm to come to the
 *                  run that plays so
 *   trained job    an arm trained with one seed, and evaluated: `ARM-s17`
 */
import type { SeedPart } from '../random.ts'
import type { ArmRecord, Progress } from './schema.ts'

export interface Job {
  /** Its folder's name. */
  name: string
  /** The arm whose settings it takes. */
  arm: string
  /** The training seed; null: the untrained model is evaluated. */
  seed: number | null
  /** Keys the draws of its evaluation. Jobs to be compared share it. */
  evaluationSeed: readonly SeedPart[]
}

/** What the plan needs of a record. */
export interface Planned {
  arms: readonly string[]
  baseline: string
  seeds: readonly number[]
  /** Arms in the order in which they came to the run; absent: the baseline, then the others as they stand. */
  came?: readonly string[] | undefined
  identity: { arms: Readonly<Record<string, ArmRecord>>; shared: { evaluation: { baseRuns: number } } }
}

/** The untrained models: one for each distinct protocol and set of starting policies. */
export interface Base {
  /** `base-ARM`, the first arm to come to the run that has it: it may be gone since. */
  name: string
  /** All arms that have it now. */
  arms: string[]
  /** Evaluations: several for the baseline's, whose spread is the noise floor; one for each other. */
  runs: number
}

/** The distinct bases, the baseline's first. */
export function planBases({ arms, baseline, came = [], identity }: Planned): Base[] {
  const inOrder = baselineFirst({ arms, baseline })
  // A job keeps its name wherever the file puts an arm that shares it.
  const names = new Map<string, string>()
  for (const arm of [...came, ...inOrder]) {
    const key = baseKey(identity.arms[arm])
    if (!names.has(key)) names.set(key, `base-${arm}`)
  }
  const bases = new Map<string, Base>()
  for (const arm of inOrder) {
    const key = baseKey(identity.arms[arm])
    const runs = arm === baseline ? identity.shared.evaluation.baseRuns : 1
    const base = bases.get(key)
    if (base) base.arms.push(arm)
    else bases.set(key, { name: names.get(key)!, arms: [arm], runs })
  }
  return [...bases.values()]
}

const baselineFirst = ({ arms, baseline }: Pick<Planned, 'arms' | 'baseline'>): string[] => [
  baseline,
  ...arms.filter((name) => name !== baseline),
]

/**
 * `came` of a run whose record was `earlier` and is to be `now`: undefined where it says nothing that the order of the
 * arms does not.
 */
export function arrivals(
  earlier: Pick<Planned, 'arms' | 'baseline' | 'came'> | null,
  now: Pick<Planned, 'arms' | 'baseline'>,
): string[] | undefined {
  if (!earlier) return undefined
  const inOrder = baselineFirst(now)
  const came = [...new Set([...(earlier.came ?? baselineFirst(earlier)), ...inOrder])]
  return came.join() === inOrder.join() ? undefined : came
}

/** All that decides how an untrained arm plays; whether a policy is to be trained is no part of it. */
function baseKey({ protocol, policies }: ArmRecord): string {
  const starts = Object.entries(policies).map(([name, { sha256, adapter }]) => [name, sha256, adapter])
  return JSON.stringify([protocol, starts.sort()])
}

/** All jobs, the bases' first: a run stopped early still has its noise floor. Seed by seed, so that arms stay level. */
export function planJobs(planned: Planned): Job[] {
  const bases = planBases(planned).flatMap(({ name, arms, runs }) =>
    Array.from(
      { length: runs },
      (_, i): Job => ({
        name: `${name}-${i + 1}`,
        arm: arms[0],
        seed: null,
        evaluationSeed: ['evaluation', 'base', i + 1],
      }),
    ),
  )
  const trained = planned.seeds.flatMap((seed) =>
    planned.arms.map(
      (arm): Job => ({
        name: `${arm}-s${seed}`,
        arm,
        seed,
        evaluationSeed: ['evaluation', 'seed', seed],
      }),
    ),
  )
  return [...bases, ...trained]
}

/** Names of arms: they name folders. */
export const armName = /^[A-Za-z][A-Za-z0-9_-]{0,39}$/

/** Names of jobs' folders: base-alone-1, board-s17. */
const jobFolder = /^[A-Za-z][A-Za-z0-9_-]{0,44}-(s?\d+)$/
export const isJobFolder = (name: string): boolean => jobFolder.test(name)

export function isFinished(
  progress: Progress,
  { shared }: { shared: { data: { holdout: number } } },
): boolean {
  return progress.trained && progress.evaluated === shared.data.holdout
}

/** The jobs of shard `k` of `n` (from 1): every n-th, so that each shard has about as many trainings. */
export function shardOf<T>(jobs: readonly T[], { k, n }: { k: number; n: number }): T[] {
  return jobs.filter((_, i) => i % n === k - 1)
}

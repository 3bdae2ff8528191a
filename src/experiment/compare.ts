/**
 * Any two arms of any runs, where they can be compared: the same task and held-out problems, evaluated and graded alike.
 * Reads run folders; writes nothing.
 */
import { UserError } from '../errors.ts'
import { join } from '../platform/path.ts'
import { evaluationFacts, graderName } from '../record/facts.ts'
import { type Differing, differing } from '../record/folder.ts'
import { readJob } from '../record/job-log.ts'
import { planBases, planJobs } from '../record/plan.ts'
import type { ContrastResult } from '../record/results.ts'
import type { RunRecord } from '../record/schema.ts'
import { compareFamily, type FamilyInput, type Interval, seedsToResolveEach } from '../stats/index.ts'
import { type JobOutcome, outcomeOf, readOutcome } from './job.ts'
import { baseRuns, cutShare, scores } from './results.ts'
import { openStoredRun, type StoredRun } from './stored.ts'

/** A run folder, and an arm of it unless all are meant. */
export interface Chosen {
  folder: string
  arm?: string
}

/** An arm of a run as a comparison has it. */
export interface ComparedArm {
  /** `FOLDER:ARM`; the arm's name alone where both are of one run. */
  name: string
  folder: string
  arm: string
  seeds: number[]
  passAt1: number
  /** Over problems, as in the run's own results. */
  ci95: Interval
}

export interface ArmsCompared {
  arms: ComparedArm[]
  problems: number
  /** The first arm less the second, of each pair; several are a family. */
  contrasts: ContrastResult[]
  /** Of each pair, what was set otherwise: `before` is the second arm's, `now` the first's. */
  differing: Differing[][]
}

interface Side {
  chosen: Chosen
  run: StoredRun
}

/** One arm with its evaluations. */
interface Read extends Side {
  arm: string
  name: string
  outcomes: JobOutcome[]
  problems: string[]
}

/**
 * Compares `first` with `second`. Where both name an arm, these two; where one does, with the other's arm of that name, or
 * its only one; where none does, each arm that both runs have.
 *
 * @throws UserError for a folder that is no finished run or an arm that is not in it, and, with all that stands against it,
 * for arms that cannot be compared.
 */
export async function compareArms(first: Chosen, second: Chosen): Promise<ArmsCompared> {
  const [one, other] = await Promise.all(
    [first, second].map(
      async (chosen): Promise<Side> => ({ chosen, run: await openStoredRun(chosen.folder) }),
    ),
  )
  const pairs = pairsOf(one, other)
  // Before the boards are read, which may take a while.
  refuse(
    one,
    other,
    obstacles(one.run.record, other.run.record),
    'run one of them again with what the other has',
  )
  const reader = armReader(one.chosen.folder === other.chosen.folder)
  const all = await Promise.all(
    pairs.map(async ([a, b]): Promise<[Read, Read]> => [await reader(one, a), await reader(other, b)]),
  )
  const [[a, b]] = all
  refuse(one, other, otherProblems(a.problems, b.problems), 'run one of them again on those of the other')
  const read = all.filter(([a, b]) => sameTrainings(a, b).length === 0)
  if (read.length === 0) {
    refuse(
      one,
      other,
      [
        `they hold the same trainings (${[...new Set(all.flatMap(([a, b]) => sameTrainings(a, b)))].join(', ')})`,
      ],
      'name other arms, or train other seeds',
    )
  }

  const arms = [...new Map(read.flat().map((each) => [each.name, each])).values()]
  const input: FamilyInput = {
    arms: Object.fromEntries(
      arms.map(({ name, run, outcomes }) => [name, outcomes.map((each) => scores(run.record, each))]),
    ),
    pairs: read.map(([a, b]) => ({ arm: a.name, against: b.name })),
    baseRuns: baseRuns(other.run.record, await baseOutcomes(other.run)),
    facts: Object.fromEntries(
      arms.map(({ name, run, arm, outcomes }) => [
        name,
        evaluationFacts(run.record.identity, arm, cutShare(outcomes)),
      ]),
    ),
  }
  const found = compareFamily(input)
  const toResolve = found.some(({ verdict }) => verdict === 'unresolved') ? seedsToResolveEach(input) : []
  return {
    arms: arms.map(({ name, run, arm, chosen: { folder } }): ComparedArm => {
      const { passAt1, ci95, seeds } = run.results.arms[arm]!
      return { name, folder, arm, seeds, passAt1, ci95 }
    }),
    problems: found[0].problems,
    contrasts: found.map(
      ({ arm, against, delta, ci95, p, verdict, why, smallestEffect, flatWithin, warnings }, i) => ({
        arm,
        against,
        delta,
        ci95,
        p,
        verdict,
        why,
        smallestEffect,
        flatWithin,
        warnings: [...warnings, ...read[i].flatMap(lookWarning)],
        toResolve: verdict === 'unresolved' ? toResolve[i] : null,
      }),
    ),
    differing: read.map(([a, b]) => differing(settingsOf(b), settingsOf(a))),
  }
}

/** The arms to compare, the first run's first. */
function pairsOf(one: Side, other: Side): [string, string][] {
  const names = ({ run }: Side) => run.record.arms
  for (const { chosen, run } of [one, other]) {
    if (chosen.arm !== undefined && !run.record.arms.includes(chosen.arm)) {
      throw new UserError(
        `${chosen.folder} has no arm "${chosen.arm}": its arms are ${run.record.arms.join(', ')}.`,
      )
    }
  }
  const [a, b] = [one.chosen.arm, other.chosen.arm]
  const same = one.chosen.folder === other.chosen.folder
  const told = [
    ...new Set([one, other].map((side) => `${side.chosen.folder} has ${names(side).join(', ')}`)),
  ].join('; ')
  const name = (which: string) => new UserError(`Which arm of ${which}? (${told}.) Give it as FOLDER:ARM.`)
  if (a === undefined && b === undefined) {
    if (same) throw name(one.chosen.folder)
    const both = names(one).filter((arm) => names(other).includes(arm))
    if (both.length > 0) return both.map((arm) => [arm, arm])
    if (names(one).length === 1 && names(other).length === 1) return [[names(one)[0], names(other)[0]]]
    throw name('each')
  }
  const partner = (arm: string, side: Side): string => {
    const its = names(side)
    if (!same && its.includes(arm)) return arm
    if (its.length === 1) return its[0]
    throw name(side.chosen.folder)
  }
  const pair: [string, string] = [a ?? partner(b!, one), b ?? partner(a!, other)]
  if (same && pair[0] === pair[1]) {
    throw new UserError(`${one.chosen.folder}:${pair[0]} is one arm: name another one to compare it with.`)
  }
  return [pair]
}

/** Reads an arm's evaluations. @throws UserError for one whose run has not finished all of them. */
function armReader(sameRun: boolean) {
  const known = new Map<string, Promise<Read>>()
  return (side: Side, arm: string): Promise<Read> => {
    const { folder } = side.chosen
    const name = sameRun ? arm : `${folder}:${arm}`
    const found = known.get(name) ?? readArm(side, arm, name)
    known.set(name, found)
    return found
  }
}

async function readArm(side: Side, arm: string, name: string): Promise<Read> {
  const { folder, record, jobs } = side.run
  const planned = planJobs(record).filter((job) => job.seed !== null && job.arm === arm)
  const finished = new Set(jobs.map((job) => job.name))
  const missing = planned.filter((job) => !finished.has(job.name))
  if (missing.length > 0) {
    throw new UserError(
      `${folder} has not finished ${missing.map((job) => job.name).join(', ')}: finish it first with message-board run ${folder}.`,
    )
  }
  const read = await Promise.all(planned.map((job) => readJob(join(folder, job.name))))
  const problems = read[0].rollouts.flatMap(({ phase, problem: { id, question, gold, parts } }) =>
    phase === 'evaluation' ? JSON.stringify([id, question, gold, ...(parts ? [parts] : [])]) : [],
  )
  return { ...side, arm, name, outcomes: planned.map((job, i) => outcomeOf(job, read[i])), problems }
}

/** The evaluations of the untrained model under the baseline's protocol. */
function baseOutcomes({ folder, record, jobs }: StoredRun): Promise<JobOutcome[]> {
  const [{ name }] = planBases(record)
  const its = jobs.filter((job) => job.seed === null && job.name.replace(/-\d+$/, '') === name)
  return Promise.all(its.map((job) => readOutcome(folder, job)))
}

/** What of two runs keeps their arms from being compared, a phrase each. */
function obstacles({ identity: { shared: a } }: RunRecord, { identity: { shared: b } }: RunRecord): string[] {
  const of = ({ task, evaluation: { sampling, readTokens }, template, grader }: typeof a) => ({
    task: task.name,
    'evaluation.sampling': sampling,
    'evaluation.readTokens': readTokens,
    template,
    grader: graderName(grader),
  })
  return differing(of(a), of(b)).map(
    ({ path, before = 'none', now = 'none' }) => `${path} is ${before} in the first and ${now} in the second`,
  )
}

function otherProblems(one: readonly string[], other: readonly string[]): string[] {
  const [a, b] = [new Set(one), new Set(other)]
  const shared = one.filter((problem) => b.has(problem)).length
  if (shared === a.size && shared === b.size) return []
  return [`the held-out problems are others (${a.size} and ${b.size}, ${shared} of them the same)`]
}

/** Jobs of the first that the second has too, to the letter: a seed that was run twice, or a folder that was copied. */
function sameTrainings(one: Read, other: Read): string[] {
  const known = new Set(other.outcomes.map(({ progress }) => progress.sha256.rollouts))
  return one.outcomes.flatMap(({ job, progress }) => (known.has(progress.sha256.rollouts) ? [job.name] : []))
}

function refuse(one: Side, other: Side, why: readonly string[], todo: string): void {
  if (why.length === 0) return
  const [a, b] = [one, other].map(({ chosen: { folder, arm } }) =>
    arm === undefined ? folder : `${folder}:${arm}`,
  )
  throw new UserError(`${a} and ${b} cannot be compared: ${why.join('; ')}: ${todo}.`)
}

/** All that may differ between arms that can be compared. */
function settingsOf({ run: { record }, arm }: Read) {
  const { shared, arms } = record.identity
  const { protocol, credit, train, sampling, policies } = arms[arm]
  const { name, rounds, final } = protocol
  return {
    protocol: { name, final, ...Object.fromEntries(rounds.map((round) => [round.name, { ...round }])) },
    credit,
    train,
    sampling,
    policies,
    task: shared.task,
    'training problems': shared.data.train,
    engine: shared.engine,
    versions: record.versions,
  }
}

/** An arm whose seeds were added until a verdict was resolved. */
function lookWarning({ name, run: { record } }: Read): string[] {
  return record.looks
    ? [
        `${name} has as many seeds as it took to resolve a verdict, which a plain interval does not allow for.`,
      ]
    : []
}

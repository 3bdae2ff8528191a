/**
 * Arms of several runs against one of them: the difference with its interval where they can be compared, and why not
 * where they cannot. Pure: reads what the page has of each run, in the browser and in Node alike.
 *
 * Two arms can be compared where all that decides a score beside the arm itself is the same: the held-out problems, how
 * replies were drawn, and the verifier. What else was set differently is the question that the comparison answers.
 */
import { evaluationFacts, graderName } from '../record/facts.ts'
import { type Contrast, compareFamily, type SeedScores } from '../stats/index.ts'
import { bit, flagAt, flagStarts, layoutOf } from './flags.ts'
import type { BoardColumns, RunView } from './types.ts'

/** A run with its held-out boards, of which the texts are not needed. */
export interface ComparedRun {
  run: RunView
  columns: BoardColumns
}

/** An arm by its run's place among those that are compared. */
export interface ArmOfRun {
  run: number
  arm: string
}

export interface Difference extends ArmOfRun {
  /** Null where they cannot be compared. */
  found: Pick<Contrast, 'delta' | 'ci95' | 'p' | 'verdict' | 'why' | 'problems' | 'warnings'> | null
  /** Why not; null where they can. */
  whyNot: string | null
}

/** How an arm of a run is called beside those of others. */
export const armTitle = (runs: readonly ComparedRun[], { run, arm }: ArmOfRun): string =>
  `${runs[run].run.name}/${arm}`

/**
 * Every other arm less one of them, run by run. The intervals hold together with 95%: each run's arms are one family, at
 * a level that the runs share (Bonferroni).
 */
export function compareAcross(runs: readonly ComparedRun[], against: ArmOfRun): Difference[] {
  const reference = { ...against, scores: scoresOf(runs[against.run], against.arm) }
  const asked = runs.map(({ run }, r) =>
    run.arms
      .filter((arm) => r !== against.run || arm !== against.arm)
      .map((arm) => ({ run: r, arm, whyNot: whyNot(runs, { run: r, arm }, against) })),
  )
  const comparable = asked.map((arms) => arms.filter((one) => one.whyNot === null))
  const families = comparable.filter((arms) => arms.length > 0).length
  return asked.flatMap((arms, r) => {
    const found = new Map<string, Difference['found']>()
    if (comparable[r].length > 0) {
      for (const [i, contrast] of family(runs, comparable[r], reference, families).entries()) {
        found.set(comparable[r][i].arm, contrast)
      }
    }
    return arms.map((one): Difference => ({ ...one, found: found.get(one.arm) ?? null }))
  })
}

/** The arms of one run against the reference. */
function family(
  runs: readonly ComparedRun[],
  arms: readonly ArmOfRun[],
  reference: ArmOfRun & { scores: SeedScores[] },
  families: number,
): NonNullable<Difference['found']>[] {
  const title = (arm: ArmOfRun) => armTitle(runs, arm)
  const facts = (arm: ArmOfRun) => {
    const { identity, results } = runs[arm.run].run
    return evaluationFacts(identity, arm.arm, results?.arms[arm.arm]?.board.repliesCut ?? 0)
  }
  const all = [reference, ...arms]
  const contrasts = compareFamily({
    arms: Object.fromEntries([
      [title(reference), reference.scores],
      ...arms.map((one) => [title(one), scoresOf(runs[one.run], one.arm)] as const),
    ]),
    pairs: arms.map((one) => ({ arm: title(one), against: title(reference) })),
    baseRuns: runs[reference.run].run.results?.checks.noise?.runs ?? [],
    facts: Object.fromEntries(all.map((one) => [title(one), facts(one)])),
    alpha: 0.05 / families,
  })
  return contrasts.map(({ delta, ci95, p, verdict, why, problems, warnings }, i) => ({
    delta,
    ci95,
    p: Math.min(1, p * families),
    verdict,
    why,
    problems,
    warnings: [...warnings, ...lookedAt(runs, [reference, arms[i]])],
  }))
}

/** That a run went on until its verdict was resolved. */
function lookedAt(runs: readonly ComparedRun[], arms: readonly ArmOfRun[]): string[] {
  const names = [...new Set(arms.map(({ run }) => run))].flatMap((r) =>
    runs[r].run.results?.sequential ? [runs[r].run.name] : [],
  )
  return names.map(
    (name) =>
      `${name} added seeds until its verdict was resolved: an interval taken after that is too narrow.`,
  )
}

/** Why two arms cannot be compared, in a sentence; null where they can. */
function whyNot(runs: readonly ComparedRun[], one: ArmOfRun, other: ArmOfRun): string | null {
  const [a, b] = [runs[one.run], runs[other.run]]
  for (const { run, arm } of [one, other]) {
    const { name, results } = runs[run].run
    if (!results) return `${name} is not finished.`
    if (!results.arms[arm]) return `No training of ${arm} in ${name} is finished.`
  }
  if (a === b) return null
  const [x, y] = [a.run.identity.shared, b.run.identity.shared]
  if (x.task.name !== y.task.name) {
    return `The tasks differ: ${a.run.name} has ${x.task.name}, ${b.run.name} has ${y.task.name}.`
  }
  const [ours, theirs] = [heldOut(a.columns), heldOut(b.columns)]
  const both = [...ours.keys()].filter((id) => theirs.has(id))
  if (both.length === 0) return `${a.run.name} and ${b.run.name} share no held-out problem.`
  const changed = both.filter((id) => ours.get(id) !== theirs.get(id)).length
  if (changed > 0) {
    return `${changed} of ${both.length} held-out problems have the same id and are others: the data were changed.`
  }
  const [grader, others] = [graderName(x.grader), graderName(y.grader)]
  if (grader !== others) {
    return `Graded by ${grader} and by ${others}: regrade one of the runs.`
  }
  const drawn = (['temperature', 'topP'] as const).find(
    (key) => x.evaluation.sampling[key] !== y.evaluation.sampling[key],
  )
  if (drawn !== undefined) {
    const [p, q] = [x.evaluation.sampling[drawn], y.evaluation.sampling[drawn]]
    return `Evaluated with different draws: ${drawn} is ${p} in ${a.run.name} and ${q} in ${b.run.name}.`
  }
  return null
}

/** Held-out problems by id, each as all that was posed. */
function heldOut({ step, problem, problems }: BoardColumns): Map<string, string> {
  const numbers = new Set(problem.filter((_, board) => step[board] === 0))
  return new Map(
    [...numbers].map((p) => [
      problems.id[p],
      JSON.stringify([problems.question[p], problems.gold[p], problems.parts[p]]),
    ]),
  )
}

/** An arm's evaluations: one for each training seed that was evaluated. */
function scoresOf({ run, columns }: ComparedRun, arm: string): SeedScores[] {
  const side = run.sides.findIndex(({ arm: place, name }) => place !== null && name === arm)
  const layouts = run.sides.map(layoutOf)
  const starts = flagStarts(
    columns.job,
    run.jobs.map((job) => layouts[job.side].width),
  )
  const { scores } = layouts[side]
  return run.jobs.flatMap((job, number) => {
    if (job.side !== side || job.seed === null || job.state !== 'finished') return []
    const problems = columns.job.flatMap((its, board) =>
      its === number && columns.step[board] === 0
        ? [
            {
              id: columns.problems.id[columns.problem[board]],
              scores: scores.map((at) => flagAt(columns.flags, starts[board] + at) & bit.right),
            },
          ]
        : [],
    )
    return [{ seed: job.seed, problems }]
  })
}

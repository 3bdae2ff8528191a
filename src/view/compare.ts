/**
 * Arms of several runs against one of them: the difference with its interval where they can be compared, and why not
 * where they cannot. Pure: reads what the page has of each run, in the browser and in Node alike.
 *
 * Two arms can be compared where all that decides a score beside the arm itself is the same: the task, the held-out
 * problems, how replies were drawn and prompts made, and the verifier. What else was set differently is the question that the comparison answers.
 */
import { evaluationFacts, graderName } from '../record/facts.ts'
import type { SharedRecord } from '../record/schema.ts'
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

/** Every other arm less one of them, run by run. Those that can be compared are one family. */
export function compareAcross(runs: readonly ComparedRun[], against: ArmOfRun): Difference[] {
  const others = runs.flatMap(({ run }, r) =>
    run.arms
      .filter((arm) => r !== against.run || arm !== against.arm)
      .map((arm) => ({ run: r, arm, whyNot: whyNot(runs, { run: r, arm }, against) })),
  )
  const found = family(
    runs,
    others.filter(({ whyNot: why }) => why === null),
    against,
  )
  return others.map((one): Difference => ({ ...one, found: found.get(armTitle(runs, one)) ?? null }))
}

/** The differences of some arms from one, by the arms' titles. */
function family(
  runs: readonly ComparedRun[],
  arms: readonly ArmOfRun[],
  against: ArmOfRun,
): Map<string, NonNullable<Difference['found']>> {
  const title = (arm: ArmOfRun) => armTitle(runs, arm)
  const all = [against, ...arms]
  if (arms.length === 0) return new Map()
  const contrasts = compareFamily({
    arms: Object.fromEntries(all.map((one) => [title(one), scoresOf(runs[one.run], one.arm)])),
    pairs: arms.map((one) => ({ arm: title(one), against: title(against) })),
    baseRuns: runs[against.run].run.results?.checks.noise?.runs ?? [],
    facts: Object.fromEntries(
      all.map((one) => {
        const { identity, results } = runs[one.run].run
        const cut = results?.arms[one.arm]?.board.repliesCut ?? 0
        return [title(one), evaluationFacts(identity, one.arm, cut)]
      }),
    ),
  })
  return new Map(
    contrasts.map(({ delta, ci95, p, verdict, why, problems, warnings }, i) => [
      title(arms[i]),
      {
        delta,
        ci95,
        p,
        verdict,
        why,
        problems,
        warnings: [...warnings, ...lookedAt(runs, [against, arms[i]])],
      },
    ]),
  )
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
  for (const [what, told] of decisive) {
    const [ours, theirs] = [told(x), told(y)]
    if (ours !== theirs) return `${what}: ${ours} in ${a.run.name}, ${theirs} in ${b.run.name}.`
  }
  const [ours, theirs] = [heldOut(a.columns), heldOut(b.columns)]
  const both = [...ours].filter((problem) => theirs.has(problem)).length
  if (both < ours.size || both < theirs.size) {
    return `The held-out problems are others: ${ours.size} in ${a.run.name}, ${theirs.size} in ${b.run.name}, ${both} of them the same.`
  }
  const same = sameTrainings(a, one.arm, b, other.arm)
  return same.length === 0
    ? null
    : `They hold the same trainings (${same.join(', ')}): nothing tells them apart.`
}

/** What must be the same beside the held-out problems, each in words. */
const decisive: readonly [what: string, told: (shared: SharedRecord) => string][] = [
  ['The tasks differ', ({ task }) => task.name],
  ['The verifiers differ', ({ grader }) => graderName(grader)],
  [
    'The evaluations drew differently',
    ({ evaluation: { sampling } }) => `temperature ${sampling.temperature}, top-p ${sampling.topP}`,
  ],
  [
    'Prompts had another limit',
    ({ evaluation: { readTokens } }) => (readTokens === null ? 'what fits' : `${readTokens} tokens`),
  ],
  ['Chat templates were given other arguments', ({ template }) => JSON.stringify(template)],
]

/** Jobs of one arm that the other has too, to the letter: a seed that was run twice, or a folder that was copied. */
function sameTrainings(a: ComparedRun, arm: string, b: ComparedRun, other: string): string[] {
  const known = new Set(scoresOf(b, other).map((evaluation) => JSON.stringify(evaluation)))
  return scoresOf(a, arm).flatMap((evaluation) =>
    known.has(JSON.stringify(evaluation)) ? [`${arm}-s${evaluation.seed}`] : [],
  )
}

/** Held-out problems, each as all that was posed. */
function heldOut({ step, problem, problems }: BoardColumns): Set<string> {
  const numbers = new Set(problem.filter((_, board) => step[board] === 0))
  return new Set(
    [...numbers].map((p) =>
      JSON.stringify([problems.id[p], problems.question[p], problems.gold[p], problems.parts[p]]),
    ),
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

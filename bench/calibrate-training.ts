/**
 * Does the verdict hold its level on real training? Experiments with the built-in policy whose truth is known:
 *
 *   null    four equal arms (all read their own note), other training seeds in each, three of them against the first:
 *           any `moved` is false, and the family is to keep its level
 *   effect  one arm trained, the other not (one step at a learning rate of 1e-9 leaves the weights where they were)
 *
 *   npm run calibrate:training                    writes docs/calibration-training.md and its figures (it says how
 *                                                 long it takes there: about an hour on two cores)
 *   npm run calibrate:training -- --jobs 16       so many experiments at a time, one thread each
 *   npm run calibrate:training -- --minutes 9     stops after so long; the same command goes on
 *   npm run calibrate:training -- --report        the page and the figures again from the lines there are, or the page from the
 *                                                 figures where there are none
 *
 * Each experiment is whole: training and held-out problems of its own, seeds of its own in each arm, its own three
 * evaluations of the base, and the same jobs, evaluations and comparison as a run's. A finished one is a line of the
 * file of `--lines` (runs/calibration-training.jsonl unless told), so a kill loses the experiments in hand and no
 * others. Everything is seeded: a line does not depend on the others, nor on how many run at a time.
 */
import { fork } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { appendFile, mkdir } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { table } from '../scripts/markdown.ts'
import { median } from '../scripts/numbers.ts'
import { finalScores } from '../src/board/counts.ts'
import { own } from '../src/board/sights.ts'
import { fingerprint } from '../src/engine/checkpoint/fingerprint.ts'
import { defineExperiment, type Experiment } from '../src/experiment/config.ts'
import { type Engines, findModels, openEngines, versions } from '../src/experiment/engine.ts'
import { type JobOutcome, readOutcome, runJob } from '../src/experiment/job.ts'
import { builtInModel } from '../src/platform/machine.ts'
import type { Job } from '../src/record/plan.ts'
import { layOut, type SeedScores } from '../src/stats/design.ts'
import { mean, variance } from '../src/stats/estimate.ts'
import { compareFamily } from '../src/stats/family.ts'
import { type Components, componentsOf, predict } from '../src/stats/power.ts'
import { wordProblems } from '../src/tasks/word-problems.ts'

type Kind = 'null' | 'effect'

/** Arms, the first of which the others are compared with; held-out problems; training seeds and steps of an arm. */
interface Shape {
  experiments: number
  arms: readonly string[]
  holdout: number
  seeds: number
  steps: number
}

/** Null experiments are many, so they are short. */
const designs: Record<Kind, Shape> = {
  null: { experiments: 40, arms: ['one', 'two', 'three', 'four'], holdout: 60, seeds: 2, steps: 10 },
  effect: { experiments: 20, arms: ['untrained', 'trained'], holdout: 120, seeds: 3, steps: 40 },
}
const BASE_RUNS = 3
const TRAIN = 256
/** Training seeds start here: twenty for each experiment, five for each of its arms. */
const FIRST_SEED = 1000

interface Planned {
  kind: Kind
  /** From 1, within its kind. */
  number: number
  /** Draws the experiment's problems. */
  taskSeed: number
  /** Of each arm. */
  seeds: number[][]
}

/** One finished experiment: a line of the file. */
interface Line extends Planned {
  steps: number
  holdout: number
  model: string
  versions: Record<string, string>
  processor: string
  /** Of each further arm against the first. */
  contrasts: { delta: number; ci95: [number, number]; p: number; verdict: string }[]
  /** pass@1 of each arm's seeds. */
  perSeed: number[][]
  baseRuns: number[]
  /** As the first two arms show them. */
  components: Components
  seconds: number
}

function planned(): Planned[] {
  // The long ones first, so that the last lane to end does not keep the others waiting.
  return (['effect', 'null'] as const)
    .flatMap((kind) => Array.from({ length: designs[kind].experiments }, (_, i) => ({ kind, number: i + 1 })))
    .map((one, i) => {
      const { arms, seeds } = designs[one.kind]
      const ofArm = (arm: number) =>
        Array.from({ length: seeds }, (_, s) => FIRST_SEED + 20 * i + 5 * arm + s)
      return { ...one, taskSeed: i + 1, seeds: arms.map((_, arm) => ofArm(arm)) }
    })
}

const nameOf = ({ kind, number }: Planned) => `${kind} ${number}`

// ---------------------------------------------------------------------------------------------------------------
// One experiment.

function experimentOf({ kind, taskSeed }: Planned): Experiment {
  const { arms, holdout, steps } = designs[kind]
  const trainings: Record<string, { steps: number; learningRate?: number }> = {
    untrained: { steps: 1, learningRate: 1e-9 },
  }
  return defineExperiment({
    task: wordProblems({ train: TRAIN, holdout, seed: taskSeed }),
    arms: Object.fromEntries(arms.map((arm) => [arm, { reads: own, train: trainings[arm] ?? { steps } }])),
    evaluation: { baseRuns: BASE_RUNS, problemsAtOnce: 60 },
    engine: { threads: 1 },
  })
}

async function runOne(one: Planned, engines: Engines): Promise<Line> {
  const started = performance.now()
  const { arms, steps } = designs[one.kind]
  const experiment = experimentOf(one)
  const jobs: Job[] = [
    ...Array.from({ length: BASE_RUNS }, (_, run) => ({
      name: `base-${run + 1}`,
      arm: arms[0],
      seed: null,
      evaluationSeed: ['evaluation', 'base', run + 1],
    })),
    ...arms.flatMap((arm, a) =>
      one.seeds[a].map((seed) => ({
        name: `${arm}-s${seed}`,
        arm,
        seed,
        evaluationSeed: ['evaluation', 'seed', seed],
      })),
    ),
  ]
  const split = await experiment.task.load()
  const folder = mkdtempSync(join(tmpdir(), 'calibrate-'))
  try {
    for (const job of jobs) await runJob({ engines, experiment, ...split, folder, onEvent: () => {} }, job)
    const outcomes = await Promise.all(jobs.map((job) => readOutcome(folder, job)))
    const scores = arms.map((arm) =>
      outcomes.filter(({ job }) => job.seed !== null && job.arm === arm).map(scoresOf),
    )
    const means = (some: readonly SeedScores[]) =>
      some.map(({ problems }) => mean(problems.map(({ scores }) => mean(scores))))
    const baseRuns = means(outcomes.filter(({ job }) => job.seed === null).map(scoresOf))
    const found = compareFamily({
      arms: Object.fromEntries(arms.map((arm, a) => [arm, scores[a]])),
      pairs: arms.slice(1).map((arm) => ({ arm, against: arms[0] })),
      baseRuns,
    })
    return {
      ...one,
      steps,
      holdout: split.holdout.length,
      model: (await fingerprint(builtInModel)).slice(0, 12),
      versions: versions(experiment),
      processor: cpus()[0]?.model ?? 'unknown',
      contrasts: found.map(({ delta, ci95, p, verdict }) => ({ delta, ci95, p, verdict })),
      perSeed: scores.map(means),
      baseRuns,
      components: componentsOf(layOut(scores[0], scores[1])),
      seconds: (performance.now() - started) / 1000,
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const scoresOf = ({ job, episodes }: JobOutcome): SeedScores => ({
  seed: job.seed ?? Number(job.name.split('-')[1]),
  problems: episodes.map((episode) => ({ id: episode.problemId, scores: finalScores(episode, 'each') })),
})

/** A child: runs what its parent sends, one at a time, on one engine. */
function work(): void {
  let engines: Promise<Engines> | undefined
  // The engine's threads would outlive a parent that died.
  process.on('disconnect', () => process.exit())
  process.on('message', (one: Planned) => {
    const experiment = experimentOf(one)
    engines ??= findModels(experiment).then((found) => openEngines(experiment, found))
    engines
      .then((opened) => runOne(one, opened))
      .then(
        (line) => process.send!({ line }),
        (error) => process.send!({ error: error instanceof Error ? String(error.stack) : String(error) }),
      )
  })
}

// ---------------------------------------------------------------------------------------------------------------
// All experiments.

/** The whole lines of the file; half a line that a kill left is no experiment. */
function readLines(path: string): Line[] {
  if (!existsSync(path)) return []
  const whole = readFileSync(path, 'utf8').split('\n').slice(0, -1)
  return whole.flatMap((text) => {
    try {
      return [JSON.parse(text) as Line]
    } catch {
      return []
    }
  })
}

async function runAll(
  left: Planned[],
  path: string,
  { jobs, minutes }: { jobs: number; minutes: number },
): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  // Ends a line that a kill cut short, so that the next one stands by itself.
  if (existsSync(path) && !readFileSync(path, 'utf8').endsWith('\n')) await appendFile(path, '\n')
  const started = performance.now()
  const queue = [...left]
  let done = 0
  let writing: Promise<void> = Promise.resolve()
  const outOfTime = () => performance.now() - started > minutes * 60_000
  const lane = () =>
    new Promise<void>((resolve, reject) => {
      const child = fork(fileURLToPath(import.meta.url), ['--worker'])
      const deadline = setTimeout(() => child.kill('SIGKILL'), Math.min(minutes * 60_000, 2 ** 31 - 1))
      const next = () => {
        const one = outOfTime() ? undefined : queue.shift()
        if (one) child.send(one)
        else child.kill()
      }
      child.on('message', ({ line, error }: { line?: Line; error?: string }) => {
        if (!line) {
          child.kill()
          reject(new Error(error))
          return
        }
        writing = writing.then(() => appendFile(path, `${JSON.stringify(line)}\n`, { flush: true }))
        done++
        const elapsed = (performance.now() - started) / 60_000
        process.stderr.write(
          `${nameOf(line)}: ${line.contrasts.map(({ delta, verdict }) => `${delta.toFixed(3)} ${verdict}`).join(', ')}; ` +
            `${line.seconds.toFixed(0)} s; ` +
            `${done}/${left.length}, about ${((elapsed / done) * (left.length - done)).toFixed(0)} minutes left\n`,
        )
        next()
      })
      child.on('exit', () => {
        clearTimeout(deadline)
        resolve()
      })
      next()
    })
  await Promise.all(Array.from({ length: Math.min(jobs, left.length) }, lane))
  await writing
}

// ---------------------------------------------------------------------------------------------------------------
// The page.

/** Clopper and Pearson's exact 95% interval of a share: where each tail of the binomial falls to 2.5%. */
function exact(hits: number, of: number): [number, number] {
  /** P(at least `least` of `of`), each with chance `p`: the sum of the terms, built from one to the next. */
  const atLeast = (least: number, p: number): number => {
    let term = (1 - p) ** of
    let below = 0
    for (let k = 0; k < least; k++) {
      below += term
      term *= ((of - k) / (k + 1)) * (p / (1 - p))
    }
    return 1 - below
  }
  const solve = (least: number, target: number): number => {
    let [low, high] = [0, 1]
    for (let step = 0; step < 50; step++) {
      const middle = (low + high) / 2
      if (atLeast(least, middle) < target) low = middle
      else high = middle
    }
    return (low + high) / 2
  }
  return [hits === 0 ? 0 : solve(hits, 0.025), hits === of ? 1 : solve(hits + 1, 0.975)]
}

interface Share {
  hits: number
  of: number
  share: number
  ci95: [number, number]
}
const share = <T>(items: readonly T[], holds: (item: T) => boolean): Share => {
  const hits = items.filter(holds).length
  return { hits, of: items.length, share: hits / items.length, ci95: exact(hits, items.length) }
}

type Contrasted = Line['contrasts'][number]

const moved = ({ verdict }: Contrasted) => verdict === 'moved' || verdict === 'moved the wrong way'
/** The one contrast of an experiment with an effect. */
const only = ({ contrasts: [first] }: Line) => first

const spread = (arms: number[][]) => Math.sqrt(mean(arms.map(variance)))
const components = (of: Line[]): Components => {
  const average = (part: keyof Components) => mean(of.map((line) => line.components[part]))
  return {
    rollout: average('rollout'),
    seedByProblem: average('seedByProblem'),
    armByProblem: average('armByProblem'),
    seed: average('seed'),
  }
}
const sizes = (kind: Kind) => ({ problems: designs[kind].holdout, seeds: designs[kind].seeds, rollouts: 4 })
const covers = ([low, high]: [number, number], truth: number) => low <= truth && truth <= high

function ofEffects(effects: Line[]) {
  const effect = mean(effects.map((line) => only(line).delta))
  return {
    moved: share(effects, (line) => only(line).verdict === 'moved'),
    excludesZero: share(effects, (line) => !covers(only(line).ci95, 0)),
    wrongWay: share(effects, (line) => only(line).verdict === 'moved the wrong way'),
    /** The true effect is not known: the mean over all experiments stands for it. */
    meanDelta: effect,
    covers: share(effects, (line) => covers(only(line).ci95, effect)),
    deltaStd: Math.sqrt(variance(effects.map((line) => only(line).delta))),
    predictedMoved: predict(effect, components(effects), sizes('effect')).moved,
    untrained: mean(effects.flatMap(({ perSeed: [first] }) => first)),
    trained: mean(effects.flatMap(({ perSeed: [, second] }) => second)),
  }
}

function summarise(lines: Line[]) {
  const nulls = lines.filter(({ kind }) => kind === 'null')
  const effects = lines.filter(({ kind }) => kind === 'effect')
  const each = nulls.flatMap(({ contrasts }) => contrasts)
  return {
    model: lines[0].model,
    versions: lines[0].versions,
    processors: [...new Set(lines.map(({ processor }) => processor))],
    null: {
      /** Of experiments with any; of all contrasts. */
      falseMoved: share(nulls, ({ contrasts }) => contrasts.some(moved)),
      anyExcludesZero: share(nulls, ({ contrasts }) => contrasts.some(({ ci95 }) => !covers(ci95, 0))),
      excludesZero: share(each, ({ ci95 }) => !covers(ci95, 0)),
      flat: share(each, ({ verdict }) => verdict === 'flat'),
      /** How many p-values lie in each tenth of [0, 1]. */
      p: Array.from(
        { length: 10 },
        (_, tenth) => each.filter(({ p }) => Math.min(9, Math.floor(10 * p)) === tenth).length,
      ),
      meanDelta: mean(each.map(({ delta }) => delta)),
      deltaStd: Math.sqrt(variance(each.map(({ delta }) => delta))),
      halfWidth: mean(each.map(({ ci95: [low, high] }) => (high - low) / 2)),
      seedStd: spread(nulls.flatMap(({ perSeed }) => perSeed)),
      predictedMoved: predict(0, components(nulls), sizes('null'), { arms: 4, contrasts: 3 }).moved,
      passAt1: mean(nulls.flatMap(({ perSeed }) => perSeed.flat())),
    },
    effect: effects.length === 0 ? null : ofEffects(effects),
    /** Of one thread, all together. */
    minutes: lines.reduce((sum, { seconds }) => sum + seconds / 60, 0),
    /** The median: some ran beside other work. */
    secondsEach: median(nulls.map(({ seconds }) => seconds)),
    experiments: lines,
  }
}

type Summary = ReturnType<typeof summarise>

const percent = (x: number) => (100 * x).toFixed(1)
const three = (x: number) => x.toFixed(3)
const signed = (x: number) => `${x < 0 ? '-' : '+'}${Math.abs(x).toFixed(3)}`
const said = ({ hits, of, ci95: [low, high] }: Share) =>
  `${hits} of ${of}: ${percent(hits / of)}% [${percent(low)}, ${percent(high)}]`

/** What is said of the experiments with an effect. */
const effectSection = (
  effect: ReturnType<typeof ofEffects>,
  count: number,
): string => `## One arm trained, the other not

${count} (of ${planned().filter(({ kind }) => kind === 'effect').length} planned) experiments in which the recipe is trained for ${designs.effect.steps} steps and the baseline takes one step at a learning rate of
1e-9, which leaves it the base; ${designs.effect.seeds} seeds each, ${designs.effect.holdout} held-out problems. The effect is that of the training itself,
which raises the reward that it is paid.

${table(
  ['what', 'found'],
  [
    ['`moved`', said(effect.moved)],
    ['`moved the wrong way`', said(effect.wrongWay)],
    ['95% interval excludes 0', said(effect.excludesZero)],
    ['predicted `moved` at the mean effect and these variances', `${percent(effect.predictedMoved)}%`],
    ['mean difference', `${signed(effect.meanDelta)}, standard deviation ${three(effect.deltaStd)}`],
    ['95% interval holds the mean difference', said(effect.covers)],
    ['pass@1 untrained, trained', `${three(effect.untrained)}, ${three(effect.trained)}`],
  ],
)}

`

function page(s: Summary, now: string): string {
  const row = (line: Line) => [
    `${line.number}`,
    `${line.taskSeed}`,
    line.seeds.map((seeds) => seeds[0]).join(', '),
    line.perSeed.map((seeds) => seeds.map(three).join(' ')).join(', '),
    line.contrasts
      .map(({ delta, ci95 }) => `${signed(delta)} [${signed(ci95[0])}, ${signed(ci95[1])}]`)
      .join(', '),
    line.contrasts.map(({ p }) => three(p)).join(', '),
    line.contrasts.map(({ verdict }) => verdict).join(', '),
  ]
  const head = [
    '#',
    'task seed',
    "arms' first seeds",
    'pass@1 by arm and seed',
    'differences',
    'p',
    'verdicts',
  ]
  const of = (kind: Kind) => s.experiments.filter((line) => line.kind === kind)
  const { null: none, effect } = s
  return `# Calibration of the verdict on real training

Written by \`npm run calibrate:training\` (\`bench/calibrate-training.ts\`); every figure also in
\`bench/results/calibration-training.json\`. Where [calibration.md](calibration.md) simulates scores, these are whole
experiments with the built-in policy (\`${s.model}\`${s.model === now ? '' : `, an earlier one: that of now is \`${now}\``}) in its own settings: real GRPO training, real evaluations of 4 replies
a problem, ${BASE_RUNS} evaluations of the base. Each has training and held-out problems, training seeds and evaluations of its
own, so they are independent of one another. On one thread (${s.processors.join('; ')}) an experiment of four equal arms
took ${s.secondsEach.toFixed(0)} seconds; ${s.minutes.toFixed(0)} minutes of one core in all.

## Four equal arms

${of('null').length} experiments (of ${planned().filter(({ kind }) => kind === 'null').length} planned) of four arms that all read their own note and are trained for ${designs.null.steps} steps with ${designs.null.seeds} seeds each, and evaluated
on ${designs.null.holdout} held-out problems. Three are compared with the first, as one family: all true differences are 0.
Each line keeps the verdicts of the version that ran it.

${table(
  ['what', 'found'],
  [
    ['experiments with any false `moved`, either way', said(none.falseMoved)],
    ['experiments with any interval that excludes 0', said(none.anyExcludesZero)],
    ['intervals that exclude 0', said(none.excludesZero)],
    ['`flat`', said(none.flat)],
    ['predicted false `moved` of a contrast at these variances', `${percent(none.predictedMoved)}%`],
    ['mean difference', `${signed(none.meanDelta)}, standard deviation ${three(none.deltaStd)}`],
    ['mean half-width of the interval', three(none.halfWidth)],
    ['standard deviation between seeds of an arm, as observed', three(none.seedStd)],
    ['pass@1, all arms', three(none.passAt1)],
  ],
)}

Intervals of shares are exact (Clopper and Pearson 1934). How many of the adjusted p-values fall into each tenth:

${table(
  none.p.map((_, i) => `${(i / 10).toFixed(1)}-${((i + 1) / 10).toFixed(1)}`),
  [none.p.map(String)],
)}

With two seeds an arm the test is on the safe side where seeds spread little (see the table of methods in
[calibration.md](calibration.md)): p-values below 0.1 are then rarer than one in ten.

${table(head, of('null').map(row))}

${effect ? effectSection(effect, of('effect').length) : 'The experiments with an effect are not run yet with this policy.\n'}${effect ? table(head, of('effect').map(row)) : ''}
`
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      jobs: { type: 'string', default: String(Math.max(1, availableParallelism())) },
      minutes: { type: 'string', default: '100000' },
      lines: { type: 'string', default: 'runs/calibration-training.jsonl' },
      only: { type: 'string' },
      report: { type: 'boolean', default: false },
    },
  })
  const known = new Map(readLines(values.lines).map((line) => [nameOf(line), line]))
  const all = planned()
  const wanted = values.only ? all.filter((one) => values.only!.split(',').includes(nameOf(one))) : all
  const now = (await fingerprint(builtInModel)).slice(0, 12)
  const figures = 'bench/results/calibration-training.json'
  if (values.report && !existsSync(values.lines)) {
    writeFileSync('docs/calibration-training.md', page(JSON.parse(readFileSync(figures, 'utf8')), now))
    return
  }
  const left = values.report ? [] : wanted.filter((one) => !known.has(nameOf(one)))
  if (left.length > 0) {
    process.stderr.write(
      `${left.length} experiments to run, ${values.jobs} at a time (${cpus()[0]?.model})\n`,
    )
    await runAll(left, values.lines, { jobs: Number(values.jobs), minutes: Number(values.minutes) })
  }
  const lines = readLines(values.lines)
  const found = all.flatMap((one) => lines.find((line) => nameOf(line) === nameOf(one)) ?? [])
  process.stderr.write(`${found.length} of ${all.length} experiments are in ${values.lines}\n`)
  if (!found.some(({ kind }) => kind === 'null')) return
  if (new Set(found.map(({ model }) => model)).size > 1) {
    throw new Error('these experiments are of different policies: remove the lines of the older one')
  }
  const summary = summarise(found)
  mkdirSync('bench/results', { recursive: true })
  mkdirSync('docs', { recursive: true })
  writeFileSync(figures, `${JSON.stringify(summary, null, 2)}\n`)
  writeFileSync('docs/calibration-training.md', page(summary, now))
}

if (process.argv.includes('--worker')) work()
else await main()

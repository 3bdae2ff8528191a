/**
 * Does the verdict hold its level on real training? Experiments with the built-in policy whose truth is known:
 *
 *   null    the same arm twice (both read their own note), other training seeds: any `moved` is false
 *   effect  one arm trained, the other not (one step at a learning rate of 1e-9 leaves the weights where they were)
 *
 *   npm run calibrate:training                    writes docs/calibration-training.md and its figures (it says how
 *                                                 long it takes there: about an hour on two cores)
 *   npm run calibrate:training -- --jobs 16       so many experiments at a time, one thread each
 *   npm run calibrate:training -- --minutes 9     stops after so long; the same command goes on
 *   npm run calibrate:training -- --report        the page and the figures again from the lines there are
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
import { own } from '../src/board/reads.ts'
import type { Engine } from '../src/engine/contract.ts'
import { builtInModel, defineExperiment, type Experiment } from '../src/experiment/config.ts'
import { fingerprint, openEngine, versions } from '../src/experiment/engine.ts'
import { type Job, planJobs, readOutcome, runJob, sharedBase } from '../src/experiment/job.ts'
import { comparison, evaluationFacts } from '../src/experiment/results.ts'
import { compare } from '../src/stats/compare.ts'
import { layOut } from '../src/stats/design.ts'
import { mean, variance } from '../src/stats/estimate.ts'
import { type Components, componentsOf, predict } from '../src/stats/power.ts'
import { wordProblems } from '../src/tasks/word-problems.ts'

type Kind = 'null' | 'effect'

/** Held-out problems, and training seeds and steps of a trained arm. Null experiments are many, so they are short. */
const designs: Record<Kind, { experiments: number; holdout: number; seeds: number; steps: number }> = {
  null: { experiments: 40, holdout: 60, seeds: 2, steps: 10 },
  effect: { experiments: 20, holdout: 120, seeds: 3, steps: 40 },
}
const BASE_RUNS = 3
const TRAIN = 256
/** Training seeds start here: ten for each experiment, the baseline's in the first half of them. */
const FIRST_SEED = 1000

interface Planned {
  kind: Kind
  /** From 1, within its kind. */
  number: number
  /** Draws the experiment's problems. */
  taskSeed: number
  seeds: { baseline: number[]; recipe: number[] }
}

/** One finished experiment: a line of the file. */
interface Line extends Planned {
  steps: number
  holdout: number
  model: string
  versions: Record<string, string>
  processor: string
  delta: number
  ci95: [number, number]
  p: number
  verdict: string
  smallestEffect: number | null
  perSeed: { baseline: number[]; recipe: number[] }
  baseRuns: number[]
  noiseBand: number
  components: Components
  seconds: number
}

function planned(): Planned[] {
  // The long ones first, so that the last lane to end does not keep the others waiting.
  return (['effect', 'null'] as const)
    .flatMap((kind) => Array.from({ length: designs[kind].experiments }, (_, i) => ({ kind, number: i + 1 })))
    .map((one, i) => {
      const seeds = (offset: number) =>
        Array.from({ length: designs[one.kind].seeds }, (_, s) => FIRST_SEED + 10 * i + offset + s)
      return { ...one, taskSeed: i + 1, seeds: { baseline: seeds(0), recipe: seeds(5) } }
    })
}

const nameOf = ({ kind, number }: Planned) => `${kind} ${number}`

// ---------------------------------------------------------------------------------------------------------------
// One experiment.

async function runOne(one: Planned, engineOf: (experiment: Experiment) => Promise<Engine>): Promise<Line> {
  const started = performance.now()
  const design = designs[one.kind]
  const define = (seeds: number[], train: { steps: number; learningRate?: number }) =>
    defineExperiment({
      task: wordProblems({ train: TRAIN, holdout: design.holdout, seed: one.taskSeed }),
      arms: { baseline: { reads: own }, recipe: { reads: own } },
      train,
      evaluation: { baseRuns: BASE_RUNS, problemsAtOnce: 60 },
      seeds,
      engine: { threads: 1 },
    })
  const trained = { steps: design.steps }
  const recipe = define(one.seeds.recipe, trained)
  const baseline = define(
    one.seeds.baseline,
    one.kind === 'null' ? trained : { steps: 1, learningRate: 1e-9 },
  )
  const work: { experiment: Experiment; job: Job }[] = [
    ...planJobs(baseline, ['baseline'])
      .filter(({ name }) => name !== sharedBase)
      .map((job) => ({ experiment: baseline, job })),
    ...planJobs(recipe, ['recipe'])
      .filter(({ trained }) => trained !== null)
      .map((job) => ({ experiment: recipe, job })),
  ]
  const { train, holdout } = await recipe.task.load()
  const engine = await engineOf(recipe)
  const folder = mkdtempSync(join(tmpdir(), 'calibrate-'))
  try {
    for (const { experiment, job } of work) {
      await runJob({ engine, experiment, train, holdout, folder, onEvent: () => {} }, job)
    }
    const outcomes = await Promise.all(work.map(({ job }) => readOutcome(folder, job)))
    const input = comparison(evaluationFacts(recipe), outcomes)!
    const found = compare(input)
    const perSeed = (arm: { perSeed: { mean: number }[] }) => arm.perSeed.map((seed) => seed.mean)
    return {
      ...one,
      steps: trained.steps,
      holdout: holdout.length,
      model: (await fingerprint(builtInModel)).slice(0, 12),
      versions: versions(recipe),
      processor: cpus()[0]?.model ?? 'unknown',
      delta: found.delta,
      ci95: found.ci95,
      p: found.p,
      verdict: found.verdict,
      smallestEffect: found.smallestEffect,
      perSeed: { baseline: perSeed(found.baseline), recipe: perSeed(found.recipe) },
      baseRuns: [...input.baseRuns],
      noiseBand: found.parts.noise!.band,
      components: componentsOf(layOut(input.baseline, input.recipe)),
      seconds: (performance.now() - started) / 1000,
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A child: runs what its parent sends, one at a time, on one engine. */
function work(): void {
  let engine: Promise<Engine> | undefined
  // The engine's threads would outlive a parent that died.
  process.on('disconnect', () => process.exit())
  process.on('message', (one: Planned) => {
    runOne(one, (experiment) => {
      engine ??= openEngine(experiment)
      return engine
    }).then(
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
          `${nameOf(line)}: ${line.delta.toFixed(3)}, p ${line.p.toFixed(3)}, ${line.verdict}; ${line.seconds.toFixed(0)} s; ` +
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

const moved = ({ verdict }: Line) => verdict === 'moved' || verdict === 'moved the wrong way'

function summarise(lines: Line[]) {
  const nulls = lines.filter(({ kind }) => kind === 'null')
  const effects = lines.filter(({ kind }) => kind === 'effect')
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
  const effect = mean(effects.map(({ delta }) => delta))
  const sizes = (kind: Kind) => ({ problems: designs[kind].holdout, seeds: designs[kind].seeds, rollouts: 4 })
  const covers = ([low, high]: [number, number], truth: number) => low <= truth && truth <= high
  return {
    model: lines[0].model,
    versions: lines[0].versions,
    processors: [...new Set(lines.map(({ processor }) => processor))],
    null: {
      falseMoved: share(nulls, moved),
      excludesZero: share(nulls, ({ ci95 }) => !covers(ci95, 0)),
      flat: share(nulls, ({ verdict }) => verdict === 'flat'),
      /** How many p-values lie in each tenth of [0, 1]. */
      p: Array.from(
        { length: 10 },
        (_, tenth) => nulls.filter(({ p }) => Math.min(9, Math.floor(10 * p)) === tenth).length,
      ),
      meanDelta: mean(nulls.map(({ delta }) => delta)),
      deltaStd: Math.sqrt(variance(nulls.map(({ delta }) => delta))),
      halfWidth: mean(nulls.map(({ ci95: [low, high] }) => (high - low) / 2)),
      seedStd: spread(nulls.flatMap(({ perSeed }) => [perSeed.baseline, perSeed.recipe])),
      predictedMoved: predict(0, components(nulls), sizes('null')).moved,
      passAt1: mean(nulls.flatMap(({ perSeed }) => [...perSeed.baseline, ...perSeed.recipe])),
    },
    effect: {
      moved: share(effects, ({ verdict }) => verdict === 'moved'),
      excludesZero: share(effects, ({ ci95 }) => !covers(ci95, 0)),
      wrongWay: share(effects, ({ verdict }) => verdict === 'moved the wrong way'),
      /** The true effect is not known: the mean over all experiments stands for it. */
      meanDelta: effect,
      covers: share(effects, ({ ci95 }) => covers(ci95, effect)),
      deltaStd: Math.sqrt(variance(effects.map(({ delta }) => delta))),
      predictedMoved: predict(effect, components(effects), sizes('effect')).moved,
      untrained: mean(effects.flatMap(({ perSeed }) => perSeed.baseline)),
      trained: mean(effects.flatMap(({ perSeed }) => perSeed.recipe)),
    },
    secondsEach: { null: mean(nulls.map((l) => l.seconds)), effect: mean(effects.map((l) => l.seconds)) },
    experiments: lines,
  }
}

type Summary = ReturnType<typeof summarise>

const percent = (x: number) => (100 * x).toFixed(1)
const three = (x: number) => x.toFixed(3)
const signed = (x: number) => `${x < 0 ? '-' : '+'}${Math.abs(x).toFixed(3)}`
const said = ({ hits, of, ci95: [low, high] }: Share) =>
  `${hits} of ${of}: ${percent(hits / of)}% [${percent(low)}, ${percent(high)}]`

function page(s: Summary): string {
  const row = (line: Line) => [
    `${line.number}`,
    `${line.taskSeed}`,
    line.seeds.baseline.join(', '),
    line.seeds.recipe.join(', '),
    line.perSeed.baseline.map(three).join(', '),
    line.perSeed.recipe.map(three).join(', '),
    `${signed(line.delta)} [${signed(line.ci95[0])}, ${signed(line.ci95[1])}]`,
    three(line.noiseBand),
    three(line.p),
    line.verdict,
  ]
  const head = [
    '#',
    'task seed',
    'baseline seeds',
    'recipe seeds',
    'baseline pass@1',
    'recipe pass@1',
    'difference',
    'band',
    'p',
    'verdict',
  ]
  const of = (kind: Kind) => s.experiments.filter((line) => line.kind === kind)
  const { null: none, effect } = s
  const minutes = (of('null').length * s.secondsEach.null + of('effect').length * s.secondsEach.effect) / 60
  return `# Calibration of the verdict on real training

Written by \`npm run calibrate:training\` (\`bench/calibrate-training.ts\`); every figure also in
\`bench/results/calibration-training.json\`. Where [calibration.md](calibration.md) simulates scores, these are whole
experiments with the built-in policy (\`${s.model}\`) in its own settings: real GRPO training, real evaluations of 4 replies
a problem, ${BASE_RUNS} evaluations of the base. Each has training and held-out problems, training seeds and evaluations of its
own, so they are independent of one another. On one thread (${s.processors.join('; ')}) an experiment took ${s.secondsEach.null.toFixed(0)} seconds, one with an effect
${s.secondsEach.effect.toFixed(0)}: ${minutes.toFixed(0)} minutes of one core in all.

## The same arm twice

${of('null').length} experiments in which both arms read their own note and are trained for ${designs.null.steps} steps with ${designs.null.seeds} seeds each, and evaluated
on ${designs.null.holdout} held-out problems: the true difference is 0.

${table(
  ['what', 'found'],
  [
    ['false `moved`, either way', said(none.falseMoved)],
    ['95% interval excludes 0', said(none.excludesZero)],
    ['`flat`', said(none.flat)],
    ['predicted false `moved` at these variances', `${percent(none.predictedMoved)}%`],
    ['mean difference', `${signed(none.meanDelta)}, standard deviation ${three(none.deltaStd)}`],
    ['mean half-width of the interval', three(none.halfWidth)],
    ['standard deviation between seeds of an arm, as observed', three(none.seedStd)],
    ['pass@1, all arms', three(none.passAt1)],
  ],
)}

Intervals of shares are exact (Clopper and Pearson 1934). How many p-values fall into each tenth:

${table(
  none.p.map((_, i) => `${(i / 10).toFixed(1)}-${((i + 1) / 10).toFixed(1)}`),
  [none.p.map(String)],
)}

With two seeds an arm the test is on the safe side where seeds spread little (see the table of methods in
[calibration.md](calibration.md)): p-values below 0.1 are then rarer than one in ten.

${table(head, of('null').map(row))}

## One arm trained, the other not

${of('effect').length} experiments in which the recipe is trained for ${designs.effect.steps} steps and the baseline takes one step at a learning rate of
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

${table(head, of('effect').map(row))}
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
  if (found.length < all.length) return
  if (new Set(found.map(({ model }) => model)).size > 1) {
    throw new Error('these experiments are of different policies: remove the lines of the older one')
  }
  const summary = summarise(found)
  mkdirSync('bench/results', { recursive: true })
  mkdirSync('docs', { recursive: true })
  writeFileSync('bench/results/calibration-training.json', `${JSON.stringify(summary, null, 2)}\n`)
  writeFileSync('docs/calibration-training.md', page(summary))
}

if (process.argv.includes('--worker')) work()
else await main()

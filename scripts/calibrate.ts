/**
 * Does the verdict hold its level? Simulated experiments with a known truth, compared as a run compares them.
 *
 *   npm run calibrate               writes docs/calibration.md and bench/results/calibration.json (about a quarter of
 *                                   an hour on one thread)
 *   npm run calibrate -- --sims 50  a quick look, printed and written nowhere
 *   npm run calibrate -- --report   docs/calibration.md again from the results there are
 *
 * A simulated rollout is right with probability sigmoid(arm + problem + arm-by-problem + seed + seed-by-problem), all
 * normal on the logit scale, so problems differ as word problems do (some always right, some never) and the scores
 * that compare() sees are 0 and 1. Everything is seeded: the same command gives the same tables.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type Random, random } from '../src/random.ts'
import { compare } from '../src/stats/compare.ts'
import { type Design, layOut, type SeedScores, spreadOf } from '../src/stats/design.ts'
import { tQuantile } from '../src/stats/distributions.ts'
import { bootstrapMean, mean, quantile, variance } from '../src/stats/estimate.ts'
import { halfWidth, pValue } from '../src/stats/interval.ts'
import { componentsOf, predict } from '../src/stats/power.ts'
import { table } from './markdown.ts'

/** Standard deviations on the logit scale. */
const PROBLEM = 1.5
const ARM_BY_PROBLEM = 0.5
const SEED_BY_PROBLEM = 0.5
/** Evaluations of the base behind the noise band. */
const BASE_RUNS = 3
const EFFECT = 0.08
const LEVELS = { easy: 0.85, hard: 0.3 }

interface Setting {
  problems: number
  seeds: number
  rollouts: number
  /** Standard deviation of a seed's true pass@1, in each arm: [baseline, recipe]. */
  spread: [number, number]
  /** True pass@1 of the baseline arm. */
  level: number
  /** True pass@1 of the recipe arm minus that. */
  effect: number
}

interface Experiment {
  baseline: SeedScores[]
  recipe: SeedScores[]
  baseRuns: number[]
}

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x))

/** Mean of f over a normal distribution (trapezoid over eight standard deviations). */
function normalMean(f: (x: number) => number, centre: number, deviation: number): number {
  let sum = 0
  let weights = 0
  for (let z = -8; z <= 8; z += 0.05) {
    const weight = Math.exp((-z * z) / 2)
    sum += weight * f(centre + deviation * z)
    weights += weight
  }
  return sum / weights
}

/** The arm's place on the logit scale and its seeds' deviation there, so that its true pass@1 is `level`. */
function armLogit(level: number, spread: number): { centre: number; seedDeviation: number } {
  let seedDeviation = 0
  let centre = 0
  for (let pass = 0; pass < 4; pass++) {
    const deviation = Math.hypot(PROBLEM, ARM_BY_PROBLEM, SEED_BY_PROBLEM, seedDeviation)
    let [low, high] = [-10, 10]
    while (high - low > 1e-9) {
      centre = (low + high) / 2
      if (normalMean(sigmoid, centre, deviation) < level) low = centre
      else high = centre
    }
    seedDeviation = spread / normalMean((x) => sigmoid(x) * (1 - sigmoid(x)), centre, deviation)
  }
  return { centre, seedDeviation }
}

const logits = new Map<string, ReturnType<typeof armLogit>>()
function knownArmLogit(level: number, spread: number): ReturnType<typeof armLogit> {
  const key = `${level} ${spread}`
  let known = logits.get(key)
  if (!known) {
    known = armLogit(level, spread)
    logits.set(key, known)
  }
  return known
}

function simulate(setting: Setting, draw: Random): Experiment {
  const { problems, seeds, rollouts } = setting
  const ids = Array.from({ length: problems }, (_, p) => `${p}`)
  const difficulty = ids.map(() => PROBLEM * draw.normal())
  const evaluate = (probability: (p: number) => number) =>
    ids.map((id, p) => {
      const chance = probability(p)
      return { id, scores: Array.from({ length: rollouts }, () => (draw.next() < chance ? 1 : 0)) }
    })
  const arm = (level: number, spread: number): SeedScores[] => {
    const { centre, seedDeviation } = knownArmLogit(level, spread)
    const own = difficulty.map((d) => centre + d + ARM_BY_PROBLEM * draw.normal())
    return Array.from({ length: seeds }, (_, seed) => {
      const shift = seedDeviation * draw.normal()
      return { seed, problems: evaluate((p) => sigmoid(own[p] + shift + SEED_BY_PROBLEM * draw.normal())) }
    })
  }
  const baseline = arm(setting.level, setting.spread[0])
  const recipe = arm(setting.level + setting.effect, setting.spread[1])
  const base = difficulty.map((d) =>
    sigmoid(
      knownArmLogit(setting.level, 0).centre +
        d +
        Math.hypot(ARM_BY_PROBLEM, SEED_BY_PROBLEM) * draw.normal(),
    ),
  )
  const baseRuns = Array.from({ length: BASE_RUNS }, () =>
    mean(evaluate((p) => base[p]).map(({ scores }) => mean(scores))),
  )
  return { baseline, recipe, baseRuns }
}

// ---------------------------------------------------------------------------------------------------------------
// The candidates: each gives the interval of recipe - baseline.

type Method = (design: Design, seed: number) => [low: number, high: number]

const around = (design: Design, half: number): [number, number] => {
  const delta = design.recipe.mean - design.baseline.mean
  return [delta - half, delta + half]
}

const methods: Record<string, { about: string; interval: Method }> = {
  'problems only': {
    about: 'percentile bootstrap over problems, seeds pooled: what the reference reports as its interval',
    interval: (design, seed) => bootstrapMean(design.differences, { draws: 400, seed }),
  },
  'crossed bootstrap': {
    about: 'problems and seeds resampled independently, each arm its own seeds (Owen 2007, arXiv:0712.1111)',
    interval: crossedBootstrap,
  },
  'Satterthwaite t': {
    about:
      'variance components of the crossed design by their mean squares, t with Satterthwaite (1946) degrees of freedom',
    interval: (design) => {
      const { problems, seeds } = spreadOf(design)
      const total = problems.variance + seeds!.variance - seeds!.floor
      // An estimate below the problems' own part is impossible, and is set there.
      if (total <= problems.variance)
        return around(design, tQuantile(0.975, problems.df) * Math.sqrt(problems.variance))
      const df = total ** 2 / (problems.variance ** 2 / problems.df + seeds!.variance ** 2 / seeds!.df)
      return around(design, tQuantile(0.975, df) * Math.sqrt(total))
    },
  },
  'mixed model': {
    about:
      'restricted maximum likelihood, which for balanced data is the mean squares with negative components set to 0 and pooled (Searle, Casella and McCulloch 1992), Satterthwaite degrees of freedom',
    interval: reml,
  },
  "reference's widening": {
    about:
      'the bootstrap half-width over problems and t at the seeds’ degrees of freedom times the whole spread of the seed means, in quadrature (conservative: Banerjee 1960)',
    interval: (design, seed) => {
      const { seeds } = spreadOf(design)
      const [low, high] = bootstrapMean(design.differences, { draws: 400, seed })
      return around(
        design,
        Math.hypot((high - low) / 2, tQuantile(0.975, seeds!.df) * Math.sqrt(seeds!.variance)),
      )
    },
  },
  generalised: {
    about:
      'the spread between seeds integrated over what the data leave possible (generalised confidence interval, Weerahandi 1993): what compare() uses',
    interval: (design) => around(design, halfWidth(spreadOf(design))),
  },
}

function crossedBootstrap(design: Design, seed: number): [number, number] {
  const draw = random(seed, 'crossed bootstrap')
  const n = design.problems.length
  const deltas = Float64Array.from({ length: 400 }, () => {
    const picked = Array.from({ length: n }, () => draw.int(n))
    const armMean = (cells: number[][]) =>
      mean(
        cells.map(() => {
          const row = cells[draw.int(cells.length)]
          let sum = 0
          for (const p of picked) sum += row[p]
          return sum / n
        }),
      )
    return armMean(design.recipe.cells) - armMean(design.baseline.cells)
  }).sort()
  return [quantile(deltas, 0.025), quantile(deltas, 0.975)]
}

/**
 * REML of the balanced crossed design. Mean squares whose components come out negative are pooled with the one
 * below: seeds with the interaction, arm-by-problem with the interaction.
 */
function reml(design: Design): [number, number] {
  const { baseline, recipe, differences } = design
  const n = differences.length
  const s = baseline.seeds.length
  const square = (values: number[], dfs: number[]) =>
    values.reduce((sum, value, i) => sum + value * dfs[i], 0) / dfs.reduce((sum, df) => sum + df, 0)
  const interaction = { value: mean([baseline.interaction, recipe.interaction]), df: 2 * (s - 1) * (n - 1) }
  const seeds = { value: n * mean([baseline.seedVariance, recipe.seedVariance]), df: 2 * (s - 1) }
  const problems = { value: (s * variance(differences)) / 2, df: n - 1 }
  const pool = (upper: typeof seeds) => {
    if (upper.value > interaction.value) return
    const value = square([upper.value, interaction.value], [upper.df, interaction.df])
    const df = upper.df + interaction.df
    Object.assign(upper, { value, df })
    Object.assign(interaction, { value, df })
  }
  pool(seeds)
  pool(problems)
  // Variance of the difference: 2 (MS_problems + MS_seeds - MS_interaction) / (seeds problems).
  const parts = [problems, seeds, interaction]
  const total = Math.max(problems.value + seeds.value - interaction.value, Number.MIN_VALUE)
  const pooled = seeds.value === interaction.value || problems.value === interaction.value
  const df = pooled
    ? Math.max(problems.df, 1)
    : total ** 2 / parts.reduce((sum, part) => sum + part.value ** 2 / part.df, 0)
  return around(design, tQuantile(0.975, Math.max(1, df)) * Math.sqrt((2 * total) / (s * n)))
}

// ---------------------------------------------------------------------------------------------------------------

/** Share in percent with its Monte Carlo error. */
interface Share {
  percent: number
  error: number
}
const share = (hits: number, of: number): Share => {
  const p = hits / of
  return { percent: 100 * p, error: 100 * Math.sqrt((p * (1 - p)) / of) }
}
const show = ({ percent }: Share): string => percent.toFixed(1)

const spreads = [0, 0.01, 0.02, 0.04]
const streamOf = (setting: Setting, sim: number, part: string): Random =>
  random(part, JSON.stringify(setting), sim)

/** Every method on the same simulated experiments: share of intervals that miss the truth, and their length. */
function compareMethods(sims: number) {
  const names = Object.keys(methods)
  return [2, 3, 5].flatMap((seeds) =>
    [30, 120].flatMap((problems) =>
      spreads.map((spread) => {
        const setting: Setting = {
          problems,
          seeds,
          rollouts: 4,
          spread: [spread, spread],
          level: LEVELS.hard,
          effect: 0,
        }
        const misses = names.map(() => 0)
        const lengths: number[][] = names.map(() => [])
        for (let sim = 0; sim < sims; sim++) {
          const { baseline, recipe } = simulate(setting, streamOf(setting, sim, 'methods'))
          const design = layOut(baseline, recipe)
          names.forEach((name, m) => {
            const [low, high] = methods[name].interval(design, sim)
            if (low > 0 || high < 0) misses[m]++
            lengths[m].push(high - low)
          })
        }
        return {
          seeds,
          problems,
          spread,
          missed: Object.fromEntries(names.map((name, m) => [name, share(misses[m], sims)])),
          medianLength: Object.fromEntries(
            names.map((name, m) => [
              name,
              quantile(
                lengths[m].sort((a, b) => a - b),
                0.5,
              ),
            ]),
          ),
        }
      }),
    ),
  )
}

/** Shares of `moved` (either way) by compare() itself, and of intervals that hold the truth. */
function study(setting: Setting, sims: number, part: string) {
  let [hits, covered] = [0, 0]
  for (let sim = 0; sim < sims; sim++) {
    const experiment = simulate(setting, streamOf(setting, sim, part))
    const design = layOut(experiment.baseline, experiment.recipe)
    const spread = spreadOf(design)
    const delta = design.recipe.mean - design.baseline.mean
    const p = pValue(delta, spread)
    if ((setting.effect === 0 ? p : pValue(delta - setting.effect, spread)) >= 0.05) covered++
    // compare() costs a bootstrap, and cannot say `moved` where the interval holds 0.
    if (p < 0.05 && compare({ ...experiment, draws: 500 }).verdict.startsWith('moved')) hits++
  }
  return { moved: share(hits, sims), covered: share(covered, sims) }
}

/** The components of a setting, from one experiment so large that its estimates are the truth. */
function trueComponents(setting: Setting) {
  const large = { ...setting, problems: 3000, seeds: 12, rollouts: 4, effect: 0 }
  const { baseline, recipe } = simulate(large, streamOf(large, 0, 'components'))
  const [seed] = [setting.spread[0] ** 2]
  return { ...componentsOf(layOut(baseline, recipe)), seed }
}

function grid(sims: number, progress: (done: number, of: number) => void) {
  const cells = Object.entries(LEVELS).flatMap(([difficulty, level]) =>
    [1, 4].flatMap((rollouts) =>
      spreads.flatMap((spread) =>
        [2, 3, 5].flatMap((seeds) =>
          [30, 60, 120, 300].map((problems) => ({ difficulty, level, rollouts, spread, seeds, problems })),
        ),
      ),
    ),
  )
  const components = new Map<string, ReturnType<typeof trueComponents>>()
  return cells.map(({ difficulty, level, rollouts, spread, seeds, problems }, i) => {
    progress(i, cells.length)
    const setting: Setting = { problems, seeds, rollouts, spread: [spread, spread], level, effect: 0 }
    const key = `${difficulty} ${spread}`
    const known = components.get(key) ?? trueComponents(setting)
    components.set(key, known)
    const none = study(setting, sims, 'null')
    const some = study({ ...setting, effect: EFFECT }, sims / 2, 'effect')
    const predicted = predict(EFFECT, known, { problems, seeds, rollouts }, { baseRuns: BASE_RUNS })
    return {
      difficulty,
      rollouts,
      spread,
      seeds,
      problems,
      falseMoved: none.moved,
      coveredAtNone: none.covered,
      coveredAtEffect: some.covered,
      power: some.moved,
      predictedPower: 100 * predicted.moved,
    }
  })
}

/** Outside the assumptions: the arms' seeds spread differently. */
function stress(sims: number) {
  return [2, 3, 5].map((seeds) => {
    const setting: Setting = {
      problems: 120,
      seeds,
      rollouts: 4,
      spread: [0, 0.04],
      level: LEVELS.hard,
      effect: 0,
    }
    const { moved, covered } = study(setting, sims, 'stress')
    return { seeds, falseMoved: moved, covered }
  })
}

/** Adding a seed an arm at a time, from two to six, until moved: at the full level each time, and at a fifth of it. */
function sequence(sims: number) {
  const looks = [2, 3, 4, 5, 6]
  const setting: Setting = {
    problems: 120,
    seeds: looks.at(-1)!,
    rollouts: 4,
    spread: [0.02, 0.02],
    level: LEVELS.hard,
    effect: 0,
  }
  const excluded = (alpha: number) => {
    let hits = 0
    for (let sim = 0; sim < sims; sim++) {
      const { baseline, recipe } = simulate(setting, streamOf(setting, sim, 'sequence'))
      const any = looks.some((n) => {
        const design = layOut(baseline.slice(0, n), recipe.slice(0, n))
        return pValue(design.recipe.mean - design.baseline.mean, spreadOf(design)) < alpha
      })
      if (any) hits++
    }
    return share(hits, sims)
  }
  return { looks, naive: excluded(0.05), bonferroni: excluded(0.05 / looks.length) }
}

// ---------------------------------------------------------------------------------------------------------------

type Results = {
  sims: { methods: number; grid: number }
  methods: ReturnType<typeof compareMethods>
  grid: ReturnType<typeof grid>
  stress: ReturnType<typeof stress>
  sequence: ReturnType<typeof sequence>
}

function report({
  sims,
  methods: compared,
  grid: cells,
  stress: stressed,
  sequence: looks,
}: Results): string {
  const names = Object.keys(methods)
  const worst = <T>(rows: T[], value: (row: T) => number) =>
    rows.reduce((a, b) => (value(b) > value(a) ? b : a))
  const lowCover = worst(cells, (c) => -Math.min(c.coveredAtNone.percent, c.coveredAtEffect.percent))
  const highFalse = worst(cells, (c) => c.falseMoved.percent)
  const place = (c: (typeof cells)[number]) =>
    `${c.problems} ${c.difficulty} problems, ${c.seeds} seeds, spread ${c.spread}, ${c.rollouts} rollouts`
  const covers = cells.flatMap((c) => [c.coveredAtNone.percent, c.coveredAtEffect.percent])
  const gaps = cells.map((c) => Math.abs(c.power.percent - c.predictedPower))
  const least = Math.min(...covers)
  const bySeeds = [2, 3, 5].map((seeds) => {
    const mine = cells.filter((c) => c.seeds === seeds)
    return [
      `${seeds}`,
      `${mean(mine.map((c) => c.falseMoved.percent)).toFixed(1)} (${show(worst(mine, (c) => c.falseMoved.percent).falseMoved)})`,
      `${mean(mine.map((c) => c.coveredAtNone.percent)).toFixed(1)} (${Math.min(...mine.map((c) => c.coveredAtNone.percent)).toFixed(1)})`,
      `${mean(mine.map((c) => c.coveredAtEffect.percent)).toFixed(1)} (${Math.min(...mine.map((c) => c.coveredAtEffect.percent)).toFixed(1)})`,
    ]
  })
  const summary = names.map((name) => {
    const rates = compared.map((row) => row.missed[name].percent)
    const length = (seeds: number) =>
      mean(
        compared
          .filter((row) => row.seeds === seeds && row.problems === 120)
          .map((row) => row.medianLength[name]),
      )
    return [
      name,
      mean(rates).toFixed(1),
      Math.max(...rates).toFixed(1),
      ...[2, 3, 5].map((seeds) => length(seeds).toFixed(3)),
    ]
  })
  return `# Calibration of the verdict

Written by \`npm run calibrate\` (\`scripts/calibrate.ts\`); every figure also in \`bench/results/calibration.json\`.
Simulated experiments with a known truth. A rollout is right with probability sigmoid(arm + problem + arm-by-problem +
seed + seed-by-problem), normal on the logit scale with standard deviations ${PROBLEM} (problem), ${ARM_BY_PROBLEM} (arm by problem) and ${SEED_BY_PROBLEM} (seed by
problem); the seeds' deviation is set so that a seed's true pass@1 spreads by the stated amount. Easy problems: pass@1
${LEVELS.easy}; hard: ${LEVELS.hard}. Noise band from ${BASE_RUNS} evaluations of an untrained base.

## Which interval

Null experiments (both arms alike), 4 rollouts, hard problems, 30 and 120 problems, 2, 3 and 5 seeds, spread ${spreads.join(', ')};
${sims.methods} experiments a setting. _Missed_: percent of 95% intervals that exclude the true difference 0; 5 is right, with a Monte
Carlo error of ${(100 * Math.sqrt((0.05 * 0.95) / sims.methods)).toFixed(1)}. Median length at 120 problems for 2, 3 and 5 seeds, averaged over the spreads.

${names.map((name) => `- **${name}**: ${methods[name].about}`).join('\n')}

${table(['interval', 'missed, mean', 'missed, worst setting', 'length, 2 seeds', '3 seeds', '5 seeds'], summary)}

Missed, in each setting:

${table(
  ['seeds', 'problems', 'spread', ...names],
  compared.map((row) => [
    `${row.seeds}`,
    `${row.problems}`,
    `${row.spread}`,
    ...names.map((name) => show(row.missed[name])),
  ]),
)}

Kept: **generalised**. The plug-in methods (bootstrap, Satterthwaite, mixed model) are short because they believe a
spread estimated from two seeds; when that estimate is small by luck, the interval is too. The price of two seeds is
real: length at two seeds against five is what the missing seeds would have bought. The reference's own widening holds
its level too, but counts problem and rollout noise twice, and is wider for it.

## The kept interval over the grid

${cells.length} settings x ${sims.grid} null experiments and ${sims.grid / 2} with a true difference of ${EFFECT}; Monte Carlo error of a share near 5
percent: ${(100 * Math.sqrt((0.05 * 0.95) / sims.grid)).toFixed(1)}. _False moved_: percent of null experiments that \`compare\` calls moved in either direction. _Covered_:
percent of 95% intervals that hold the true difference.

- Highest false \`moved\`: ${show(highFalse.falseMoved)} (${place(highFalse)}).
- Lowest coverage: ${least.toFixed(1)} (${place(lowCover)}); mean ${mean(covers).toFixed(1)}.
- Power against what \`predict\` said: mean absolute gap ${mean(gaps).toFixed(1)} points, largest ${Math.max(...gaps).toFixed(1)}.

${table(['seeds', 'false moved, mean (worst)', 'covered at 0, mean (worst)', `covered at ${EFFECT}, mean (worst)`], bySeeds)}

${table(
  [
    'difficulty',
    'rollouts',
    'spread',
    'seeds',
    'problems',
    'false moved',
    'covered at 0',
    `covered at ${EFFECT}`,
    'power',
    'predicted',
  ],
  cells.map((c) => [
    c.difficulty,
    `${c.rollouts}`,
    `${c.spread}`,
    `${c.seeds}`,
    `${c.problems}`,
    show(c.falseMoved),
    show(c.coveredAtNone),
    show(c.coveredAtEffect),
    show(c.power),
    c.predictedPower.toFixed(1),
  ]),
)}

## Where it bends

The interval takes the two arms' seeds to spread alike (pooling them is what makes two seeds usable at all). With no
spread in the baseline and 0.04 in the recipe (120 hard problems, 4 rollouts):

${table(
  ['seeds', 'false moved', 'covered at 0'],
  stressed.map((row) => [`${row.seeds}`, show(row.falseMoved), show(row.covered)]),
)}

## Looking more than once

Seeds added one an arm at a time, ${looks.looks.join(', ')} seeds, until the interval excludes 0 (120 hard problems, 4 rollouts,
spread 0.02, no true difference): ${show(looks.naive)} percent ever do at level 0.05 for each look, ${show(looks.bonferroni)} at 0.05 / ${looks.looks.length}.
`
}

function run(sims: number): Results {
  const started = performance.now()
  const note = (text: string) =>
    process.stderr.write(`${((performance.now() - started) / 1000).toFixed(0)} s  ${text}\n`)
  note('intervals')
  const compared = compareMethods(sims / 2)
  note('stress')
  const stressed = stress(2 * sims)
  const looked = sequence(2 * sims)
  const cells = grid(sims, (done, of) => {
    if (done % 24 === 0) note(`grid ${done}/${of}`)
  })
  note('done')
  return {
    sims: { methods: sims / 2, grid: sims },
    methods: compared,
    grid: cells,
    stress: stressed,
    sequence: looked,
  }
}

const { values } = parseArgs({ options: { sims: { type: 'string' }, report: { type: 'boolean' } } })
const RESULTS = 'bench/results/calibration.json'
if (values.sims) process.stdout.write(report(run(Number(values.sims))))
else {
  if (!values.report) writeFileSync(RESULTS, `${JSON.stringify(run(1000), null, 1)}\n`)
  writeFileSync('docs/calibration.md', report(JSON.parse(readFileSync(RESULTS, 'utf8'))))
}

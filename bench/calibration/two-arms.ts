/**
 * Two arms: the candidates for the interval of their difference, and what compare() does with the one that was kept.
 */

import { random } from '../../src/random.ts'
import { compare } from '../../src/stats/compare.ts'
import { type Design, layOut, problemSpreadOf } from '../../src/stats/design.ts'
import { tQuantile } from '../../src/stats/distributions.ts'
import { bootstrapMean, mean, quantile, variance } from '../../src/stats/estimate.ts'
import { memberOf } from '../../src/stats/family.ts'
import { componentsOf, predict } from '../../src/stats/power.ts'
import { type Member, memberHalfWidth, memberP } from '../../src/stats/simultaneous.ts'
import { BASE_RUNS, EFFECT, LEVELS, share, simulate, streamOf } from './simulate.ts'

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

function experimentOf(setting: Setting, sim: number, part: string) {
  const { level, effect, spread } = setting
  const truths = [
    { level, spread: spread[0] },
    { level: level + effect, spread: spread[1] },
  ]
  const { arms, baseRuns } = simulate(setting, truths, streamOf(setting, sim, part))
  return { baseline: arms[0], recipe: arms[1], baseRuns }
}

/** The spread of the two arms' difference, as compare() takes it. */
const twoArms = ({ baseline, recipe, differences }: Design): Member =>
  memberOf([baseline, recipe], [], problemSpreadOf(differences), differences.length)

const pOf = (delta: number, design: Design): number => {
  const member = twoArms(design)
  return memberP(delta, member, { members: [member], shared: [] })
}

/** A candidate: the interval of recipe - baseline. */
type Method = (design: Design, seed: number) => [low: number, high: number]

const around = (design: Design, half: number): [number, number] => {
  const delta = design.recipe.mean - design.baseline.mean
  return [delta - half, delta + half]
}

export const methods: Record<string, { about: string; interval: Method }> = {
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
      const { problems, seeds } = twoArms(design).spread
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
      const { seeds } = twoArms(design).spread
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
    interval: (design) => around(design, memberHalfWidth(twoArms(design), 0.05, 0.05)),
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

export const spreads = [0, 0.01, 0.02, 0.04]
/** Every method on the same simulated experiments: share of intervals that miss the truth, and their length. */
export function compareMethods(sims: number) {
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
          const { baseline, recipe } = experimentOf(setting, sim, 'methods')
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
    const experiment = experimentOf(setting, sim, part)
    const design = layOut(experiment.baseline, experiment.recipe)
    const delta = design.recipe.mean - design.baseline.mean
    const p = pOf(delta, design)
    if ((setting.effect === 0 ? p : pOf(delta - setting.effect, design)) >= 0.05) covered++
    // compare() costs a bootstrap, and cannot say `moved` where the interval holds 0.
    if (p < 0.05 && compare({ ...experiment, draws: 500 }).verdict.startsWith('moved')) hits++
  }
  return { moved: share(hits, sims), covered: share(covered, sims) }
}

/** The components of a setting, from one experiment so large that its estimates are the truth. */
function trueComponents(setting: Setting) {
  const large = { ...setting, problems: 3000, seeds: 12, rollouts: 4, effect: 0 }
  const { baseline, recipe } = experimentOf(large, 0, 'components')
  const [seed] = [setting.spread[0] ** 2]
  return { ...componentsOf(layOut(baseline, recipe)), seed }
}

export function grid(sims: number, progress: (done: number, of: number) => void) {
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
export function stress(sims: number) {
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
export function sequence(sims: number) {
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
      const { baseline, recipe } = experimentOf(setting, sim, 'sequence')
      const any = looks.some((n) => {
        const design = layOut(baseline.slice(0, n), recipe.slice(0, n))
        return pOf(design.recipe.mean - design.baseline.mean, design) < alpha
      })
      if (any) hits++
    }
    return share(hits, sims)
  }
  return { looks, naive: excluded(0.05), bonferroni: excluded(0.05 / looks.length) }
}

/**
 * Families of contrasts, each arm against the first: how often any of them is wrong, what pooling the spread between
 * seeds is worth, whether planned power comes true; and the effect of training against an untrained model.
 */

import { compare } from '../../src/stats/compare.ts'
import { type ArmTable, differencesOf, seedSpreadOf, tabulate } from '../../src/stats/design.ts'
import { normalQuantile } from '../../src/stats/distributions.ts'
import { mean, quantile } from '../../src/stats/estimate.ts'
import { compareFamily, differenceOf, familyOf } from '../../src/stats/family.ts'
import { pValue, type SeedSpread } from '../../src/stats/interval.ts'
import { type Components, componentsOf, predict } from '../../src/stats/power.ts'
import { type Family, levelOfEach, type Member, memberHalfWidth } from '../../src/stats/simultaneous.ts'
import { trainingFamily } from '../../src/stats/training.ts'
import {
  BASE_RUNS,
  EFFECT,
  LEVELS,
  type Simulated,
  share,
  simulate,
  streamOf,
  type Truth,
} from './simulate.ts'

export const ROLLOUTS = 4
const level = LEVELS.hard

/** Which arms' seeds spread by the wide amount, and which by the narrow one; the first arm is the baseline. */
export const patterns: Record<string, (arms: number) => ('wide' | 'narrow')[]> = {
  'all alike': (arms) => Array(arms).fill('wide'),
  'the baseline alone is wide': (arms) => ['wide', ...Array(arms - 1).fill('narrow')],
  'one arm alone is wide': (arms) => ['narrow', 'wide', ...Array(arms - 2).fill('narrow')],
  'the baseline and one arm are wide': (arms) => ['wide', 'wide', ...Array(arms - 2).fill('narrow')],
  'one arm alone is narrow': (arms) => ['wide', 'narrow', ...Array(arms - 2).fill('wide')],
  'the baseline alone is narrow': (arms) => ['narrow', ...Array(arms - 1).fill('wide')],
}

interface Setting {
  problems: number
  seeds: number
  arms: number
  pattern: string
  wide: number
  narrow: number
  /** True difference of the second arm; the others have none. */
  effect: number
}

const nameOf = (arm: number): string => `arm ${arm}`

function experimentOf(setting: Setting, sim: number, part: string): Simulated {
  const truths = patterns[setting.pattern](setting.arms).map(
    (width, arm): Truth => ({ level: level + (arm === 1 ? setting.effect : 0), spread: setting[width] }),
  )
  return simulate({ ...setting, rollouts: ROLLOUTS }, truths, streamOf(setting, sim, part))
}

function familyInput({ arms, baseRuns }: Simulated) {
  return {
    arms: Object.fromEntries(arms.map((seeds, arm) => [nameOf(arm), seeds])),
    pairs: arms.slice(1).map((_, arm) => ({ arm: nameOf(arm + 1), against: nameOf(0) })),
    baseRuns,
    draws: 500,
  }
}

/** Whether any difference, as far from its truth as it is, lies outside the family's intervals. */
function anyOutside(family: Family, distances: readonly number[], alpha = 0.05): boolean {
  const points = normalQuantile(1 - alpha / 2)
  const smallest = Math.min(
    ...distances.map((distance, i) => {
      const { spread, oneArms } = family.members[i]
      // Most are so near that the problems alone explain them: no need to integrate over the seeds' part.
      if (distance ** 2 < points ** 2 * spread.problems.variance) return 1
      return oneArms && pValue(distance, oneArms) >= alpha ? 1 : pValue(distance, spread)
    }),
  )
  if (smallest >= alpha) return false
  return smallest < alpha / distances.length || smallest < levelOfEach(family, alpha)
}

/** Over one setting's experiments: false `moved` and intervals that miss, anywhere in the family. */
function study(setting: Setting, sims: number) {
  let [missed, moved, found] = [0, 0, 0]
  for (let sim = 0; sim < sims; sim++) {
    const experiment = experimentOf(setting, sim, 'family')
    const input = familyInput(experiment)
    const tables = tabulate(input.arms)
    const differences = input.pairs.map((pair) => differenceOf(tables, pair))
    const family = familyOf(differences, tables)
    const deltas = differences.map(({ delta }) => delta)
    const misses = anyOutside(
      family,
      deltas.map((delta, i) => delta - (i === 0 ? setting.effect : 0)),
    )
    if (misses) missed++
    // compareFamily costs bootstraps, and cannot say `moved` where no interval excludes 0.
    if (!(setting.effect === 0 ? misses : anyOutside(family, deltas))) continue
    const verdicts = compareFamily(input).map(({ verdict }) => verdict.startsWith('moved'))
    if (verdicts.some((hit, i) => hit && (i > 0 || setting.effect === 0))) moved++
    if (verdicts[0]) found++
  }
  return { falseMoved: share(moved, sims), missed: share(missed, sims), found: share(found, sims) }
}

/** What is simulated, nothing differing. Twenty seeds cost most, and need the fewest settings. */
const kinds: (Pick<Setting, 'pattern' | 'wide' | 'narrow' | 'problems'> & {
  seeds: number[]
  /** 2, 3, 4 and 8 unless told. */
  arms?: number[]
  share?: number
})[] = [
  ...[0, 0.02, 0.04].map((wide) => ({
    pattern: 'all alike',
    wide,
    narrow: wide,
    problems: 120,
    seeds: wide === 0 ? [2, 3, 5] : [2, 3, 5, 20],
    share: wide === 0 ? 0.5 : 1,
  })),
  ...Object.keys(patterns)
    .slice(1)
    .map((pattern) => ({
      pattern,
      wide: 0.04,
      narrow: 0,
      problems: 120,
      seeds: pattern === 'the baseline alone is wide' ? [2, 3, 5, 20] : [2, 3, 5],
      share: pattern.startsWith('the baseline') && !pattern.endsWith('narrow') ? 1 : 0.5,
    })),
  ...['the baseline alone is wide', 'the baseline and one arm are wide'].map((pattern) => ({
    pattern,
    wide: 0.04,
    narrow: 0.01,
    problems: 300,
    seeds: [2, 3],
  })),
  // Problems so many that they hide nothing of the spread.
  { pattern: 'the baseline alone is wide', wide: 0.04, narrow: 0, problems: 1000, seeds: [2, 3] },
  { pattern: 'the baseline alone is wide', wide: 0.04, narrow: 0, problems: 1000, seeds: [5, 20], arms: [2] },
  ...['all alike', 'one arm alone is wide'].map((pattern) => ({
    pattern,
    wide: 0.04,
    narrow: pattern === 'all alike' ? 0.04 : 0,
    problems: 1000,
    seeds: [2],
    share: 0.5,
  })),
]

/** `most` experiments a setting, and half of them where the level is never near. */
export function familyErrors(most: number, progress: (text: string) => void) {
  return kinds.flatMap(({ seeds: sizes, arms: counts = [2, 3, 4, 8], share: part = 1, ...kind }) =>
    counts.flatMap((arms) => {
      progress(`${arms} arms, ${kind.problems} problems, ${kind.pattern}, ${kind.wide}`)
      return sizes.map((seeds) => {
        const setting: Setting = { ...kind, seeds, arms, effect: 0 }
        const sims = Math.round(most * part)
        const { falseMoved, missed } = study(setting, sims)
        return { ...setting, sims, falseMoved, missed }
      })
    }),
  )
}

/** How a contrast's spread between seeds may be taken, other than as compareFamily does. */
const otherRules: Record<
  string,
  (sides: ArmTable[], others: ArmTable[], problems: number) => Member['spread']['seeds']
> = {
  'its own arms': (sides, _, problems) => seedSpreadOf(sides, [], problems).seeds,
  'always pooled': (sides, others, problems) => {
    // All arms have as many seeds, so the mean of their own is the pooled one.
    const arms = [...sides, ...others]
    const own = arms.map((arm) => seedSpreadOf([arm], [], problems).seeds!)
    const twice = (part: (seeds: SeedSpread) => number) => 2 * mean(own.map(part))
    return {
      variance: twice(({ variance }) => variance),
      floor: twice(({ floor }) => floor),
      df: own.reduce((sum, { df }) => sum + df, 0),
    }
  },
}

export const rules = [...Object.keys(otherRules), 'kept']

/** Each rule on the same experiments: families with an interval that misses, and contrasts of an effect that are found. */
export function compareRules(sims: number) {
  const kinds = ['all alike', 'the baseline alone is wide', 'the baseline and one arm are wide']
  return kinds.flatMap((pattern) =>
    [4, 8].flatMap((arms) =>
      [2, 3].map((seeds) => {
        const narrow = pattern === 'all alike' ? 0.04 : 0
        const setting: Setting = { problems: 120, seeds, arms, pattern, wide: 0.04, narrow, effect: 0 }
        const missed = rules.map(() => 0)
        const found = rules.map(() => 0)
        for (let sim = 0; sim < sims; sim++) {
          const input = familyInput(experimentOf(setting, sim, 'rules'))
          const tables = tabulate(input.arms)
          const differences = input.pairs.map((pair) => differenceOf(tables, pair))
          const kept = familyOf(differences, tables)
          rules.forEach((name, rule) => {
            const members = differences.map(({ byProblem, sides }, i): Member => {
              const others = [...tables.arms.values()].filter((arm) => !sides.includes(arm))
              if (name === 'kept') return kept.members[i]
              const seeds = otherRules[name]([...sides], others, byProblem.length)
              const spread = { problems: kept.members[i].spread.problems, seeds }
              return { spread, pooled: name === 'always pooled', oneArms: null }
            })
            const family = { members, shared: kept.shared }
            const deltas = differences.map(({ delta }) => delta)
            if (anyOutside(family, deltas)) missed[rule]++
            // As if the second arm were better: the difference moves, its spread stays.
            if (
              anyOutside(
                family,
                deltas.map((delta, i) => (i === 0 ? delta + 2 * EFFECT : 0)),
              )
            )
              found[rule]++
          })
        }
        const shares = (hits: number[]) =>
          Object.fromEntries(rules.map((name, i) => [name, share(hits[i], sims)]))
        return { ...setting, missed: shares(missed), found: shares(found) }
      }),
    ),
  )
}

/** One arm is better, the others are not: false `moved` among those, and power against what was predicted. */
export function familyPower(sims: number, progress: (text: string) => void) {
  const settings = [3, 4, 8].flatMap((arms) =>
    [2, 3, 5].map(
      (seeds): Setting => ({
        problems: 120,
        seeds,
        arms,
        pattern: 'all alike',
        wide: 0.02,
        narrow: 0.02,
        effect: EFFECT,
      }),
    ),
  )
  const known = trueComponents(settings[0])
  return settings.map((setting) => {
    progress(`power of ${setting.arms} arms, ${setting.seeds} seeds, spread ${setting.wide}`)
    const { falseMoved, missed, found } = study(setting, sims)
    const predicted = predict(
      EFFECT,
      known,
      { ...setting, rollouts: ROLLOUTS },
      { baseRuns: BASE_RUNS, arms: setting.arms },
    ).moved
    return { ...setting, falseMoved, missed, power: found, predictedPower: 100 * predicted }
  })
}

/** The components of a setting, from one experiment so large that its estimates are the truth. */
function trueComponents(setting: Setting): Components {
  const large = { ...setting, problems: 3000, seeds: 12, arms: 2, effect: 0 }
  const { arms } = experimentOf(large, 0, 'components')
  const tables = tabulate({ baseline: arms[0], recipe: arms[1] })
  const [baseline, recipe] = [tables.arms.get('baseline')!, tables.arms.get('recipe')!]
  const differences = differencesOf(recipe, baseline)
  return { ...componentsOf({ ...tables, baseline, recipe, differences }), seed: setting.wide ** 2 }
}

/** Median half-width of one contrast's interval, by what is read at once and what else was trained. */
export function familyWidths(sims: number) {
  const median = (values: number[]) =>
    quantile(
      values.sort((a, b) => a - b),
      0.5,
    )
  return [2, 3, 5].flatMap((seeds) =>
    [3, 4, 8].map((arms) => {
      const widths: Record<'pair' | 'bonferroni' | 'family' | 'one', number[]> = {
        pair: [],
        bonferroni: [],
        family: [],
        one: [],
      }
      const setting: Setting = {
        problems: 120,
        seeds,
        arms,
        pattern: 'all alike',
        wide: 0.02,
        narrow: 0.02,
        effect: 0,
      }
      for (let sim = 0; sim < sims; sim++) {
        const input = familyInput(experimentOf(setting, sim, 'widths'))
        const tables = tabulate(input.arms)
        const differences = input.pairs.map((pair) => differenceOf(tables, pair))
        const family = familyOf(differences, tables)
        const alone = familyOf(differences.slice(0, 1), {
          arms: new Map([...tables.arms].slice(0, 2)),
        }).members[0]
        const pooled = family.members[0]
        const shared = 0.05 / (arms - 1)
        widths.pair.push(memberHalfWidth(alone, 0.05, 0.05))
        widths.bonferroni.push(memberHalfWidth(alone, shared, shared))
        widths.family.push(memberHalfWidth(pooled, levelOfEach(family, 0.05), 0.05))
        widths.one.push(memberHalfWidth(pooled, 0.05, 0.05))
      }
      return {
        seeds,
        arms,
        pair: median(widths.pair),
        bonferroni: median(widths.bonferroni),
        family: median(widths.family),
        one: median(widths.one),
      }
    }),
  )
}

/** Four arms, seeds added one an arm at a time from two to six: any false `moved` in any look, at a fifth of the level. */
export function familySequence(sims: number) {
  const looks = [2, 3, 4, 5, 6]
  const setting: Setting = {
    problems: 120,
    seeds: 6,
    arms: 4,
    pattern: 'all alike',
    wide: 0.02,
    narrow: 0.02,
    effect: 0,
  }
  const excluded = (alpha: number) => {
    let hits = 0
    for (let sim = 0; sim < sims; sim++) {
      const { arms, pairs } = familyInput(experimentOf(setting, sim, 'family looks'))
      const any = looks.some((n) => {
        const seen = Object.entries(arms).map(([name, seeds]) => [name, seeds.slice(0, n)])
        const tables = tabulate(Object.fromEntries(seen))
        const differences = pairs.map((pair) => differenceOf(tables, pair))
        return anyOutside(
          familyOf(differences, tables),
          differences.map(({ delta }) => delta),
          alpha,
        )
      })
      if (any) hits++
    }
    return share(hits, sims)
  }
  return { looks, arms: setting.arms, naive: excluded(0.05), bonferroni: excluded(0.05 / looks.length) }
}

/** Arms with other numbers of seeds than one another: two of them, as compare takes them. */
export function otherSizes(sims: number) {
  return [
    [2, 3],
    [2, 8],
    [2, 20],
    [5, 20],
  ].flatMap((sizes) =>
    (['both', 'the one with fewer seeds'] as const).map((wide) => {
      let [moved, missed] = [0, 0]
      const spreads = wide === 'both' ? [0.04, 0.04] : [0.04, 0]
      for (let sim = 0; sim < sims; sim++) {
        const { arms, baseRuns } = simulate(
          { problems: 120, seeds: sizes[1], rollouts: ROLLOUTS },
          spreads.map((spread) => ({ level, spread })),
          streamOf({ sizes, wide }, sim, 'other sizes'),
        )
        const input = { baseline: arms[0].slice(0, sizes[0]), recipe: arms[1], baseRuns, draws: 500 }
        const { p, verdict } = compare(input)
        if (p < 0.05) missed++
        if (verdict.startsWith('moved')) moved++
      }
      return { sizes, wide, falseMoved: share(moved, sims), missed: share(missed, sims) }
    }),
  )
}

/**
 * Trained arms against an untrained base, `evaluations` of it: intervals that miss, anywhere among the arms, without an
 * effect and with one in every arm.
 */
export function trainingErrors(sims: number) {
  const settings = [1, 4].flatMap((arms) =>
    [2, 3, 5].flatMap((seeds) =>
      [0, 0.04].flatMap((spread) => [1, 3].map((evaluations) => ({ arms, seeds, spread, evaluations }))),
    ),
  )
  return settings.map((setting) => {
    const { arms, seeds, spread, evaluations } = setting
    const outcome = (effect: number) => {
      let [missed, found] = [0, 0]
      // The first arm stands for the level of the base and is not trained.
      const truths: Truth[] = [
        { level, spread: 0 },
        ...Array.from({ length: arms }, () => ({ level: level + effect, spread })),
      ]
      for (let sim = 0; sim < sims; sim++) {
        const made = simulate(
          { problems: 120, seeds, rollouts: ROLLOUTS },
          truths,
          streamOf({ ...setting, effect }, sim, 'training'),
        )
        const trained = made.arms.slice(1).map((each, arm) => [nameOf(arm), each] as const)
        const { differences, family } = trainingFamily({
          arms: Object.fromEntries(trained),
          bases: Object.fromEntries(trained.map(([name]) => [name, made.bases.slice(0, evaluations)])),
        })
        const deltas = differences.map(({ delta }) => delta)
        if (
          anyOutside(
            family,
            deltas.map((delta) => delta - effect),
          )
        )
          missed++
        // The first arm's alone, at the family's level: the others lie on their truth.
        if (
          deltas[0] > 0 &&
          anyOutside(
            family,
            deltas.map((delta, i) => (i === 0 ? delta : 0)),
          )
        )
          found++
      }
      return { missed: share(missed, sims), found: share(found, sims) }
    }
    const [none, some] = [outcome(0), outcome(EFFECT)]
    return { ...setting, missedAtNone: none.missed, missedAtEffect: some.missed, found: some.found }
  })
}

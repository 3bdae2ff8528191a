/**
 * What an experiment can see. Before a run: the chance that an effect of a given size is found with so many
 * problems, seeds and rollouts, and the cheapest design that finds it. After a run: how many seeds would resolve it.
 *
 * Predictions follow compare()'s own rule (interval, noise band and `flat` margin) under normal theory, averaged
 * over the luck of the two things that a run must estimate: the spread between seeds and the noise floor.
 * docs/calibration.md holds them against simulation.
 */

import { UserError } from '../errors.ts'
import { random } from '../random.ts'
import { asFamily, type CompareInput } from './compare.ts'
import { type ArmTable, type Design, designOf, tabulate } from './design.ts'
import { chiSquareQuantile, normalCdf, tQuantile } from './distributions.ts'
import { mean, type Rollouts, variance } from './estimate.ts'
import { type FamilyInput, memberOf } from './family.ts'
import { levelOfEach, type Member, memberHalfWidth } from './simultaneous.ts'

/** Variances on the scale of one rollout's score, in [0, 1]: where a difference's uncertainty comes from. */
export interface Components {
  /** Between rollouts of one policy on one problem. */
  rollout: number
  /** Training seed by problem, in each arm: two trainings that solve different problems. */
  seedByProblem: number
  /** Problem by arm: the variance over problems of the true difference between the arms. */
  armByProblem: number
  /** Between training seeds in each arm: variance of a seed's true pass@1. */
  seed: number
}

export interface Sizes {
  problems: number
  /** Training seeds in each arm. */
  seeds: number
  /** Rollouts a problem in each evaluation. */
  rollouts: number
}

export interface PowerOptions {
  /** Evaluations of the untrained base behind the noise band; 3 unless told. */
  baseRuns?: number
  flatWithin?: number
  /** Level of the whole family of contrasts. */
  alpha?: number
  /** Arms that are trained; 2 unless told. */
  arms?: number
  /** Contrasts of the family, each of two of the arms; one fewer than arms (each against the baseline) unless told. */
  contrasts?: number
}

export interface Prediction {
  /** Chance of `moved` (for a negative effect: of `moved the wrong way`). */
  moved: number
  /** Chance of `flat`. */
  flat: number
}

/** The components as a finished comparison estimates them (analysis of variance, negatives set to 0). */
export function componentsOf({ baseline, recipe, differences }: Design): Components {
  const arms = [baseline, recipe]
  const replicated = arms.filter((arm) => arm.seeds.length > 1)
  const average = (tables: ArmTable[], part: (arm: ArmTable) => number): number =>
    tables.length > 0 ? mean(tables.map(part)) : 0
  const noise = arms.map((arm) => arm.rolloutVariance).filter((value) => value !== null)
  const perCell = noise.length > 0 ? mean(noise) : 0
  const interaction = average(replicated, (arm) => arm.interaction)
  const withinArms = arms.reduce(
    (sum, arm) => sum + (arm.seeds.length > 1 ? arm.interaction : perCell) / arm.seeds.length,
    0,
  )
  return {
    // The mean number of rollouts is taken as the number in every cell.
    rollout: perCell * mean(arms.flatMap((arm) => arm.rollouts)),
    seedByProblem: Math.max(0, interaction - perCell),
    armByProblem: Math.max(0, variance(differences) - withinArms),
    seed: seedComponent(arms, differences.length),
  }
}

/** Between seeds, averaged over the arms that show it. */
function seedComponent(arms: readonly ArmTable[], problems: number): number {
  const replicated = arms.filter((arm) => arm.seeds.length > 1)
  if (replicated.length === 0) return 0
  return Math.max(0, mean(replicated.map((arm) => arm.seedVariance - arm.interaction / problems)))
}

/** Between seeds where nothing tells yet: the reference's four runs pool to 0.017. */
const SEED_STD = 0.02

/** What that is worth beside an estimate from a run, in degrees of freedom: as much as two seeds in each arm. */
const SEED_STD_DF = 2

/**
 * The components to plan with after a run. Between-seed variance from two or three seeds is often 0 by luck alone,
 * so it is averaged with the one expected before any run, each weighed by its degrees of freedom. The seeds of the
 * experiment's other arms count too.
 */
export function plannedComponents(design: Design, others: readonly ArmTable[] = []): Components {
  const arms = [design.baseline, design.recipe, ...others]
  const df = arms.reduce((sum, arm) => sum + arm.seeds.length - 1, 0)
  const seen = seedComponent(arms, design.problems.length)
  const seed = (df * seen + SEED_STD_DF * SEED_STD ** 2) / (df + SEED_STD_DF)
  return { ...componentsOf(design), seed }
}

/**
 * The components expected before anything was trained. Rollout noise is measured on the base's own rollouts (two or
 * more a problem); the rest is what small GRPO experiments show: seeds 0.02 apart, and trainings that differ on problems by a quarter of the rollout variance.
 */
export function expectedComponents(
  base: readonly Rollouts[],
  options: { seedStd?: number } = {},
): Components {
  const repeated = base.filter((rollouts) => rollouts.length > 1)
  if (repeated.length === 0) {
    throw new UserError('Planning needs two or more rollouts a problem of the base: sample it again.')
  }
  const rollout = mean(repeated.map((rollouts) => variance(rollouts.map(Number))))
  const { seedStd = SEED_STD } = options
  return { rollout, seedByProblem: rollout / 4, armByProblem: rollout / 4, seed: seedStd ** 2 }
}

/** Equally likely outcomes that stand for a chi-square's distribution, and for that of several arms together. */
const OUTCOMES = 12
const FAMILY_OUTCOMES = 32
const spreadFactors = (df: number, outcomes = OUTCOMES): number[] =>
  Array.from({ length: outcomes }, (_, i) => chiSquareQuantile((i + 0.5) / outcomes, df) / df)

/** What a run of these sizes can come out with: equally likely half-widths of a contrast's interval. */
function halfWidths(
  parts: { problems: Member['spread']['problems']; floor: number; seeds: number },
  { seeds, problems }: Sizes,
  { alpha = 0.05, arms = 2, contrasts = arms - 1 }: PowerOptions,
): number[] {
  const { floor } = parts
  // Of one arm; a contrast has twice that.
  const numbers = Array.from({ length: seeds }, (_, seed) => seed)
  const armOf = (factor: number) => ({
    seeds: numbers,
    seedVariance: ((seeds * (floor + parts.seeds)) / 2) * factor,
    interaction: (seeds * problems * floor) / 2,
  })
  if (arms === 2) {
    const df = 2 * (seeds - 1)
    const sides = (factor: number) => [armOf(factor), armOf(factor)]
    return spreadFactors(df).map((factor) =>
      memberHalfWidth(memberOf(sides(factor), [], parts.problems, problems), alpha, alpha),
    )
  }
  const first = (factors: readonly number[]): Member => {
    const tables = factors.map(armOf)
    return memberOf(tables.slice(0, 2), tables.slice(2), parts.problems, problems)
  }
  // Each arm's factor takes each of its equally likely values once, in an order of its own (a Latin hypercube).
  const columns = Array.from({ length: arms }, (_, arm) =>
    random('power of a family', arm).shuffle(spreadFactors(seeds - 1, FAMILY_OUTCOMES)),
  )
  const found = columns[0].map((_, outcome) => first(columns.map((column) => column[outcome])))
  // As against one baseline: half of each contrast's variance is the baseline's. As many are odd as are so by luck.
  const shared = { problems: parts.problems.variance / 2, seeds: 0.5 }
  const usual = first(Array(arms).fill(1))
  const odd = Math.round(contrasts * mean(found.map(({ pooled }) => (pooled ? 0 : 1))))
  const level = levelOfEach(
    {
      members: Array.from({ length: contrasts }, (_, i) => (i < odd ? { ...usual, pooled: false } : usual)),
      shared: Array(contrasts).fill(Array(contrasts).fill(shared)),
    },
    alpha,
  )
  return found.map((member) => memberHalfWidth(member, level, alpha))
}

/** The chance of each verdict for any effect, at given sizes: the costly part is done once. */
function predictor(components: Components, sizes: Sizes, options: PowerOptions) {
  const { baseRuns = 3, flatWithin = 0.03 } = options
  const { problems, seeds, rollouts } = sizes
  const cell = components.seedByProblem + components.rollout / rollouts
  const floor = (2 * cell) / (seeds * problems)
  const problemVariance = Math.max(floor + components.armByProblem / problems, 1 / problems ** 2)
  const seedVariance = (2 * components.seed) / seeds
  const deviation = Math.sqrt(problemVariance + seedVariance)
  const halves = halfWidths(
    {
      problems: { variance: problemVariance, df: Math.max(1, problems - 1) },
      floor,
      seeds: seedVariance,
    },
    sizes,
    options,
  )
  const runStd = Math.sqrt(components.rollout / (rollouts * problems))
  const bands = spreadFactors(baseRuns - 1).map(
    (factor) => tQuantile(0.975, baseRuns - 1) * runStd * Math.sqrt((factor * 2) / seeds),
  )
  const above = (limit: number, effect: number) => 1 - normalCdf((limit - effect) / deviation)
  return {
    deviation,
    moved: (effect: number): number =>
      mean(halves.map((half) => mean(bands.map((band) => above(Math.max(half, band), Math.abs(effect)))))),
    flat: (effect: number): number =>
      mean(
        halves.map((half) =>
          Math.max(0, above(half - flatWithin, effect) - above(flatWithin - half, effect)),
        ),
      ),
  }
}

function checkSizes({ problems, seeds, rollouts }: Sizes, { arms = 2, contrasts = 1 }: PowerOptions): void {
  const wrong = Object.entries({ problems, seeds, rollouts, contrasts }).find(
    ([, n]) => !Number.isInteger(n) || n < 1,
  )
  if (wrong) throw new UserError(`Power needs a whole number of ${wrong[0]}, at least 1; got ${wrong[1]}.`)
  const most = (arms * (arms - 1)) / 2
  if (!Number.isInteger(arms) || arms < 2 || contrasts > most) {
    throw new UserError(
      `Power needs a whole number of arms, at least 2, and no more contrasts than pairs of them; got ${arms} arms and ${contrasts} contrasts.`,
    )
  }
}

/**
 * The chance of each verdict when the true difference is `effect`. One seed an arm is never resolved.
 *
 * @throws UserError for sizes that are not whole numbers of at least 1.
 */
export function predict(
  effect: number,
  components: Components,
  sizes: Sizes,
  options: PowerOptions = {},
): Prediction {
  checkSizes(sizes, options)
  if (sizes.seeds < 2) return { moved: 0, flat: 0 }
  const chance = predictor(components, sizes, options)
  return { moved: chance.moved(effect), flat: chance.flat(effect) }
}

/** The smallest effect found with 80% power at these sizes; null where even a difference of 1 is not. */
export function detectableEffect(
  components: Components,
  sizes: Sizes,
  options: PowerOptions = {},
): number | null {
  checkSizes(sizes, options)
  if (sizes.seeds < 2) return null
  const { moved } = predictor(components, sizes, options)
  if (moved(1) < 0.8) return null
  let [low, high] = [0, 1]
  while (high - low > 1e-5) {
    const middle = (low + high) / 2
    if (moved(middle) < 0.8) low = middle
    else high = middle
  }
  return high
}

/** Measured speed of the machine and model at hand. */
export interface Speed {
  /** Training one arm for one seed. */
  minutesPerTraining: number
  /** One rollout of one problem in an evaluation (its share of notes included). */
  secondsPerRollout: number
}

/** Minutes of a whole experiment: all arms trained and evaluated, and the base under the board of each. */
export function minutesOf(
  { problems, seeds, rollouts }: Sizes,
  speed: Speed,
  baseRuns = 3,
  arms = 2,
): number {
  const evaluations = arms * seeds + baseRuns + arms - 1
  return (
    arms * seeds * speed.minutesPerTraining +
    (evaluations * problems * rollouts * speed.secondsPerRollout) / 60
  )
}

export interface Plan extends Sizes {
  /** Predicted chance of `moved` at the effect asked for. */
  power: number
  /** Of the whole experiment; null where no speed was given. */
  minutes: number | null
}

export interface PlanOptions extends PowerOptions {
  maxProblems?: number
  /** Rollouts a problem to choose from; 1, 2, 4 and 8 unless told. */
  rollouts?: readonly number[]
  speed?: Speed
}

/** Sizes that a search tries: two seeds and more, problems and rollouts as people have them. */
const SEEDS = [2, 3, 4, 5, 6, 8, 12, 16]
const PROBLEMS = [30, 60, 120, 200, 300, 500, 1000, 2000]
const ROLLOUTS = [1, 2, 4, 8]

/**
 * Designs that find `effect` with 80% power, cheapest first (by minutes; without speeds, by replies to sample): for
 * each number of seeds the cheapest problems and rollouts. Empty where none of the sizes tried is enough.
 */
export function plan(effect: number, components: Components, options: PlanOptions = {}): Plan[] {
  if (!(Math.abs(effect) > 0)) throw new UserError('A plan needs an effect other than 0 to look for.')
  const { speed, maxProblems = PROBLEMS.at(-1)!, rollouts: choices = ROLLOUTS, arms = 2 } = options
  const problems = [...PROBLEMS.filter((n) => n < maxProblems), maxProblems]
  const cost = (sizes: Sizes): number =>
    speed
      ? minutesOf(sizes, speed, options.baseRuns, arms)
      : arms * sizes.seeds * sizes.problems * sizes.rollouts
  const power = (sizes: Sizes): number => predict(effect, components, sizes, options).moved
  return SEEDS.flatMap((seeds): Plan[] => {
    const enough = choices.flatMap((rollouts): Plan[] => {
      // One by one: where problems no longer hide how seeds spread, more of them may tell less (oneArmsSpread).
      for (const n of problems) {
        const sizes = { problems: n, seeds, rollouts }
        const found = power(sizes)
        if (found >= 0.8) return [{ ...sizes, power: found, minutes: speed ? cost(sizes) : null }]
      }
      return []
    })
    return enough.sort((a, b) => cost(a) - cost(b)).slice(0, 1)
  }).sort((a, b) => cost(a) - cost(b))
}

/** How many seeds an arm a search for more goes up to. */
const MOST_SEEDS = 64

/**
 * The fewest seeds an arm with which a difference of `effect` would be resolved (`moved` or `flat`) with 80% chance,
 * on the same problems and rollouts, and no fewer than `sizes.seeds`; null where not even 64 would do.
 */
export function fewestSeeds(
  effect: number,
  components: Components,
  sizes: Sizes,
  options: PowerOptions = {},
): number | null {
  checkSizes(sizes, options)
  let [low, high] = [Math.max(2, sizes.seeds), MOST_SEEDS + 1]
  while (low < high) {
    const seeds = Math.floor((low + high) / 2)
    const { moved, flat } = predict(effect, components, { ...sizes, seeds }, options)
    if (moved + flat >= 0.8) high = seeds
    else low = seeds + 1
  }
  return low <= MOST_SEEDS ? low : null
}

export interface SeedsToResolve {
  /** Seeds an arm, those that the run has included; null where seeds alone would not do. */
  seeds: number | null
  /** One sentence. */
  why: string
}

/**
 * After an unresolved run: how many seeds an arm would resolve each contrast, if its true difference were the observed
 * one and the variances as planned from the run. Both are estimates from few seeds: a plan, not a promise.
 */
export function seedsToResolveEach(input: FamilyInput): SeedsToResolve[] {
  const tables = tabulate(input.arms)
  const { flatWithin, alpha, pairs } = input
  return pairs.map((pair) => {
    const design = designOf(tables, pair)
    const { baseline, recipe } = design
    const others = [...tables.arms.values()].filter((arm) => arm !== baseline && arm !== recipe)
    const have = Math.max(baseline.seeds.length, recipe.seeds.length)
    const sizes = {
      problems: design.problems.length,
      // At least one more, since these did not.
      seeds: have + 1,
      rollouts: Math.max(1, Math.round(mean([...baseline.rollouts, ...recipe.rollouts]))),
    }
    const delta = recipe.mean - baseline.mean
    const seeds = fewestSeeds(delta, plannedComponents(design, others), sizes, {
      baseRuns: Math.max(2, input.baseRuns.length),
      flatWithin,
      alpha,
      arms: tables.arms.size,
      contrasts: pairs.length,
    })
    const difference = `If the true difference is as observed (${delta.toFixed(3)})`
    const why =
      seeds === null
        ? `${difference}, not even ${MOST_SEEDS} seeds an arm would resolve it on ${sizes.problems} problems: more held-out problems would.`
        : `${difference}, ${seeds} seeds an arm (${seeds - have} more) resolve it with 80% chance.`
    return { seeds, why }
  })
}

/** The same of two arms. */
export function seedsToResolve(input: CompareInput): SeedsToResolve {
  return seedsToResolveEach(asFamily(input))[0]
}

/**
 * The data of a comparison - problems x seeds x rollouts in each arm - laid out as tables, and split into what each
 * source contributes to the uncertainty of a difference. No verdicts here.
 *
 * The model: a rollout's score = its arm's mean + problem + arm-by-problem + training seed (within arm)
 * + seed-by-problem + rollout. Problems are crossed with seeds and shared by the arms; seeds belong to one arm.
 */

import { UserError } from '../errors.ts'
import { fTail } from './distributions.ts'
import { mean, variance } from './estimate.ts'
import type { SeedSpread, Spread } from './interval.ts'

/** One problem's rollouts in one evaluation: 1 right, 0 wrong (a proxy's scores may lie between). */
export interface ProblemScores {
  /** Pairs the problem between seeds and arms. */
  id: string
  scores: readonly number[]
}

/** The evaluation of one trained seed. */
export interface SeedScores {
  seed: number
  problems: readonly ProblemScores[]
}

/** One arm as a table over the problems that every evaluation has. */
export interface ArmTable {
  seeds: number[]
  /** cells[s][p]: mean score of seed s on problem p. */
  cells: number[][]
  /** Mean of each seed over the problems. */
  seedMeans: number[]
  /** Mean of each problem over the seeds. */
  problemMeans: number[]
  mean: number
  /** Sample variance of the seed means; 0 for one seed. */
  seedVariance: number
  /** Seed-by-problem mean square of the cells (rollout noise included); 0 for one seed or one problem. */
  interaction: number
  /** Mean over cells of the variance of a cell's mean due to rollouts; null when no cell has two rollouts. */
  rolloutVariance: number | null
  /** Fewest and most rollouts in a cell. */
  rollouts: [number, number]
}

/** One arm against another, by their names. */
export interface Pair {
  arm: string
  against: string
}

export interface Tables {
  arms: ReadonlyMap<string, ArmTable>
  /** Ids of the problems that every evaluation of every arm has, in the order of the first evaluation. */
  problems: string[]
  /** Problems that some evaluations have and others lack: left out. */
  unpaired: number
}

/** @throws UserError without seeds, with a repeated problem or seed, or where no problem is in every evaluation. */
export function tabulate(arms: Readonly<Record<string, readonly SeedScores[]>>): Tables {
  for (const [name, seeds] of Object.entries(arms)) {
    if (seeds.length === 0) throw new UserError(`Arm ${name} has no seeds: train at least one.`)
    const repeated = firstRepeated(seeds.map(({ seed }) => seed))
    if (repeated !== undefined) {
      throw new UserError(`Arm ${name} has seed ${repeated} twice: each seed counts once.`)
    }
  }
  const tables = new Map(Object.entries(arms).map(([name, seeds]) => [name, seeds.map(byProblem)]))
  const all = [...tables.values()].flat()
  const known = new Set(all.flatMap((table) => [...table.keys()]))
  const problems = [...all[0].keys()].filter((id) => all.every((table) => table.has(id)))
  if (problems.length === 0) {
    throw new UserError('The arms share no problem: evaluate them on the same held-out problems.')
  }
  return {
    arms: new Map(
      [...tables].map(([name, evaluations]) => [
        name,
        armTable(
          arms[name].map(({ seed }) => seed),
          evaluations.map((table) => problems.map((id) => table.get(id)!)),
        ),
      ]),
    ),
    problems,
    unpaired: known.size - problems.length,
  }
}

function byProblem({ seed, problems }: SeedScores): ReadonlyMap<string, readonly number[]> {
  const byId = new Map<string, readonly number[]>()
  for (const { id, scores } of problems) {
    if (byId.has(id)) throw new UserError(`Seed ${seed} has problem ${id} twice: each problem counts once.`)
    if (scores.length === 0 || !scores.every((score) => score >= 0 && score <= 1)) {
      throw new UserError(
        `Seed ${seed}, problem ${id}: a problem needs at least one score, each from 0 to 1.`,
      )
    }
    byId.set(id, scores)
  }
  return byId
}

/** Two arms of the tables, and how they differ on each problem. */
export interface Design {
  baseline: ArmTable
  recipe: ArmTable
  problems: string[]
  /** recipe's mean - baseline's mean for each problem. */
  differences: number[]
  unpaired: number
}

/** @throws UserError as tabulate does. */
export function layOut(baseline: readonly SeedScores[], recipe: readonly SeedScores[]): Design {
  return designOf(tabulate({ baseline, recipe }), { arm: 'recipe', against: 'baseline' })
}

/** One arm against another as recipe against baseline. */
export function designOf({ arms, problems, unpaired }: Tables, { arm, against }: Pair): Design {
  const [baseline, recipe] = [arms.get(against)!, arms.get(arm)!]
  return { baseline, recipe, problems, differences: differencesOf(recipe, baseline), unpaired }
}

/** How much higher the first scores than the second, problem by problem. */
export function differencesOf(
  { problemMeans }: Pick<ArmTable, 'problemMeans'>,
  against: Pick<ArmTable, 'problemMeans'>,
): number[] {
  return problemMeans.map((value, p) => value - against.problemMeans[p])
}

function firstRepeated(values: readonly number[]): number | undefined {
  return values.find((value, i) => values.indexOf(value) !== i)
}

function armTable(seeds: number[], scores: (readonly number[])[][]): ArmTable {
  const cells = scores.map((row) => row.map(mean))
  const seedMeans = cells.map(mean)
  const problemMeans = cells[0].map((_, p) => cells.reduce((sum, row) => sum + row[p], 0) / cells.length)
  const grand = mean(seedMeans)
  let squares = 0
  cells.forEach((row, s) => {
    row.forEach((cell, p) => {
      squares += (cell - seedMeans[s] - problemMeans[p] + grand) ** 2
    })
  })
  const df = (cells.length - 1) * (problemMeans.length - 1)
  const rollouts: [number, number] = [Number.POSITIVE_INFINITY, 0]
  let [within, repeated] = [0, 0]
  for (const row of scores) {
    for (const cell of row) {
      rollouts[0] = Math.min(rollouts[0], cell.length)
      rollouts[1] = Math.max(rollouts[1], cell.length)
      if (cell.length < 2) continue
      within += variance(cell) / cell.length
      repeated++
    }
  }
  return {
    seeds,
    cells,
    seedMeans,
    problemMeans,
    mean: grand,
    seedVariance: variance(seedMeans),
    interaction: df > 0 ? squares / df : 0,
    rolloutVariance: repeated > 0 ? within / repeated : null,
    rollouts,
  }
}

/**
 * The problems' part: the variance of the per-problem differences over the number of problems, and never less than
 * one problem's worth, (1 / problems)^2: where no problem differs, the next one may.
 */
export function problemSpreadOf(differences: readonly number[]): Spread['problems'] {
  const n = differences.length
  return { variance: Math.max(variance(differences) / n, 1 / n ** 2), df: Math.max(1, n - 1) }
}

/** What an arm tells of the spread between seeds. */
export type SeedsOf = Pick<ArmTable, 'seeds' | 'seedVariance' | 'interaction'>

/** An arm that spreads more than the others by so unlikely a factor is not taken to spread as they do. */
const ALIKE = 0.25

/** A spread pooled over many arms counts for no more degrees of freedom than that of so many of the sides' size. */
const ARMS_BELIEVED = 4

/**
 * The seeds' part of the variance of a difference between the means of trained arms (`sides`: two, or one against
 * something that was not trained). Null where one of them has a single seed.
 *
 * From the sides alone, W is the sum of each side's variance between seed means over its number of seeds. Two sides
 * with no other arms are taken to spread alike, and pooled as they are where they have one size.
 *
 * With other arms, each side speaks for itself or with them. A side is alike where the variance between its seed means
 * does not exceed that of all other arms by more than Fisher's F does in one of four cases. Sides that are alike take
 * the variance pooled over all arms but an odd side, and never less than their own, so that arms that hardly spread
 * bring degrees of freedom but no narrower W. A wide arm that looks narrow by luck passes for alike, the more so the
 * fewer its seeds, and is then held to the spread of the others: how many they are says nothing of it, so beyond four
 * arms' worth they bring no degrees of freedom. An odd side keeps its own variance, and W then has the degrees of
 * freedom of a sum of unlike variances (Satterthwaite 1946; Games and Howell 1976), not those of the sum of both.
 */
export function seedSpreadOf(
  sides: readonly SeedsOf[],
  others: readonly SeedsOf[],
  problems: number,
): { seeds: SeedSpread | null; pooled: boolean } {
  if (sides.some((arm) => arm.seeds.length < 2)) return { seeds: null, pooled: false }
  const own = sidesAlone(sides, problems)
  const replicated = [...sides, ...others.filter((arm) => arm.seeds.length > 1)]
  const alone = replicated.length === sides.length
  if (alone && sides.every((arm) => arm.seeds.length === sides[0].seeds.length)) {
    return { seeds: own, pooled: false }
  }
  const first = sides.filter((arm) => !spreadsAlike(arm, replicated))
  if (alone && first.length > 0) return { seeds: own, pooled: false }
  // Once more without the odd one, beside which any other looks narrow.
  const rest = replicated.filter((arm) => !first.includes(arm))
  const alike = sides.filter((arm) => !first.includes(arm) && spreadsAlike(arm, rest))
  const odd = sides.filter((arm) => !alike.includes(arm))
  const parts = odd.map((arm) => sidesAlone([arm], problems))
  if (alike.length > 0) {
    const together = pool(replicated.filter((arm) => !odd.includes(arm)))
    const theirs = sidesAlone(alike, problems)
    const share = alike.reduce((sum, arm) => sum + 1 / arm.seeds.length, 0)
    const variance = share * together.variance
    const df = alone ? together.df : Math.min(together.df, (ARMS_BELIEVED / alike.length) * theirs.df)
    parts.push(
      variance < theirs.variance
        ? { ...theirs, df }
        : { variance, floor: (share * together.interaction) / problems, df },
    )
  }
  return { seeds: parts.length === 1 ? parts[0] : sumOfUnlike(parts), pooled: odd.length === 0 }
}

/** How far an arm's seeds may lie apart (standard deviation of pass@1): twice what is expected (power.ts). */
const WIDE = 0.04

/** A problems' part of this variance or more, a tenth of WIDE's, hides enough of the spread for arms to be taken as alike. */
const HIDING = WIDE ** 2 / 10

/**
 * The spread of a difference if one of its two arms alone made it, where the data cannot rule that out; null where it
 * need not be feared. Then it has the degrees of freedom of that arm alone, the smaller one's at worst. A single one tells
 * next to nothing, so the seeds are taken to bring no more than those of an arm of two that spreads by twice WIDE.
 *
 * It is to be feared where the problems' noise is too small to hide such an arm, if it has two seeds (among others
 * that spread little it passes for one of them, whenever it looks narrow by luck) or there is no third arm to hold it
 * against; and where two arms alone differ in size. Held against simulation in docs/calibration.md.
 */
export function oneArmsSpread(
  sides: readonly SeedsOf[],
  others: readonly SeedsOf[],
  { problems, seeds }: Spread,
): Spread | null {
  const sizes = sides.map((arm) => arm.seeds.length)
  const fewest = Math.min(...sizes)
  if (seeds === null || seeds.df <= fewest - 1) return null
  const hidden = problems.variance >= HIDING
  const alone = !others.some((arm) => arm.seeds.length > 1)
  const safe = alone ? hidden && sizes.every((size) => size === fewest) : hidden || fewest > 2
  return safe ? null : { problems, seeds: { ...seeds, df: fewest - 1, most: (2 * WIDE) ** 2 / 2 } }
}

/** W of these arms with no word from others. */
function sidesAlone(sides: readonly SeedsOf[], problems: number): SeedSpread {
  const sum = (part: (arm: SeedsOf) => number) => sides.reduce((total, arm) => total + part(arm), 0)
  const sameSize = sides.every((arm) => arm.seeds.length === sides[0].seeds.length)
  return {
    variance: sum((arm) => arm.seedVariance / arm.seeds.length),
    floor: sum((arm) => arm.interaction / (arm.seeds.length * problems)),
    // Of two sizes the smaller arm's spread weighs more: Satterthwaite's degrees of freedom, for arms that spread alike.
    df: sameSize
      ? sum((arm) => arm.seeds.length - 1)
      : sum((arm) => 1 / arm.seeds.length) ** 2 /
        sum((arm) => 1 / (arm.seeds.length ** 2 * (arm.seeds.length - 1))),
  }
}

/**
 * Independent estimates of unlike variances, added: Satterthwaite's degrees of freedom, between the fewest of a part
 * and all of them. Rounded down to a hundredth, for the quadrature is kept by degrees of freedom (interval.ts).
 */
function sumOfUnlike(parts: readonly SeedSpread[]): SeedSpread {
  const sum = (term: (part: SeedSpread) => number) => parts.reduce((total, part) => total + term(part), 0)
  const variance = sum((part) => part.variance)
  const df =
    variance > 0
      ? 1 / sum((part) => (part.variance / variance) ** 2 / part.df)
      : Math.min(...parts.map((part) => part.df))
  return { variance, floor: sum((part) => part.floor), df: Math.floor(100 * df * (1 + 1e-12)) / 100 }
}

/** Means over arms with two seeds or more, each weighed by its degrees of freedom. */
function pool(arms: readonly SeedsOf[]): { variance: number; interaction: number; df: number } {
  const df = arms.reduce((total, arm) => total + arm.seeds.length - 1, 0)
  const average = (part: (arm: SeedsOf) => number) =>
    arms.reduce((total, arm) => total + (arm.seeds.length - 1) * part(arm), 0) / df
  return { variance: average((arm) => arm.seedVariance), interaction: average((arm) => arm.interaction), df }
}

function spreadsAlike(arm: SeedsOf, arms: readonly SeedsOf[]): boolean {
  const others = arms.filter((other) => other !== arm)
  if (others.length === 0 || arm.seedVariance === 0) return true
  const { variance, df } = pool(others)
  return fTail(arm.seedVariance / variance, arm.seeds.length - 1, df) >= ALIKE
}

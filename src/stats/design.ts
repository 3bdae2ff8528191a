/**
 * The data of a comparison - problems x seeds x rollouts in two arms - laid out as tables, and split into what each
 * source contributes to the uncertainty of the difference. No verdicts here.
 *
 * The model: a rollout's score = its arm's mean + problem + arm-by-problem + training seed (within arm)
 * + seed-by-problem + rollout. Problems are crossed with seeds and shared by the arms; seeds belong to one arm.
 */

import { UserError } from '../errors.ts'
import { mean, variance } from './estimate.ts'
import type { Spread } from './interval.ts'

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

export interface Design {
  baseline: ArmTable
  recipe: ArmTable
  /** Ids of the problems that are compared, in the order of the first evaluation. */
  problems: string[]
  /** recipe's mean - baseline's mean for each of them. */
  differences: number[]
  /** Problems that some evaluations have and others lack: left out. */
  unpaired: number
}

/** @throws UserError without seeds, with a repeated problem or seed, or where no problem is in every evaluation. */
export function layOut(baseline: readonly SeedScores[], recipe: readonly SeedScores[]): Design {
  const arms = { baseline, recipe }
  for (const [name, seeds] of Object.entries(arms)) {
    if (seeds.length === 0) throw new UserError(`Arm ${name} has no seeds: train at least one.`)
    const repeated = firstRepeated(seeds.map(({ seed }) => seed))
    if (repeated !== undefined) {
      throw new UserError(`Arm ${name} has seed ${repeated} twice: each seed counts once.`)
    }
  }
  const tables = [...baseline, ...recipe].map(({ seed, problems }) => {
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
  })
  const known = new Set(tables.flatMap((table) => [...table.keys()]))
  const problems = [...tables[0].keys()].filter((id) => tables.every((table) => table.has(id)))
  if (problems.length === 0) {
    throw new UserError('The arms share no problem: evaluate both on the same held-out problems.')
  }
  const scores = tables.map((table) => problems.map((id) => table.get(id)!))
  const tableOf = (seeds: readonly SeedScores[], rows: (readonly number[])[][]) =>
    armTable(
      seeds.map(({ seed }) => seed),
      rows,
    )
  const a = tableOf(baseline, scores.slice(0, baseline.length))
  const b = tableOf(recipe, scores.slice(baseline.length))
  return {
    baseline: a,
    recipe: b,
    problems,
    differences: problems.map((_, p) => b.problemMeans[p] - a.problemMeans[p]),
    unpaired: known.size - problems.length,
  }
}

function firstRepeated(values: readonly number[]): number | undefined {
  return values.find((value, i) => values.indexOf(value) !== i)
}

function armTable(seeds: number[], scores: (readonly number[])[][]): ArmTable {
  const cells = scores.map((row) => row.map(mean))
  const seedMeans = cells.map(mean)
  const problemMeans = cells[0].map((_, p) => mean(cells.map((row) => row[p])))
  const grand = mean(seedMeans)
  let squares = 0
  cells.forEach((row, s) => {
    row.forEach((cell, p) => {
      squares += (cell - seedMeans[s] - problemMeans[p] + grand) ** 2
    })
  })
  const df = (cells.length - 1) * (problemMeans.length - 1)
  const counts = scores.flatMap((row) => row.map((cell) => cell.length))
  const spread = scores.flatMap((row) => row.filter((cell) => cell.length > 1))
  return {
    seeds,
    cells,
    seedMeans,
    problemMeans,
    mean: grand,
    seedVariance: variance(seedMeans),
    interaction: df > 0 ? squares / df : 0,
    rolloutVariance: spread.length > 0 ? mean(spread.map((cell) => variance(cell) / cell.length)) : null,
    rollouts: counts.reduce<[number, number]>(
      ([low, high], n) => [Math.min(low, n), Math.max(high, n)],
      [Number.POSITIVE_INFINITY, 0],
    ),
  }
}

/**
 * The sources of the difference's variance. The problems' part is the variance of the per-problem differences over
 * the number of problems, and never less than one problem's worth, (1 / problems)^2: where no problem differs, the
 * next one may.
 */
export function spreadOf({ baseline, recipe, differences }: Design): Spread {
  const n = differences.length
  const problems = { variance: Math.max(variance(differences) / n, 1 / n ** 2), df: Math.max(1, n - 1) }
  const arms = [baseline, recipe]
  if (arms.some((arm) => arm.seeds.length < 2)) return { problems, seeds: null }
  const sum = (part: (arm: ArmTable) => number) => arms.reduce((total, arm) => total + part(arm), 0)
  return {
    problems,
    seeds: {
      variance: sum((arm) => arm.seedVariance / arm.seeds.length),
      floor: sum((arm) => arm.interaction / (arm.seeds.length * n)),
      df: sum((arm) => arm.seeds.length - 1),
    },
  }
}

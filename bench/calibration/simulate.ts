/**
 * Simulated experiments with a known truth: the model behind docs/calibration.md. A rollout is right with probability
 * sigmoid(arm + problem + arm-by-problem + seed + seed-by-problem), all normal on the logit scale, so problems differ as
 * word problems do (some always right, some never) and scores are 0 and 1.
 */

import { type Random, random } from '../../src/random.ts'
import type { ProblemScores, SeedScores } from '../../src/stats/design.ts'
import { mean } from '../../src/stats/estimate.ts'

/** Standard deviations on the logit scale. */
export const PROBLEM = 1.5
export const ARM_BY_PROBLEM = 0.5
export const SEED_BY_PROBLEM = 0.5
/** Evaluations of the base behind the noise band. */
export const BASE_RUNS = 3
export const EFFECT = 0.08
export const LEVELS = { easy: 0.85, hard: 0.3 }

export interface Sizes {
  problems: number
  /** Of each arm. */
  seeds: number
  rollouts: number
}

/** An arm's truth: its pass@1, and the standard deviation of a seed's. */
export interface Truth {
  level: number
  spread: number
}

export interface Simulated {
  arms: SeedScores[][]
  /** Evaluations of an untrained base at the first arm's level. */
  bases: ProblemScores[][]
  /** pass@1 of each. */
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

export function simulate(
  { problems, seeds, rollouts }: Sizes,
  truths: readonly Truth[],
  draw: Random,
): Simulated {
  const ids = Array.from({ length: problems }, (_, p) => `${p}`)
  const difficulty = ids.map(() => PROBLEM * draw.normal())
  const evaluate = (probability: (p: number) => number): ProblemScores[] =>
    ids.map((id, p) => {
      const chance = probability(p)
      // Half of a calibration is spent here, and Array.from with a function takes longer.
      const scores: number[] = []
      for (let rollout = 0; rollout < rollouts; rollout++) scores.push(draw.next() < chance ? 1 : 0)
      return { id, scores }
    })
  const arms = truths.map(({ level, spread }) => {
    const { centre, seedDeviation } = knownArmLogit(level, spread)
    const own = difficulty.map((d) => centre + d + ARM_BY_PROBLEM * draw.normal())
    return Array.from({ length: seeds }, (_, seed) => {
      const shift = seedDeviation * draw.normal()
      return { seed, problems: evaluate((p) => sigmoid(own[p] + shift + SEED_BY_PROBLEM * draw.normal())) }
    })
  })
  const base = difficulty.map((d) =>
    sigmoid(
      knownArmLogit(truths[0].level, 0).centre +
        d +
        Math.hypot(ARM_BY_PROBLEM, SEED_BY_PROBLEM) * draw.normal(),
    ),
  )
  const bases = Array.from({ length: BASE_RUNS }, () => evaluate((p) => base[p]))
  const baseRuns = bases.map((problems) => mean(problems.map(({ scores }) => mean(scores))))
  return { arms, bases, baseRuns }
}

/** Share in percent with its Monte Carlo error. */
export interface Share {
  percent: number
  error: number
}

export function share(hits: number, of: number): Share {
  const p = hits / of
  return { percent: 100 * p, error: 100 * Math.sqrt((p * (1 - p)) / of) }
}

export const show = ({ percent }: Share): string => percent.toFixed(1)

/** The Monte Carlo error of a share near 5 percent. */
export const errorNearFive = (sims: number): string => (100 * Math.sqrt((0.05 * 0.95) / sims)).toFixed(1)

export const streamOf = (setting: unknown, sim: number, part: string): Random =>
  random(part, JSON.stringify(setting), sim)

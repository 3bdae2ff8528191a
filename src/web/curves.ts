/** Training curves of an arm from those of its seeds: their mean and spread. Pure. */
import type { JobView, Role, TracePoint } from '../view/types.ts'

export interface Curve {
  role: Role
  seeds: { seed: number; values: { step: number; value: number }[] }[]
  /** At each step that any seed has taken: the mean, the lowest and the highest of the smoothed seeds. */
  mean: { step: number; mean: number; low: number; high: number }[]
}

/** Steps in the moving mean: one step's batch is small, and its mean jumps. */
export const WINDOW = 5

/** One curve for each trained arm that has taken a step. */
export function curves(jobs: readonly JobView[], key: keyof TracePoint): Curve[] {
  return (['baseline', 'recipe'] as const).flatMap((role) => {
    const trained = jobs.filter((job) => job.role === role && job.trace.length > 0)
    if (trained.length === 0) return []
    const seeds = trained.map(({ seed, trace }) => ({
      seed: seed ?? 0,
      values: trace.map((point) => ({ step: point.step, value: point[key] })),
    }))
    const smooth = seeds.map(({ values }) => {
      const means = movingMean(values.map(({ value }) => value))
      return new Map(values.map(({ step }, i) => [step, means[i]]))
    })
    const steps = [...new Set(smooth.flatMap((seed) => [...seed.keys()]))].sort((a, b) => a - b)
    const mean = steps.map((step) => {
      const there = smooth.flatMap((seed) => seed.get(step) ?? [])
      return {
        step,
        mean: there.reduce((sum, value) => sum + value, 0) / there.length,
        low: Math.min(...there),
        high: Math.max(...there),
      }
    })
    return [{ role, seeds, mean }]
  })
}

/** Centred; at the ends over the steps that there are. */
export function movingMean(values: readonly number[], window = WINDOW): number[] {
  const half = Math.floor(window / 2)
  return values.map((_, i) => {
    const near = values.slice(Math.max(0, i - half), i + half + 1)
    return near.reduce((sum, value) => sum + value, 0) / near.length
  })
}

/** Training curves of an arm from those of its seeds: their mean and spread. Pure. */
import type { JobView, Side, TraceColumns } from '../view/types.ts'

export interface Curve {
  side: Side
  seeds: { seed: number; values: { step: number; value: number }[] }[]
  /** At each step that any seed has taken: the mean, the lowest and the highest of the smoothed seeds. */
  mean: { step: number; mean: number; low: number; high: number }[]
}

/** Steps in the moving mean: one step's batch is small, and its mean jumps. */
export const WINDOW = 5

/** One curve for each arm that has a value; `pick` is undefined for an arm that has no such values. */
export function curves(
  jobs: readonly Pick<JobView, 'side' | 'seed' | 'trace'>[],
  sides: readonly Side[],
  pick: (trace: TraceColumns) => readonly (number | null)[] | undefined,
): Curve[] {
  return sides.flatMap((side, number) => {
    const seeds = jobs.flatMap(({ side: own, seed, trace }) => {
      if (own !== number || seed === null) return []
      const column = pick(trace) ?? []
      const values = column.flatMap((value, i) => (value === null ? [] : [{ step: trace.step[i], value }]))
      return values.length === 0 ? [] : [{ seed, values }]
    })
    if (seeds.length === 0) return []
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
    return [{ side, seeds, mean }]
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

/** Training curves of an arm from those of its seeds: their mean and spread. Pure. */
import type { JobView, Side, TraceColumns } from '../view/types.ts'
import type { Span } from './choices.ts'

export interface Curve {
  side: Side
  seeds: { seed: number; values: { step: number; value: number }[] }[]
  /** At each step that any seed has taken: the mean, the lowest and the highest of the smoothed seeds. */
  mean: { step: number; mean: number; low: number; high: number }[]
}

/** Steps in the moving mean unless told: one step's batch is small, and its mean jumps. */
export const WINDOW = 5

export interface CurveOptions {
  /** Steps in the moving mean; 1: values as measured. */
  window?: number
  /** Only these steps; null: all. */
  span?: Span
}

/** One curve for each arm that has a value; `pick` is undefined for an arm that has no such values. */
export function curves(
  jobs: readonly Pick<JobView, 'side' | 'seed' | 'trace'>[],
  sides: readonly Side[],
  pick: (trace: TraceColumns) => readonly (number | null)[] | undefined,
  { window = WINDOW, span = null }: CurveOptions = {},
): Curve[] {
  const isShown = ({ step }: { step: number }) => span === null || (step >= span[0] && step <= span[1])
  return sides.flatMap((side, number) => {
    const seeds = jobs.flatMap(({ side: own, seed, trace }) => {
      if (own !== number || seed === null) return []
      const column = pick(trace) ?? []
      const values = column.flatMap((value, i) => (value === null ? [] : [{ step: trace.step[i], value }]))
      return values.length === 0 ? [] : [{ seed, values }]
    })
    if (seeds.length === 0) return []
    // Smoothed before it is cut, so that a closer look moves no line.
    const smooth = seeds.map(
      ({ values }) => new Map(smoothed(values, window).map(({ step, value }) => [step, value])),
    )
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
    return [
      {
        side,
        seeds: seeds.map(({ seed, values }) => ({ seed, values: values.filter(isShown) })),
        mean: mean.filter(isShown),
      },
    ]
  })
}

/** Each value as the mean of those up to half a window of steps away: at the ends, and beside gaps, of fewer. */
export function smoothed(
  points: readonly { step: number; value: number }[],
  window: number,
): { step: number; value: number }[] {
  const half = Math.floor(window / 2)
  let [first, end] = [0, 0]
  return points.map(({ step }) => {
    while (points[first].step < step - half) first++
    while (end < points.length && points[end].step <= step + half) end++
    const near = points.slice(first, end)
    return { step, value: near.reduce((sum, { value }) => sum + value, 0) / near.length }
  })
}

/** Training steps as columns for the curves: what metrics.jsonl says of each, and what its boards show. Pure. */
import { countEpisodes, type RoundCounts } from '../board/counts.ts'
import type { Episode } from '../board/types.ts'
import type { MetricsLine } from '../record/schema.ts'
import { type RoundMeasure, roundMeasures, type TraceColumns, traceMeasures } from './types.ts'

export function emptyTrace(rounds: number): TraceColumns {
  const columns = <K extends string>(names: readonly K[]) =>
    Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<K, (number | null)[]>
  return {
    step: [],
    measures: columns(traceMeasures),
    rounds: Array.from({ length: rounds }, () => columns(roundMeasures)),
  }
}

/** Adds a step. `metrics` is undefined where the file has no such line. */
export function addStep(
  trace: TraceColumns,
  step: number,
  metrics: MetricsLine | undefined,
  episodes: readonly Episode[],
): void {
  trace.step.push(step)
  for (const name of traceMeasures) trace.measures[name].push(shortened(metrics?.[name] ?? null))
  const { rounds } = countEpisodes(episodes)
  for (const [r, columns] of trace.rounds.entries()) {
    const values = { ...boardMeasures(rounds[r]), ...creditMeasures(metrics?.rounds[r]?.credit ?? null) }
    for (const name of roundMeasures) columns[name].push(shortened(values[name]))
  }
}

type CreditName = Extract<RoundMeasure, `credit${string}`>

const boardMeasures = ({
  right,
  voteRight,
  anyRight,
  switched,
  rescued,
  misled,
  cut,
  chars,
}: RoundCounts): Record<Exclude<RoundMeasure, CreditName>, number | null> => ({
  right,
  voteRight,
  anyRight,
  switched,
  rescued,
  misled,
  cut,
  chars,
})

const creditMeasures = (
  credit: MetricsLine['rounds'][number]['credit'],
): Record<CreditName, number | null> => ({
  creditMean: credit?.mean ?? null,
  creditSpread: credit?.spread ?? null,
  creditInformative: credit?.informative ?? null,
  creditWithOwn: credit?.withOwn ?? null,
})

/** Six significant digits: more than any curve shows, and a third of what a number takes in full. */
const shortened = (value: number | null): number | null =>
  value === null ? null : Number(value.toPrecision(6))

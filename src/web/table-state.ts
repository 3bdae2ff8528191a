/** What a person has chosen in the table of boards, kept while other views are shown. Signals alone. */
import { computed, type ReadonlySignal, type Signal, signal } from '@preact/signals'
import {
  type Condition,
  type Filter,
  matches,
  problemRows,
  type Row,
  type Sort,
  sorted,
  type Where,
} from './rows.ts'
import type { RunSource } from './source.ts'

export interface TableState {
  conditions: Signal<ReadonlySet<Condition>>
  where: Signal<Where>
  search: Signal<string>
  /** Problems whose texts hold the search; null where texts are not searched. */
  inTexts: Signal<ReadonlySet<number> | null>
  sort: Signal<Sort>
  filter: ReadonlySignal<Filter>
  all: ReadonlySignal<Row[]>
  rows: ReadonlySignal<Row[]>
}

export function tableState({ run, boards }: RunSource): TableState {
  const conditions = signal<ReadonlySet<Condition>>(new Set())
  const where = signal<Where>('trained')
  const search = signal('')
  const inTexts = signal<ReadonlySet<number> | null>(null)
  const sort = signal<Sort>({ key: 'order', descending: false })
  const filter = computed(
    (): Filter => ({
      conditions: conditions.value,
      where: where.value,
      search: search.value.trim(),
      inTexts: inTexts.value,
    }),
  )
  // The jobs' names and roles alone decide: not their progress, which changes at every event.
  const jobs = computed(() => run.value?.jobs.map(({ name }) => name).join() ?? '')
  const all = computed(() => {
    void jobs.value
    const now = run.peek()
    return now ? problemRows(boards.value, now.jobs, now.copies) : []
  })
  const rows = computed(() =>
    sorted(
      all.value.filter((row) => matches(row, filter.value)),
      sort.value,
      where.value,
    ),
  )
  return { conditions, where, search, inTexts, sort, filter, all, rows }
}

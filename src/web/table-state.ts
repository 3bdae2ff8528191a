/** What a person has chosen in the table of boards, kept while other views are shown. Signals alone. */
import { computed, type ReadonlySignal, type Signal, signal } from '@preact/signals'
import { type BoardsIndex, boardsIndex } from './boards-index.ts'
import {
  type Condition,
  type Filter,
  matches,
  type Pair,
  pairsOf,
  problemRows,
  type Row,
  type Sort,
  sorted,
  type Where,
} from './rows.ts'
import { noBoards, type RunSource } from './source.ts'

export interface TableState {
  conditions: Signal<ReadonlySet<Condition>>
  where: Signal<Where>
  search: Signal<string>
  /** Problems whose texts hold the search; null where texts are not searched. */
  inTexts: Signal<ReadonlySet<number> | null>
  sort: Signal<Sort>
  /** Which of the experiment's contrasts differences are shown of. */
  contrast: Signal<number>
  filter: ReadonlySignal<Filter>
  index: ReadonlySignal<BoardsIndex>
  /** The sides of that contrast; undefined where nothing is contrasted. */
  pair: ReadonlySignal<Pair | undefined>
  all: ReadonlySignal<Row[]>
  rows: ReadonlySignal<Row[]>
}

const nothing = { jobs: [], sides: [], contrasts: [] }

export function tableState({ run, boards }: RunSource): TableState {
  const conditions = signal<ReadonlySet<Condition>>(new Set())
  const where = signal<Where>('trained')
  const search = signal('')
  const inTexts = signal<ReadonlySet<number> | null>(null)
  const sort = signal<Sort>({ key: 'order', descending: false })
  const contrast = signal(0)
  const filter = computed(
    (): Filter => ({
      conditions: conditions.value,
      where: where.value,
      search: search.value.trim(),
      inTexts: inTexts.value,
    }),
  )
  // The jobs' names and sides alone decide: not their progress, which changes at every event.
  const jobs = computed(() => run.value?.jobs.map(({ name }) => name).join() ?? '')
  const shape = computed(() => {
    void jobs.value
    return run.peek() ?? nothing
  })
  const index = computed(() =>
    boardsIndex(shape.value.jobs.length === 0 ? noBoards : boards.value, shape.value),
  )
  const pair = computed((): Pair | undefined => pairsOf(shape.value)[contrast.value])
  const all = computed(() => problemRows(index.value))
  const rows = computed(() => {
    const { sides } = shape.value
    return sorted(
      all.value.filter((row) => matches(row, filter.value, sides)),
      sort.value,
      { where: where.value, pair: pair.value, sides },
    )
  })
  return { conditions, where, search, inTexts, sort, contrast, filter, index, pair, all, rows }
}

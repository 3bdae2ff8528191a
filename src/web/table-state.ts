/** What a person has chosen in the table of boards: it lives in the address. Signals alone. */
import { computed, type ReadonlySignal, type Signal, signal } from '@preact/signals'
import { type BoardsIndex, boardsIndex } from './boards-index.ts'
import { someOf, textChoice, type Wording, yesChoice } from './choices.ts'
import { type Chosen, chosen } from './chosen.ts'
import {
  type Condition,
  conditions as conditionNames,
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
  conditions: Chosen<ReadonlySet<Condition>>
  where: Chosen<Where>
  search: Chosen<string>
  /** Whether all posts are searched too. */
  withTexts: Chosen<boolean>
  /** Problems whose texts hold the search; null where texts are not searched. */
  inTexts: Signal<ReadonlySet<number> | null>
  sort: Chosen<Sort>
  /** Which of the experiment's contrasts differences are shown of. */
  contrast: Chosen<number>
  filter: ReadonlySignal<Filter>
  index: ReadonlySignal<BoardsIndex>
  /** The sides of that contrast; undefined where nothing is contrasted. */
  pair: ReadonlySignal<Pair | undefined>
  all: ReadonlySignal<Row[]>
  rows: ReadonlySignal<Row[]>
}

const nothing = { jobs: [], sides: [], contrasts: [] }

export function tableState({ run, boards }: RunSource): TableState {
  // The jobs' names and sides alone decide: not their progress, which changes at every event.
  const jobs = computed(() => run.value?.jobs.map(({ name }) => name).join() ?? '')
  const shape = computed(() => {
    void jobs.value
    return run.peek() ?? nothing
  })
  const names = (): string[] => shape.value.sides.map(({ name }) => name)
  const conditions = chosen('show', someOf(conditionNames))
  const where = chosen<Where>('in', whereWording(names))
  const search = chosen('q', textChoice)
  const withTexts = chosen('posts', yesChoice)
  const inTexts = signal<ReadonlySet<number> | null>(null)
  const sort = chosen<Sort>('sort', sortWording(names))
  const contrast = chosen<number>('difference', {
    read: (text) =>
      Math.max(
        0,
        shape.value.contrasts.findIndex((pair) => pairText(pair) === text),
      ),
    write: (number) => (number === 0 ? null : pairText(shape.value.contrasts[number])),
  })
  const filter = computed(
    (): Filter => ({
      conditions: conditions.value,
      where: where.value,
      search: search.value.trim(),
      inTexts: inTexts.value,
    }),
  )
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
  return { conditions, where, search, withTexts, inTexts, sort, contrast, filter, index, pair, all, rows }
}

const pairText = ({ arm, against }: { arm: string; against: string }) => `${arm}:${against}`

/** A side by its name. */
export function whereWording(names: () => readonly string[]): Wording<Where> {
  return {
    read: (text) => {
      const side = names().indexOf(text)
      return side < 0 ? 'trained' : side
    },
    write: (where) => (where === 'trained' ? null : names()[where]),
  }
}

const sortKeys = ['order', 'difference', 'rescued', 'misled', 'cut'] as const

/** "rescued,most" or "of:recipe,least": what it is sorted by, and which end comes first. */
export function sortWording(names: () => readonly string[]): Wording<Sort> {
  const unless: Sort = { key: 'order', descending: false }
  return {
    read: (text) => {
      const [, name, end] = /^(.+),(most|least)$/.exec(text) ?? []
      if (name === undefined) return unless
      const side = name.startsWith('of:') ? names().indexOf(name.slice('of:'.length)) : -1
      const key = side >= 0 ? side : sortKeys.find((one) => one === name)
      return key === undefined ? unless : { key, descending: end === 'most' }
    },
    write: ({ key, descending }) =>
      key === 'order' && !descending
        ? null
        : `${typeof key === 'number' ? `of:${names()[key]}` : key},${descending ? 'most' : 'least'}`,
  }
}

/** The table of held-out problems, and the latest boards of a run that is under way. */
import { useSignal, useSignalEffect } from '@preact/signals'
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core'
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks'
import type { BoardColumns, RunView, Side } from '../view/types.ts'
import { type BoardsIndex, scoresOf } from './boards-index.ts'
import { textChoice, wholeChoice } from './choices.ts'
import { chosen } from './chosen.ts'
import { colourOf } from './colours.ts'
import { save } from './controls.tsx'
import { csv, signed, whole } from './format.ts'
import { capital } from './names.ts'
import { Board } from './problem.tsx'
import { fragmentOf } from './route.ts'
import {
  type Condition,
  conditions,
  counted,
  difference,
  type Pair,
  type Row,
  type SortKey,
  seedOfInterest,
} from './rows.ts'
import type { RunSource } from './source.ts'
import type { TableState } from './table-state.ts'

const conditionTitles: Record<Condition, string> = {
  rescued: 'Rescued',
  misled: 'Misled',
  arms: 'Arms disagree',
  seeds: 'Seeds disagree',
  cut: 'Cut notes',
}

const conditionHelp: Record<Condition, string> = {
  rescued: 'A last post is right where its seat’s post before was wrong; of its own note alone, a second try',
  misled: 'A last post is wrong where its seat’s post before was right; of its own note alone, a second try',
  arms: 'Most answers of one arm are right, most of another’s wrong',
  seeds: 'Most answers of one training seed are right, most of another’s of the same arm wrong',
  cut: 'A post before the last round was ended by the token limit',
}

const ROW = 52

export function BoardsTable({
  source,
  run,
  table,
  address,
}: {
  source: RunSource
  run: RunView
  table: TableState
  address: string | null
}) {
  const rows = table.rows.value
  const all = table.all.value
  return (
    <>
      <p class="muted">
        Every held-out problem, with each answer counted.{' '}
        <span class="no-print">
          An answer is a square, and right is filled. Open a problem to read what was posted.
        </span>
      </p>
      <Filters source={source} table={table} run={run} />
      <p class="count" role="status">
        {whole(rows.length)} of {whole(all.length)} problems
        {source.loaded.value ? '' : ' (loading)'}
        <button
          type="button"
          class="quiet no-print"
          onClick={() =>
            save(
              'problems.csv',
              'text/csv',
              csv(rows.map((row) => exported(row, table.index.value, table.pair.value))),
            )
          }
        >
          CSV
        </button>
      </p>
      <VirtualTable rows={rows} run={run} table={table} address={address} />
      <PrintedTable rows={rows} table={table} />
    </>
  )
}

function exported(
  row: Row,
  { columns: { problems }, sides, jobs }: BoardsIndex,
  pair: Pair | undefined,
): Record<string, string | number | null> {
  const { problem, tallies } = row
  return {
    id: problems.id[problem],
    question: problems.question[problem],
    gold: problems.gold[problem],
    ...Object.fromEntries(
      tallies.flatMap((tally, side) =>
        jobs.some((job) => job.side === side)
          ? [
              [`${sides[side].title} right`, tally.right],
              [`${sides[side].title} answers`, tally.scores],
              [`${sides[side].title} rescued`, tally.rescued],
              [`${sides[side].title} misled`, tally.misled],
              [`${sides[side].title} notes cut`, tally.notesCut],
            ]
          : [],
      ),
    ),
    ...(pair && { [`${sides[pair.arm].title} - ${sides[pair.against].title}`]: difference(row, pair) }),
  }
}

function Filters({ source, table, run }: { source: RunSource; table: TableState; run: RunView }) {
  const { withTexts } = table
  const searched = useSignal<number | null>(null)
  // Notes and replies are unpacked block by block, so this search fills in as it goes.
  useSignalEffect(() => {
    const needle = table.search.value.trim().toLowerCase()
    const { problem, step } = source.boards.value
    if (!withTexts.value || needle === '') {
      table.inTexts.value = null
      searched.value = null
      return
    }
    const stop = new AbortController()
    const look = async () => {
      let found = new Set<number>()
      table.inTexts.value = found
      searched.value = 0
      for await (const portion of source.search(needle, stop.signal)) {
        if (stop.signal.aborted) return
        const more = portion.found.filter((board) => step[board] === 0).map((board) => problem[board])
        if (more.length > 0) {
          found = new Set([...found, ...more])
          table.inTexts.value = found
        }
        searched.value = portion.share
      }
    }
    const wait = setTimeout(() => void look().catch(() => {}), 200)
    return () => {
      clearTimeout(wait)
      stop.abort()
    }
  })
  const toggle = (condition: Condition) => {
    const chosen = new Set(table.conditions.value)
    if (!chosen.delete(condition)) chosen.add(condition)
    table.conditions.value = chosen
  }
  return (
    <form class="filters no-print" aria-label="Filter problems" onSubmit={(event) => event.preventDefault()}>
      <fieldset class="chips">
        <legend class="hidden">Show only problems with</legend>
        {conditions.map((condition) => (
          <button
            key={condition}
            type="button"
            class="chip"
            aria-pressed={table.conditions.value.has(condition)}
            title={conditionHelp[condition]}
            onClick={() => toggle(condition)}
          >
            {conditionTitles[condition]}
          </button>
        ))}
      </fieldset>
      <label>
        <span aria-hidden="true">in </span>
        <select
          aria-label="Look in"
          value={String(table.where.value)}
          onChange={(event) => {
            const { value } = event.currentTarget
            table.where.value = value === 'trained' ? value : Number(value)
          }}
        >
          <option value="trained">{allArms(run.arms.length)}</option>
          {[...run.sides.keys()]
            .sort((a, b) => Number(run.sides[a].arm === null) - Number(run.sides[b].arm === null))
            .map((side) => (
              <option key={side} value={String(side)}>
                {run.sides[side].title}
              </option>
            ))}
        </select>
      </label>
      {run.contrasts.length > 1 ? (
        <label>
          <span aria-hidden="true">difference </span>
          <select
            aria-label="Difference of"
            value={String(table.contrast.value)}
            onChange={(event) => {
              table.contrast.value = Number(event.currentTarget.value)
            }}
          >
            {run.contrasts.map(({ arm, against }, i) => (
              <option key={`${arm} ${against}`} value={String(i)}>
                {arm} - {against}
              </option>
            ))}
          </select>
        </label>
      ) : null}
      <label class="search">
        <span class="hidden">Search questions, answers and ids</span>
        <input
          type="search"
          placeholder="Search"
          value={table.search.value}
          onInput={(event) => {
            table.search.value = event.currentTarget.value
          }}
        />
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={withTexts.value}
          onChange={(event) => {
            withTexts.value = event.currentTarget.checked
          }}
        />{' '}
        in all posts too
        {searched.value !== null && searched.value < 1 ? ` (${Math.round(100 * searched.value)}%)` : ''}
      </label>
    </form>
  )
}

const allArms = (arms: number) =>
  arms === 1 ? 'the trained arm' : arms === 2 ? 'both trained arms' : 'all trained arms'

/** Sides that have columns beside the questions: with more, the bases have none. */
const MOST_SIDES = 6
/** Arms that all have columns on a tablet; with more, those of the difference alone do. */
const MOST_ARMS = 3

interface Column {
  key: SortKey
  title: string
  /** Names it, and says where it is left out: on a tablet and smaller screens (`wide`), on a phone (`other`). */
  class: string
  width: number
}

/** The columns after the questions'. */
function tableColumns({ sides, jobs }: BoardsIndex, pair: Pair | undefined): Column[] {
  const shown = [...sides.keys()].filter((side) => sides.length <= MOST_SIDES || sides[side].arm !== null)
  const arms = sides.filter(({ arm }) => arm !== null).length
  const near = (side: number) =>
    pair ? side === pair.arm || side === pair.against : (sides[side].arm ?? 0) < 2
  return [
    ...shown.map((side): Column => {
      const { arm, title } = sides[side]
      const several = jobs.filter((job) => job.side === side).length > 1
      const where = arm === null || (arms > MOST_ARMS && !near(side)) ? 'wide' : near(side) ? '' : 'other'
      return {
        key: side,
        title: capital(title),
        class: `side ${where}`,
        width: shown.length > 5 ? 72 : several || arm !== null ? 110 : 92,
      }
    }),
    ...(pair
      ? [{ key: 'difference', title: 'Difference', class: 'difference other', width: 84 } as const]
      : []),
    { key: 'rescued', title: 'Rescued', class: 'rescued wide', width: 76 },
    { key: 'misled', title: 'Misled', class: 'misled wide', width: 72 },
  ]
}

/** Widths of the columns that a screen has room for, the questions' first. */
function grid(columns: readonly Column[], without: RegExp | null, width?: number): string {
  const kept = columns.filter((column) => without === null || !without.test(column.class))
  return ['minmax(0, 1fr)', ...kept.map((column) => `${width ?? column.width}px`)].join(' ')
}

function VirtualTable({
  rows,
  run,
  table,
  address,
}: {
  rows: Row[]
  run: RunView
  table: TableState
  address: string | null
}) {
  const box = useRef<HTMLDivElement>(null)
  const active = useSignal(0)
  const virtualizer = useVirtualRows(box, rows.length)
  const sort = table.sort.value
  const index = table.index.value
  const columns = tableColumns(index, table.pair.value)
  const current = Math.min(active.value, Math.max(0, rows.length - 1))

  const sortBy = (key: SortKey) => {
    // The first click on a count shows the most first.
    table.sort.value =
      sort.key === key ? { key, descending: !sort.descending } : { key, descending: key !== 'order' }
    active.value = 0
    box.current?.scrollTo({ top: 0 })
  }
  const move = (to: number) => {
    const row = Math.max(0, Math.min(rows.length - 1, to))
    active.value = row
    virtualizer.scrollToIndex(row)
    // The row is there after the next drawing.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-row="${row}"]`)?.focus()),
    )
  }
  const onKey = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor((box.current?.clientHeight ?? 0) / ROW) - 2)
    const steps: Record<string, number> = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      j: current + 1,
      k: current - 1,
      PageDown: current + page,
      PageUp: current - page,
      Home: 0,
      End: rows.length - 1,
    }
    const to = steps[event.key]
    const onRow = event.target instanceof HTMLElement && event.target.dataset.row !== undefined
    if (to === undefined || !onRow || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    move(to)
  }
  const items = virtualizer.getVirtualItems()
  const { id, question, gold } = index.columns.problems
  return (
    // The arrow keys move between the links of the rows, which take the focus themselves.
    <div
      class="table-scroll"
      ref={box}
      style={{
        '--grid': grid(columns, null),
        '--grid-tablet': grid(columns, /wide/),
        '--grid-phone': grid(columns, /wide|other/, 62),
      }}
    >
      <table class="table" aria-label="Held-out problems" aria-rowcount={rows.length + 1} onKeyDown={onKey}>
        <thead>
          <tr class="table-head" aria-rowindex={1}>
            {[{ key: 'order', title: 'Problem', class: 'order' } as const, ...columns].map((column) => (
              <th
                key={column.key}
                scope="col"
                class={`cell ${column.class}`}
                title={column.title}
                aria-sort={sort.key === column.key ? (sort.descending ? 'descending' : 'ascending') : 'none'}
              >
                <button type="button" class="sort" onClick={() => sortBy(column.key)}>
                  {column.title}
                  <span aria-hidden="true">
                    {sort.key === column.key ? (sort.descending ? ' ↓' : ' ↑') : ''}
                  </span>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        {/* --rows makes the body as tall as all rows: those in sight are laid over it. */}
        <tbody class="table-body" style={{ '--rows': `${virtualizer.getTotalSize()}px` }}>
          {items.map(({ index: at, start }) => {
            const row = rows[at]
            if (!row) return null
            const seed = seedOfInterest(row, table.filter.value, index)
            return (
              <tr
                key={row.problem}
                aria-rowindex={at + 2}
                class="table-row"
                style={{ transform: `translateY(${start}px)` }}
              >
                <th scope="row" class="cell order">
                  <a
                    href={fragmentOf({
                      view: 'problem',
                      run: address,
                      id: id[row.problem],
                      seed,
                      arms: armsOfInterest(table, run),
                    })}
                    data-row={at}
                    tabIndex={at === current ? 0 : -1}
                    onFocus={() => {
                      active.value = at
                    }}
                  >
                    <span class="question">{question[row.problem].slice(0, 300)}</span>
                    <span class="gold">{gold[row.problem].slice(0, 40)}</span>
                  </a>
                </th>
                {columns.map((column) => (
                  <td
                    key={column.key}
                    class={`cell ${column.class} ${typeof column.key === 'number' ? '' : 'number'}`}
                  >
                    {typeof column.key === 'number' ? (
                      <Scores row={row} side={column.key} index={index} />
                    ) : column.key === 'difference' ? (
                      signedOrNothing(difference(row, table.pair.value))
                    ) : column.key === 'rescued' || column.key === 'misled' ? (
                      counted(row, table.where.value, column.key, index.sides) || ''
                    ) : null}
                  </td>
                ))}
              </tr>
            )
          })}
          {rows.length === 0 ? (
            <tr class="empty">
              <td>
                {table.all.value.length === 0
                  ? 'No board yet.'
                  : 'No problem is like that: loosen the filter.'}
              </td>
            </tr>
          ) : null}
        </tbody>
      </table>
    </div>
  )
}

/** Rows that are printed at most: some twelve pages. */
const MOST_PRINTED = 400

/** The rows as a plain table of all of them, there while the page is being printed. */
function PrintedTable({ rows, table }: { rows: readonly Row[]; table: TableState }) {
  if (!usePrinting()) return null
  const index = table.index.value
  const { id, question, gold } = index.columns.problems
  const sides = index.sides.flatMap((_, side) => (index.jobs.some((job) => job.side === side) ? [side] : []))
  return (
    <div class="print-only">
      <table class="printed-boards">
        <thead>
          <tr>
            <th scope="col">Problem</th>
            <th scope="col">Right answer</th>
            {sides.map((side) => (
              <th key={side} scope="col" class="number">
                {capital(index.sides[side].title)}
              </th>
            ))}
            <th scope="col" class="number">
              Rescued
            </th>
            <th scope="col" class="number">
              Misled
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MOST_PRINTED).map((row) => (
            <tr key={row.problem}>
              <th scope="row">
                {question[row.problem].slice(0, 300)}{' '}
                <span class="muted">{id[row.problem].slice(0, 40)}</span>
              </th>
              <td>{gold[row.problem].slice(0, 60)}</td>
              {sides.map((side) => {
                const { right, scores } = row.tallies[side]
                return (
                  <td key={side} class="number">
                    {scores === 0 ? '' : `${right} of ${scores}`}
                  </td>
                )
              })}
              <td class="number">{counted(row, table.where.value, 'rescued', index.sides) || ''}</td>
              <td class="number">{counted(row, table.where.value, 'misled', index.sides) || ''}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MOST_PRINTED ? (
        <p>
          The first {MOST_PRINTED} of {whole(rows.length)} problems: filter the table to print others.
        </p>
      ) : null}
    </div>
  )
}

/** Whether the page is being printed. */
function usePrinting(): boolean {
  const [printing, setPrinting] = useState(false)
  useEffect(() => {
    const media = matchMedia('print')
    const change = () => setPrinting(media.matches)
    const [begin, end] = [() => setPrinting(true), () => setPrinting(false)]
    media.addEventListener('change', change)
    addEventListener('beforeprint', begin)
    addEventListener('afterprint', end)
    return () => {
      media.removeEventListener('change', change)
      removeEventListener('beforeprint', begin)
      removeEventListener('afterprint', end)
    }
  }, [])
  return printing
}

const signedOrNothing = (value: number | null) => (value === null ? '' : value === 0 ? '0' : signed(value))

/** The arms that a problem opens with: those of the difference that is looked at, where there are more than two. */
function armsOfInterest(table: TableState, run: RunView): string[] | null {
  const pair = table.pair.value
  if (!pair || run.arms.length <= 2 || table.contrast.value === 0) return null
  return [pair.against, pair.arm].map((side) => run.sides[side].name)
}

/** Squares that a cell has room for; more answers are drawn as a bar for each job. */
const MOST_SQUARES = 24
/** More jobs than a row has room for are one bar together. */
const MOST_BARS = 16

/** Each answer of a side as a square, job by job. */
function Scores({ row, side, index }: { row: Row; side: number; index: BoardsIndex }) {
  const { right, scores } = row.tallies[side]
  if (scores === 0) return <span class="muted">–</span>
  const boards = row.boards.filter((board, job) => board >= 0 && index.jobs[job].side === side)
  return (
    <Squares
      side={index.sides[side]}
      groups={boards.map((board) => scoresOf(index, board))}
      right={right}
      of={scores}
    />
  )
}

function Squares({
  side,
  groups,
  right,
  of,
}: {
  side: Side
  groups: boolean[][]
  right: number
  of: number
}) {
  const share = (group: boolean[]) => group.filter(Boolean).length / group.length
  const bars = of <= MOST_SQUARES ? null : groups.length > MOST_BARS ? [right / of] : groups.map(share)
  return (
    <span
      class={bars ? 'squares bars' : 'squares'}
      style={{ '--tone': colourOf(side) }}
      role="img"
      aria-label={`${right} of ${of} right`}
    >
      {bars
        ? bars.map((part, i) => <i key={i} class="share" style={{ '--share': `${100 * part}%` }} />)
        : groups.map((group, i) => (
            <span key={i} class="group">
              {group.map((each, n) => (
                <i key={n} class={each ? 'on' : 'off'} />
              ))}
            </span>
          ))}
    </span>
  )
}

/** The rows to draw, of `count` rows of equal height in a scrolling box: TanStack Virtual, drawn by Preact. */
function useVirtualRows(
  box: { current: HTMLDivElement | null },
  count: number,
): Virtualizer<HTMLDivElement, Element> {
  const [, redraw] = useReducer((turn: number) => turn + 1, 0)
  const made = useRef<Virtualizer<HTMLDivElement, Element> | null>(null)
  const options = {
    count,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 6,
    // The header lies over the first rows.
    scrollPaddingStart: ROW,
    initialRect: { width: 0, height: 600 },
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => redraw(undefined as never),
  }
  made.current ??= new Virtualizer(options)
  made.current.setOptions(options)
  useEffect(() => made.current?._didMount(), [])
  useLayoutEffect(() => made.current?._willUpdate())
  return made.current
}

/** The boards of one training step of one job, to open. */
export function TrainingBoards({
  table,
  run,
  address,
}: {
  table: TableState
  run: RunView
  address: string | null
}) {
  const trained = run.jobs.filter(({ steps }) => steps.done > 0)
  const { name, at } = useMemo(
    () => ({ name: chosen('job', textChoice), at: chosen('step', wholeChoice(1)) }),
    [],
  )
  const job = trained.find((each) => each.name === name.value) ?? trained.at(-1)
  if (!job) return null
  const { columns } = table.index.value
  const step = Math.max(1, Math.min(at.value, job.steps.done))
  const number = run.jobs.indexOf(job)
  const boards = columns.job.flatMap((each, i) => (each === number && columns.step[i] === step ? [i] : []))
  return (
    <details class="training-boards no-print" open={name.value !== '' || at.value !== 1}>
      <summary>The boards of a training step</summary>
      <p class="actions">
        <label>
          <span class="muted">Job</span>{' '}
          <select
            value={job.name}
            onChange={(event) => {
              name.value = event.currentTarget.value
            }}
          >
            {trained.map((each) => (
              <option key={each.name}>{each.name}</option>
            ))}
          </select>
        </label>
        <label>
          <span class="muted">Step</span>{' '}
          <input
            type="range"
            min={1}
            max={job.steps.done}
            value={step}
            onInput={(event) => {
              at.value = Number(event.currentTarget.value)
            }}
          />{' '}
          {step} of {job.steps.done}
        </label>
      </p>
      <ol class="step-boards">
        {boards.map((board, place) => {
          const problem = columns.problem[board]
          // Which of those of this problem it is.
          const nth = boards.slice(0, place).filter((other) => columns.problem[other] === problem).length
          const id = columns.problems.id[problem]
          const scores = scoresOf(table.index.value, board)
          return (
            <li key={board}>
              <Squares
                side={run.sides[job.side]}
                groups={[scores]}
                right={scores.filter(Boolean).length}
                of={scores.length}
              />
              <a href={fragmentOf({ view: 'training', run: address, job: job.name, step, id, board: nth })}>
                {columns.problems.question[problem].slice(0, 200)}
              </a>
            </li>
          )
        })}
      </ol>
    </details>
  )
}

const LATEST = 3

/** The boards written last, newest first. */
export function LatestBoards({
  source,
  run,
  address,
}: {
  source: RunSource
  run: RunView
  address: string | null
}) {
  const columns = source.boards.value
  const count = columns.job.length
  if (count === 0) return null
  const numbers = newest(columns, run, LATEST)
  return (
    <section id="latest" aria-labelledby="latest-title">
      <h2 id="latest-title">Latest boards</h2>
      <div class="latest">
        {numbers.map((number) => {
          const job = run.jobs[columns.job[number]]
          const problem = columns.problem[number]
          const step = columns.step[number]
          const id = columns.problems.id[problem]
          const href = fragmentOf(
            step === 0
              ? { view: 'problem', run: address, id, seed: job.seed, arms: null }
              : { view: 'training', run: address, job: job.name, step, id, board: nth(columns, number) },
          )
          return (
            <article key={number}>
              <p class="eyebrow">
                {job.name} · {step === 0 ? 'held out' : `step ${step}`} · <a href={href}>open</a>
              </p>
              <p class="question">{columns.problems.question[problem].slice(0, 400)}</p>
              <Board source={source} side={run.sides[job.side]} job={job.name} number={number} compact />
            </article>
          )
        })}
      </div>
    </section>
  )
}

/** Which of the boards of its problem in its step a training board is. */
function nth({ job, step, problem }: BoardColumns, board: number): number {
  let before = 0
  for (let i = board - 1; i >= 0 && (job[i] !== job[board] || step[i] === step[board]); i--) {
    if (job[i] === job[board] && problem[i] === problem[board]) before++
  }
  return before
}

/** The newest boards of the jobs that are running, or else of all. */
function newest({ job }: BoardColumns, run: RunView, count: number): number[] {
  const running = new Set(run.jobs.flatMap(({ state }, i) => (state === 'running' ? [i] : [])))
  const found: number[] = []
  for (let i = job.length - 1; i >= 0 && found.length < count; i--) if (running.has(job[i])) found.push(i)
  return found.length > 0
    ? found
    : job
        .map((_, i) => i)
        .slice(-count)
        .reverse()
}

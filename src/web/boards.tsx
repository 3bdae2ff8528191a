/** The table of held-out problems, and the latest boards of a run that is under way. */
import { useSignal, useSignalEffect } from '@preact/signals'
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core'
import { useEffect, useLayoutEffect, useReducer, useRef } from 'preact/hooks'
import { bit, flagAt } from '../view/flags.ts'
import type { BoardColumns, Role, RunView } from '../view/types.ts'
import { save } from './controls.tsx'
import { csv, signed, whole } from './format.ts'
import { Board } from './problem.tsx'
import { fragmentOf } from './route.ts'
import {
  type Condition,
  conditions,
  counted,
  difference,
  type Row,
  roles,
  type SortKey,
  seedOfInterest,
  type Where,
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
  rescued: "A reply is right where its writer's own note was wrong",
  misled: "A reply is wrong where its writer's own note was right",
  arms: "Most replies of one arm are right, most of the other's wrong",
  seeds: "Most replies of one training seed are right, most of another's of the same arm wrong",
  cut: 'A note was ended by the token limit',
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
  const columns = source.boards.value
  return (
    <>
      <p class="muted">
        Every held-out problem, with each reply as a square: right is filled. Open one to read its notes and
        replies.
      </p>
      <Filters source={source} table={table} run={run} />
      <p class="count" role="status">
        {whole(rows.length)} of {whole(all.length)} problems
        {source.loaded.value ? '' : ' (loading)'}
        <button
          type="button"
          class="quiet no-print"
          onClick={() =>
            save('problems.csv', 'text/csv', csv(rows.map((row) => exported(row, columns, run))))
          }
        >
          CSV
        </button>
      </p>
      <VirtualTable rows={rows} columns={columns} run={run} table={table} address={address} />
      <p class="print-only">The table of boards is interactive: open this file in a browser to use it.</p>
    </>
  )
}

function exported(
  row: Row,
  { problems }: BoardColumns,
  run: RunView,
): Record<string, string | number | null> {
  const { problem, tallies } = row
  return {
    id: problems.id[problem],
    question: problems.question[problem],
    gold: problems.gold[problem],
    ...Object.fromEntries(
      Object.entries(tallies).flatMap(([role, tally]) =>
        run.jobs.some((job) => job.role === role)
          ? [
              [`${role} right`, tally.right],
              [`${role} replies`, tally.replies],
              [`${role} rescued`, tally.rescued],
              [`${role} misled`, tally.misled],
              [`${role} notes cut`, tally.notesCut],
            ]
          : [],
      ),
    ),
    difference: difference(row),
  }
}

function Filters({ source, table, run }: { source: RunSource; table: TableState; run: RunView }) {
  const withTexts = useSignal(false)
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
  const has = (role: string) => run.jobs.some((job) => job.role === role)
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
          value={table.where.value}
          onChange={(event) => {
            table.where.value = event.currentTarget.value as Where
          }}
        >
          <option value="trained">both trained arms</option>
          {has('baseline') ? <option value="baseline">baseline</option> : null}
          {has('recipe') ? <option value="recipe">recipe</option> : null}
          <option value="base">base, own notes</option>
          <option value="base-shared">base, recipe's board</option>
        </select>
      </label>
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
        in notes and replies too
        {searched.value !== null && searched.value < 1 ? ` (${Math.round(100 * searched.value)}%)` : ''}
      </label>
    </form>
  )
}

const headers: { key: SortKey; title: string; wide?: boolean }[] = [
  { key: 'order', title: 'Problem' },
  { key: 'base', title: 'Base, own', wide: true },
  { key: 'base-shared', title: 'Base, shared', wide: true },
  { key: 'baseline', title: 'Baseline' },
  { key: 'recipe', title: 'Recipe' },
  { key: 'difference', title: 'Difference', wide: true },
  { key: 'rescued', title: 'Rescued', wide: true },
  { key: 'misled', title: 'Misled', wide: true },
]

function VirtualTable({
  rows,
  columns,
  run,
  table,
  address,
}: {
  rows: Row[]
  columns: BoardColumns
  run: RunView
  table: TableState
  address: string | null
}) {
  const box = useRef<HTMLDivElement>(null)
  const active = useSignal(0)
  const virtualizer = useVirtualRows(box, rows.length)
  const sort = table.sort.value
  const current = Math.min(active.value, Math.max(0, rows.length - 1))

  const sortBy = (key: SortKey) => {
    // The first click on a count shows the most first.
    table.sort.value =
      sort.key === key ? { key, descending: !sort.descending } : { key, descending: key !== 'order' }
    active.value = 0
    box.current?.scrollTo({ top: 0 })
  }
  const move = (to: number) => {
    const index = Math.max(0, Math.min(rows.length - 1, to))
    active.value = index
    virtualizer.scrollToIndex(index)
    // The row is there after the next drawing.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-row="${index}"]`)?.focus()),
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
  const { id, question, gold } = columns.problems
  return (
    // The arrow keys move between the links of the rows, which take the focus themselves.
    <div class="table-scroll" ref={box}>
      <table class="table" aria-label="Held-out problems" aria-rowcount={rows.length + 1} onKeyDown={onKey}>
        <thead>
          <tr class="table-head" aria-rowindex={1}>
            {headers.map(({ key, title, wide }) => (
              <th
                key={key}
                scope="col"
                class={`cell ${key} ${wide ? 'wide' : ''}`}
                aria-sort={sort.key === key ? (sort.descending ? 'descending' : 'ascending') : 'none'}
              >
                <button type="button" class="sort" onClick={() => sortBy(key)}>
                  {title}
                  <span aria-hidden="true">{sort.key === key ? (sort.descending ? ' ↓' : ' ↑') : ''}</span>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        {/* --rows makes the body as tall as all rows: those in sight are laid over it. */}
        <tbody class="table-body" style={{ '--rows': `${virtualizer.getTotalSize()}px` }}>
          {items.map(({ index, start }) => {
            const row = rows[index]
            if (!row) return null
            const seed = seedOfInterest(row, table.filter.value, columns, run.jobs, run.copies)
            return (
              <tr
                key={row.problem}
                aria-rowindex={index + 2}
                class="table-row"
                style={{ transform: `translateY(${start}px)` }}
              >
                <th scope="row" class="cell order">
                  <a
                    href={fragmentOf({ view: 'problem', run: address, id: id[row.problem], seed })}
                    data-row={index}
                    tabIndex={index === current ? 0 : -1}
                    onFocus={() => {
                      active.value = index
                    }}
                  >
                    <span class="question">{question[row.problem].slice(0, 300)}</span>
                    <span class="gold">{gold[row.problem].slice(0, 40)}</span>
                  </a>
                </th>
                {roles.map((role) => (
                  <td
                    key={role}
                    class={`cell ${role} ${role.startsWith('base-') || role === 'base' ? 'wide' : ''}`}
                  >
                    <Squares row={row} role={role} columns={columns} run={run} />
                  </td>
                ))}
                <td class="cell difference wide number">{signedOrNothing(difference(row))}</td>
                <td class="cell rescued wide number">{counted(row, table.where.value, 'rescued') || ''}</td>
                <td class="cell misled wide number">{counted(row, table.where.value, 'misled') || ''}</td>
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

const signedOrNothing = (value: number | null) => (value === null ? '' : value === 0 ? '0' : signed(value))

/** Each reply of a role as a square, seed by seed. */
function Squares({ row, role, columns, run }: { row: Row; role: Role; columns: BoardColumns; run: RunView }) {
  const { right, replies } = row.tallies[role]
  if (replies === 0) return <span class="muted">–</span>
  return (
    <span class={`squares ${role}`} role="img" aria-label={`${right} of ${replies} right`}>
      {row.boards.map((board, job) =>
        board < 0 || run.jobs[job].role !== role ? null : (
          <Group key={run.jobs[job].name} flags={columns.flags} board={board} copies={run.copies} />
        ),
      )}
    </span>
  )
}

/** The replies of one board as squares. */
function Replies({
  flags,
  board,
  copies,
  role,
}: {
  flags: string
  board: number
  copies: number
  role: Role
}) {
  const right = repliesOf(flags, board, copies).filter(Boolean).length
  return (
    <span class={`squares ${role}`} role="img" aria-label={`${right} of ${copies} right`}>
      <Group flags={flags} board={board} copies={copies} />
    </span>
  )
}

function Group({ flags, board, copies }: { flags: string; board: number; copies: number }) {
  return (
    <span class="group">
      {repliesOf(flags, board, copies).map((right, copy) => (
        <i key={copy} class={right ? 'on' : 'off'} />
      ))}
    </span>
  )
}

/** Whether each reply of a board is right. */
const repliesOf = (flags: string, board: number, copies: number): boolean[] =>
  Array.from(
    { length: copies },
    (_, copy) => (flagAt(flags, (2 * board + 1) * copies + copy) & bit.right) !== 0,
  )

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
  source,
  run,
  address,
}: {
  source: RunSource
  run: RunView
  address: string | null
}) {
  const trained = run.jobs.filter(({ steps }) => steps.done > 0)
  const name = useSignal<string | null>(null)
  const chosen = useSignal(1)
  const job = trained.find((each) => each.name === name.value) ?? trained.at(-1)
  if (!job) return null
  const columns = source.boards.value
  const step = Math.min(chosen.value, job.steps.done)
  const number = run.jobs.indexOf(job)
  const boards = columns.job.flatMap((each, i) => (each === number && columns.step[i] === step ? [i] : []))
  return (
    <details class="training-boards no-print">
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
              chosen.value = Number(event.currentTarget.value)
            }}
          />{' '}
          {step} of {job.steps.done}
        </label>
      </p>
      <ol class="step-boards">
        {boards.map((board) => {
          const id = columns.problems.id[columns.problem[board]]
          return (
            <li key={board}>
              <Replies flags={columns.flags} board={board} copies={run.copies} role={job.role} />
              <a href={fragmentOf({ view: 'training', run: address, job: job.name, step, id })}>
                {columns.problems.question[columns.problem[board]].slice(0, 200)}
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
              ? { view: 'problem', run: address, id, seed: job.seed }
              : { view: 'training', run: address, job: job.name, step, id },
          )
          return (
            <article key={number}>
              <p class="eyebrow">
                {job.name} · {step === 0 ? 'held out' : `step ${step}`} · <a href={href}>open</a>
              </p>
              <p class="question">{columns.problems.question[problem].slice(0, 400)}</p>
              <Board source={source} run={run} number={number} compact />
            </article>
          )
        })}
      </div>
    </section>
  )
}

/** Jobs run one after another, so the newest boards are the last of the job that is running. */
function newest(columns: BoardColumns, run: RunView, count: number): number[] {
  const running = run.jobs.findIndex(({ state }) => state === 'running')
  const found: number[] = []
  for (let i = columns.job.length - 1; i >= 0 && found.length < count; i--) {
    if (columns.job[i] === running) found.push(i)
  }
  return found.length > 0
    ? found
    : columns.job
        .map((_, i) => i)
        .slice(-count)
        .reverse()
}

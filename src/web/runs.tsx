/** The first page of a server or a bundle: all its runs, to search, sort, open and compare. */
import { useEffect, useMemo, useState } from 'preact/hooks'
import { changeSentence, trainingSentence } from '../report/sentences.ts'
import type { RunListing } from '../view/types.ts'
import { namesChoice, textChoice, type Wording } from './choices.ts'
import { chosen } from './chosen.ts'
import { Wide } from './controls.tsx'
import { difference } from './format.ts'
import { shortName } from './names.ts'
import { Bar } from './overview.tsx'
import { go } from './route.ts'
import { listedRuns, type RunOrder, runOrders } from './run-list.ts'
import { Said } from './said.tsx'
import type { RunsSource } from './source.ts'

/** How often the list is asked for again, in milliseconds. */
export const EVERY = 2000

const orderWording: Wording<RunOrder> = {
  read: (text) => runOrders.find((order) => order === text) ?? 'newest',
  write: (order) => (order === 'newest' ? null : order),
}

const orderTitles: Record<RunOrder, string> = {
  newest: 'Newest first',
  name: 'By name',
  difference: 'Largest difference first',
}

export function Runs({ source }: { source: RunsSource }) {
  const [runs, setRuns] = useState<RunListing[] | null>(null)
  const [trouble, setTrouble] = useState<string | null>(null)
  const { ticked, tags, search, order } = useMemo(
    () => ({
      ticked: chosen('compare', namesChoice),
      tags: chosen('tags', namesChoice),
      search: chosen('q', textChoice),
      order: chosen('sort', orderWording),
    }),
    [],
  )
  useEffect(() => {
    document.title = 'Runs - message-board'
    const look = () =>
      source.list().then(
        (found) => {
          setRuns(found)
          setTrouble(null)
        },
        (error) => setTrouble(String(error instanceof Error ? error.message : error)),
      )
    void look()
    if (!source.live) return
    const timer = setInterval(look, EVERY)
    return () => clearInterval(timer)
  }, [source])
  const toggled = (all: ReadonlySet<string>, name: string) => {
    const next = new Set(all)
    if (!next.delete(name)) next.add(name)
    return next
  }
  const shown = listedRuns(runs ?? [], {
    search: search.value,
    tags: tags.value,
    order: order.value,
  })
  const known = [...new Set((runs ?? []).flatMap((run) => run.notes.tags))].sort()
  // Those that are there, in the order in which they were ticked.
  const compared = [...ticked.value].filter((name) => runs?.some((run) => run.name === name))
  return (
    <>
      <h1>Runs</h1>
      {trouble ? <p class="warning">{trouble}</p> : null}
      {runs === null ? <p class="muted">Loading</p> : null}
      {runs?.length === 0 ? (
        <p>
          No run in this folder yet. Start one with <code>message-board run</code>; it appears here by itself.
        </p>
      ) : null}
      {runs && runs.length > 0 ? (
        <>
          <form
            class="filters no-print"
            aria-label="Filter runs"
            onSubmit={(event) => event.preventDefault()}
          >
            {known.length > 0 ? (
              <fieldset class="chips">
                <legend>Tags</legend>
                {known.map((tag) => (
                  <button
                    key={tag}
                    type="button"
                    class="chip"
                    aria-pressed={tags.value.has(tag)}
                    onClick={() => {
                      tags.value = toggled(tags.value, tag)
                    }}
                  >
                    {tag}
                  </button>
                ))}
              </fieldset>
            ) : null}
            <label class="search">
              <span class="hidden">Search names, tasks, models, arms, tags and notes</span>
              <input
                type="search"
                placeholder="Search"
                value={search.value}
                onInput={(event) => {
                  search.value = event.currentTarget.value
                }}
              />
            </label>
            <select
              aria-label="Order of the runs"
              value={order.value}
              onChange={(event) => {
                order.value = orderWording.read(event.currentTarget.value)
              }}
            >
              {runOrders.map((each) => (
                <option key={each} value={each}>
                  {orderTitles[each]}
                </option>
              ))}
            </select>
          </form>
          <p class="count" role="status">
            {shown.length} of {runs.length} runs
          </p>
          <Wide label="Runs">
            <table class="runs">
              <thead>
                <tr>
                  <th scope="col">
                    <span class="hidden">Compare</span>
                  </th>
                  <th scope="col">Run</th>
                  <th scope="col">State</th>
                  <th scope="col">Did training help?</th>
                  <th scope="col">Did the change help?</th>
                  <th scope="col">Arms, seeds</th>
                  <th scope="col">Changed</th>
                </tr>
              </thead>
              <tbody>
                {shown.map((run) => (
                  <tr key={run.name}>
                    <td>
                      <input
                        type="checkbox"
                        aria-label={`Compare ${run.name}`}
                        checked={ticked.value.has(run.name)}
                        onChange={() => {
                          ticked.value = toggled(ticked.value, run.name)
                        }}
                      />
                    </td>
                    <th scope="row">
                      <a href={source.href(run.name)}>{run.name}</a>
                      {run.problem ? (
                        <div class="why">{run.problem}</div>
                      ) : (
                        <div class="muted">
                          {run.task}, {shortName(run.model)}
                        </div>
                      )}
                      <Said notes={run.notes} />
                    </th>
                    <td>
                      <span class={`state ${run.state}`}>{run.state}</span>
                      {run.state === 'finished' ? null : (
                        <Bar what={`${run.name}, share done`} done={run.done} of={1} percent />
                      )}
                    </td>
                    <td>{run.found ? trainingSentence(run.found).headline : ''}</td>
                    <td>
                      {run.found ? changeSentence(run.found).headline : ''}
                      {run.found?.contrasts.length === 1 ? (
                        <div class="muted">{difference(run.found.contrasts[0])}</div>
                      ) : null}
                    </td>
                    <td>
                      {run.arms.join(', ')}
                      <div class="muted">{run.seeds.join(', ')}</div>
                    </td>
                    <td class="when">{new Date(run.changed).toLocaleString()}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Wide>
          {runs.length > 1 ? (
            <p class="actions no-print">
              <button
                type="button"
                disabled={compared.length < 2}
                onClick={() => go({ view: 'compare', runs: compared })}
              >
                {compared.length > 2 ? `Compare ${compared.length} runs` : 'Compare two runs'}
              </button>
              <span class="muted">
                {compared.length < 2
                  ? 'Tick two runs or more to see their curves, arms and differences together.'
                  : compared.join(', ')}
              </span>
            </p>
          ) : null}
        </>
      ) : null}
    </>
  )
}

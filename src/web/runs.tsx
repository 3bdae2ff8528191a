/** The server's first page: all runs in its folder, and two of them side by side. */
import { useSignal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { changeSentence, trainingSentence } from '../report/sentences.ts'
import type { RunListing, RunView } from '../view/types.ts'
import { Wide } from './controls.tsx'
import { ArmsFigure, TrainingFigures } from './figures.tsx'
import { difference } from './format.ts'
import { Bar, Section, Verdict } from './overview.tsx'
import { fragmentOf, go } from './route.ts'
import { differingSettings } from './settings.ts'
import { fetchRun, listRuns } from './source.ts'

/** How often the list is asked for again, in milliseconds. */
const EVERY = 2000

export function Runs() {
  const [runs, setRuns] = useState<RunListing[] | null>(null)
  const [trouble, setTrouble] = useState<string | null>(null)
  const chosen = useSignal<string[]>([])
  useEffect(() => {
    const look = () =>
      listRuns().then(
        (found) => {
          setRuns(found)
          setTrouble(null)
        },
        (error) => setTrouble(String(error instanceof Error ? error.message : error)),
      )
    void look()
    const timer = setInterval(look, EVERY)
    return () => clearInterval(timer)
  }, [])
  const toggle = (name: string) => {
    chosen.value = chosen.value.includes(name)
      ? chosen.value.filter((other) => other !== name)
      : [...chosen.value, name].slice(-2)
  }
  const [a, b] = chosen.value
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
          <Wide label="Runs">
            <table class="runs">
              <thead>
                <tr>
                  <th scope="col">
                    <span class="hidden">Compare</span>
                  </th>
                  <th scope="col">Run</th>
                  <th scope="col">State</th>
                  <th scope="col">Training</th>
                  <th scope="col">The change</th>
                  <th scope="col">Task and model</th>
                  <th scope="col">Arms</th>
                  <th scope="col">Seeds</th>
                  <th scope="col">Changed</th>
                </tr>
              </thead>
              <tbody>
                {runs.map((run) => (
                  <tr key={run.name}>
                    <td>
                      <input
                        type="checkbox"
                        aria-label={`Compare ${run.name}`}
                        checked={chosen.value.includes(run.name)}
                        onChange={() => toggle(run.name)}
                      />
                    </td>
                    <th scope="row">
                      <a href={fragmentOf({ view: 'run', run: run.name, section: null })}>{run.name}</a>
                      {run.problem ? <div class="why">{run.problem}</div> : null}
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
                      {run.task}, {run.model}
                    </td>
                    <td>{run.arms.join(', ')}</td>
                    <td>{run.seeds.join(', ')}</td>
                    <td>{new Date(run.changed).toLocaleString()}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Wide>
          {runs.length > 1 ? (
            <p class="actions">
              <button
                type="button"
                disabled={a === undefined || b === undefined}
                onClick={() => a !== undefined && b !== undefined && go({ view: 'compare', runs: [a, b] })}
              >
                Compare two runs
              </button>
              <span class="muted">
                {b === undefined ? 'Tick two runs to see them side by side.' : `${a} and ${b}`}
              </span>
            </p>
          ) : null}
        </>
      ) : null}
    </>
  )
}

export function Compare({ runs }: { runs: [string, string] }) {
  const [views, setViews] = useState<RunView[] | string | null>(null)
  const [a, b] = runs
  useEffect(() => {
    let current = true
    const look = () =>
      Promise.all([fetchRun(a), fetchRun(b)]).then(
        (found) => current && setViews(found),
        (error) => current && setViews(String(error instanceof Error ? error.message : error)),
      )
    void look()
    const timer = setInterval(look, EVERY)
    return () => {
      current = false
      clearInterval(timer)
    }
  }, [a, b])
  if (views === null) return <p class="muted">Loading</p>
  if (typeof views === 'string') return <p class="warning">{views}</p>
  const different = differingSettings(views[0], views[1])
  return (
    <>
      <p>
        <a href={fragmentOf({ view: 'runs' })}>← All runs</a>
      </p>
      <h1 class="hidden">
        {a} and {b}
      </h1>
      <Section id="differences" title="What was set differently">
        {different.length === 0 ? (
          <p>Nothing: both runs have the same settings.</p>
        ) : (
          <Wide label="Settings that differ">
            <table class="differences">
              <thead>
                <tr>
                  <th scope="col">Setting</th>
                  <th scope="col">{a}</th>
                  <th scope="col">{b}</th>
                </tr>
              </thead>
              <tbody>
                {different.map(([name, ...values]) => (
                  <tr key={name}>
                    <th scope="row">{name}</th>
                    {runs.map((each, i) => (
                      <td key={each}>{values[i] ?? <span class="muted">absent</span>}</td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </Wide>
        )}
      </Section>
      <div class="side-by-side">
        {views.map((run, i) => (
          <div key={runs[i]}>
            <p class="eyebrow">
              <a href={fragmentOf({ view: 'run', run: run.name, section: null })}>{run.name}</a>
            </p>
            <Verdict run={run} />
            {run.results ? <ArmsFigure run={run} results={run.results} /> : null}
            <TrainingFigures run={run} />
          </div>
        ))}
      </div>
    </>
  )
}

/** The page: picks the view that the address names, over the report's own data or the server's. */
import { useComputed } from '@preact/signals'
import { render } from 'preact'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { Compare } from './compare.tsx'
import { Mark } from './mark.tsx'
import { Overview } from './overview.tsx'
import { ProblemView, TrainingView } from './problem.tsx'
import { fragmentOf, route, startRouting } from './route.ts'
import { Runs } from './runs.tsx'
import { bundledRuns, embeddedSource, liveSource, pageMode, type RunSource, serverRuns } from './source.ts'
import './style.css'
import { tableState } from './table-state.ts'

const mode = pageMode()
const runs = mode.kind === 'server' ? serverRuns() : mode.kind === 'bundle' ? bundledRuns() : null

function App() {
  const now = route.value
  const run = now.view === 'runs' || now.view === 'compare' ? null : now.run
  // A source is kept as long as its run is shown, whichever of its views.
  const source = useMemo(() => {
    if (mode.kind === 'report') return embeddedSource()
    return run === null || mode.kind === 'bundle' ? null : liveSource(run)
  }, [run])
  useEffect(() => () => source?.close(), [source])
  return (
    <>
      <header class="top no-print">
        <a class="brand" href={fragmentOf({ view: 'runs' })}>
          <Mark /> message-board
        </a>
        {mode.kind === 'server' ? <span class="muted">{run ?? ''}</span> : null}
      </header>
      {source ? (
        <Run source={source} address={mode.kind === 'report' ? null : run} />
      ) : (
        <main>
          {runs === null ? null : now.view === 'compare' ? (
            <Compare key={now.runs.join('/')} source={runs} names={now.runs} />
          ) : (
            <Runs source={runs} />
          )}
        </main>
      )}
    </>
  )
}

function Run({ source, address }: { source: RunSource; address: string | null }) {
  const table = useMemo(() => tableState(source), [source])
  const title = useComputed(() => source.run.value?.name ?? address ?? '')
  useEffect(() => {
    document.title = `${title.value} - message-board`
  }, [title.value])
  const now = route.value
  const run = source.run.value
  const trouble = source.trouble.value
  const overview = now.view === 'run'
  const box = useRef<HTMLDivElement>(null)
  const left = useRef<{ scroll: number; focus: EventTarget | null }>({ scroll: 0, focus: null })
  // The overview stays where it was while a problem is read, so that going back is going back. Its place is noted as
  // it changes: once another view is drawn it is lost.
  useEffect(() => {
    const note = () => {
      if (box.current?.inert === false) left.current.scroll = scrollY
    }
    addEventListener('scroll', note, { passive: true })
    return () => removeEventListener('scroll', note)
  }, [])
  useEffect(() => {
    const { scroll, focus } = left.current
    if (!overview || !(focus instanceof HTMLElement) || !focus.isConnected) return
    scrollTo(0, scroll)
    focus.focus({ preventScroll: true })
  }, [overview])
  return (
    <main>
      {trouble ? (
        <p class="warning" role="alert">
          {trouble}
        </p>
      ) : null}
      {run === null ? (
        trouble ? null : (
          <p class="muted">Loading</p>
        )
      ) : (
        <>
          <div
            ref={box}
            class={overview ? undefined : 'away'}
            inert={!overview}
            onFocusIn={(event) => {
              left.current.focus = event.target
            }}
          >
            <Overview
              source={source}
              table={table}
              run={run}
              address={address}
              section={now.view === 'run' ? now.section : null}
            />
          </div>
          {now.view === 'problem' ? (
            <ProblemView
              source={source}
              table={table}
              run={run}
              address={address}
              id={now.id}
              seed={now.seed}
              arms={now.arms}
            />
          ) : null}
          {now.view === 'training' ? (
            <TrainingView
              source={source}
              run={run}
              address={address}
              job={now.job}
              step={now.step}
              id={now.id}
              board={now.board}
            />
          ) : null}
        </>
      )}
    </main>
  )
}

startRouting(mode.kind === 'report')
const place = document.getElementById('app')
if (place) render(<App />, place)

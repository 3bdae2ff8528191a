/** The playground's page: a board to play with, an experiment to run, its verdict, and all of it to take along. */
import { render } from 'preact'
import { useEffect } from 'preact/hooks'
import { Mark } from '../web/mark.tsx'
import { route, startRouting } from '../web/route.ts'
import '../web/style.css'
import { Arms } from './arms-view.tsx'
import { Loaded, lazy } from './lazy.tsx'
import './playground.css'
import { restore, run } from './run-state.ts'
import { parseLink } from './settings.ts'
import { pose } from './stage.ts'
import { Stage } from './stage-view.tsx'
import { facts, failed, settings, trouble } from './state.ts'
import { TakeAway } from './take-away.tsx'
import { startTour, Tour } from './tour.tsx'
import { Training } from './training-view.tsx'
import { VerdictSection } from './verdict-view.tsx'

const RunReport = lazy(() => import('./run-report.tsx').then(({ RunReport }) => RunReport))

/** Whether the run's own pages are shown: their addresses begin with a slash, and settings do not. */
const inReport = () => {
  void route.value
  return location.hash.startsWith('#/') && location.hash !== '#/' && run.value !== null
}

function Page() {
  const report = inReport()
  useEffect(() => {
    if (!report) document.title = 'message-board: a playground'
  }, [report])
  return (
    <>
      <header class="top">
        <a class="brand" href="#/">
          <Mark /> message-board
        </a>
        <span class="grow" />
        {report ? (
          <a href="#/">← Back to the playground</a>
        ) : (
          <button type="button" onClick={startTour}>
            Guide
          </button>
        )}
      </header>
      <main class={report ? 'away' : 'playground'} inert={report}>
        <div class="opening">
          <h1>Can copies of a model learn to write for each other?</h1>
          <p class="lede">
            Four copies post notes and read their board. Play with it, then train them, in this tab: nothing
            leaves your machine.
          </p>
        </div>
        {trouble.value === null ? null : (
          <p class="warning" role="alert">
            {trouble.value}
          </p>
        )}
        <Stage />
        <Arms />
        <Training />
        <VerdictSection />
        <TakeAway />
        <Footer />
      </main>
      {report ? <Loaded of={RunReport} props={{}} /> : <Tour />}
    </>
  )
}

function Footer() {
  const opened = facts.value
  return (
    <footer>
      <p>
        {opened === null
          ? 'The model is on its way.'
          : `The model has ${opened.parameters.toLocaleString('en')} parameters and was trained from scratch on these three worlds. Boards are computed on ${opened.device}.`}{' '}
        The page needs no network once it is loaded, sends nothing, and sets no cookie; what a run leaves is
        kept in this browser until you forget it.
      </p>
    </footer>
  )
}

startRouting(true)
addEventListener('hashchange', () => {
  const linked = parseLink(location.hash)
  if (linked === null) return
  settings.value = linked
  pose(linked.problem).catch(failed)
})
pose(settings.peek().problem).catch(failed)
restore().catch(failed)
// A page that is served by a file or under a test has none.
navigator.serviceWorker?.register('./service-worker.js').catch(() => {})
const place = document.getElementById('app')
if (place) {
  place.replaceChildren()
  render(<Page />, place)
}

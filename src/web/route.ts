/**
 * What the page shows, as the address's fragment says: so that every view has a link, in a file on disk too. Before its
 * question mark the fragment names the view, and after it what was chosen there (see choices.ts). Touches the address
 * only.
 */
import { computed, signal } from '@preact/signals'
import { type Choices, choicesText, parseChoices } from './choices.ts'

export type Route =
  /** The run itself, at one of its sections; `run` is null in a report, which holds one run. */
  | { view: 'run'; run: string | null; section: string | null }
  /** One held-out problem; `seed` is the training seed shown, `arms` are those shown. */
  | { view: 'problem'; run: string | null; id: string; seed: number | null; arms: string[] | null }
  /** One board of training; `board` is which of those of this problem in the step, from 0. */
  | { view: 'training'; run: string | null; job: string; step: number; id: string; board: number }
  | { view: 'runs' }
  | { view: 'compare'; runs: string[] }

/** `inReport`: a report's addresses name no run. */
export function parseRoute(fragment: string, inReport: boolean): Route {
  let parts: string[]
  try {
    parts = fragment
      .replace(/\?.*/s, '')
      .replace(/^#?\/?/, '')
      .split('/')
      .filter(Boolean)
      .map(decodeURIComponent)
  } catch {
    parts = []
  }
  if (!inReport && parts[0] === 'compare' && parts[1] && parts[2]) {
    return { view: 'compare', runs: parts.slice(1) }
  }
  let run: string | null = null
  if (!inReport) {
    if (parts[0] !== 'run' || parts[1] === undefined) return { view: 'runs' }
    run = parts[1]
    parts = parts.slice(2)
  }
  const [view, ...rest] = parts
  if (view === 'problem' && rest[0] !== undefined) {
    const [id, ...choices] = rest
    const seed = choices.find((choice) => /^s\d+$/.test(choice))
    const arms = choices.find((choice) => choice.startsWith('arms:'))
    return {
      view,
      run,
      id,
      seed: seed === undefined ? null : Number(seed.slice(1)),
      arms: arms === undefined ? null : arms.slice('arms:'.length).split('+'),
    }
  }
  if (view === 'training' && rest[2] !== undefined) {
    const board = /^b\d+$/.test(rest[3] ?? '') ? Number(rest[3].slice(1)) : 0
    return { view, run, job: rest[0], step: Number(rest[1]), id: rest[2], board }
  }
  return { view: 'run', run, section: view === 'section' ? (rest[0] ?? null) : null }
}

/** The fragment of a route: `parseRoute` of it gives the route back. */
export function fragmentOf(route: Route): string {
  const path = (...parts: (string | number)[]) =>
    `#/${parts.map((part) => encodeURIComponent(part)).join('/')}`
  if (route.view === 'runs') return '#/'
  if (route.view === 'compare') return path('compare', ...route.runs)
  const run = route.run === null ? [] : ['run', route.run]
  if (route.view === 'problem') {
    return path(
      ...run,
      'problem',
      route.id,
      ...(route.seed === null ? [] : [`s${route.seed}`]),
      ...(route.arms === null ? [] : [`arms:${route.arms.join('+')}`]),
    )
  }
  if (route.view === 'training') {
    const board = route.board === 0 ? [] : [`b${route.board}`]
    return path(...run, 'training', route.job, route.step, route.id, ...board)
  }
  return path(...run, ...(route.section === null ? [] : ['section', route.section]))
}

const fragment = signal('')
let inReport = false

export const route = computed(() => parseRoute(fragment.value, inReport))

/** What was chosen in the views of what is shown: one run, the list of runs, or some runs that are compared. */
export const choices = signal<Choices>({})

/** Follows the address from now on. */
export function startRouting(report: boolean): void {
  inReport = report
  const follow = () => {
    const [path, query] = splitFragment(location.hash)
    const stays = subjectOf(parseRoute(path, report)) === subjectOf(route.peek())
    // A link to another view of the same says nothing of what was chosen, and leaves it.
    if (query !== null || !stays) choices.value = parseChoices(query ?? '')
    fragment.value = path
    showChoices()
  }
  fragment.value = splitFragment(location.hash)[0]
  follow()
  addEventListener('hashchange', follow)
}

/** What a choice is about: another subject has choices of its own. */
const subjectOf = (to: Route): string =>
  to.view === 'runs' ? 'runs' : to.view === 'compare' ? `compare ${to.runs.join('/')}` : `run ${to.run ?? ''}`

function splitFragment(text: string): [path: string, query: string | null] {
  const [path, ...query] = text.split('?')
  return [path, query.length === 0 ? null : query.join('?')]
}

/** Changes some choices, null takes one away; the address then says so, without a step in the history. */
export function choose(changes: Readonly<Record<string, string | null>>): void {
  const next = Object.entries({ ...choices.value, ...changes }).filter(([, value]) => value !== null)
  choices.value = Object.fromEntries(next) as Choices
  // Browsers refuse too many changes of the address, as a slider would make.
  clearTimeout(waiting)
  waiting = setTimeout(showChoices, 150)
}

let waiting: ReturnType<typeof setTimeout> | undefined

function showChoices(): void {
  const text = choicesText(choices.value)
  const address = `${fragment.value || '#/'}${text === '' ? '' : `?${text}`}`
  if (location.hash !== address && (text !== '' || location.hash.includes('?'))) {
    history.replaceState(history.state, '', address)
  }
}

export function go(to: Route): void {
  location.hash = fragmentOf(to)
}

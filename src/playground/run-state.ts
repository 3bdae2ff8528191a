/** The experiment that is run: its record as the worker keeps it, and what a person does with it. Signals. */
import { batch, computed, signal } from '@preact/signals'
import type { RunView } from '../view/types.ts'
import { followedSource } from '../web/source.ts'
import type { RunTold } from './host.ts'
import { parseLink, type Settings, settingsLink } from './settings.ts'
import { failed, host, set, settings, stored } from './state.ts'

/** The settings of the experiment that is shown; null before any. */
export const runSettings = signal<Settings | null>(null)
export const running = signal(false)
/** The training step that is looked at; null: the latest. */
export const lookAt = signal<number | null>(null)
/** What the run says for itself, such as why a job failed. */
export const notices = signal<string[]>([])
/** What computes the run, and why, in a sentence; empty before it is known. */
export const computing = signal('')
/** The seed whose trainings are shown; null: the latest under way. */
export const shownSeed = signal<number | null>(null)

/** The run as the views of web/ read it. Made anew for each experiment. */
export const source = signal(openSource())
export const run = computed((): RunView | null => source.value.run.value)

function openSource() {
  const its = () => runSettings.peek()!
  return followedSource({
    update: (have) => host.boards({ settings: its(), ...have }),
    text: async (board) => (await host.texts({ settings: its(), boards: [board] }))[0],
    search: async (needle, { from, count }) => {
      const boards = Array.from({ length: count }, (_, i) => from + i)
      const texts = await host.texts({ settings: its(), boards })
      return boards.filter((_, i) =>
        texts[i].rounds.flat().some(({ text }) => text.toLowerCase().includes(needle)),
      )
    },
  })
}

/** What decides a run's folder: everything but the seeds, which may be added, and the problem on the stage. */
const identity = ({ world, steps, holdout, arms, device }: Settings) =>
  JSON.stringify([world, steps, holdout, arms, device])

/** Whether what is set now is another experiment than the one that is shown. */
export const isChanged = computed(
  () => runSettings.value !== null && identity(runSettings.value) !== identity(settings.value),
)

/** Whether the settings name seeds that the run does not have. */
export const hasNewSeeds = computed(() =>
  settings.value.seeds.some((seed) => !(runSettings.value?.seeds.includes(seed) ?? false)),
)

let stop = new AbortController()

/** Runs what is left of the experiment as it is set now. */
export async function start(): Promise<void> {
  await stopped
  stop = new AbortController()
  const { signal: abort } = stop
  const its = settings.peek()
  show(its)
  running.value = true
  remember(its, true)
  const tell = (told: RunTold) => {
    if ('live' in told) return source.peek().heard(told.live)
    if ('computing' in told) {
      computing.value = told.computing
      return
    }
    const { event } = told
    if (event.type === 'notice') notices.value = [...notices.peek(), event.text]
    if (event.type === 'job' && event.state === 'failed')
      notices.value = [...notices.peek(), `${event.job}: ${event.why}`]
  }
  stopped = host
    .run(its, { tell, signal: abort })
    .then((live) => source.peek().heard(live))
    .catch((error) => {
      if (!abort.aborted) failed(error)
    })
    .finally(() => {
      running.value = false
      // A tab that is closed meanwhile never comes here, and goes on when it is opened again.
      remember(its, false)
    })
  return stopped
}

let stopped: Promise<void> = Promise.resolve()

export const pause = (): void => stop.abort()

/** One more seed of each arm: what is there is kept. */
export function addSeed(): Promise<void> {
  const { seeds } = runSettings.peek()!
  set({ ...runSettings.peek()!, seeds: [...seeds, Math.max(...seeds) + 1], problem: settings.peek().problem })
  return start()
}

/** Removes the run. */
export async function forget(): Promise<void> {
  const its = runSettings.peek()
  stop.abort()
  await stopped
  if (its) await host.forget(its)
  stored.set('run', null)
  batch(() => {
    runSettings.value = null
    source.value = openSource()
    lookAt.value = null
  })
}

/**
 * Shows what this browser keeps of the last experiment, or of the one that a link names, and goes on with it where a closed
 * tab broke it off.
 */
export async function restore(): Promise<void> {
  const [state, last = ''] = (stored.get('run') ?? '').split(' ')
  const [lastRun, linked] = [parseLink(last), parseLink(location.hash)]
  const isLast = lastRun !== null && (linked === null || identity(linked) === identity(lastRun))
  const its = isLast ? lastRun : linked
  if (its === null) return
  const live = await host.kept(its)
  if (live === null || runSettings.peek() !== null) return
  if (isLast && state === 'running') {
    set({ ...its, problem: settings.peek().problem })
    return start()
  }
  show(its)
  source.peek().heard(live)
}

function show(its: Settings): void {
  const isOther = runSettings.peek() === null || identity(runSettings.peek()!) !== identity(its)
  batch(() => {
    runSettings.value = its
    notices.value = []
    computing.value = ''
    lookAt.value = null
    shownSeed.value = null
    if (isOther) source.value = openSource()
  })
}

const remember = (its: Settings, isRunning: boolean) =>
  stored.set('run', `${isRunning ? 'running' : 'paused'} ${settingsLink(its)}`)

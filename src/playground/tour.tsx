/** The first minute, for whoever does not know GRPO: six stops along the page, each a few sentences, skipped at a key. */
import { computed, effect, signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { running } from './run-state.ts'
import { isEdited, phase } from './stage.ts'
import { stored } from './state.ts'

interface Stop {
  /** What it is about: a selector. */
  at: string
  title: string
  says: string
  /** What the visitor is asked to do, and whether it is done. */
  task?: { says: string; done: () => boolean }
}

const stops: readonly Stop[] = [
  {
    at: '.posed',
    title: 'One problem, four copies',
    says: 'Four copies of one small language model get this problem. Each is told a part of it, and none can know the answer alone.',
  },
  {
    at: '.cards',
    title: 'They post notes, then read',
    says: 'Each copy posts a short note. Then each reads the notes on its board and answers. A program reads the answers along: a tick is right.',
  },
  {
    at: '.card button.quiet',
    title: 'Change a note',
    says: 'Untrained, most notes guess instead of telling what their writer knows.',
    task: {
      says: 'Edit a note: write what its copy was told, and let them read again. All chance stays the same, so what changes is your note’s doing.',
      done: () => isEdited.value,
    },
  },
  {
    at: '#arms .arms',
    title: 'Ask a question',
    says: 'Two ways of doing it, side by side: who reads whom, and what training pays for. Here, readers alone are paid on the left, and the whole team on the right.',
  },
  {
    at: '#train',
    title: 'Train them',
    says: 'In a step, copies play twelve boards. Each text earns what the rule pays; those that earned more than their group’s mean are made likelier, the others less likely. That is all of GRPO.',
    task: { says: 'Press Train.', done: () => running.value },
  },
  {
    at: '#training',
    title: 'Watch, and doubt',
    says: 'The curves are rewards in training. What counts comes at the end: problems that nobody trained on, both arms, every seed, and an interval that says how much of it may be chance.',
  },
]

/** Which stop; null: no tour. */
const stop = signal<number | null>(stored.get('toured') === null ? 0 : null)

export const startTour = (): void => {
  stop.value = 0
}

const end = (): void => {
  stop.value = null
  stored.set('toured', 'yes')
}

const current = computed(() => (stop.value === null ? null : stops[stop.value]))

// A task that is done leads on.
effect(() => {
  const at = stop.value
  if (at !== null && stops[at].task?.done()) setTimeout(() => stop.peek() === at && next(), 1200)
})

const next = (): void => {
  const at = stop.peek()
  if (at === null) return
  if (at === stops.length - 1) end()
  else stop.value = at + 1
}

export function Tour() {
  const box = useRef<HTMLElement>(null)
  const now = current.value
  const at = stop.value ?? 0
  const isReady = phase.value === 'done' || at > 0
  useEffect(() => {
    if (now === null || !isReady) return
    const found = document.querySelector(now.at)
    found?.classList.add('pointed-at')
    if (at > 0) found?.scrollIntoView({ block: 'center', behavior: 'smooth' })
    return () => found?.classList.remove('pointed-at')
  }, [now, isReady, at])
  useEffect(() => {
    const onKey = ({ key, target }: KeyboardEvent) => {
      const typing = target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)
      if (key === 'Escape' && !typing) end()
    }
    if (now === null) return
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [now === null])
  // The first waits for something to look at.
  if (now === null || !isReady) return null
  return (
    <aside class="tour" ref={box} aria-label="Guide">
      <div aria-live="polite">
        <h2>
          <span class="muted">
            {at + 1} of {stops.length}
          </span>{' '}
          {now.title}
        </h2>
        <p>{now.says}</p>
        {now.task ? <p class="task">{now.task.says}</p> : null}
      </div>
      <p class="row">
        <button type="button" class="primary" onClick={next}>
          {at === stops.length - 1 ? 'Done' : 'Next'}
        </button>
        {at > 0 ? (
          <button
            type="button"
            onClick={() => {
              stop.value = at - 1
            }}
          >
            Back
          </button>
        ) : null}
        <button type="button" class="quiet" onClick={end}>
          Skip
        </button>
      </p>
    </aside>
  )
}

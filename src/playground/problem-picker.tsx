/** Which problem is on the stage: one of a world's held-out ones, or the visitor's own. */
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { bounds, type WorldName, worldNames } from './settings.ts'
import { pose, poseAnother } from './stage.ts'
import { failed, settings } from './state.ts'

export const worldTitles: Readonly<Record<WorldName, { title: string; says: string }>> = {
  clues: { title: 'Clues', says: 'Each copy is told a part: nobody can do it alone.' },
  'word-problems': {
    title: 'Word problems',
    says: 'Each copy sees it all, and a note is too short to finish.',
  },
  insight: { title: 'Insight', says: 'Hard to find, easy to check: one lucky note would do.' },
}

export function ProblemPicker() {
  const own = useSignal(false)
  const { problem } = settings.value
  const world = 'world' in problem ? problem.world : null
  return (
    <div class="picker">
      <fieldset class="chips">
        <legend class="hidden">Problems from</legend>
        {worldNames.map((name) => (
          <button
            key={name}
            type="button"
            class="chip"
            aria-pressed={!own.value && world === name}
            title={worldTitles[name].says}
            onClick={() => {
              own.value = false
              pose({ world: name, index: 0 }).catch(failed)
            }}
          >
            {worldTitles[name].title}
          </button>
        ))}
        <button
          type="button"
          class="chip"
          aria-pressed={own.value || world === null}
          aria-expanded={own.value}
          onClick={() => {
            own.value = !own.value
          }}
        >
          Your own
        </button>
        <button
          type="button"
          class="another"
          disabled={world === null}
          onClick={() => poseAnother().catch(failed)}
        >
          Another one
        </button>
      </fieldset>
      {own.value ? (
        <OwnProblem
          onDone={() => {
            own.value = false
          }}
        />
      ) : null}
    </div>
  )
}

const example = {
  question: 'How many shells do Mia and Tom have in all?',
  gold: '19',
  parts: 'Mia has 7 shells.\nTom has 12 shells.',
}

function OwnProblem({ onDone }: { onDone: () => void }) {
  const form = useRef<HTMLFormElement>(null)
  const { problem } = settings.peek()
  const first = 'question' in problem ? { ...problem, parts: problem.parts.join('\n') } : example
  return (
    <form
      ref={form}
      class="own"
      onSubmit={(event) => {
        event.preventDefault()
        const field = (name: string) => String(new FormData(form.current!).get(name) ?? '').trim()
        const parts = field('parts')
          .split('\n')
          .map((part) => part.trim().slice(0, bounds.text.part))
          .filter((part) => part !== '')
          .slice(0, 4)
        pose({ question: field('question'), gold: field('gold'), parts }).catch(failed)
        onDone()
      }}
    >
      <label>
        Question
        <textarea
          name="question"
          required
          rows={2}
          maxLength={bounds.text.question}
          defaultValue={first.question}
        />
      </label>
      <label>
        Told to one copy each, a line for each (may be empty)
        <textarea name="parts" rows={2} defaultValue={first.parts} />
      </label>
      <label>
        Right answer
        <input
          name="gold"
          required
          maxLength={bounds.text.gold}
          defaultValue={first.gold}
          autocomplete="off"
        />
      </label>
      <p class="muted">
        The model has learned these three worlds and nothing else: it reads any question, and is at home in
        theirs.
      </p>
      <p class="row">
        <button type="submit" class="primary">
          Pose it
        </button>
        <button type="button" onClick={onDone}>
          Cancel
        </button>
      </p>
    </form>
  )
}

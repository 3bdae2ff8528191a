/** One post on the stage, as it grows: its text, what the verifier reads in it so far, and for a note a way to change it. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { mathGrader } from '../grade/grader.ts'
import { Badge } from '../web/controls.tsx'
import { Text } from '../web/text.tsx'
import { isShown, type StagePost } from './stage.ts'

/** Longest note that a person may write, in characters: about what a reader's prompt has room for. */
const LONGEST = 300

export function PostCard({
  one,
  title,
  gold,
  told,
  reads,
  waits,
  onEdit,
}: {
  one: StagePost
  title: string
  gold: string
  /** What this seat alone was told. */
  told: readonly string[]
  /** Which notes it was shown, in words. */
  reads: string | null
  /** Whether what it reads is not written yet. */
  waits: boolean
  /** Left out: it cannot be changed. */
  onEdit?: ((text: string) => void) | undefined
}) {
  const editing = useSignal(false)
  const shown = Math.floor(one.shown)
  const text = one.text.slice(0, shown)
  const whole = isShown(one)
  // The verifier reads along: what it would take for the answer if the text ended here.
  const grade = one.post && whole ? one.post : mathGrader.grade(text, gold)
  const silent = grade.answer === null
  // A note that only tells what its writer knows gives no answer, and is not wrong for it.
  const isNote = reads === null
  const state = silent && (!whole || isNote) ? 'open' : grade.correct ? 'right' : 'wrong'
  const was = whole && one.before && one.before.answer !== grade.answer ? one.before : null
  return (
    <li
      class={`card ${state} ${whole ? 'whole' : ''} ${one.edited ? 'edited' : ''} ${was ? 'changed' : ''} ${waits ? 'waits' : ''}`}
    >
      <p class="card-head">
        <b>{title}</b>
        {told.length > 0 ? <span class="told">{told.join(' ')}</span> : null}
        {reads === null ? null : <span class="muted">{reads}</span>}
      </p>
      {editing.value ? (
        <NoteEditor
          title={title}
          text={one.text}
          onDone={(next) => {
            editing.value = false
            if (next !== null && next !== one.text) onEdit?.(next)
          }}
        />
      ) : (
        <div class="card-text">
          <Text text={text} answer={grade.answer} />
          {whole || waits ? null : <span class="caret" aria-hidden="true" />}
          {whole && one.post?.cut ? <Badge kind="cut">✂ cut at the limit</Badge> : null}
        </div>
      )}
      <p class="card-foot">
        <span class="verdict-line">
          {state === 'open' ? (
            <span class="muted">
              {waits ? 'reads when the notes are there' : whole ? 'gives no answer' : 'no answer yet'}
            </span>
          ) : (
            <>
              <span class={`mark ${state}`} aria-hidden="true">
                {grade.correct ? '✓' : '✗'}
              </span>{' '}
              {silent ? (
                'no answer'
              ) : (
                <>
                  reads {was ? <s>{was.answer ?? 'nothing'}</s> : null} <b>{grade.answer}</b>
                </>
              )}
              <span class="hidden">, {grade.correct ? 'right' : 'wrong'}</span>
            </>
          )}
        </span>
        {onEdit && !editing.value ? (
          <button
            type="button"
            class="quiet"
            disabled={!whole}
            onClick={() => {
              editing.value = true
            }}
          >
            Edit<span class="hidden"> {title}</span>
          </button>
        ) : null}
      </p>
    </li>
  )
}

function NoteEditor({
  title,
  text,
  onDone,
}: {
  title: string
  text: string
  onDone: (text: string | null) => void
}) {
  const area = useRef<HTMLTextAreaElement>(null)
  useEffect(() => {
    area.current?.focus()
    area.current?.select()
  }, [])
  const done = () => onDone(area.current?.value.trim() ?? null)
  return (
    <div class="editor">
      <textarea
        ref={area}
        aria-label={`Text of ${title}`}
        maxLength={LONGEST}
        rows={5}
        defaultValue={text}
        onKeyDown={(event) => {
          if (event.key === 'Escape') onDone(null)
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) done()
        }}
      />
      <p class="row">
        <button type="button" class="primary" onClick={done}>
          Read again
        </button>
        <button type="button" onClick={() => onDone(null)}>
          Cancel
        </button>
      </p>
    </div>
  )
}

/** One problem: the question, and the boards of both arms before and after training side by side. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Post, Reply } from '../board/types.ts'
import { bit, flagAt } from '../view/flags.ts'
import type { BoardText, JobView, RunView } from '../view/types.ts'
import { Badge } from './controls.tsx'
import { whole } from './format.ts'
import { fragmentOf, go } from './route.ts'
import type { RunSource } from './source.ts'
import type { TableState } from './table-state.ts'
import { pieces } from './texts.ts'

/** Characters of a text shown at once; the rest at a click. */
const SHOWN = 4000

export function ProblemView(props: {
  source: RunSource
  table: TableState
  run: RunView
  address: string | null
  id: string
  seed: number | null
}) {
  const { source, table, run, address, id } = props
  const columns = source.boards.value
  const problem = columns.problems.id.indexOf(id)
  const row = table.all.value.find((each) => each.problem === problem)
  const heading = useHeadingFocus(id)
  const baseRun = useSignal(0)
  const filtered = table.rows.value
  const at = filtered.findIndex((each) => each.problem === problem)
  const link = (to: number) => {
    const target = filtered[to]
    return target
      ? fragmentOf({
          view: 'problem',
          run: address,
          id: columns.problems.id[target.problem],
          seed: props.seed,
        })
      : undefined
  }
  const [before, after] = at < 0 ? [undefined, undefined] : [link(at - 1), link(at + 1)]
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const typing =
        event.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return
      if (event.key === 'Escape') go({ view: 'run', run: address, section: null })
      else if ((event.key === 'ArrowLeft' || event.key === 'k') && before) location.hash = before
      else if ((event.key === 'ArrowRight' || event.key === 'j') && after) location.hash = after
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [before, after, address])

  if (!row) {
    return (
      <article class="problem">
        <h1 ref={heading} tabIndex={-1}>
          {source.loaded.value ? 'There is no such problem in this run' : 'Loading'}
        </h1>
        <p>
          <a href={fragmentOf({ view: 'run', run: address, section: null })}>Back to the run</a>
        </p>
      </article>
    )
  }
  const seed = props.seed ?? run.seeds[0] ?? null
  const baseJobs = run.jobs.filter(({ role }) => role === 'base')
  const shownBase = baseJobs[Math.min(baseRun.value, baseJobs.length - 1)]
  const shown: { title: string; note: string; job: JobView | undefined; arm: string }[] = [
    { title: 'Baseline, before training', note: 'the base', job: shownBase, arm: 'baseline' },
    {
      title: 'Baseline, trained',
      note: `seed ${seed}`,
      job: trained(run, 'baseline', seed),
      arm: 'baseline',
    },
    {
      title: 'Recipe, before training',
      note: 'the base',
      job: run.jobs.find(({ role }) => role === 'base-shared'),
      arm: 'recipe',
    },
    { title: 'Recipe, trained', note: `seed ${seed}`, job: trained(run, 'recipe', seed), arm: 'recipe' },
  ]
  return (
    <article class="problem">
      <nav class="problem-nav no-print" aria-label="Problems">
        <a href={fragmentOf({ view: 'run', run: address, section: null })}>← All problems</a>
        <span class="muted">
          {at < 0
            ? ''
            : `${whole(at + 1)} of ${whole(filtered.length)}${filtered.length < table.all.value.length ? ' in this filter' : ''}`}
        </span>
        <span>
          {before ? <a href={before}>Previous</a> : null} {after ? <a href={after}>Next</a> : null}
        </span>
      </nav>
      <p class="eyebrow">Problem {id.slice(0, 80)}</p>
      <h1 class="question" ref={heading} tabIndex={-1}>
        <Text text={columns.problems.question[problem]} answer={null} />
      </h1>
      <p class="gold-line">
        Right answer: <b class="answer">{columns.problems.gold[problem].slice(0, 200)}</b>
      </p>
      <div class="pickers no-print">
        {run.seeds.length > 1 ? (
          <fieldset class="chips">
            <legend>Training seed</legend>
            {run.seeds.map((each) => (
              <a
                key={each}
                class="chip"
                aria-current={each === seed ? 'true' : undefined}
                href={fragmentOf({ view: 'problem', run: address, id, seed: each })}
              >
                {each}
              </a>
            ))}
          </fieldset>
        ) : null}
        {baseJobs.length > 1 ? (
          <fieldset class="chips">
            <legend>Base evaluation</legend>
            {baseJobs.map((job, i) => (
              <button
                key={job.name}
                type="button"
                class="chip"
                aria-pressed={job === shownBase}
                onClick={() => {
                  baseRun.value = i
                }}
              >
                {i + 1}
              </button>
            ))}
          </fieldset>
        ) : null}
      </div>
      <div class="columns">
        {shown.map(({ title, note, job, arm }) => {
          const number = job ? row.boards[run.jobs.indexOf(job)] : -1
          return (
            <section key={title} class={`column ${arm}`} aria-label={`${title}, ${note}`}>
              <h2>
                {title} <span class="muted">{job ? `${job.name}, reads “${job.reads}”` : note}</span>
              </h2>
              {number < 0 ? null : <p class="sum">{sumOf(columns.flags, number, run.copies)}</p>}
              {number < 0 ? (
                <p class="muted">{job ? 'Not evaluated yet.' : 'Not part of this run.'}</p>
              ) : (
                <Board source={source} run={run} number={number} />
              )}
            </section>
          )
        })}
      </div>
    </article>
  )
}

/** How many of a board's notes, and of its replies, are right. */
function sumOf(flags: string, number: number, copies: number): string {
  const right = (from: number) =>
    Array.from({ length: copies }, (_, i) => flagAt(flags, from + i) & bit.right).filter(Boolean).length
  const start = number * 2 * copies
  return `${right(start)} of ${copies} notes right, ${right(start + copies)} of ${copies} replies`
}

const trained = (run: RunView, role: JobView['role'], seed: number | null) =>
  run.jobs.find((job) => job.role === role && job.seed === seed)

/** Moves the focus to a view's heading when it opens, so that a screen reader begins there. */
function useHeadingFocus(key: string) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    scrollTo(0, 0)
    heading.current?.focus({ preventScroll: true })
  }, [key])
  return heading
}

export function TrainingView(props: {
  source: RunSource
  run: RunView
  address: string | null
  job: string
  step: number
  id: string
}) {
  const { source, run, address, step, id } = props
  const columns = source.boards.value
  const job = run.jobs.findIndex(({ name }) => name === props.job)
  const problem = columns.problems.id.indexOf(id)
  const number = columns.job.findIndex(
    (each, i) => each === job && columns.step[i] === step && columns.problem[i] === problem,
  )
  const heading = useHeadingFocus(id)
  return (
    <article class="problem">
      <nav class="problem-nav no-print" aria-label="Run">
        <a href={fragmentOf({ view: 'run', run: address, section: null })}>← The run</a>
      </nav>
      <p class="eyebrow">
        {props.job}, training step {step}
      </p>
      <h1 class="question" ref={heading} tabIndex={-1}>
        {problem < 0 ? (
          'There is no such board in this run'
        ) : (
          <Text text={columns.problems.question[problem]} answer={null} />
        )}
      </h1>
      {number < 0 ? null : (
        <>
          <p class="gold-line">
            Right answer: <b class="answer">{columns.problems.gold[problem].slice(0, 200)}</b>
          </p>
          <Board source={source} run={run} number={number} />
        </>
      )}
    </article>
  )
}

/** One board: its notes, then the replies, each with the notes that it read. */
export function Board({
  source,
  run,
  number,
  compact,
}: {
  source: RunSource
  run: RunView
  number: number
  compact?: boolean
}) {
  const [text, setText] = useState<BoardText | string | null>(null)
  /** Notes that the reply under the pointer or with the focus has read. */
  const [read, setRead] = useState<number[]>([])
  // Another edition of the run's files, as after its server's restart, has texts of its own.
  const edition = source.edition.value
  useEffect(() => {
    let current = true
    setText(null)
    source.text(number).then(
      (found) => current && setText(found),
      (error) => current && setText(String(error instanceof Error ? error.message : error)),
    )
    return () => {
      current = false
    }
  }, [source, number, edition])
  if (text === null) return <p class="muted">Loading</p>
  if (typeof text === 'string') return <p class="warning">{text}</p>
  const { notes, replies } = text
  const shown = compact ? 600 : SHOWN
  return (
    <div class={compact ? 'board compact' : 'board'}>
      <h3>Notes</h3>
      <ol class="posts notes">
        {notes.map((note, i) => (
          <li key={i} class={`post note ${mark(note)} ${read.includes(i) ? 'read' : ''}`}>
            <PostHead title={`Note ${i + 1}`} post={note} />
            <PostText post={note} shown={shown} />
          </li>
        ))}
      </ol>
      <h3>Replies</h3>
      <ol class="posts replies">
        {replies.map((reply, i) => (
          <li
            key={i}
            class={`post reply ${mark(reply)}`}
            onMouseEnter={() => setRead(reply.reads)}
            onMouseLeave={() => setRead([])}
          >
            <PostHead title={`Reply ${i + 1}`} post={reply} />
            <p class="reads">
              read{' '}
              {reply.reads.length === run.copies
                ? 'all notes'
                : `note ${reply.reads.map((note) => note + 1).join(', ')}`}
              {turn(reply, notes[i])}
            </p>
            <PostText post={reply} shown={shown} />
          </li>
        ))}
      </ol>
    </div>
  )
}

const mark = (post: Post) => (post.correct ? 'right' : 'wrong')

function turn(reply: Reply, note: Post) {
  if (reply.correct && !note.correct) return <Badge kind="rescued">rescued</Badge>
  return !reply.correct && note.correct ? <Badge kind="misled">misled</Badge> : null
}

function PostHead({ title, post }: { title: string; post: Post }) {
  return (
    <p class="post-head">
      <b>{title}</b>
      <Badge kind={post.correct ? 'right' : 'wrong'}>{post.correct ? '✓ right' : '✗ wrong'}</Badge>
      {post.cut ? <Badge kind="cut">✂ cut</Badge> : null}
      <span class="said">
        {post.answer === null ? (
          <span class="muted">no answer</span>
        ) : (
          <b class="answer">{post.answer.slice(0, 60)}</b>
        )}
      </span>
      <span class="muted tokens">{whole(post.tokens)} tokens</span>
    </p>
  )
}

function PostText({ post, shown }: { post: Post; shown: number }) {
  const [all, setAll] = useState(false)
  const long = post.text.length > shown
  return (
    <div class="text">
      <Text text={post.text} answer={post.answer} length={all ? undefined : shown} />
      {post.text === '' ? <span class="muted">empty</span> : null}
      {long ? (
        <button type="button" class="quiet" onClick={() => setAll(!all)}>
          {all ? 'Show less' : `Show all ${whole(post.text.length)} characters`}
        </button>
      ) : null}
    </div>
  )
}

/** A model's text: as text, isolated from what stands around it, with the answer marked and hidden characters shown. */
function Text({
  text,
  answer,
  length,
}: {
  text: string
  answer: string | null
  length?: number | undefined
}) {
  return (
    <bdi>
      {pieces(text, answer, length).map((piece, i) =>
        piece.kind === 'plain' ? (
          piece.text
        ) : piece.kind === 'answer' ? (
          <mark key={i}>{piece.text}</mark>
        ) : (
          <span key={i} class="code-point" title="a character that would not be seen">
            {piece.text}
          </span>
        ),
      )}
    </bdi>
  )
}

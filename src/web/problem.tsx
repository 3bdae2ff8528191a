/** One problem: the question, and the boards of some arms before and after training side by side. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { latestBefore } from '../board/counts.ts'
import type { Effect } from '../board/influence.ts'
import type { Post, Ref } from '../board/types.ts'
import type { ProtocolLine } from '../record/schema.ts'
import { partsOf } from '../tasks/parts.ts'
import type { Problem } from '../tasks/types.ts'
import { promptOf } from '../view/prompt.ts'
import type { BoardColumns, BoardText, RunView, Side } from '../view/types.ts'
import { type BoardsIndex, rightByRound } from './boards-index.ts'
import { wholeChoice } from './choices.ts'
import { chosen } from './chosen.ts'
import { colourOf } from './colours.ts'
import { Badge, Copy, Wide } from './controls.tsx'
import { signed, whole } from './format.ts'
import { capital, postsOf, postTitle, readsOf } from './names.ts'
import { fragmentOf, go } from './route.ts'
import type { RunSource } from './source.ts'
import type { TableState } from './table-state.ts'
import { Text } from './text.tsx'

/** Characters of a text shown at once; the rest at a click. */
const SHOWN = 4000

export function ProblemView(props: {
  source: RunSource
  table: TableState
  run: RunView
  address: string | null
  id: string
  seed: number | null
  arms: string[] | null
}) {
  const { source, table, run, address, id } = props
  const { columns } = table.index.value
  const problem = columns.problems.id.indexOf(id)
  const row = table.all.value.find((each) => each.problem === problem)
  const heading = useHeadingFocus(id)
  const baseRun = useMemo(() => chosen('base', wholeChoice(1)), [])
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
          arms: props.arms,
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
  const arms = shownArms(run, props.arms)
  const here = (choice: { seed?: number | null; arms?: string[] }) =>
    fragmentOf({ view: 'problem', run: address, id, seed, arms: props.arms, ...choice })
  const columnsShown = columnsOf(run, arms, seed, Math.max(0, baseRun.value - 1))
  const baseRuns = Math.max(
    0,
    ...columnsShown.map(({ side }) =>
      run.sides[side].arm === null ? run.jobs.filter((job) => job.side === side).length : 0,
    ),
  )
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
                href={here({ seed: each })}
              >
                {each}
              </a>
            ))}
          </fieldset>
        ) : null}
        {run.arms.length > SHOWN_ARMS ? (
          <fieldset class="chips">
            <legend>Arms</legend>
            {run.arms.map((arm) => {
              const isShown = arms.includes(arm)
              // The latest two chosen; one alone stays.
              const chosen = isShown
                ? arms.filter((other) => other !== arm)
                : [...arms.slice(1 - SHOWN_ARMS), arm]
              return (
                <a
                  key={arm}
                  class="chip"
                  aria-current={isShown ? 'true' : undefined}
                  href={here({ arms: chosen.length > 0 ? chosen : [arm] })}
                >
                  {arm}
                </a>
              )
            })}
          </fieldset>
        ) : null}
        {baseRuns > 1 ? (
          <fieldset class="chips">
            <legend>Base evaluation</legend>
            {Array.from({ length: baseRuns }, (_, i) => (
              <button
                key={i}
                type="button"
                class="chip"
                aria-pressed={i + 1 === Math.max(1, Math.min(baseRun.value, baseRuns))}
                onClick={() => {
                  baseRun.value = i + 1
                }}
              >
                {i + 1}
              </button>
            ))}
          </fieldset>
        ) : null}
      </div>
      <Parts parts={columns.problems.parts[problem]} seats={run.sides[columnsShown[0].side].seats} />
      <div class="columns" style={{ '--columns': columnsShown.length }}>
        {columnsShown.map(({ title, note, side, job }) => {
          const number = job < 0 ? -1 : row.boards[job]
          return (
            <section
              key={title}
              class="column"
              style={{
                '--tone': colourOf(run.sides[run.sides[side].arm === null ? armOf(run, side, arms) : side]),
              }}
              aria-label={`${title}, ${note}`}
            >
              <h2>
                {title}{' '}
                <span class="muted">
                  {job < 0 ? note : `${run.jobs[job].name}, plays “${run.sides[side].protocol}”`}
                </span>
              </h2>
              {number < 0 ? null : <p class="sum">{sumOf(table.index.value, number)}</p>}
              {number < 0 ? (
                <p class="muted">{job < 0 ? 'Not part of this run.' : 'Not evaluated yet.'}</p>
              ) : (
                <Board
                  source={source}
                  side={run.sides[side]}
                  job={run.jobs[job].name}
                  number={number}
                  asked={askedOf(run, side, columns, problem)}
                />
              )}
            </section>
          )
        })}
      </div>
    </article>
  )
}

/** Arms side by side: each has a column before training and one after. */
const SHOWN_ARMS = 2

/** Those that the address names and the run has; else those of its first contrast, the baseline first. */
function shownArms(run: RunView, named: string[] | null): string[] {
  const known = (named ?? []).filter((arm) => run.arms.includes(arm))
  if (known.length > 0) return known.slice(0, SHOWN_ARMS)
  const [first] = run.contrasts
  return first ? [first.against, first.arm] : run.arms.slice(0, SHOWN_ARMS)
}

interface ShownColumn {
  title: string
  note: string
  side: number
  /** -1: the run has no such job. */
  job: number
}

/** Each arm before training and after it; what several start from stands once. */
function columnsOf(
  run: RunView,
  arms: readonly string[],
  seed: number | null,
  baseRun: number,
): ShownColumn[] {
  const sides = arms.map((arm) =>
    run.sides.findIndex(({ arm: place, name }) => place !== null && name === arm),
  )
  return sides.flatMap((side, i): ShownColumn[] => {
    const { name, base } = run.sides[side]
    const after = {
      title: `${capital(name)}, trained`,
      note: `seed ${seed}`,
      side,
      job: run.jobs.findIndex((job) => job.side === side && job.seed === seed),
    }
    if (sides.slice(0, i).some((other) => run.sides[other].base === base)) return [after]
    const same = sides.filter((other) => run.sides[other].base === base)
    const jobs = run.jobs.flatMap((job, j) => (job.side === base ? [j] : []))
    const before = {
      title: `${same.map((other) => capital(run.sides[other].name)).join(' and ')}, before training`,
      note: 'the base',
      side: base,
      job: jobs[Math.min(baseRun, jobs.length - 1)] ?? -1,
    }
    return [before, after]
  })
}

/** The first of the shown arms that start from a base: its column has that arm's colour. */
function armOf(run: RunView, base: number, arms: readonly string[]): number {
  return run.sides.findIndex(
    ({ arm, name, base: own }) => arm !== null && own === base && arms.includes(name),
  )
}

/** What was dealt among the seats, and to whom. */
function Parts({ parts, seats }: { parts: readonly string[]; seats: readonly string[] }) {
  if (parts.length === 0) return null
  return (
    <details class="parts">
      <summary>What only some were told</summary>
      <dl>
        {seats.map((seat, i) => (
          <div key={seat}>
            <dt>{capital(seat)}</dt>
            <dd>{partsOf({ parts }, i, seats.length).join(' ')}</dd>
          </div>
        ))}
      </dl>
    </details>
  )
}

/** How many of a board's posts are right, round by round. */
function sumOf(index: BoardsIndex, board: number): string {
  const { rounds } = index.sides[index.jobs[index.columns.job[board]].side]
  return rightByRound(index, board)
    .map(({ right, of }, r) => `${right} of ${of} ${postsOf(rounds[r])}${r === 0 ? ' right' : ''}`)
    .join(', ')
}

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
  /** Which of the step's boards of this problem. */
  board: number
}) {
  const { source, run, address, step, id } = props
  const columns = source.boards.value
  const job = run.jobs.findIndex(({ name }) => name === props.job)
  const problem = columns.problems.id.indexOf(id)
  const boards = columns.job.flatMap((each, i) =>
    each === job && columns.step[i] === step && columns.problem[i] === problem ? [i] : [],
  )
  const number = boards[props.board] ?? -1
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
          <Parts parts={columns.problems.parts[problem]} seats={run.sides[run.jobs[job].side].seats} />
          <Board
            source={source}
            side={run.sides[run.jobs[job].side]}
            job={props.job}
            number={number}
            asked={askedOf(run, run.jobs[job].side, columns, problem)}
          />
        </>
      )}
    </article>
  )
}

/** What prompts are built from. */
interface Asked {
  protocol: ProtocolLine
  problem: Problem
}

function askedOf(run: RunView, side: number, { problems }: BoardColumns, number: number): Asked {
  const { id, question, gold, parts } = problems
  return {
    protocol: run.identity.arms[run.sides[side].arms[0]].protocol,
    problem: { id: id[number], question: question[number], gold: gold[number], parts: parts[number] },
  }
}

/** One board: its rounds in order, each post with what it read. */
export function Board({
  source,
  side,
  job,
  number,
  compact,
  asked,
}: {
  source: RunSource
  side: Side
  /** The name of its job, which tells it from others on the page. */
  job: string
  number: number
  compact?: boolean
  /** Shows what each post was asked, too. */
  asked?: Asked
}) {
  const [text, setText] = useState<BoardText | string | null>(null)
  /** What the post under the pointer or with the focus has read. */
  const [read, setRead] = useState<readonly Ref[]>([])
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
  const { rounds, credit, influence } = text
  const shown = compact ? 600 : SHOWN
  const isRead = (round: number, seat: number) => read.some(([r, s]) => r === round && s === seat)
  return (
    <div class={compact ? 'board compact' : 'board'}>
      {rounds.map((posts, r) => (
        <div key={r} class={`round round-${r + 1}`}>
          <h3>{capital(postsOf(side.rounds[r]))}</h3>
          {compact ? null : (
            <WhoReadWhom side={side} job={job} rounds={rounds} round={r} influence={influence ?? []} />
          )}
          <ol class="posts">
            {posts.map((post, i) => {
              const earned = credit?.[r][i] ?? null
              const before = latestBefore(rounds, r, post.seat)
              return (
                <li
                  key={post.seat}
                  class={`post ${mark(post)} ${isRead(r, post.seat) ? 'read' : ''}`}
                  onMouseEnter={() => setRead(post.reads)}
                  onMouseLeave={() => setRead([])}
                >
                  <PostHead title={postTitle(side, r, post.seat)} post={post} earned={earned} />
                  {side.rounds[r].sees === null ? null : (
                    <p class="reads">
                      read {readsOf(side, post)}
                      {before ? turn(post, before) : null}
                    </p>
                  )}
                  <PostText post={post} shown={shown} />
                  {asked ? <PromptOf asked={asked} rounds={rounds} round={r} seat={post.seat} /> : null}
                </li>
              )
            })}
          </ol>
        </div>
      ))}
    </div>
  )
}

/** Seats and rounds up to which the posts' own lines say well enough who read whom: the table is closed until opened. */
const FEW = { seats: 6, rounds: 2 }

/** Who read whom in one round, as a table: a row for each reader, a column for each post that any of them read. */
function WhoReadWhom({
  side,
  job,
  rounds,
  round,
  influence,
}: {
  side: Side
  job: string
  rounds: readonly (readonly Post[])[]
  round: number
  influence: readonly Effect[]
}) {
  const readers = rounds[round]
  const read = rounds
    .slice(0, round)
    .flatMap((posts, r) =>
      posts.flatMap((post) =>
        readers.some(({ reads }) => reads.some(([a, b]) => a === r && b === post.seat)) ? [{ r, post }] : [],
      ),
    )
  if (read.length === 0 || (readers.length === 1 && read.length === 1)) return null
  const from = [...new Set(read.map(({ r }) => r))]
  const measured = influence.filter(({ post: [r] }) => r === round)
  const most = Math.max(...measured.map(({ change }) => Math.abs(change)))
  const isOpen = side.seats.length > FEW.seats || rounds.length > FEW.rounds || measured.length > 0
  return (
    <details class={measured.length > 0 ? 'sights measured' : 'sights'} open={isOpen}>
      <summary>
        Who read whom
        {measured.length > 0 ? ', and how much likelier it made what they wrote, in nats' : ''}
      </summary>
      <Wide label={`Who read whom in ${postsOf(side.rounds[round])}, ${job}`}>
        <table>
          <thead>
            {from.length > 1 || from[0] !== round - 1 ? (
              <tr>
                <td />
                {from.map((r) => (
                  <th key={r} scope="colgroup" colSpan={read.filter((one) => one.r === r).length}>
                    {postsOf(side.rounds[r])}
                  </th>
                ))}
              </tr>
            ) : null}
            <tr>
              <td />
              {read.map(({ r, post }) => (
                <th
                  key={`${r} ${post.seat}`}
                  scope="col"
                  class={mark(post)}
                  title={`${postTitle(side, r, post.seat)}, ${mark(post)}`}
                >
                  {post.seat + 1}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {readers.map((reader) => (
              <tr key={reader.seat}>
                <th
                  scope="row"
                  class={mark(reader)}
                  title={`${postTitle(side, round, reader.seat)}, ${mark(reader)}`}
                >
                  {reader.seat + 1}
                </th>
                {read.map(({ r, post }) => {
                  const isRead = reader.reads.some(([a, b]) => a === r && b === post.seat)
                  const effect = measured.find(
                    ({ note, post: [, seat] }) =>
                      note[0] === r && note[1] === post.seat && seat === reader.seat,
                  )
                  return effect ? (
                    <td
                      key={`${r} ${post.seat}`}
                      class={effect.change < 0 ? 'effect less' : 'effect'}
                      style={{ '--strength': `${(60 * Math.abs(effect.change)) / (most || 1)}%` }}
                    >
                      {effect.change.toFixed(2)}
                    </td>
                  ) : (
                    <td key={`${r} ${post.seat}`} class={mark(post)}>
                      {isRead ? (post.correct ? '●' : '○') : ''}
                    </td>
                  )
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </details>
  )
}

const mark = (post: Post) => (post.correct ? 'right' : 'wrong')

/** What a post made of its seat's post before; a reader of its own posts alone tried again, and nobody helped. */
function turn(post: Post, before: Post) {
  if (post.correct === before.correct) return null
  const alone = post.reads.every(([, seat]) => seat === post.seat)
  return post.correct ? (
    <Badge kind="rescued">{alone ? 'right at the second try' : 'rescued'}</Badge>
  ) : (
    <Badge kind="misled">{alone ? 'lost at the second try' : 'misled'}</Badge>
  )
}

function PostHead({ title, post, earned }: { title: string; post: Post; earned: number | null }) {
  return (
    <p class="post-head">
      <b>{title}</b>
      <Badge kind={post.correct ? 'right' : 'wrong'}>{post.correct ? '✓ right' : '✗ wrong'}</Badge>
      {post.cut ? <Badge kind="cut">✂ cut</Badge> : null}
      <span class="said" title="what the verifier read as its answer">
        {post.answer === null ? (
          <span class="muted">no answer</span>
        ) : (
          <b class="answer">{post.answer.slice(0, 60)}</b>
        )}
      </span>
      {earned === null ? null : (
        <span class="earned" title="what training paid for this post">
          earned {earned === 0 ? '0' : signed(earned)}
        </span>
      )}
      <span class="muted tokens">{whole(post.tokens)} tokens</span>
    </p>
  )
}

function PostText({ post, shown }: { post: Post; shown: number }) {
  return post.text === '' ? (
    <div class="text">
      <span class="muted">empty</span>
    </div>
  ) : (
    <LongText text={post.text} answer={post.answer} shown={shown} what="the post" />
  )
}

/** A text of which the rest is there at a click, in a box that scrolls. */
function LongText({
  text,
  answer,
  shown,
  what,
}: {
  text: string
  answer: string | null
  shown: number
  what: string
}) {
  const [all, setAll] = useState(false)
  const long = text.length > shown
  // What scrolls must be reachable from the keyboard.
  const scrolls = all ? ({ tabIndex: 0, role: 'region', 'aria-label': `All of ${what}` } as const) : {}
  return (
    <>
      <div class={all ? 'text all' : 'text'} {...scrolls}>
        <Text text={text} answer={answer} length={all ? undefined : shown} />
      </div>
      {long ? (
        <button type="button" class="quiet" onClick={() => setAll(!all)}>
          {all ? 'Show less' : `Show all ${whole(text.length)} characters`}
        </button>
      ) : null}
    </>
  )
}

/** The chat that a post answers, once it is asked for. */
function PromptOf({
  asked: { protocol, problem },
  rounds,
  round,
  seat,
}: {
  asked: Asked
  rounds: readonly (readonly Post[])[]
  round: number
  seat: number
}) {
  const [open, setOpen] = useState(false)
  const chat = open ? promptOf(protocol, problem, rounds, [round, seat]) : null
  return (
    <details class="prompt no-print" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Prompt</summary>
      {!open ? null : chat === null ? (
        <p class="muted small">
          This round’s prompt is a function of the experiment’s own. The record holds its hash (
          {protocol.rounds[round].prompt}) and what was read, not its words.
        </p>
      ) : (
        <>
          {chat.map(({ role, content }, i) => (
            <div key={i} class="message">
              <b>{role}</b>
              <LongText text={content} answer={null} shown={SHOWN} what="the prompt" />
            </div>
          ))}
          <p class="muted small">
            The chat as it was asked, before the model’s own template. Where it took more tokens than there
            was room for, its longest notes were shortened from their end.{' '}
            <Copy text={() => chat.map(({ content }) => content).join('\n\n')}>Copy</Copy>
          </p>
        </>
      )}
    </details>
  )
}

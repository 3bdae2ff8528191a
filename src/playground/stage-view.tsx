/** The stage: one problem, the notes on it, who reads whom, and what the readers make of it. */
import { partsOf } from '../tasks/parts.ts'
import { capital } from '../web/names.ts'
import { changeOf, InfluenceTable } from './influence.tsx'
import { ArmChip, PolicyPicker } from './pickers.tsx'
import { PostCard } from './post-card.tsx'
import { ProblemPicker } from './problem-picker.tsx'
import { armNames } from './settings.ts'
import {
  arm,
  editNote,
  effects,
  isEdited,
  isShown,
  phase,
  playAgain,
  posts,
  problem,
  undoEdits,
} from './stage.ts'
import { facts, failed, setArm, settings } from './state.ts'
import { Term } from './term.tsx'
import { toneOf } from './tones.ts'
import { Wires } from './wires.tsx'
import { SEATS } from './wiring.ts'

export function Stage() {
  const posed = problem.value
  const rounds = posts.value
  const its = settings.value.arms[arm.value]
  const measured = effects.value
  return (
    <section id="stage" class="stage" aria-labelledby="stage-title">
      <h2 id="stage-title" class="hidden">
        The board
      </h2>
      <ProblemPicker />
      <div class="posed">
        <p class="question">{posed?.question ?? ' '}</p>
        <p class="gold-line">
          Right answer: <b class="answer">{posed?.gold ?? ''}</b>
        </p>
      </div>
      <div class="stage-bar">
        <fieldset class="chips">
          <legend>Wired as</legend>
          {armNames.map((name) => (
            <ArmChip
              key={name}
              name={name}
              pressed={arm.value === name}
              onPress={() => {
                arm.value = name
              }}
            />
          ))}
        </fieldset>
        <PolicyPicker />
        <span class="grow" />
        {isEdited.value ? (
          <button type="button" onClick={() => undoEdits().catch(failed)}>
            Take the edits back
          </button>
        ) : null}
        <button type="button" disabled={posed === null} onClick={() => playAgain().catch(failed)}>
          Play again
        </button>
      </div>
      <p class="hidden" role="status">
        {phase.value === 'done' ? summary() : ''}
      </p>
      {rounds.map((round, r) => (
        <div key={r} class="stage-round">
          {r === 0 ? null : (
            <Wires
              wiring={its.reads}
              tone={toneOf(arm.value)}
              from={r === 1 ? 'note' : 'post'}
              to="reader"
              label={`Who reads whom: ${r === 1 ? 'from notes' : 'from the posts before'} to readers`}
              strength={measured ? (note, reader) => changeOf(measured, r - 1, note, reader) : undefined}
              {...(r === 1 && {
                onChange: (reads) => setArm(arm.value, { reads }),
              })}
            />
          )}
          <h3 class="round-title">
            {r === 0 ? (
              <>
                <Term word="note">Notes</Term>{' '}
                <span class="muted">
                  each copy writes one, seeing the problem{posed?.parts ? ' and what it alone is told' : ''}
                </span>
              </>
            ) : (
              <>
                <Term word="reply">{rounds.length > 2 ? `Turn ${r + 1}` : 'Replies'}</Term>{' '}
                <span class="muted">
                  each copy reads its board and answers; the <Term word="verifier" /> reads along
                </span>
              </>
            )}
          </h3>
          <ol class="cards">
            {round.map((one) => (
              <PostCard
                key={one.seat}
                one={one}
                title={r === 0 ? `Note ${one.seat + 1}` : `Reader ${one.seat + 1}`}
                gold={posed?.gold ?? ''}
                told={r === 0 && posed ? partsOf(posed, one.seat, SEATS) : []}
                waits={r > 0 && !rounds[r - 1].every(isShown)}
                reads={r === 0 ? null : readsLine(one.reads.map(([, seat]) => seat))}
                onEdit={r === 0 ? (text) => editNote(one.seat, text).catch(failed) : undefined}
              />
            ))}
          </ol>
        </div>
      ))}
      {rounds.length === 0 || facts.value === null ? (
        <p class="muted loading" role="status">
          Loading the model: under a million parameters, {facts.value === null ? 'on its way' : 'here'}.
        </p>
      ) : null}
      {measured && measured.length > 0 ? <InfluenceTable effects={measured} rounds={rounds.length} /> : null}
    </section>
  )
}

function readsLine(notes: readonly number[]): string {
  if (notes.length === 0) return 'reads nothing'
  return notes.length === SEATS ? 'reads all' : `reads ${notes.map((note) => note + 1).join(', ')}`
}

/** How the board came out, for who does not see it. */
function summary(): string {
  return posts
    .peek()
    .map((round, r) => {
      const right = round.filter(({ post }) => post?.correct).length
      return `${capital(r === 0 ? 'notes' : 'replies')}: ${right} of ${round.length} right.`
    })
    .join(' ')
}

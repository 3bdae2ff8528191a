/** The training: how far it is, the reward of both arms, and the boards of any step, side by side. */
import { useComputed } from '@preact/signals'
import type { RunView } from '../view/types.ts'
import { colourOf } from '../web/colours.ts'
import { duration } from '../web/format.ts'
import { Board } from '../web/problem.tsx'
import { RewardChart } from './reward-chart.tsx'
import {
  computing,
  forget,
  isChanged,
  lookAt,
  notices,
  pause,
  run,
  running,
  runSettings,
  shownSeed,
  source,
  start,
} from './run-state.ts'
import { failed, set, settings } from './state.ts'
import { Term } from './term.tsx'

export function Training() {
  const now = run.value
  return (
    <section id="training" aria-labelledby="training-title">
      <h2 id="training-title">Watch it learn</h2>
      {now === null ? (
        <p class="lede">
          {running.value
            ? computing.value || 'Opening the run.'
            : 'Nothing is trained yet. Press Train above: both arms learn side by side, from the same seed, and every step’s boards can be looked at.'}
        </p>
      ) : (
        <UnderWay now={now} />
      )}
    </section>
  )
}

/** The seed whose trainings are shown: the one chosen, or the latest that has begun. */
function seedOf(now: RunView): number {
  const begun = now.jobs.filter(({ seed, steps }) => seed !== null && steps.done > 0)
  return shownSeed.value ?? begun.at(-1)?.seed ?? now.seeds[0]
}

function UnderWay({ now }: { now: RunView }) {
  const seed = seedOf(now)
  const lines = now.arms.flatMap((arm) => {
    const side = now.sides.find(({ name, arm: place }) => place !== null && name === arm)!
    const job = now.jobs.find((each) => each.seed === seed && now.sides[each.side] === side)
    return job ? [{ job, side }] : []
  })
  const steps = Math.max(1, ...lines.map(({ job }) => job.steps.of))
  const done = Math.max(0, ...lines.map(({ job }) => job.steps.done))
  // The latest that both have taken, so that both can be looked at.
  const latest = Math.max(Math.min(1, done), Math.min(...lines.map(({ job }) => job.steps.done)))
  const at = Math.min(lookAt.value ?? latest, done)
  const look = (step: number) => {
    const bounded = Math.min(done, Math.max(1, step))
    lookAt.value = bounded === latest ? null : bounded
  }
  return (
    <>
      <Progress now={now} />
      {computing.value === '' ? null : <p class="hint">{computing.value}</p>}
      {isChanged.value ? (
        <p class="hint">
          The settings above have changed since: this is the run of the ones before.{' '}
          <button
            type="button"
            class="quiet"
            onClick={() => set({ ...runSettings.value!, problem: settings.value.problem })}
          >
            Set them back
          </button>
        </p>
      ) : null}
      {notices.value.map((notice) => (
        <p key={notice} class="warning">
          {notice}
        </p>
      ))}
      {now.seeds.length > 1 ? (
        <fieldset class="chips">
          <legend>Seed</legend>
          {now.seeds.map((each) => (
            <button
              key={each}
              type="button"
              class="chip small"
              aria-pressed={each === seed}
              onClick={() => {
                shownSeed.value = each
                lookAt.value = null
              }}
            >
              {each}
            </button>
          ))}
        </fieldset>
      ) : null}
      <figure class="chart">
        <figcaption>
          <Term word="reward">Reward</Term>: the share of replies that are right, in each step’s batch. Thin:
          as measured; thick: a mean of five steps.
        </figcaption>
        <RewardChart lines={lines} steps={steps} at={at} onLook={look} />
        <label class="scrub">
          <span class="hidden">Step to look at</span>
          <input
            type="range"
            min={1}
            max={Math.max(1, done)}
            value={Math.max(1, at)}
            disabled={done === 0}
            aria-valuetext={stepTitle(at, latest)}
            onInput={(event) => look(Number(event.currentTarget.value))}
          />
        </label>
        <p class="row">
          <button type="button" disabled={done === 0} onClick={() => look(1)}>
            Before training
          </button>
          <button type="button" disabled={at <= 1} onClick={() => look(at - 1)}>
            ← Step back
          </button>
          <button type="button" disabled={at >= done} onClick={() => look(at + 1)}>
            Step on →
          </button>
          <button
            type="button"
            disabled={lookAt.value === null}
            onClick={() => {
              lookAt.value = null
            }}
          >
            Latest
          </button>
          <b class="step-title">{stepTitle(at, latest)}</b>
        </p>
      </figure>
      <div class="side-by-side">
        {lines.map(({ job, side }) => (
          <div key={side.name} class="step-board" style={{ '--tone': colourOf(side) }}>
            <h3>
              {side.title} <span class="muted">seed {seed}</span>
            </h3>
            <StepBoard job={job.name} side={side} step={at} />
          </div>
        ))}
      </div>
    </>
  )
}

const stepTitle = (at: number, latest: number): string =>
  at === 0
    ? 'No step yet'
    : at === 1
      ? 'Step 1: written before any training'
      : `Step ${at}: written after ${at - 1} ${at === 2 ? 'update' : 'updates'}${at === latest ? ', the latest' : ''}`

/** The first board that an arm played in a step. */
function StepBoard({ job, side, step }: { job: string; side: RunView['sides'][number]; step: number }) {
  const number = useComputed(() => {
    const { jobs } = source.value.run.value ?? { jobs: [] }
    const its = jobs.findIndex(({ name }) => name === job)
    const columns = source.value.boards.value
    return columns.job.findIndex((each, i) => each === its && columns.step[i] === step)
  }).value
  const { problems, problem } = source.value.boards.value
  if (step === 0 || number < 0) return <p class="muted">{step === 0 ? 'Its turn comes.' : 'On its way.'}</p>
  return (
    <>
      <p class="question">{problems.question[problem[number]]}</p>
      <p class="gold-line">
        Right answer: <b class="answer">{problems.gold[problem[number]]}</b>
      </p>
      <Board source={source.value} side={side} job={job} number={number} compact />
    </>
  )
}

function Progress({ now }: { now: RunView }) {
  const parts = now.jobs.map(({ steps, problems }) => ({
    // A step and the held-out problems of an evaluation take about as long as this says.
    done: steps.done + problems.done / 20,
    of: steps.of + problems.of / 20,
  }))
  const sum = (key: 'done' | 'of') => parts.reduce((all, part) => all + part[key], 0)
  const isDone = now.results !== null
  const current = now.jobs.filter(({ state }) => state === 'running').map(({ name }) => name)
  return (
    <div class="progress-row">
      <progress value={sum('done')} max={Math.max(1, sum('of'))} aria-label="All of the run" />
      <span class="muted" role="status">
        {isDone
          ? 'All is trained and evaluated.'
          : running.value
            ? `${current.length === 0 ? 'Beginning' : current.map(jobTitle).join(', ')}${now.eta === null ? '' : ` · about ${duration(now.eta)} left`}`
            : `Paused at ${Math.floor((100 * sum('done')) / sum('of'))}%: what was done is kept.`}
      </span>
      <span class="grow" />
      {isDone ? null : running.value ? (
        <button type="button" onClick={pause}>
          Pause
        </button>
      ) : (
        <button
          type="button"
          class="primary"
          disabled={isChanged.value}
          onClick={() => start().catch(failed)}
        >
          Go on
        </button>
      )}
      <button type="button" class="quiet" onClick={() => forget().catch(failed)}>
        Forget this run
      </button>
    </div>
  )
}

/** A job as a person would name it. */
const jobTitle = (name: string): string => {
  const [, what, number] = /^(.*)-(s?\d+)$/.exec(name) ?? []
  return number?.startsWith('s')
    ? `${what}, seed ${number.slice(1)}`
    : `the untrained model, evaluation ${number}`
}

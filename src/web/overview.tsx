/** A run from the top: the verdict in words, the arms, the training, the boards, the checks and the settings. */
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import type { Results } from '../record/results.ts'
import { checkLines } from '../report/checks.ts'
import { explain } from '../report/glossary.ts'
import { post } from '../report/post.ts'
import {
  hasMarks,
  hasTwoRounds,
  MARKED,
  pooledName,
  roundColumns,
  roundRows,
  tableHeader,
  tableRows,
} from '../report/rows.ts'
import { changeSentence, type Sentence, trainingSentence } from '../report/sentences.ts'
import { tableMarkdown } from '../report/table.ts'
import type { JobView, RunView } from '../view/types.ts'
import { BoardsTable, LatestBoards, TrainingBoards } from './boards.tsx'
import { colourOf } from './colours.ts'
import { Copy, Download, save, Wide } from './controls.tsx'
import { ArmsFigure, ContrastsFigure, TrainingFigure, TrainingFigures } from './figures.tsx'
import { difference, duration, three, whole } from './format.ts'
import { shortName } from './names.ts'
import { fragmentOf } from './route.ts'
import { Said } from './said.tsx'
import { type Setting, settingGroups } from './settings.ts'
import type { RunSource } from './source.ts'
import type { TableState } from './table-state.ts'

const sections = [
  ['verdict', 'Verdict'],
  ['arms', 'Arms'],
  ['training', 'Training'],
  ['boards', 'Boards'],
  ['checks', 'Checks'],
  ['settings', 'Settings'],
] as const

export function Overview(props: {
  source: RunSource
  table: TableState
  run: RunView
  /** Null in a report. */
  address: string | null
  section: string | null
}) {
  const { source, table, run, address, section } = props
  useEffect(() => {
    if (section) document.getElementById(section)?.scrollIntoView()
  }, [section])
  const { results } = run
  // Before the end there are no results to lead to.
  const shown = sections.filter(([id]) => results !== null || (id !== 'arms' && id !== 'checks'))
  return (
    <>
      <nav class="sections no-print" aria-label="Sections">
        {shown.map(([id, title]) => (
          <a key={id} href={fragmentOf({ view: 'run', run: address, section: id })}>
            {title}
          </a>
        ))}
      </nav>
      <header class="hero" id="verdict">
        <p class="eyebrow">
          {run.name} · {shortName(run.model)} on {run.task} · {run.sizes.holdout} held-out problems ·{' '}
          {run.seeds.length === 1 ? 'seed' : 'seeds'} {run.seeds.join(', ')}
        </p>
        <Verdict run={run} />
        <Said notes={run.notes} />
      </header>
      {run.state !== 'finished' || run.jobs.some(({ state }) => state === 'failed') ? (
        <Progress run={run} />
      ) : null}
      {run.state === 'running' ? <LatestBoards source={source} run={run} address={address} /> : null}
      {results ? (
        <Section id="arms" title="How often each arm is right">
          <ArmsFigure run={run} results={results} />
          <ResultTable results={results} />
        </Section>
      ) : null}
      <Section id="training" title="Training">
        <TrainingFigures run={run} />
        <TrainingBoards table={table} run={run} address={address} />
      </Section>
      <Section id="boards" title="The boards">
        <BoardsTable source={source} run={run} table={table} address={address} />
      </Section>
      {results ? <Checks results={results} run={run} /> : null}
      <Settings run={run} address={address} />
    </>
  )
}

export function Section({ id, title, children }: { id: string; title: string; children: ComponentChildren }) {
  return (
    <section id={id} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{title}</h2>
      {children}
    </section>
  )
}

export function Verdict({ run }: { run: RunView }) {
  const { results } = run
  if (!results) {
    const done = run.jobs.filter(({ state }) => state === 'finished').length
    return (
      <>
        <h1 class="verdict">{run.state === 'running' ? 'Running' : 'Not finished'}</h1>
        <p class="lead">
          {done} of {run.jobs.length} jobs are done. There is no verdict before all are: a look at half the
          data would spoil it.
        </p>
      </>
    )
  }
  const { training, contrasts } = results
  const sentences = [trainingSentence(results), changeSentence(results)]
  return (
    <>
      <h1 class="verdict">
        {sentences.map(({ headline, tone }) => (
          <span key={headline} class={toneClass(tone)}>
            {headline}{' '}
          </span>
        ))}
      </h1>
      <div class="findings">
        {training.length === 0 ? null : (
          <div class="finding training">
            <h2>Did training help?</h2>
            <p class="numbers">
              Each arm against the untrained model under the same protocol
              {training.length > 3 ? '.' : ': '}
              {training.length > 3
                ? null
                : training.map((one, i) => (
                    <span key={one.arm}>
                      {i > 0 ? ', ' : ''}
                      <ArmName run={run} name={one.arm} /> <b>{difference(one)}</b>
                    </span>
                  ))}
            </p>
            <TrainingFigure training={training} />
          </div>
        )}
        <div class="finding change">
          <h2>Did the change help?</h2>
          {contrasts.length === 0 ? (
            <p class="lead">It takes finished trainings of two arms to compare them.</p>
          ) : (
            <>
              {contrasts.length === 1 ? (
                <OneContrast run={run} results={results} />
              ) : (
                <p class="numbers">
                  {contrasts.length} comparisons that were planned, each with an interval that holds for all
                  of them together.
                </p>
              )}
              <ContrastsFigure contrasts={contrasts} />
            </>
          )}
        </div>
      </div>
      {[...new Set(contrasts.flatMap(({ warnings }) => warnings))].map((warning) => (
        <p key={warning} class="warning">
          <b>Warning:</b> {warning}
        </p>
      ))}
    </>
  )
}

const toneClass = (tone: Sentence['tone']) => tone.replaceAll(' ', '-')

/** The one difference of an experiment of two arms, in words for a reader who knows none of the others. */
function OneContrast({ run, results }: { run: RunView; results: Results }) {
  const [contrast] = results.contrasts
  const { why, toResolve } = contrast
  const [arm, against] = [contrast.arm, contrast.against].map((name) => results.arms[name])
  return (
    <>
      <p class="lead">{why}</p>
      {toResolve ? <p class="lead muted">{toResolve.why}</p> : null}
      {arm && against ? (
        <p class="numbers">
          After training, <ArmName run={run} name={contrast.arm} /> (“{arm.protocol}”) is right{' '}
          <b>{three(arm.passAt1)}</b> of the time; <ArmName run={run} name={contrast.against} /> (“
          {against.protocol}”), <b>{three(against.passAt1)}</b>: a difference of <b>{difference(contrast)}</b>
          .
        </p>
      ) : null}
    </>
  )
}

/** An arm's name over a line in its colour. */
function ArmName({ run, name }: { run: RunView; name: string }) {
  const side = run.sides.find(({ arm, name: own }) => arm !== null && own === name)
  return (
    <b class={side && 'arm-name'} style={side && { '--tone': colourOf(side) }}>
      {name}
    </b>
  )
}

const stateWords: Record<JobView['state'], string> = {
  waiting: 'waiting',
  running: 'running',
  stopped: 'stopped',
  finished: 'done',
  failed: 'failed',
}

function latestReward({ trace: { measures } }: JobView): string {
  const reward = measures.reward.at(-1) ?? null
  return reward === null ? '' : three(reward)
}

function Progress({ run }: { run: RunView }) {
  const left = run.eta !== null && run.state === 'running' ? `about ${duration(run.eta)} left` : ''
  return (
    <section id="progress" aria-labelledby="progress-title">
      <h2 id="progress-title">
        Progress <span class="muted">{left}</span>
      </h2>
      <Wide label="Jobs">
        <table class="jobs">
          <thead>
            <tr>
              <th scope="col">Job</th>
              <th scope="col">State</th>
              <th scope="col">Training steps</th>
              <th scope="col">Held out</th>
              <th scope="col" class="number">
                Reward
              </th>
              <th scope="col" class="number">
                pass@1 so far
              </th>
              <th scope="col" class="number">
                Tokens/s
              </th>
              <th scope="col" class="number">
                Left
              </th>
            </tr>
          </thead>
          <tbody>
            {run.jobs.map((job) => (
              <tr key={job.name} class={job.state}>
                <th scope="row">{job.name}</th>
                <td>
                  <span class={`state ${job.state}`}>{stateWords[job.state]}</span>
                  {job.why ? <div class="why">{job.why}</div> : null}
                </td>
                <td>
                  {job.steps.of > 0 ? (
                    <Bar what={`${job.name}, training steps`} {...job.steps} />
                  ) : (
                    <span class="muted">none</span>
                  )}
                </td>
                <td>
                  <Bar what={`${job.name}, held-out problems`} {...job.problems} />
                </td>
                <td class="number">{latestReward(job)}</td>
                <td class="number">{job.passAt1 === null ? '' : three(job.passAt1)}</td>
                <td class="number">{job.tokensPerSecond === null ? '' : whole(job.tokensPerSecond)}</td>
                <td class="number">
                  {job.eta === null || job.eta === 0 || run.state !== 'running' ? '' : duration(job.eta)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </section>
  )
}

/** How much is done, drawn and in numbers. */
export function Bar({
  what,
  done,
  of,
  percent,
}: {
  what: string
  done: number
  of: number
  percent?: boolean
}) {
  return (
    <span class="bar">
      <progress value={done} max={Math.max(1, of)} aria-label={what} />
      {percent ? `${Math.floor((100 * done) / of)}%` : `${done}/${of}`}
    </span>
  )
}

/** Rows up to which the table by round is open at first. */
const OPEN_ROWS = 12

function ResultTable({ results }: { results: Results }) {
  const header = tableHeader(results)
  const rows = tableRows(results)
  const pooled = new Set(Object.keys(results.arms).map(pooledName))
  return (
    <>
      <Cells
        label="Result table"
        header={header}
        rows={rows}
        words={1}
        isStrong={(name) => pooled.has(name)}
      />
      {hasMarks(results) ? <p class="muted">{MARKED}</p> : null}
      {hasTwoRounds(results) ? null : (
        <details class="by-round" open={roundRows(results).length <= OPEN_ROWS}>
          <summary>By round</summary>
          <Cells label="Result table by round" header={roundColumns} rows={roundRows(results)} words={2} />
        </details>
      )}
      <p class="actions no-print">
        <Copy text={() => tableMarkdown(results)}>Copy as Markdown</Copy>
        <Copy text={() => post(results)}>Copy as a post</Copy>
        <Download
          name="results.csv"
          rows={tableRows(results, { marked: false }).map((cells) =>
            Object.fromEntries(header.map((name, i) => [name, cells[i]])),
          )}
        />
        <button
          type="button"
          class="quiet"
          onClick={() => save('results.json', 'application/json', `${JSON.stringify(results, null, 2)}\n`)}
        >
          results.json
        </button>
      </p>
    </>
  )
}

/** A table of cells as text, of which the first `words` columns are words. */
function Cells({
  label,
  header,
  rows,
  words,
  isStrong,
}: {
  label: string
  header: readonly string[]
  rows: readonly (readonly string[])[]
  words: number
  isStrong?: (name: string) => boolean
}) {
  const kind = (column: number) => (column < words ? '' : 'number')
  return (
    <Wide label={label}>
      <table class="results">
        <thead>
          <tr>
            {header.map((cell, i) => (
              <th key={i} scope="col" class={kind(i)} title={explain(cell)}>
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, ...cells], r) => (
            <tr key={r} class={isStrong?.(name) ? 'pooled' : ''}>
              <th scope="row">{name}</th>
              {cells.map((cell, i) => (
                <td key={i} class={kind(i + 1)}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  )
}

function Checks({ results, run }: { results: Results; run: RunView }) {
  return (
    <Section id="checks" title="What the verdict rests on">
      <dl class="checks">
        {checkLines(results).map(([what, said, source], i) => (
          <div key={i}>
            <dt title={explain(what)}>{what}</dt>
            <dd>
              {said}
              <span class="source">{source}</span>
            </dd>
          </div>
        ))}
        <div>
          <dt>cost</dt>
          <dd>
            {results.timing.minutes.toFixed(1)} minutes on {run.machine.cores} cores of{' '}
            {run.machine.processor}
            <span class="source">timing, experiment.json</span>
          </dd>
        </div>
      </dl>
    </Section>
  )
}

function Settings({ run, address }: { run: RunView; address: string | null }) {
  const { shared, arms } = settingGroups(run)
  const groups: [string, Setting[]][] = [
    ['Experiment', shared],
    ...arms.flatMap(({ arm, own }): [string, Setting[]][] =>
      own.length === 0 ? [] : [[`Only in ${arm}`, own]],
    ),
    ['Versions', Object.entries(run.versions)],
    [
      'Machine',
      [
        ...Object.entries(run.machine).map(([key, value]): Setting => [key, String(value)]),
        ...(run.devices.length === 0 ? [] : [['computed on', run.devices.join(', then ')] satisfies Setting]),
      ],
    ],
    [
      'Cost, minutes',
      run.jobs.map(({ name, seconds }) => [
        name,
        `${(seconds.train / 60).toFixed(2)} training, ${(seconds.evaluation / 60).toFixed(2)} evaluation`,
      ]),
    ],
  ]
  return (
    <Section id="settings" title="Settings, versions, cost">
      <div class="settings">
        {groups.map(([title, entries]) => (
          <div key={title}>
            <h3>{title}</h3>
            <dl>
              {entries.map(([key, value]) => (
                <div key={key}>
                  <dt>{key}</dt>
                  <dd>{value}</dd>
                </div>
              ))}
            </dl>
          </div>
        ))}
      </div>
      <p class="actions no-print">
        <Copy text={() => JSON.stringify(run.identity, null, 2)}>Copy the configuration</Copy>
        {address === null ? null : <Files run={run} />}
      </p>
    </Section>
  )
}

/** The run folder's own files, from the server. */
function Files({ run }: { run: RunView }) {
  const names = [
    'experiment.json',
    ...(run.results ? ['results.json', 'table.md', 'post.md', 'report.html'] : []),
    ...run.jobs.filter(({ problems }) => problems.done > 0).map(({ name }) => `${name}/rollouts.jsonl`),
    ...run.jobs.filter(({ trace }) => trace.step.length > 0).map(({ name }) => `${name}/metrics.jsonl`),
  ]
  return (
    <details>
      <summary>Files of this run</summary>
      <ul class="files">
        {names.map((name) => (
          <li key={name}>
            <a href={`files/${encodeURIComponent(run.name)}/${name}`} download>
              {name}
            </a>
          </li>
        ))}
      </ul>
    </details>
  )
}

/** A run from the top: the verdict in words, the arms, the training, the boards, the checks and the settings. */
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import type { Results } from '../experiment/results.ts'
import { checkLines } from '../report/checks.ts'
import { post } from '../report/post.ts'
import { tableHeader, tableRows } from '../report/rows.ts'
import { tableMarkdown } from '../report/table.ts'
import type { JobView, RunView } from '../view/types.ts'
import { BoardsTable, LatestBoards, TrainingBoards } from './boards.tsx'
import { Copy, Download, save, Wide } from './controls.tsx'
import { ArmsFigure, TrainingFigures, VerdictFigure } from './figures.tsx'
import { duration, flat, signed, three, whole } from './format.ts'
import { fragmentOf } from './route.ts'
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
        <TrainingBoards source={source} run={run} address={address} />
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

/** The last part of a path or a hub name. */
const shortName = (name: string) => name.split(/[\\/]/).filter(Boolean).at(-1) ?? name

/** The verdict as a headline, for a reader who knows none of the words. */
export function headline(run: RunView): { title: string; says: string } {
  const { delta } = run.results ?? { delta: null }
  const jobs = run.jobs.filter(({ state }) => state === 'finished').length
  if (!run.results) {
    return {
      title: run.state === 'running' ? 'Running' : 'Not finished',
      says: `${jobs} of ${run.jobs.length} jobs are done. There is no verdict before all are: a look at half the data would spoil it.`,
    }
  }
  if (!delta) return { title: 'No comparison', says: 'Train both arms for a verdict.' }
  const title = {
    moved: 'Reading the board helped',
    'moved the wrong way': 'Reading the board hurt',
    flat: 'No difference worth having',
    unresolved: 'Unresolved',
  }[delta.verdict]
  return { title, says: delta.why }
}

export function Verdict({ run }: { run: RunView }) {
  const { title, says } = headline(run)
  const delta = run.results?.delta ?? null
  const { baseline, recipe } = run.results?.arms ?? {}
  return (
    <>
      <h1 class={`verdict ${delta?.verdict.replaceAll(' ', '-') ?? 'none'}`}>{title}</h1>
      <p class="lead">{says}</p>
      {delta?.toResolve ? <p class="lead muted">{delta.toResolve.why}</p> : null}
      {delta && baseline && recipe ? (
        <>
          <p class="numbers">
            After training, copies that read “{recipe.reads}” are right{' '}
            <b class="recipe">{three(recipe.passAt1)}</b> of the time; copies that read “{baseline.reads}”,{' '}
            <b class="baseline">{three(baseline.passAt1)}</b>: a difference of{' '}
            <b>{signed(delta.recipeVsBaseline)}</b>, 95% interval [{signed(delta.ci95[0])},{' '}
            {signed(delta.ci95[1])}].
          </p>
          <VerdictFigure delta={delta} />
          {delta.warnings.map((warning) => (
            <p key={warning} class="warning">
              <b>Warning:</b> {warning}
            </p>
          ))}
        </>
      ) : null}
    </>
  )
}

const stateWords: Record<JobView['state'], string> = {
  waiting: 'waiting',
  running: 'running',
  stopped: 'stopped',
  finished: 'done',
  failed: 'failed',
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
                <td class="number">{job.trace.length > 0 ? three(job.trace.at(-1)!.reward) : ''}</td>
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

function ResultTable({ results }: { results: Results }) {
  const header = tableHeader(results)
  const rows = tableRows(results)
  return (
    <>
      <Wide label="Result table">
        <table class="results">
          <thead>
            <tr>
              {header.map((cell, i) => (
                <th key={cell} scope="col" class={i === 0 ? '' : 'number'}>
                  {cell}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(([name, ...cells]) => (
              <tr key={name} class={name.endsWith('all seeds') ? 'pooled' : ''}>
                <th scope="row">{name}</th>
                {cells.map((cell, i) => (
                  <td key={header[i + 1]} class="number">
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      <p class="actions no-print">
        <Copy text={() => tableMarkdown(results)}>Copy as Markdown</Copy>
        <Copy text={() => post(results)}>Copy as a post</Copy>
        <Download
          name="results.csv"
          rows={rows.map((cells) => Object.fromEntries(header.map((name, i) => [name, cells[i]])))}
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

/** Where each check comes from, so that it can be checked: the field of results.json and the files it was made of. */
const sources: [starts: string, source: string][] = [
  ['to resolve it', 'planned from the spread between seeds and problems'],
  ['recipe - baseline', 'delta, from rollouts.jsonl of both arms'],
  ['could have seen', 'delta.smallestEffect'],
  ['warning', 'delta.warnings'],
  ['noise', 'checks.noise, from base-*/rollouts.jsonl'],
  ['reply length', 'checks.length, against the base under the same board'],
  ['cut off', 'checks.cut'],
  ['decontamination', 'checks.decontamination, 8-gram overlap'],
  ['hack scan', "checks.hackScan, from the job's last training batch"],
  ['over-optimised', 'checks.overOptimisation'],
  ['baseline, seed', 'trainTrace.baseline, from metrics.jsonl'],
  ['recipe, seed', 'trainTrace.recipe, from metrics.jsonl'],
]

function Checks({ results, run }: { results: Results; run: RunView }) {
  return (
    <Section id="checks" title="What the verdict rests on">
      <dl class="checks">
        {checkLines(results).map(([what, said]) => (
          <div key={`${what} ${said}`}>
            <dt>{what}</dt>
            <dd>
              {said}
              <span class="source">
                {sources.find(([starts]) => what.startsWith(starts))?.[1] ?? 'failed'}
              </span>
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
  const groups: [string, [string, string][]][] = [
    [
      'Experiment',
      [
        ['model', run.model],
        ['seeds', run.seeds.join(', ')],
        ['arms', run.arms.join(', ')],
        ...flat(run.config),
      ],
    ],
    ['Versions', Object.entries(run.versions)],
    ['Machine', Object.entries(run.machine).map(([key, value]) => [key, String(value)])],
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
        <Copy text={() => JSON.stringify(run.config, null, 2)}>Copy the configuration</Copy>
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
    ...run.jobs.filter(({ trace }) => trace.length > 0).map(({ name }) => `${name}/metrics.jsonl`),
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

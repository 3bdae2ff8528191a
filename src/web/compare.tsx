/** Several runs together: their arms in one table, the differences between them, and their curves over one another. */
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { BaseResult } from '../record/results.ts'
import { type ArmOfRun, armTitle, type ComparedRun, compareAcross, type Difference } from '../view/compare.ts'
import { baseTitles } from '../view/sides.ts'
import type { RunView } from '../view/types.ts'
import { textChoice } from './choices.ts'
import { chosen } from './chosen.ts'
import { Download, Wide } from './controls.tsx'
import { AcrossFigure, LineSample, type Trained, TrainingFigures } from './figures.tsx'
import { difference, level, three } from './format.ts'
import { Section } from './overview.tsx'
import { fragmentOf } from './route.ts'
import { EVERY } from './runs.tsx'
import { Said } from './said.tsx'
import { differingSettings } from './settings.ts'
import type { RunsSource } from './source.ts'

export function Compare({ source, names }: { source: RunsSource; names: readonly string[] }) {
  const [runs, setRuns] = useState<ComparedRun[] | string | null>(null)
  useEffect(() => {
    let current = true
    document.title = `${names.join(', ')} - message-board`
    const look = () =>
      Promise.all(names.map((name) => source.run(name))).then(
        (found) => current && setRuns((before) => (isSame(before, found) ? before : found)),
        (error) => current && setRuns(String(error instanceof Error ? error.message : error)),
      )
    void look()
    const timer = source.live ? setInterval(look, EVERY) : undefined
    return () => {
      current = false
      clearInterval(timer)
    }
  }, [source, names])
  return (
    <>
      <p class="no-print">
        <a href={fragmentOf({ view: 'runs' })}>← All runs</a>
      </p>
      <h1>{names.join(', ')}</h1>
      {runs === null ? (
        <p class="muted">Loading</p>
      ) : typeof runs === 'string' ? (
        <p class="warning">{runs}</p>
      ) : (
        <Compared source={source} runs={runs} />
      )}
    </>
  )
}

/** What is shown is what it was: nothing needs to be drawn again. */
const isSame = (before: ComparedRun[] | string | null, now: ComparedRun[]): boolean =>
  Array.isArray(before) &&
  JSON.stringify(before.map(({ run }) => run)) === JSON.stringify(now.map(({ run }) => run))

function Compared({ source, runs }: { source: RunsSource; runs: readonly ComparedRun[] }) {
  const against = useMemo(() => chosen('against', textChoice), [])
  const arms = runs.flatMap(({ run }, r) => run.arms.map((arm): ArmOfRun => ({ run: r, arm })))
  const reference = arms.find((one) => armTitle(runs, one) === against.value) ?? {
    run: 0,
    arm: runs[0].run.baseline,
  }
  const key = JSON.stringify(reference)
  const differences = useMemo(() => compareAcross(runs, reference), [runs, key])
  const trained = useMemo(() => together(runs), [runs])
  const title = armTitle(runs, reference)
  const comparable = differences.filter(({ found }) => found !== null)
  const warnings = [...new Set(differences.flatMap(({ found }) => found?.warnings ?? []))]
  return (
    <>
      <Section id="across" title="How the arms differ">
        <p class="filters no-print">
          <label>
            <span class="muted">Each arm against</span>{' '}
            <select
              value={title}
              onChange={(event) => {
                against.value = event.currentTarget.value
              }}
            >
              {arms.map((one) => (
                <option key={armTitle(runs, one)}>{armTitle(runs, one)}</option>
              ))}
            </select>
          </label>
        </p>
        {comparable.length > 0 ? (
          <AcrossFigure
            against={title}
            rows={comparable.flatMap((one) =>
              one.found ? [{ ...one.found, name: armTitle(runs, one) }] : [],
            )}
          />
        ) : (
          <p>No other arm can be compared with {title}: the table says why.</p>
        )}
        {warnings.map((warning) => (
          <p key={warning} class="warning">
            <b>Warning:</b> {warning}
          </p>
        ))}
        <ArmsTable runs={runs} trained={trained} reference={reference} differences={differences} />
      </Section>
      <Section id="curves" title="Training">
        <TrainingFigures run={trained} />
      </Section>
      <Settings runs={runs} />
      <Section id="runs" title="The runs">
        <ul class="run-cards">
          {runs.map(({ run }) => (
            <li key={run.name}>
              <a href={source.href(run.name)}>{run.name}</a>
              <span class="muted">
                {' '}
                {run.task}, {run.model}, seeds {run.seeds.join(', ')}; {run.state}
              </span>
              <Said notes={run.notes} />
            </li>
          ))}
        </ul>
      </Section>
    </>
  )
}

/** The arms of all runs as those of one: each in a colour of its own. */
function together(runs: readonly ComparedRun[]): Trained {
  const sides: RunView['sides'] = []
  const jobs: RunView['jobs'] = []
  for (const [r, { run }] of runs.entries()) {
    const places = run.sides.map((side) => {
      if (side.arm === null) return -1
      const name = armTitle(runs, { run: r, arm: side.name })
      return sides.push({ ...side, name, title: name, arm: sides.length }) - 1
    })
    for (const job of run.jobs) if (places[job.side] >= 0) jobs.push({ ...job, side: places[job.side] })
  }
  return { sides, jobs }
}

function ArmsTable(props: {
  runs: readonly ComparedRun[]
  trained: Trained
  reference: ArmOfRun
  differences: readonly Difference[]
}) {
  const { runs, trained, reference, differences } = props
  const of = armTitle(runs, reference)
  const rows = runs.flatMap(({ run }, r) => {
    const titles = baseTitles(run.results?.bases ?? [])
    return [
      ...(run.results?.bases ?? []).map((base, i) => ({ r, title: titles[i], base, arm: null })),
      ...run.arms.map((arm) => ({ r, title: arm, base: null, arm })),
    ]
  })
  const counts = (found: BaseResult | NonNullable<RunView['results']>['arms'][string]) =>
    found === null || found === undefined
      ? ['', '', '', '']
      : [
          level(found.passAt1, found.ci95),
          orDash(found.board.rescued),
          orDash(found.board.misled),
          found.chars.toFixed(0),
        ]
  return (
    <>
      <Wide label="Arms of the runs">
        <table class="across">
          <thead>
            <tr>
              <th scope="col">Arm, run</th>
              <th scope="col">Difference from {of}</th>
              <th scope="col" class="number">
                pass@1
              </th>
              <th scope="col" class="number">
                rescued
              </th>
              <th scope="col" class="number">
                misled
              </th>
              <th scope="col" class="number">
                chars
              </th>
              <th scope="col">Seeds</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ r, title, base, arm }) => {
              const { run } = runs[r]
              const found = base ?? (arm === null ? null : run.results?.arms[arm])
              const side =
                arm === null
                  ? undefined
                  : trained.sides.find(({ name }) => name === armTitle(runs, { run: r, arm }))
              const its = differences.find((one) => one.run === r && one.arm === arm)
              return (
                <tr key={`${r} ${title}`} class={base ? 'base' : undefined}>
                  <th scope="row">
                    {side ? (
                      <>
                        <LineSample side={side} /> <b>{title}</b>
                      </>
                    ) : (
                      title
                    )}
                    <div class="muted">{run.name}</div>
                  </th>
                  <td class="differs">
                    {its?.found ? (
                      <>
                        <b>{difference(its.found)}</b> {its.found.verdict}
                      </>
                    ) : its ? (
                      <span class="muted">Not compared. {its.whyNot}</span>
                    ) : arm === null ? (
                      ''
                    ) : (
                      <span class="muted">what the others are held against</span>
                    )}
                  </td>
                  {counts(found ?? null).map((cell, i) => (
                    <td key={i} class="number">
                      {cell}
                    </td>
                  ))}
                  <td>{arm === null ? '' : (run.results?.arms[arm]?.seeds.join(', ') ?? '')}</td>
                </tr>
              )
            })}
          </tbody>
        </table>
      </Wide>
      <p class="actions no-print">
        <Download
          name="differences.csv"
          rows={differences.map(({ run, arm, found, whyNot }) => ({
            run: runs[run].run.name,
            arm,
            against: of,
            difference: found?.delta ?? null,
            low: found?.ci95[0] ?? null,
            high: found?.ci95[1] ?? null,
            p: found?.p ?? null,
            problems: found?.problems ?? null,
            verdict: found?.verdict ?? null,
            'not compared': whyNot,
          }))}
        />
      </p>
    </>
  )
}

const orDash = (value: number | null) => (value === null ? '–' : three(value))

function Settings({ runs }: { runs: readonly ComparedRun[] }) {
  const different = differingSettings(runs.map(({ run }) => run))
  return (
    <Section id="differences" title="What was set differently">
      {different.length === 0 ? (
        <p>Nothing: the runs have the same settings.</p>
      ) : (
        <Wide label="Settings that differ">
          <table class="differences">
            <thead>
              <tr>
                <th scope="col">Setting</th>
                {runs.map(({ run }) => (
                  <th key={run.name} scope="col">
                    {run.name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {different.map(({ name, values }) => (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  {values.map((value, i) => (
                    <td key={runs[i].run.name}>{value ?? <span class="muted">absent</span>}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
    </Section>
  )
}

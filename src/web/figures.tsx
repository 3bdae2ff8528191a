/** The figures: the verdict, the arms, the training curves. Each is drawn by Observable Plot and gives its data as CSV. */
import * as Plot from '@observablehq/plot'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { Results } from '../experiment/results.ts'
import type { Role, RunView, TracePoint } from '../view/types.ts'
import { Download } from './controls.tsx'
import { type Curve, curves } from './curves.ts'
import { signed, three } from './format.ts'
import { published, publishedSource } from './published.ts'

const colour: Record<Role, string> = {
  base: 'var(--base)',
  'base-shared': 'var(--base)',
  baseline: 'var(--baseline)',
  recipe: 'var(--recipe)',
}

/** Draws what `options` gives for the width that there is, and again when the width changes. */
function Figure(props: {
  /** What a screen reader says in place of the drawing. */
  label: string
  options: (width: number) => Plot.PlotOptions
  rows: Record<string, string | number | null>[]
  file: string
  title?: ComponentChildren
  caption?: ComponentChildren
}) {
  const place = useRef<HTMLDivElement>(null)
  const { options } = props
  useEffect(() => {
    const box = place.current
    if (!box) return
    let width = 0
    const draw = () => {
      if (box.clientWidth === width || box.clientWidth === 0) return
      width = box.clientWidth
      const plot = Plot.plot({ ...options(width), width })
      // The label says it all: the parts of the drawing would be read out one by one.
      plot.setAttribute('aria-hidden', 'true')
      box.replaceChildren(plot)
    }
    draw()
    const observer = new ResizeObserver(draw)
    observer.observe(box)
    return () => observer.disconnect()
  }, [options])
  const download = <Download name={props.file} rows={props.rows} />
  return (
    <figure>
      {props.title ? (
        <div class="figure-title">
          {props.title} {download}
        </div>
      ) : null}
      <div ref={place} class="plot" role="img" aria-label={props.label} />
      {props.title ? null : (
        <figcaption>
          <span>{props.caption}</span>
          {download}
        </figcaption>
      )}
    </figure>
  )
}

/** The difference with its interval, against zero, and against effects that the run could not have seen. */
export function VerdictFigure({ delta }: { delta: NonNullable<Results['delta']> }) {
  const { recipeVsBaseline, ci95, smallestEffect, flatWithin } = delta
  const reach = 1.12 * Math.max(...ci95.map(Math.abs), smallestEffect ?? 0, flatWithin)
  const tone = ci95[0] > 0 ? 'var(--right)' : ci95[1] < 0 ? 'var(--wrong)' : 'currentColor'
  const options = (width: number): Plot.PlotOptions => ({
    height: 128,
    marginTop: 34,
    marginBottom: 34,
    marginLeft: 12,
    marginRight: 12,
    x: {
      domain: [-reach, reach],
      label: 'pass@1, recipe minus baseline',
      labelArrow: 'none',
      labelAnchor: 'center',
      tickFormat: (value: number) => (value === 0 ? '0' : signed(value).replace(/0$/, '')),
      ticks: width < 480 ? 5 : 9,
    },
    y: { axis: null, domain: [0, 1] },
    marks: [
      ...(smallestEffect === null
        ? []
        : [
            Plot.rectX([0], { x1: -smallestEffect, x2: smallestEffect, y1: 0, y2: 1, fill: 'var(--unseen)' }),
            Plot.text([0], {
              x: -smallestEffect,
              y: 1,
              dy: -8,
              text: () => 'too small for this run to see',
              textAnchor: 'start',
              fill: 'var(--muted)',
            }),
          ]),
      Plot.ruleX([-flatWithin, flatWithin], { stroke: 'var(--muted)', strokeDasharray: '2,3' }),
      Plot.ruleX([0], { stroke: 'currentColor', strokeWidth: 1.5 }),
      Plot.link([0], {
        x1: ci95[0],
        x2: ci95[1],
        y1: 0.5,
        y2: 0.5,
        stroke: tone,
        strokeWidth: 5,
        strokeLinecap: 'round',
      }),
      Plot.dot([recipeVsBaseline], {
        x: (d: number) => d,
        y: 0.5,
        r: 8,
        fill: tone,
        stroke: 'var(--card)',
        strokeWidth: 2,
      }),
      Plot.text([recipeVsBaseline], {
        x: (d: number) => d,
        y: 0.5,
        dy: -20,
        text: (d: number) => signed(d),
        fontWeight: 'bold',
        fontSize: 14,
        fill: 'currentColor',
        stroke: 'var(--card)',
        strokeWidth: 5,
      }),
    ],
  })
  return (
    <Figure
      label={
        `Recipe minus baseline: ${signed(recipeVsBaseline)}, 95% interval ${signed(ci95[0])} to ${signed(ci95[1])}` +
        (smallestEffect === null
          ? '.'
          : `; the smallest effect that the run could see is ${three(smallestEffect)}.`)
      }
      options={options}
      file="verdict.csv"
      rows={[
        {
          difference: recipeVsBaseline,
          low: ci95[0],
          high: ci95[1],
          smallestEffect,
          flatWithin,
          p: delta.p,
          verdict: delta.verdict,
        },
      ]}
      caption={
        <>
          The bar is the 95% interval.{' '}
          {smallestEffect === null
            ? ''
            : `Shaded: effects under ${three(smallestEffect)}, which this run would see less than four times in five. `}
          Dotted: ±{three(flatWithin)}, within which the whole bar must lie to call it flat.
        </>
      }
    />
  )
}

interface ArmRow {
  arm: string
  role: Role
  passAt1: number
  low: number
  high: number
  runs: number[]
  noteAcc: number
  voteAcc: number
  anyNote: number
}

const armTitles: Record<Role, string> = {
  base: 'base, own',
  'base-shared': 'base, shared',
  baseline: 'baseline',
  recipe: 'recipe',
}

function armRows({ arms }: Results, run: RunView): ArmRow[] {
  const boards = new Map(run.jobs.map(({ role, reads }) => [role, reads]))
  const row = (role: Role, arm: Results['arms']['base'], runs: number[]): ArmRow[] =>
    arm === null
      ? []
      : [
          {
            arm: role.startsWith('base-') || role === 'base' ? `base, ${boards.get(role)}` : armTitles[role],
            role,
            passAt1: arm.passAt1,
            low: arm.ci95[0],
            high: arm.ci95[1],
            runs,
            noteAcc: arm.board.noteAcc,
            voteAcc: arm.board.voteAcc,
            anyNote: arm.board.anyNote,
          },
        ]
  const trained = (role: 'baseline' | 'recipe') => {
    const arm = arms[role]
    return arm === null ? [] : row(role, { ...arm, runs: arm.perSeed }, arm.perSeed)
  }
  return [
    ...row('base', arms.base, arms.base?.runs ?? []),
    ...row('base-shared', arms.baseSharedBoard, arms.baseSharedBoard?.runs ?? []),
    ...trained('baseline'),
    ...trained('recipe'),
  ]
}

/** pass@1 of each arm with its interval, each seed or run as a dot, and what one would get without reading. */
export function ArmsFigure({ run, results }: { run: RunView; results: Results }) {
  const rows = armRows(results, run)
  const references = (['noteAcc', 'voteAcc', 'anyNote'] as const).flatMap((key, i) =>
    rows.map((row) => ({ arm: row.arm, value: row[key], symbol: referenceSymbols[i], key })),
  )
  const others = published(run)
  const values = [
    ...rows.flatMap((row) => [row.low, row.high, ...row.runs]),
    ...references.map(({ value }) => value),
  ]
  const pad = 0.03
  const options = (width: number): Plot.PlotOptions => ({
    height: 44 + 46 * rows.length,
    marginLeft: width < 480 ? 76 : 104,
    marginRight: 16,
    marginTop: 8,
    marginBottom: 34,
    x: {
      domain: [Math.max(0, Math.min(...values) - pad), Math.min(1, Math.max(...values) + pad)],
      label: 'share right',
      labelArrow: 'none',
      labelAnchor: 'center',
      ticks: width < 480 ? 5 : 10,
      grid: true,
    },
    y: { domain: rows.map(({ arm }) => arm), label: null, tickSize: 0 },
    symbol: { range: [...referenceSymbols], domain: [...referenceSymbols] },
    marks: [
      Plot.ruleY(rows, {
        y: 'arm',
        x1: 'low',
        x2: 'high',
        stroke: (d: ArmRow) => colour[d.role],
        strokeWidth: 5,
        strokeLinecap: 'round',
        strokeOpacity: 0.45,
      }),
      Plot.dot(references, {
        y: 'arm',
        x: 'value',
        symbol: 'symbol',
        stroke: 'var(--muted)',
        r: 4.5,
        dy: 13,
        title: (d: { key: string; value: number }) => `${referenceNames[d.key]} ${three(d.value)}`,
        tip: true,
      }),
      ...(others
        ? [
            Plot.dot(rows, {
              y: 'arm',
              x: (d: ArmRow) => others[d.role],
              symbol: 'times',
              stroke: 'var(--muted)',
              strokeWidth: 2,
              r: 5,
            }),
          ]
        : []),
      Plot.dot(
        rows.flatMap((row) => row.runs.map((value) => ({ ...row, value }))),
        { y: 'arm', x: 'value', fill: (d: ArmRow) => colour[d.role], r: 3.5, dy: -11 },
      ),
      Plot.dot(rows, {
        y: 'arm',
        x: 'passAt1',
        fill: (d: ArmRow) => colour[d.role],
        stroke: 'var(--card)',
        strokeWidth: 2,
        r: 7.5,
        title: (d: ArmRow) => `${d.arm}: ${three(d.passAt1)} [${three(d.low)}, ${three(d.high)}]`,
        tip: true,
      }),
    ],
  })
  return (
    <Figure
      label={`pass@1 of each arm: ${rows.map((row) => `${row.arm} ${three(row.passAt1)}, interval ${three(row.low)} to ${three(row.high)}`).join('; ')}.`}
      options={options}
      file="arms.csv"
      rows={rows.map(({ runs, ...row }) => ({ ...row, runs: runs.map(three).join(' ') }))}
      caption={
        <span class="legend">
          <b>●</b> pass@1 over all seeds, with its 95% interval <b class="small">●</b> each seed or run
          <span class="muted">
            {' '}
            <b>△</b> notes right <b>□</b> the vote right <b>◇</b> any note right
            {others ? (
              <>
                {' '}
                <b>×</b> published ({publishedSource})
              </>
            ) : null}
          </span>
        </span>
      }
    />
  )
}

const referenceSymbols = ['triangle', 'square', 'diamond'] as const
const referenceNames: Record<string, string> = {
  noteAcc: 'notes right',
  voteAcc: 'the vote right',
  anyNote: 'any note right',
}

interface Panel {
  key: keyof TracePoint
  title: string
  share: boolean
}

const panels: Panel[] = [
  { key: 'reward', title: 'Reward: replies right', share: true },
  { key: 'noteAcc', title: 'Notes right', share: true },
  { key: 'voteAcc', title: 'The vote right', share: true },
  { key: 'rescued', title: 'Rescued: wrong note, right reply', share: true },
  { key: 'misled', title: 'Misled: right note, wrong reply', share: true },
  { key: 'notesCut', title: 'Notes cut off', share: true },
  { key: 'repliesCut', title: 'Replies cut off', share: true },
  { key: 'noteChars', title: 'Note length, characters', share: false },
  { key: 'replyChars', title: 'Reply length, characters', share: false },
]

export function TrainingFigures({ run }: { run: RunView }) {
  const drawn = panels.map((panel) => ({ panel, lines: curves(run.jobs, panel.key) }))
  if (drawn.every(({ lines }) => lines.length === 0)) return <p class="muted">No training step yet.</p>
  return (
    <>
      <p class="legend">
        {(['baseline', 'recipe'] as const).map((role) =>
          run.arms.includes(role) ? (
            <span key={role}>
              <b style={{ color: colour[role] }}>━</b> {role}{' '}
            </span>
          ) : null,
        )}
        <span class="muted">
          By training step. Thin: one seed, as measured. Thick: mean over seeds of a moving mean of five
          steps; the band reaches from the lowest seed to the highest.
        </span>
      </p>
      <div class="panels">
        {drawn.map(({ panel, lines }) => (
          <TrainingPanel
            key={panel.key}
            panel={panel}
            lines={lines}
            steps={Math.max(...run.jobs.map(({ steps }) => steps.of))}
          />
        ))}
      </div>
    </>
  )
}

function TrainingPanel({ panel, lines, steps }: { panel: Panel; lines: Curve[]; steps: number }) {
  const points = lines.flatMap(({ role, mean }) => mean.map((point) => ({ ...point, role })))
  const raw = lines.flatMap(({ role, seeds }) =>
    seeds.flatMap(({ seed, values }) => values.map((point) => ({ ...point, role, seed }))),
  )
  const options = (): Plot.PlotOptions => ({
    height: 160,
    marginLeft: 40,
    marginRight: 10,
    marginTop: 10,
    marginBottom: 22,
    x: { label: null, ticks: 5, domain: [1, Math.max(2, steps)] },
    y: { label: null, grid: true, ticks: 4, nice: true, ...(panel.share ? {} : { zero: false }) },
    marks: [
      Plot.line(raw, {
        x: 'step',
        y: 'value',
        z: (d: (typeof raw)[number]) => `${d.role} ${d.seed}`,
        stroke: (d: (typeof raw)[number]) => colour[d.role],
        strokeWidth: 0.75,
        strokeOpacity: 0.35,
      }),
      Plot.areaY(points, {
        x: 'step',
        y1: 'low',
        y2: 'high',
        z: 'role',
        fill: (d: (typeof points)[number]) => colour[d.role],
        fillOpacity: 0.18,
      }),
      Plot.line(points, {
        x: 'step',
        y: 'mean',
        z: 'role',
        stroke: (d: (typeof points)[number]) => colour[d.role],
        strokeWidth: 2.25,
      }),
      Plot.tip(
        points,
        Plot.pointerX({
          x: 'step',
          y: 'mean',
          title: (d: (typeof points)[number]) =>
            `${d.role}, step ${d.step}: ${panel.share ? three(d.mean) : d.mean.toFixed(0)}`,
        }),
      ),
    ],
  })
  const ends = lines.flatMap(({ role, mean }) => {
    const [first, last] = [mean[0], mean.at(-1)]
    return first && last ? [`${role} from ${three(first.mean)} to ${three(last.mean)}`] : []
  })
  return (
    <Figure
      title={panel.title}
      label={`${panel.title}, by training step: ${ends.join('; ')}.`}
      options={options}
      file={`training-${panel.key}.csv`}
      rows={raw.map(({ role, seed, step, value }) => ({ arm: role, seed, step, [panel.key]: value }))}
    />
  )
}

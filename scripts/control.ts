/**
 * The positive control: small experiments in worlds whose truth is known, so that what a verdict should be is known.
 *
 *   clues    sharing carries the parts that nobody has alone: `shared` against `own`, writers paid by what is lost
 *            without their notes, must come out `moved` by what all parts reach over one's own
 *   insight  sharing shows trials that can be recognised: it should come out `moved`
 *
 *   npx tsx scripts/control.ts                     takes what is missing, then writes the figures into docs/worlds.md
 *   npx tsx scripts/control.ts --only clues        of one kind
 *   npx tsx scripts/control.ts --minutes 20        stops before an experiment that would start later; goes on when called again
 *   npx tsx scripts/control.ts --shard 3/16 --lines part.jsonl    a share of them, into a file of its own, and no figures
 *   npx tsx scripts/control.ts --report            the figures again from the lines there are
 *
 * Each experiment is whole, with problems and seeds of its own, and a line of bench/results/control.jsonl when it is
 * finished: a kill loses the one in hand and no other. Everything is seeded: a line does not depend on the others.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { own, shared } from '../src/board/sights.ts'
import { defineExperiment } from '../src/experiment/config.ts'
import { runExperiment } from '../src/experiment/run.ts'
import { shardOf } from '../src/record/plan.ts'
import { clues, cluesReach } from '../src/tasks/clues.ts'
import { insight, insightReach } from '../src/tasks/insight.ts'
import { leaveOneOut, readersOnly } from '../src/train/credit/index.ts'
import { replaceSections, table } from './markdown.ts'

const kinds = ['clues', 'insight'] as const
type Kind = (typeof kinds)[number]

const EXPERIMENTS = 20
const SEEDS = 3
const copies = 4

/** As small as shows the effect: that of clues is large, and takes training; that of insight is there from the start. */
const shape: Record<Kind, { sizes: { train: number; holdout: number }; steps: number }> = {
  clues: { sizes: { train: 256, holdout: 60 }, steps: 40 },
  insight: { sizes: { train: 256, holdout: 120 }, steps: 10 },
}

const dials = { parts: 2, overlap: false, most: 20 }
const range = 6

/** Pass@1 of the best reader of each board whose writers do their best, counted out. */
const reach: Record<Kind, { own: number; shared: number }> = {
  clues: { own: cluesReach(dials, [0]), shared: cluesReach(dials, [0, 1]) },
  insight: { own: insightReach({ range }, 1), shared: insightReach({ range }, copies) },
}

/** One finished experiment. */
interface Line {
  kind: Kind
  /** From 1, within its kind. */
  number: number
  seeds: number[]
  model: string
  versions: Record<string, string>
  delta: number
  ci95: readonly [number, number]
  p: number
  verdict: string
  baseline: number
  recipe: number
  seconds: number
}

const stored = 'bench/results/control.jsonl'

function readLines(path: string): Line[] {
  if (!existsSync(path)) return []
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line)
}

async function runOne(kind: Kind, number: number): Promise<Line> {
  const started = performance.now()
  const seed = kinds.indexOf(kind) * EXPERIMENTS + number
  const { sizes, steps } = shape[kind]
  const task = kind === 'insight' ? insight({ ...sizes, range, seed }) : clues({ ...sizes, ...dials, seed })
  const seeds = Array.from({ length: SEEDS }, (_, i) => 10 * seed + i)
  const credit = kind === 'clues' ? leaveOneOut({ by: 'replay' }) : readersOnly()
  const experiment = defineExperiment({
    task,
    arms: { baseline: { reads: own, credit }, recipe: { reads: shared, credit } },
    board: { copies },
    train: { steps },
    seeds,
    // The same on any machine, and as many at a time as there are cores.
    engine: { threads: 1 },
  })
  const out = mkdtempSync(join(tmpdir(), 'control-'))
  try {
    const { contrasts, arms, model, versions } = await runExperiment(experiment, { out })
    const [found] = contrasts
    if (!found || !arms.baseline || !arms.recipe) throw new Error(`${kind} ${number} has no comparison`)
    return {
      kind,
      number,
      seeds,
      model: model.sha256.slice(0, 12),
      versions,
      delta: found.delta,
      ci95: found.ci95,
      p: found.p,
      verdict: found.verdict,
      baseline: arms.baseline.passAt1,
      recipe: arms.recipe.passAt1,
      seconds: Math.round((performance.now() - started) / 1000),
    }
  } finally {
    rmSync(out, { recursive: true })
  }
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
const fixed = (value: number) => value.toFixed(3)

function report(lines: readonly Line[]): string {
  if (lines.length === 0) return 'No experiment has been taken yet: `npx tsx scripts/control.ts` takes them.'
  const rows = kinds.flatMap((kind) => {
    const some = lines.filter((line) => line.kind === kind)
    if (some.length === 0) return []
    const most = reach[kind].shared - reach[kind].own
    return [
      [
        `shared against own (${kind})`,
        `${some.filter(({ verdict }) => verdict === 'moved').length} of ${some.length}`,
        fixed(mean(some.map(({ baseline }) => baseline))),
        fixed(mean(some.map(({ recipe }) => recipe))),
        fixed(mean(some.map(({ delta }) => delta))),
        fixed(Math.min(...some.map(({ ci95 }) => ci95[0]))),
        fixed(Math.max(...some.map(({ ci95 }) => ci95[1]))),
        fixed(most),
        `${some.filter(({ ci95: [low, high] }) => low <= most && most <= high).length} of ${some.length}`,
      ],
    ]
  })
  const head = [
    'arms',
    '`moved`',
    'first or own',
    'second',
    'mean difference',
    'lowest end',
    'highest end',
    'most there is',
    'interval covers it',
  ]
  const shapes = kinds
    .map((kind) => {
      const { sizes, steps } = shape[kind]
      return `in \`${kind}\` ${steps} steps, ${sizes.train} problems to train on and ${sizes.holdout} held out`
    })
    .join('; ')
  const models = [...new Set(lines.map(({ model }) => model))].join(', ')
  return (
    `${table(head, rows)}\n\nEach experiment: ${SEEDS} seeds an arm, other problems and seeds in each; ${shapes}. "Ends" are of the 95% intervals, the most extreme of all ` +
    `experiments; "most there is" is the difference between what readers of the two boards can reach, counted out. ` +
    `Policy ${models}.`
  )
}

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    minutes: { type: 'string', default: '1000000' },
    report: { type: 'boolean', default: false },
    shard: { type: 'string', default: '1/1' },
    lines: { type: 'string', default: stored },
  },
})
const [k, n] = values.shard.split('/').map(Number)
const deadline = performance.now() + 60_000 * Number(values.minutes)
if (!values.report) {
  const wanted = Array.from({ length: EXPERIMENTS }, (_, i) => i + 1).flatMap((number) =>
    kinds
      .filter((kind) => values.only === undefined || values.only === kind)
      .map((kind) => ({ kind, number })),
  )
  for (const { kind, number } of shardOf(wanted, { k, n })) {
    const done = readLines(values.lines).some((line) => line.kind === kind && line.number === number)
    if (done || performance.now() > deadline) continue
    const line = await runOne(kind, number)
    await appendFile(values.lines, `${JSON.stringify(line)}\n`)
    console.log(
      `${kind} ${number}: ${fixed(line.delta)} [${line.ci95.map(fixed).join(', ')}] ${line.verdict}, ${line.seconds} s`,
    )
  }
}
/** What can be reached, for some dials: nothing here is measured. */
function reachTables() {
  const cluesRows = [
    [2, 20],
    [3, 20],
    [4, 20],
    [4, 9],
  ].map(([parts, most]) => {
    const some = { parts, most, overlap: false }
    const all = Array.from({ length: parts }, (_, part) => part)
    return [String(parts), String(most), fixed(cluesReach(some, [0])), fixed(cluesReach(some, all))]
  })
  const insightRows = [6, 12, 20].map((among) => [
    String(among),
    ...[1, copies, 2 * copies].map((notes) => fixed(insightReach({ range: among }, notes))),
  ])
  return {
    'clues-reach': table(['`parts`', '`most`', 'own part alone', 'all parts'], cluesRows),
    'insight-reach': table(['`range`', 'own trial', `${copies} trials`, `${2 * copies} trials`], insightRows),
  }
}

if (values.lines === stored) {
  await replaceSections('docs/worlds.md', { ...reachTables(), control: report(readLines(stored)) })
}

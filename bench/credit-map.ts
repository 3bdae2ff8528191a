/**
 * Runs cells of the map of credit (experiments/credit-map.ts): one training and its evaluation for each world, rule and
 * seed, and the untrained model once a world. Each finished cell is one line of a file, so that a study can be cut into
 * shards, stopped, and gone on with on any machine:
 *
 *   npx tsx bench/credit-map.ts --out cells.jsonl --seeds 1-20 [--worlds clues,insight] [--rules readersOnly,rescore]
 *       [--shard 3/16] [--steps 40] [--holdout 240]
 *
 * A cell that the file has is not run again. docs/credit-map.md is made from these lines (scripts/credit-map.ts).
 */
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { creditMap, rules, worlds } from '../experiments/credit-map.ts'
import { countEpisodes, finalScores } from '../src/board/counts.ts'
import type { Episode } from '../src/board/types.ts'
import { overrideExperiment } from '../src/experiment/config.ts'
import { findModels, openEngines, versions } from '../src/experiment/engine.ts'
import { type JobOutcome, readOutcome, runJob } from '../src/experiment/job.ts'
import { cutTask } from '../src/experiment/tasks.ts'
import type { Job } from '../src/record/plan.ts'
import { shardOf } from '../src/record/plan.ts'
import { carriesTrial } from '../src/tasks/insight.ts'
import { carriesPart, partsOf } from '../src/tasks/parts.ts'
import type { Problem } from '../src/tasks/types.ts'
import { type Cell, cellSchema } from './credit-map-cell.ts'

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    worlds: { type: 'string', default: Object.keys(worlds).join() },
    rules: { type: 'string', default: ['base', ...Object.keys(rules)].join() },
    seeds: { type: 'string', default: '1-20' },
    shard: { type: 'string', default: '1/1' },
    steps: { type: 'string', default: '40' },
    holdout: { type: 'string', default: '240' },
  },
})
if (!values.out) throw new Error('--out FILE is needed: where the cells are kept')
const out = values.out

const done = new Set(
  (await readFile(out, 'utf8').catch(() => ''))
    .split('\n')
    .filter(Boolean)
    .map((line) => nameOf(cellSchema.parse(JSON.parse(line)))),
)
const [first, last = first] = values.seeds.split('-').map(Number)
const seeds = Array.from({ length: last - first + 1 }, (_, i) => first + i)
const [k, n] = values.shard.split('/').map(Number)
// Seed by seed, so that whatever is stopped early has whole rows of the map.
const cells = seeds.flatMap((seed) =>
  values.worlds
    .split(',')
    .flatMap((world) =>
      values.rules.split(',').flatMap((rule) => (rule === 'base' && seed > 3 ? [] : [{ world, rule, seed }])),
    ),
)
for (const cell of shardOf(cells, { k, n })) {
  if (done.has(nameOf(cell))) continue
  const started = performance.now()
  const line = await runCell(cell)
  await appendFile(out, `${JSON.stringify(line)}\n`)
  const seconds = ((performance.now() - started) / 1000).toFixed(0)
  console.log(`${nameOf(cell)}  pass@1 ${line.passAt1.toFixed(3)}  ${seconds} s`)
}

function nameOf({ world, rule, seed }: Pick<Cell, 'world' | 'rule' | 'seed'>): string {
  return `${world} ${rule} ${seed}`
}

async function runCell({ world, rule, seed }: Pick<Cell, 'world' | 'rule' | 'seed'>): Promise<Cell> {
  const whole = creditMap(world, [seed])
  const arm = rule === 'base' ? 'readersOnly' : rule
  const steps = Number(values.steps)
  const experiment = overrideExperiment(whole, {
    task: cutTask(worlds[world], { holdout: Number(values.holdout) }),
    arms: { [arm]: { ...whole.choices.arms![arm], train: { ...whole.choices.arms![arm].train, steps } } },
    baseline: arm,
    contrasts: [],
  })
  const split = await experiment.task.load()
  const engines = openEngines(experiment, await findModels(experiment))
  const folder = await mkdtemp(join(tmpdir(), 'credit-map-'))
  try {
    const job: Job = {
      name: `${arm}-s${seed}`,
      arm,
      seed: rule === 'base' ? null : seed,
      evaluationSeed: ['evaluation', 'seed', seed],
    }
    await runJob({ engines, experiment, ...split, folder, onEvent: () => {} }, job)
    return cellOf({ world, rule, seed }, await readOutcome(folder, job), split.holdout, versions(experiment))
  } finally {
    await engines.close()
    await rm(folder, { recursive: true })
  }
}

function cellOf(
  cell: Pick<Cell, 'world' | 'rule' | 'seed'>,
  { progress, metrics, episodes }: JobOutcome,
  holdout: readonly Problem[],
  used: Record<string, string>,
): Cell {
  const scores = episodes.map((episode) =>
    finalScores(episode, 'each').reduce((sum, score) => sum + score, 0),
  )
  const replies = episodes[0].rounds[1].length
  const notes = metrics.map(({ rounds }) => rounds[0])
  return {
    ...cell,
    steps: progress.steps,
    right: scores.join(''),
    passAt1: scores.reduce((sum, score) => sum + score, 0) / (scores.length * replies),
    counts: { ...countEpisodes(episodes) },
    carries: carried(cell.world, episodes, holdout),
    tokens: progress.tokens,
    trace: {
      reward: metrics.map(({ reward }) => round(reward)),
      noteAcc: metrics.map(({ noteAcc }) => noteAcc && round(noteAcc)),
      noteChars: notes.map(({ chars }) => round(chars)),
      notesCut: notes.map(({ cut }) => round(cut)),
      spread: notes.map(({ credit }) => credit && round(credit.spread)),
      withOwn: notes.map(({ credit }) => (credit?.withOwn == null ? null : round(credit.withOwn))),
      informative: notes.map(({ credit }) => credit && round(credit.informative)),
      effective: metrics.map(({ effective }) => effective && round(effective)),
    },
    seconds: progress.seconds,
    boards: episodes.slice(0, 3).map(({ problemId, rounds }) => ({
      problem: holdout.find(({ id }) => id === problemId),
      rounds: rounds.map((posts) =>
        posts.map(({ text, answer, correct, cut }) => ({ text, answer, correct, cut })),
      ),
    })),
    machine: cpus()[0]?.model ?? 'unknown',
    versions: used,
  }
}

/** Share of notes that carry what a reader needs of them, as each world counts it. */
function carried(world: string, episodes: readonly Episode[], holdout: readonly Problem[]): number | null {
  if (world === 'word-problems') return null
  const told = episodes.flatMap(({ problemId, rounds: [notes] }) => {
    const problem = holdout.find(({ id }) => id === problemId)!
    return notes.map(({ seat, text }) =>
      world === 'insight'
        ? carriesTrial(text)
        : partsOf(problem, seat, notes.length).every((part) => carriesPart(text, part) !== false),
    )
  })
  return told.filter(Boolean).length / told.length
}

function round(value: number): number {
  return Number(value.toFixed(4))
}

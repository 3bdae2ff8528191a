/**
 * Runs cells of a study of credit: one training and its evaluation for each world, rule and seed. Each finished cell is
 * one line of a file, so that a study can be cut into shards, stopped, and gone on with on any machine: a cell that the
 * file has is not run again.
 */
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { countEpisodes, finalScores } from '../src/board/counts.ts'
import type { Episode } from '../src/board/types.ts'
import { nvidiaGpu } from '../src/engine/onnx/device.ts'
import type { Experiment } from '../src/experiment/config.ts'
import { type Engines, findModels, openEngines, versions } from '../src/experiment/engine.ts'
import { type JobOutcome, readOutcome, runJob } from '../src/experiment/job.ts'
import type { Job } from '../src/record/plan.ts'
import { shardOf } from '../src/record/plan.ts'
import { carriesTrial } from '../src/tasks/insight.ts'
import { carriesPart, partsOf } from '../src/tasks/parts.ts'
import type { Problem } from '../src/tasks/types.ts'
import { type Cell, cellSchema, usual } from './credit-map-cell.ts'

/** Which cell: a world, a rule of credit (`base`: the untrained model), a seed, and the board. */
export type CellName = Pick<Cell, 'world' | 'rule' | 'seed' | 'reads' | 'rounds' | 'copies' | 'budget'>

/**
 * The cells that the flags ask for (`clues,insight`, `readersOnly,team`, `1-20`, `3/16`), seed by seed, so that whatever
 * is stopped early has whole rows. The untrained model is evaluated three times. `board` is what is not usual of them.
 */
export function cellsOf(
  flags: { worlds: string; rules: string; seeds: string; shard: string },
  board: Partial<Pick<CellName, 'reads' | 'rounds' | 'copies' | 'budget'>> = {},
): CellName[] {
  const [first, last = first] = flags.seeds.split('-').map(Number)
  const [k, n] = flags.shard.split('/').map(Number)
  const cells = Array.from({ length: last - first + 1 }, (_, i) => first + i).flatMap((seed) =>
    flags.worlds
      .split(',')
      .flatMap((world) =>
        flags.rules
          .split(',')
          .flatMap((rule) =>
            rule === 'base' && seed > 3 ? [] : [{ world, rule, seed, ...usual, ...board }],
          ),
      ),
  )
  return shardOf(cells, { k, n })
}

/**
 * Runs the cells that the file `out` lacks and adds a line for each. `experimentOf` gives a cell's experiment, of one arm
 * (which the untrained model plays too); all cells have one model and one device, opened once.
 */
export async function runCells(
  cells: readonly CellName[],
  out: string,
  experimentOf: (cell: CellName) => Experiment,
): Promise<void> {
  const done = new Set(
    (await readFile(out, 'utf8').catch(() => ''))
      .split('\n')
      .filter(Boolean)
      .map((line) => nameOf(cellSchema.parse(JSON.parse(line)))),
  )
  const left = cells.filter((cell) => !done.has(nameOf(cell)))
  if (left.length === 0) return
  const first = experimentOf(left[0])
  const engines = openEngines(first, await findModels(first), console.error)
  try {
    for (const cell of left) {
      const started = performance.now()
      const line = await runCell(cell, experimentOf(cell), engines)
      await appendFile(out, `${JSON.stringify(line)}\n`)
      const seconds = ((performance.now() - started) / 1000).toFixed(0)
      console.log(`${nameOf(cell)}  pass@1 ${line.passAt1.toFixed(3)}  ${seconds} s`)
    }
  } finally {
    await engines.close()
  }
}

function nameOf({ world, rule, seed, reads, rounds, copies, budget }: CellName): string {
  return `${world} ${rule} ${seed}, ${copies} ${reads}, ${rounds} rounds${budget === null ? '' : `, ${budget} tokens`}`
}

async function runCell(cell: CellName, experiment: Experiment, engines: Engines): Promise<Cell> {
  const split = await experiment.task.load()
  const folder = await mkdtemp(join(tmpdir(), 'credit-cell-'))
  try {
    const arm = experiment.baseline
    const job: Job = {
      name: `${arm}-s${cell.seed}`,
      arm,
      seed: cell.rule === 'base' ? null : cell.seed,
      evaluationSeed: ['evaluation', 'seed', cell.seed],
    }
    await runJob({ engines, experiment, ...split, folder, onEvent: () => {} }, job)
    const { engine } = experiment
    const gpu =
      engine.name === 'onnx' && engine.device === 'cuda' ? await nvidiaGpu('name,driver_version') : ''
    const machine = gpu || (cpus()[0]?.model ?? 'unknown')
    return {
      ...cellOf(cell, await readOutcome(folder, job), split.holdout),
      machine,
      versions: versions(experiment),
    }
  } finally {
    await rm(folder, { recursive: true })
  }
}

function cellOf(
  cell: CellName,
  { progress, metrics, episodes }: JobOutcome,
  holdout: readonly Problem[],
): Omit<Cell, 'machine' | 'versions'> {
  const scores = episodes.map((episode) =>
    finalScores(episode, 'each').reduce((sum, score) => sum + score, 0),
  )
  const replies = episodes[0].rounds.at(-1)!.length
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
  }
}

/** Share of notes that carry what a reader needs of them: their part, or a trial in the insight world; null where neither is. */
function carried(world: string, episodes: readonly Episode[], holdout: readonly Problem[]): number | null {
  if (world !== 'insight' && !holdout.some(({ parts }) => parts)) return null
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

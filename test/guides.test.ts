/**
 * The files that the guides of the documentation show (docs/your-*.md): each runs with its own task, grader and credit on the
 * built-in policy, cut down to a few problems and two steps. test/experiments.test.ts runs them on a tiny model and its task.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { experimentOf } from '../src/cli/experiment-file.ts'
import type { Engine } from '../src/engine/contract.ts'
import { defineExperiment, type Experiment, overrideExperiment } from '../src/experiment/config.ts'
import { openEngine } from '../src/experiment/engine.ts'
import { runExperiment } from '../src/experiment/run.ts'
import { readBoxed } from '../src/grade/answer.ts'
import { rolloutSchema } from '../src/record/schema.ts'
import { partsOf } from '../src/tasks/parts.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const load = (name: string) => experimentOf(join(root, `${name}.ts`))

let scratch: string
let engine: Engine

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'guides-'))
  engine = await openEngine(defineExperiment({ engine: { threads: 2 } }))
})
afterAll(async () => {
  await engine.close()
  await rm(scratch, { recursive: true })
})

/** Two steps of two problems on the first 16 problems of its task, evaluated on 4. */
function cut(experiment: Experiment): Experiment {
  const { task } = experiment
  return overrideExperiment(experiment, {
    task: {
      ...task,
      load: async () => {
        const { train, holdout, dropped } = await task.load()
        return { train: train.slice(0, 16), holdout: holdout.slice(0, 4), dropped }
      },
    },
    train: { steps: 2, problemsPerStep: 2 },
    evaluation: { baseRuns: 1 },
    seeds: [17],
    engine: { threads: 2 },
  })
}

/** Its results, and what was played in training by the arm named. */
async function run(name: string, arm: string) {
  const out = join(scratch, name)
  const results = await runExperiment(cut(await load(name)), {
    out,
    openEngine: async () => ({ ...engine, close: async () => {} }),
  })
  const lines = (await readFile(join(out, `${arm}-s17`, 'rollouts.jsonl'), 'utf8')).trimEnd().split('\n')
  return { results, played: lines.map((line) => rolloutSchema.parse(JSON.parse(line))) }
}

describe('own-task.ts', () => {
  it('gives the problems that the page names, none of them twice', async () => {
    const { train, holdout } = await (await load('experiments/own-task')).task.load()
    expect([train.length, holdout.length]).toEqual([512, 128])
    expect(new Set([...train, ...holdout].map(({ question }) => question)).size).toBe(640)
    expect(train[0]).toEqual({
      id: 'train-7x4-5',
      question: 'A train has 7 rows of 4 seats. 5 people sit down. How many seats are free?',
      gold: '23',
    })
  })

  it('runs', async () => {
    const { results, played } = await run('experiments/own-task', 'recipe')
    expect(results.failed).toEqual([])
    expect(results.task).toEqual({ name: 'free seats', train: 16, holdout: 4 })
    expect(results.checks.overOptimisation).toMatchObject({ proxy: null, overOptimised: false })
    expect(played.every(({ problem }) => problem.question.startsWith('A train has'))).toBe(true)
  })
})

describe('hidden-profile.ts', () => {
  it('deals its two parts to four seats', async () => {
    const { train, holdout } = await (await load('experiments/hidden-profile')).task.load()
    expect([train.length, holdout.length]).toEqual([288, 73])
    const [{ parts, gold }] = train
    expect([0, 1, 2, 3].map((seat) => partsOf({ parts }, seat, 4))).toEqual([
      ['Ana has 3 coins.'],
      ['Ben has 2 coins.'],
      ['Ana has 3 coins.'],
      ['Ben has 2 coins.'],
    ])
    expect(gold).toBe('5')
  })

  it('runs', async () => {
    const { results, played } = await run('experiments/hidden-profile', 'recipe')
    expect(results.failed).toEqual([])
    expect(played.every(({ problem }) => problem.parts?.length === 2)).toBe(true)
  })
})

it('first.ts of docs/getting-started.md runs', async () => {
  const { results, played } = await run('docs/examples/first', 'ring')
  expect(results.failed).toEqual([])
  expect(results.contrasts.map(({ arm, against }) => [arm, against])).toEqual([['ring', 'own']])
  expect(played[0].rounds[1].map(({ reads }) => reads.map(([, seat]) => seat))).toEqual([
    [0, 1],
    [1, 2],
    [2, 3],
    [3, 0],
  ])
})

it('own-grader.ts reads answers in the box alone', async () => {
  const { grader } = await load('experiments/own-grader')
  expect(grader.grade('So the answer is 12.', '12')).toEqual({ answer: null, correct: false })
  expect(grader.grade('So \\boxed{12.0}', '12')).toEqual({ answer: '12.0', correct: true })
  const { results, played } = await run('experiments/own-grader', 'recipe')
  expect(results.versions.grader).toBe('boxed only 1')
  for (const post of played.flatMap(({ rounds }) => rounds.flat())) {
    expect(post.answer).toBe(readBoxed(post.text))
  }
})

it('partial-reward.ts pays replies between 0 and 1, and counts right and wrong', async () => {
  const { arms } = await load('experiments/partial-reward')
  const { assign } = arms.closeness.credit
  const post = (answer: string | null) => ({
    answer,
    correct: answer === '20',
    seat: 0,
    reads: [],
    text: '',
    tokens: 1,
    cut: false,
  })
  const rounds = [[post('20')], ['20', '15', '45', 'none', null].map(post)]
  const problem = { id: 'a', question: '', gold: '20' }
  const played = [{ problem, board: 0, episode: { problemId: 'a', rounds }, traces: [] }]
  const tools = { protocol: arms.closeness.protocol, replay: async () => [], rescore: async () => [] }
  expect((await assign(played, tools)).credits).toEqual([[[null], [1, 0.75, 0, 0, 0]]])

  const { results, played: trained } = await run('experiments/partial-reward', 'closeness')
  expect(results.failed).toEqual([])
  const paid = trained.flatMap(({ credit }) => credit?.[1] ?? [])
  expect(paid.length).toBe(4 * 2 * 2)
  expect(paid.every((one) => one !== null && one >= 0 && one <= 1)).toBe(true)
  // What some of them earned is neither 0 nor 1: the reward is a proxy of being right, and the checks name it.
  expect(paid.some((one) => one! > 0 && one! < 1)).toBe(true)
  expect(results.checks.overOptimisation).toMatchObject({ proxy: 'closeness', overOptimised: null })
})

it('docs/examples/training-loop.ts trains and ends by itself', async () => {
  const file = join(root, 'docs/examples/training-loop.ts')
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', file, '1'], {
    cwd: root,
  })
  expect(stdout).toMatch(
    /^before: notes 0\.\d{3} right, replies 0\.\d{3}\nstep 1: replies 0\.\d{3} right, loss -?\d\.\d{4}\nafter: notes 0\.\d{3} right, replies 0\.\d{3}\n$/,
  )
})

import { cp, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { own, shared } from '../board/sights.ts'
import type { Engine, Policy } from '../engine/contract.ts'
import { readRecord } from '../record/folder.ts'
import { type Results, resultsSchema, withoutTimings } from '../record/results.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'
import type { Task } from '../tasks/types.ts'
import { ownAnswer } from '../train/credit/index.ts'
import type { Experiment } from './config.ts'
import { openEngine } from './engine.ts'
import { type EvaluationProgress, evaluateModel } from './evaluate.ts'
import type { RunEvent } from './job.ts'
import { mergeShards } from './merge.ts'
import { type RunOptions, runExperiment, runShard } from './run.ts'
import { tinyExperiment } from './testing/tiny-experiment.ts'

let folder: string
let model: string
/** One real engine for all runs: opening it is the slow part. */
let engine: Engine
/** The folder of a whole run that nothing interrupted, and its results. */
let whole: string
let expected: Results

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'run-'))
  model = join(folder, 'model')
  await writeTinyModel(model, 1)
  whole = join(folder, 'whole')
  engine = await openEngine(tinyExperiment(model))
  expected = await run(tinyExperiment(model), { out: whole })
})

afterAll(async () => {
  await engine.close()
  await rm(folder, { recursive: true })
})

const run = (experiment: Experiment, options: RunOptions) =>
  runExperiment(experiment, { openEngine: async () => ({ ...engine, close: async () => {} }), ...options })

const fresh = (() => {
  let count = 0
  return () => join(folder, `run-${count++}`)
})()

const read = (out: string, name: string) => readFile(join(out, name), 'utf8')

/** All rollouts of a run, and its metrics without their timings. */
async function records(out: string): Promise<unknown> {
  const jobs = (await readdir(out)).filter((name) => /^(base|baseline|recipe)-/.test(name)).sort()
  return Promise.all(
    jobs.map(async (job) => ({
      job,
      rollouts: await read(out, join(job, 'rollouts.jsonl')),
      metrics: (await read(out, join(job, 'metrics.jsonl')).catch(() => ''))
        .split('\n')
        .filter(Boolean)
        .map((line) => ({ ...JSON.parse(line), seconds: null })),
    })),
  )
}

describe('a run', () => {
  it('leaves the files that a person and a program read', async () => {
    expect((await readdir(whole)).sort()).toEqual([
      '.lock-1',
      'base-baseline-1',
      'base-baseline-2',
      'base-recipe-1',
      'baseline-s17',
      'baseline-s18',
      'experiment.json',
      'post.md',
      'recipe-s17',
      'recipe-s18',
      'report.html',
      'results.json',
      'table.md',
    ])
    expect((await readdir(join(whole, 'recipe-s18'))).sort()).toEqual([
      'checkpoint-3',
      'metrics.jsonl',
      'progress.json',
      'rollouts.jsonl',
    ])
    expect(await readdir(join(whole, 'recipe-s18/checkpoint-3'))).toContain('adapter_model.safetensors')
    const lines = (await read(whole, 'recipe-s18/rollouts.jsonl')).trim().split('\n')
    expect(lines).toHaveLength(3 * 2 + 6)
    expect(JSON.parse(lines[0])).toMatchObject({
      phase: 'train',
      step: 1,
      problem: { gold: expect.any(String) },
    })
    expect(JSON.parse(lines[11])).toMatchObject({ phase: 'evaluation', problem: { id: 'holdout-5' } })
    // How far it came from where it started is measured in the last step, before its update.
    const steps = (await read(whole, 'recipe-s18/metrics.jsonl')).trim().split('\n')
    expect(steps.map((line) => JSON.parse(line).kl)).toEqual([null, null, expect.any(Number)])
    expect(JSON.parse(steps[2]).kl).toBeGreaterThan(0)
    for (const line of steps) expect(JSON.parse(line).entropy).toBeGreaterThan(0)
  })

  it('writes results that fit their schema and count what the rollouts say', async () => {
    const { seal, ...results } = resultsSchema.parse(JSON.parse(await read(whole, 'results.json')))
    expect(seal).toMatch(/^[0-9a-f]{64}$/)
    expect(results).toEqual(expected)
    const lines = (await read(whole, 'recipe-s17/rollouts.jsonl')).trim().split('\n')
    const replies = lines
      .map((line) => JSON.parse(line))
      .filter(({ phase }) => phase === 'evaluation')
      .flatMap((line) => line.rounds[1] as { correct: boolean }[])
    const right = replies.filter(({ correct }) => correct).length / replies.length
    const { recipe, baseline } = results.arms
    expect(recipe?.perSeed[0]).toBeCloseTo(right, 12)
    expect(recipe?.passAt1).toBeCloseTo((recipe!.perSeed[0] + recipe!.perSeed[1]) / 2, 12)
    expect(results.contrasts[0].delta).toBeCloseTo(recipe!.passAt1 - baseline!.passAt1, 12)
    expect(results.checks.decontamination.dropped).toBe(1)
    expect(results.trainTrace.recipe.map(({ reward }) => reward.length)).toEqual([3, 3])
  })

  it('draws the same first notes in both arms, and different ones for another seed', async () => {
    const first = async (job: string) =>
      JSON.parse((await read(whole, `${job}/rollouts.jsonl`)).split('\n')[0])
    const notes = async (job: string) => (await first(job)).rounds[0]
    expect(await notes('recipe-s17')).toEqual(await notes('baseline-s17'))
    expect((await first('recipe-s17')).problem).toEqual((await first('baseline-s17')).problem)
    expect(await notes('recipe-s18')).not.toEqual(await notes('recipe-s17'))
  })

  it('is the same when made again', async () => {
    const out = fresh()
    const results = await run(tinyExperiment(model), { out })
    expect(withoutTimings(results)).toEqual(withoutTimings(expected))
    expect(await records(out)).toEqual(await records(whole))
  })

  it('is read back, not run, when it is finished', async () => {
    const results = await run(tinyExperiment(model), {
      out: whole,
      openEngine: () => Promise.reject(new Error('no engine is needed')),
    })
    expect({ ...results.timing, finishedAt: '' }).toEqual({ ...expected.timing, finishedAt: '' })
    expect(withoutTimings(results)).toEqual(withoutTimings(expected))
  })
})

describe('an interrupted run', () => {
  it('goes on to the same results, wherever it was stopped', async () => {
    const events: RunEvent[] = []
    const out = fresh()
    await run(tinyExperiment(model), { out, onEvent: (event) => events.push(event) })
    const stops = events.flatMap((event, i) => (event.type === 'step' || event.type === 'tokens' ? [i] : []))
    for (const stop of [stops[3], stops[Math.floor(stops.length / 2)], stops.at(-2)!]) {
      const halted = fresh()
      const controller = new AbortController()
      let seen = 0
      const halting = run(tinyExperiment(model), {
        out: halted,
        signal: controller.signal,
        onEvent: () => {
          if (seen++ === stop) controller.abort(new Error('stopped here'))
        },
      })
      await expect(halting).rejects.toThrow('stopped here')
      const results = await run(tinyExperiment(model), { out: halted })
      expect(withoutTimings(results)).toEqual(withoutTimings(expected))
      expect(await records(halted)).toEqual(await records(whole))
    }
  })
})

/** As many problems as exclude an effect of three points where nothing differs. */
const wide: Task = {
  name: 'wide',
  config: {},
  load: async () => {
    const problems = (part: string, count: number) =>
      Array.from({ length: count }, (_, i) => ({ id: `${part}-${i}`, question: `${i}?`, gold: '1' }))
    return { train: problems('train', 2), holdout: problems('holdout', 100), dropped: 0 }
  },
}

/** The real engine, but the loss of one job's second update is not a number. */
function brokenAt(broken: { arm: number }) {
  return async (): Promise<Engine> => {
    let trained = 0
    return {
      ...engine,
      close: async () => {},
      async createPolicy(options) {
        const policy = await engine.createPolicy(options)
        if (!options?.lora || trained++ !== broken.arm) return policy
        let updates = 0
        const forwardBackward: Policy['forwardBackward'] = async (batch, loss) => {
          const report = await policy.forwardBackward(batch, loss)
          return updates++ === 1 ? { ...report, loss: Number.NaN } : report
        }
        return { ...policy, forwardBackward }
      },
    }
  }
}

describe('a failing job', () => {
  it('says which step, keeps the last good state, and leaves the others alone', async () => {
    const out = fresh()
    const results = await run(tinyExperiment(model), { out, openEngine: brokenAt({ arm: 1 }) })
    expect(results.failed).toEqual([
      { job: 'recipe-s17', why: expect.stringMatching(/^step 2 failed: the loss became NaN/) },
    ])
    expect(results.contrasts[0]).toMatchObject({
      verdict: 'unresolved',
      why: expect.stringContaining('recipe-s17'),
    })
    expect(results.arms.recipe?.seeds).toEqual([18])
    expect((await readdir(join(out, 'recipe-s17'))).sort()).toEqual([
      'checkpoint-1',
      'error.txt',
      'metrics.jsonl',
      'progress.json',
      'rollouts.jsonl',
    ])
    expect(await read(out, 'recipe-s17/error.txt')).toMatch(/NaN[\s\S]*loop\.ts/)

    // A rerun pays for the rest of that job alone, and ends where a run without the failure does.
    const steps: string[] = []
    const again = await run(tinyExperiment(model), {
      out,
      onEvent: (event) => {
        if (event.type === 'step') steps.push(`${event.job} ${event.metrics.step}`)
      },
    })
    expect(steps).toEqual(['recipe-s17 2', 'recipe-s17 3'])
    expect(withoutTimings(again)).toEqual(withoutTimings(expected))
  })
})

describe('evaluateModel', () => {
  it('counts a trained adapter as the run did', async () => {
    const experiment = tinyExperiment(model)
    const { recipe } = experiment.arms
    const adapter = join(whole, 'recipe-s17/checkpoint-3')
    const trained = { ...recipe, policies: { policy: { ...recipe.policies.policy, adapter } } }
    const found = await evaluateModel(experiment, { arms: [trained], seed: 17 })
    // The draws are keyed otherwise, so the figures differ; the record is of the same kind.
    expect(found).toMatchObject({ problems: 6, seed: 17, protocols: [{ protocol: 'shared', k: 4 }] })
    const [{ counts, passAt1 }] = found.protocols
    expect(counts.noteAcc! + counts.rescued! - counts.misled!).toBeCloseTo(passAt1, 12)
    const base = await evaluateModel(experiment, { arms: [recipe], seed: 17 })
    expect(base.protocols[0].counts).not.toEqual(counts)
  })

  it('tells how far it is, and writes the notes of two boards once', async () => {
    const experiment = tinyExperiment(model)
    const told: EvaluationProgress[] = []
    const { baseline, recipe } = experiment.arms
    const options = { seed: 1, onProgress: (progress: EvaluationProgress) => told.push(progress) }
    const both = await evaluateModel(experiment, { ...options, arms: [baseline, recipe] })
    expect(told.at(-1)).toEqual({ problems: 12, of: 12, newTokens: 0, tokensLeft: 0, isBound: false })
    expect(both.differences).toMatchObject([{ of: ['shared', 'own'] }])
    // 6 problems: twice 24 notes and 24 replies of at most 8 tokens, of which the second 24 notes are there already.
    expect(told[0].isBound).toBe(true)
    expect(told[0].tokensLeft + told[0].newTokens).toBe(96 * 8)
    const written = told.reduce((sum, { newTokens }) => sum + newTokens, 0)
    expect(written).toBeLessThanOrEqual((24 + 48) * 8)
    told.length = 0
    const alone = await evaluateModel(experiment, { ...options, arms: [recipe] })
    expect(alone.protocols[0]).toEqual(both.protocols[1])
    expect(written).toBeGreaterThan(told.reduce((sum, { newTokens }) => sum + newTokens, 0))
  })
})

describe('adding seeds until resolved', () => {
  let grown: string
  let results: Results

  beforeAll(async () => {
    grown = fresh()
    results = await run(tinyExperiment(model), { out: grown, maxSeeds: 4 })
  })

  it('looks after each seed, at a level that all looks share, and ends at the limit', async () => {
    // Six problems resolve nothing.
    expect(results.contrasts[0].verdict).toBe('unresolved')
    expect(results.seeds).toEqual([17, 18, 19, 20])
    expect(results.sequential).toMatchObject({ maxSeeds: 4, looks: 3, alpha: 0.05 / 3 })
    const { taken } = results.sequential!
    expect(taken.map(({ seeds }) => seeds)).toEqual([2, 3, 4])
    expect(taken[0].contrasts[0].delta).toBe(expected.contrasts[0].delta)
    expect(taken[2].contrasts[0].ci95).toEqual(results.contrasts[0].ci95)
    // The stricter level makes a wider interval of the same data.
    expect(taken[0].contrasts[0].ci95[1]).toBeGreaterThan(expected.contrasts[0].ci95[1])
    expect(JSON.parse(await read(grown, 'experiment.json')).seeds).toEqual([17, 18, 19, 20])
    expect(await read(grown, 'table.md')).toContain('3 of at most 3')
  })

  it('stops as soon as the verdict is not unresolved', async () => {
    const graded = tinyExperiment(model, {
      grader: { name: 'all right', version: '1', grade: () => ({ answer: '1', correct: true }) },
      evaluation: { baseRuns: 2, problemsAtOnce: 50 },
      task: wide,
      train: { steps: 1, problemsPerStep: 2, lora: { rank: 4, alpha: 8 } },
    })
    const { sequential, contrasts } = await run(graded, { out: fresh(), maxSeeds: 4 })
    // All replies right in both arms, on 100 problems: effects of 3 points are excluded at the first look.
    expect(contrasts[0].verdict).toBe('flat')
    expect(sequential?.taken).toHaveLength(1)
  })

  it('goes on to the same results, wherever it was stopped', async () => {
    const out = fresh()
    const controller = new AbortController()
    const halting = run(tinyExperiment(model), {
      out,
      maxSeeds: 4,
      signal: controller.signal,
      onEvent: (event) => {
        if (event.type === 'step' && event.job === 'recipe-s19') controller.abort()
      },
    })
    await expect(halting).rejects.toThrow()
    const again = await run(tinyExperiment(model), { out, maxSeeds: 4 })
    expect(withoutTimings(again)).toEqual(withoutTimings(results))
  })

  it('keeps to the limit that was set before the first look', async () => {
    await expect(run(tinyExperiment(model), { out: grown, maxSeeds: 6 })).rejects.toThrow(
      /until resolved\.maxSeeds: 4 before, 6 now/,
    )
    await expect(run(tinyExperiment(model), { out: grown })).rejects.toThrow(/until resolved/)
    await expect(run(tinyExperiment(model), { out: fresh(), maxSeeds: 1 })).rejects.toThrow(
      /first look takes 2/,
    )
    const oneArm = run(tinyExperiment(model), { out: fresh(), maxSeeds: 4, arms: ['recipe'] })
    await expect(oneArm).rejects.toThrow(/all arms/)
  })
})

describe('the run folder', () => {
  it('refuses another configuration, naming what differs, and starts afresh when told', async () => {
    const out = fresh()
    const small = { seeds: [17] }
    await run(tinyExperiment(model, small), { out, arms: ['baseline'] })
    const longer = tinyExperiment(model, { ...small, train: { steps: 4, problemsPerStep: 2 } })
    await expect(run(longer, { out })).rejects.toThrow(
      /arms\.baseline\.train\.steps: 3 before, 4 now.*--fresh/s,
    )
    const results = await run(longer, { out, arms: ['baseline'], fresh: true })
    expect(results.arms.baseline?.steps).toBe(4)
    expect(results.arms.recipe).toBe(undefined)
    expect(results.contrasts).toEqual([])
  })

  it('refuses a model whose weights changed under the same path', async () => {
    const out = fresh()
    const changing = fresh()
    await writeTinyModel(changing, 1)
    const experiment = () => tinyExperiment(changing, { seeds: [17] })
    await run(experiment(), { out, arms: ['baseline'] })
    await writeTinyModel(changing, 2)
    await expect(run(experiment(), { out, arms: ['baseline'] })).rejects.toThrow(/sha256: /)
  })

  it('pays for a new seed alone', async () => {
    const out = fresh()
    await run(tinyExperiment(model, { seeds: [17] }), { out })
    const kept: string[] = []
    const results = await run(tinyExperiment(model), {
      out,
      onEvent: (event) => {
        if (event.type === 'job' && event.state === 'kept') kept.push(event.job)
      },
    })
    expect(kept).toEqual([
      'base-baseline-1',
      'base-baseline-2',
      'base-recipe-1',
      'baseline-s17',
      'recipe-s17',
    ])
    // It is the run that had both seeds from the start, but for one thing: somebody has looked already.
    const [found] = results.contrasts
    expect(found.warnings).toEqual([
      ...expected.contrasts[0].warnings,
      expect.stringMatching(/read before, with 1 seeds/),
    ])
    const silent = (of: Results) =>
      withoutTimings({ ...of, contrasts: [{ ...of.contrasts[0], warnings: [] }] })
    expect(silent(results)).toEqual(silent(expected))
  })

  it('pays for a new arm alone, and leaves every file of the others as it was', async () => {
    const out = fresh()
    await cp(whole, out, { recursive: true })
    const jobs = (await readdir(out)).filter((name) => /-s?\d+$/.test(name) && !name.startsWith('.'))
    const files = async () =>
      Promise.all(
        jobs.map(async (job) => [
          job,
          await read(out, join(job, 'rollouts.jsonl')),
          await read(out, join(job, 'progress.json')),
          await readFile(join(out, job, 'metrics.jsonl'), 'base64').catch(() => null),
        ]),
      )
    const before = await files()
    const steps = new Set<string>()
    const three = tinyExperiment(model, {
      arms: {
        baseline: { reads: own },
        recipe: { reads: shared },
        writers: { reads: shared, credit: ownAnswer(), train: { learningRate: 5e-4 } },
      },
    })
    const results = await run(three, {
      out,
      onEvent: (event) => {
        if (event.type === 'step') steps.add(event.job)
        if (event.type === 'evaluated') steps.add(event.job)
      },
    })
    expect([...steps].sort()).toEqual(['writers-s17', 'writers-s18'])
    expect(await files()).toEqual(before)
    expect(Object.keys(results.arms)).toEqual(['baseline', 'recipe', 'writers'])
    expect(results.contrasts.map(({ arm, against }) => [arm, against])).toEqual([
      ['recipe', 'baseline'],
      ['writers', 'baseline'],
    ])
    // It starts where the recipe starts: the same untrained model under the same protocol.
    expect(results.bases.map(({ arms }) => arms)).toEqual([['baseline'], ['recipe', 'writers']])
    expect(results.arms.recipe).toEqual(expected.arms.recipe)
  })

  it('is the same in shards, merged', async () => {
    const parts = [1, 2, 3, 4].map((k) => ({ k, n: 4, out: fresh() }))
    for (const { out, ...shard } of parts) {
      await runShard(tinyExperiment(model), shard, {
        out,
        openEngine: async () => ({ ...engine, close: async () => {} }),
      })
    }
    const merged = fresh()
    const results = await mergeShards(
      parts.map(({ out }) => out),
      merged,
    )
    expect(withoutTimings(results)).toEqual(withoutTimings(expected))
    expect(await records(merged)).toEqual(await records(whole))
    // The verdict has been read, which more seeds added later have to count.
    expect((await readRecord(merged)).history).toEqual({ read: [tinyExperiment(model).seeds] })
    // It is a run like any other: it goes on.
    const again = await run(tinyExperiment(model), {
      out: merged,
      openEngine: () => Promise.reject(new Error('no engine is needed')),
    })
    expect(withoutTimings(again)).toEqual(withoutTimings(expected))
    await expect(mergeShards([parts[0].out], fresh())).rejects.toThrow(/No folder holds all of/)
    await expect(runShard(tinyExperiment(model), { k: 5, n: 4 }, { out: fresh() })).rejects.toThrow(
      /no shard 5\/4/,
    )
  })

  it('refuses limits that the context cannot hold', async () => {
    const board = { copies: 4, noteTokens: 200, replyTokens: 100 }
    const halting = run(tinyExperiment(model, { board: { ...board, readTokens: null } }), {
      out: fresh(),
    })
    await expect(halting).rejects.toThrow(/lower board\.noteTokens/)
    const long = run(tinyExperiment(model, { board: { ...board, readTokens: 500 } }), {
      out: fresh(),
    })
    await expect(long).rejects.toThrow(/do not fit the model's context of 512/)
  })
})

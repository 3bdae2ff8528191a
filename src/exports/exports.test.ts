import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { parquetReadObjects } from 'hyparquet'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readRecord } from '../record/folder.ts'
import { readJob } from '../record/job-log.ts'
import { writeNotes } from '../record/notes.ts'
import { planJobs } from '../record/plan.ts'
import type { Results } from '../record/results.ts'
import { aggregated, threeArms, writeSyntheticRun } from '../view/testing/synthetic-run.ts'
import { exportRun } from './index.ts'
import type { inspectLog } from './inspect.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'exports-'))
})
afterAll(() => rm(folder, { recursive: true }))

const small = { holdout: 12, train: 12, steps: 3, problemsPerStep: 2 }
const jobsOf = async (run: string) => planJobs(await readRecord(run)).map(({ name }) => name)
const resultsOf = async (run: string) =>
  JSON.parse(await readFile(join(run, 'results.json'), 'utf8')) as Results

describe('Parquet', () => {
  it('has every post and every step, as the run has them', async () => {
    const run = join(folder, 'parquet-run')
    await writeSyntheticRun(run, { ...small, arms: aggregated, parts: 3 })
    const paths = await exportRun(run, 'parquet')
    expect(paths).toEqual([join(run, 'parquet', 'posts.parquet'), join(run, 'parquet', 'metrics.parquet')])
    const [posts, metrics] = await Promise.all(
      paths.map(async (path) => {
        const { buffer, byteOffset, byteLength } = await readFile(path)
        const file = buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer
        return (await parquetReadObjects({ file })) as Record<string, unknown>[]
      }),
    )
    const jobs = await jobsOf(run)
    const records = await Promise.all(jobs.map((job) => readJob(join(run, job))))
    const expected = records.flatMap(({ rollouts }, j) =>
      rollouts.flatMap(({ phase, step, problem, rounds, credit }) =>
        rounds.flatMap((all, r) =>
          all.map((post, i) => ({
            job: jobs[j],
            trained: !jobs[j].startsWith('base-'),
            phase,
            step: step ?? null,
            problem: problem.id,
            parts: problem.parts,
            round: r,
            is_final: r === rounds.length - 1,
            seat: post.seat,
            reads: post.reads,
            text: post.text,
            answer: post.answer,
            correct: post.correct,
            tokens: post.tokens,
            credit: credit?.[r][i] ?? null,
          })),
        ),
      ),
    )
    expect(posts).toHaveLength(expected.length)
    for (const [i, row] of posts.entries()) {
      const read = { ...row, parts: JSON.parse(String(row.parts)), reads: JSON.parse(String(row.reads)) }
      expect(read).toMatchObject(expected[i])
    }
    const steps = records.flatMap(({ metrics }) => metrics)
    expect(metrics.map((row) => [row.step, row['train/reward'], row['round_2/right']])).toEqual(
      steps.map((line) => [line.step, line.reward, line.rounds[1].right]),
    )
    expect(metrics[0]).toMatchObject({ job: 'voting-s17', arm: 'voting', seed: 17 })
  })
})

describe('Inspect', () => {
  it('has each evaluation, its accuracy as the results have it', async () => {
    const run = join(folder, 'inspect-run')
    await writeSyntheticRun(run, { ...small, arms: threeArms })
    await writeNotes(run, { note: 'A first look.', tags: ['keep'] })
    const out = join(folder, 'logs')
    const paths = await exportRun(run, 'inspect', out)
    const jobs = await jobsOf(run)
    expect(paths.map((path) => basename(path).replace(/^.*_word-problems_|\.json$/g, ''))).toEqual(jobs)
    // By which Inspect knows a log.
    for (const path of paths) expect(basename(path)).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}\+00-00_/)
    const results = await resultsOf(run)
    const logs = await Promise.all(
      paths.map(async (path) => JSON.parse(await readFile(path, 'utf8')) as ReturnType<typeof inspectLog>),
    )
    const found = logs[jobs.indexOf('debate-s18')]
    expect(found.eval).toMatchObject({ task: 'word-problems', solver: 'debate 3', tags: ['keep'] })
    expect(found.eval.metadata).toMatchObject({ arm: 'debate', seed: 18, note: 'A first look.' })
    expect(found.eval.config).toEqual({ epochs: 4, epochs_reducer: ['mean'] })
    const { accuracy } = found.results.scores[0].metrics
    expect(accuracy.value).toBeCloseTo(results.arms.debate!.perSeed[1], 12)
    expect(found.samples).toHaveLength(12 * 4)
    const right = found.samples.filter(({ scores }) => scores.math.value === 'C').length
    expect(right / found.samples.length).toBeCloseTo(accuracy.value, 12)
    const [sample] = found.samples
    expect(sample.epoch).toBe(1)
    expect(sample.input[0].content).toContain(`Note 1: ${sample.metadata.board[1].posts[0].text.trim()}`)
    expect(sample.messages.at(-1)).toMatchObject({ role: 'assistant', content: sample.output.completion })
    expect(sample.metadata.board.map(({ posts }) => posts.length)).toEqual([4, 4, 4])
  })

  it('has one answer a problem where a vote or one seat answers, and leaves out what is not finished', async () => {
    const run = join(folder, 'votes')
    await writeSyntheticRun(run, { ...small, arms: aggregated, failed: 'voting-s17' })
    const paths = await exportRun(run, 'inspect')
    const jobs = (await jobsOf(run)).filter((name) => name !== 'voting-s17')
    expect(paths).toHaveLength(jobs.length)
    const results = await resultsOf(run)
    for (const [job, expected] of [
      ['voting-s18', results.arms.voting!.perSeed[0]],
      ['aggregator-s17', results.arms.aggregator!.perSeed[0]],
    ] as const) {
      const log = JSON.parse(await readFile(paths[jobs.indexOf(job)], 'utf8')) as ReturnType<
        typeof inspectLog
      >
      expect(log.samples).toHaveLength(12)
      expect(log.results.scores[0].metrics.accuracy.value).toBeCloseTo(expected, 12)
    }
  })

  it('says where there is nothing to export', async () => {
    const run = join(folder, 'begun')
    await writeSyntheticRun(run, { ...small, stopAfter: 0 })
    await expect(exportRun(run, 'inspect')).rejects.toThrow('has no job that has begun')
    await expect(exportRun(join(folder, 'nothing'), 'parquet')).rejects.toThrow('There is no folder')
  })
})

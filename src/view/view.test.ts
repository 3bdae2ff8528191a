import { appendFile, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { whatReadersDid } from '../board/readers.ts'
import type { RolloutLine } from '../experiment/job.ts'
import { lockFolder } from '../experiment/lock.ts'
import { bit, flagAt } from './flags.ts'
import { type JobFacts, jobStates, secondsLeft, tokensPerSecond } from './jobs.ts'
import type { StepRecord } from './record.ts'
import { openRun } from './run-index.ts'
import { writeSyntheticRun } from './testing/synthetic-run.ts'

let folder: string
let whole: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'view-'))
  whole = join(folder, 'whole')
  await writeSyntheticRun(whole, { holdout: 10, train: 12, steps: 3, problemsPerStep: 4 })
})
afterAll(() => rm(folder, { recursive: true }))

const lines = async (run: string, job: string) =>
  (await readFile(join(run, job, 'rollouts.jsonl'), 'utf8'))
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as RolloutLine)

/** A copy of the whole run to change. */
async function copy(name: string): Promise<string> {
  const to = join(folder, name)
  await cp(whole, to, { recursive: true })
  return to
}

describe('a run, read', () => {
  it('has every board with its texts, flags and counts as the files have them', async () => {
    const run = await openRun(whole)
    const { jobs, copies } = run.view()
    const { job, step, problem, flags, problems } = run.columns()
    expect(job).toHaveLength(8 * 10 + 4 * 3 * 4)
    for (const [number, { name, problems: evaluated, trace, passAt1 }] of jobs.entries()) {
      const written = await lines(whole, name)
      const boards = job.flatMap((each, i) => (each === number ? [i] : []))
      expect(await run.texts(boards)).toEqual(written.map(({ notes, replies }) => ({ notes, replies })))
      expect(boards.map((i) => problems.id[problem[i]])).toEqual(written.map((line) => line.problem.id))
      expect(boards.map((i) => step[i])).toEqual(written.map((line) => line.step ?? 0))
      for (const [n, i] of boards.entries()) {
        const right = (from: number) =>
          Array.from(
            { length: copies },
            (_, c) => (flagAt(flags, i * 2 * copies + from + c) & bit.right) !== 0,
          )
        expect(right(0)).toEqual(written[n].notes.map(({ correct }) => correct))
        expect(right(copies)).toEqual(written[n].replies.map(({ correct }) => correct))
      }
      expect(evaluated).toEqual({ done: 10, of: 10 })
      const tested = written.filter(({ phase }) => phase === 'evaluation').flatMap(({ replies }) => replies)
      expect(passAt1).toBe(tested.filter(({ correct }) => correct).length / tested.length)
      for (const point of trace) {
        const played = written.filter((line) => line.step === point.step)
        const counts = whatReadersDid(played.map((line) => ({ ...line, problemId: line.problem.id })))
        expect(point).toMatchObject({
          noteAcc: counts.noteAcc,
          voteAcc: counts.voteAcc,
          rescued: counts.rescued,
          misled: counts.misled,
        })
      }
      expect(trace).toHaveLength(name.startsWith('base-') ? 0 : 3)
    }
    expect(run.view()).toMatchObject({ state: 'finished', seeds: [17, 18] })
    expect(run.view().results?.delta).not.toBeNull()
  })

  it('takes what was added, once, and nothing beyond what was kept', async () => {
    const run = await copy('growing')
    const path = join(run, 'recipe-s18', 'rollouts.jsonl')
    const progressPath = join(run, 'recipe-s18', 'progress.json')
    const [text, progress] = [await readFile(path, 'utf8'), JSON.parse(await readFile(progressPath, 'utf8'))]
    await rm(join(run, 'results.json'))
    // Two steps of training, and half a line of work in hand.
    const kept = text
      .split('\n')
      .slice(0, 8)
      .map((line) => `${line}\n`)
      .join('')
    await writeFile(path, kept)
    await writeFile(
      progressPath,
      JSON.stringify({
        ...progress,
        steps: 2,
        evaluated: 0,
        bytes: { ...progress.bytes, rollouts: Buffer.byteLength(kept) },
      }),
    )
    await appendFile(path, text.slice(kept.length, kept.length + 50))
    const index = await openRun(run, { live: true })
    const before = index.columns().job.length
    expect(index.view().jobs.at(-1)).toMatchObject({ steps: { done: 2, of: 3 }, state: 'stopped' })
    expect(index.view().jobs.at(-1)?.trace).toHaveLength(2)
    const version = index.version()
    await index.refresh()
    expect(index.version()).toBe(version)

    await writeFile(path, text)
    await writeFile(progressPath, JSON.stringify(progress))
    const epoch = index.epoch()
    await index.refresh()
    expect(index.version()).not.toBe(version)
    expect(index.epoch()).toBe(epoch)
    expect(index.columns().job).toHaveLength(before + 4 + 10)
    expect(index.columns().flags).toHaveLength(8 * index.columns().job.length)
    expect(
      index
        .view()
        .jobs.at(-1)
        ?.trace.map(({ step }) => step),
    ).toEqual([1, 2, 3])
    expect(index.view().state).toBe('stopped')
  })

  it('begins again where the run was started afresh', async () => {
    const run = await copy('afresh')
    const index = await openRun(run, { live: true })
    const epoch = index.epoch()
    await writeSyntheticRun(run, { holdout: 10, train: 12, steps: 3, problemsPerStep: 4, learningRate: 1e-5 })
    await index.refresh()
    expect(index.epoch()).not.toBe(epoch)
    expect(index.columns().job).toHaveLength(8 * 10 + 4 * 3 * 4)
  })

  it('is running while a process holds its folder', async () => {
    const run = await copy('held')
    await rm(join(run, 'results.json'))
    await rm(join(run, 'recipe-s18'), { recursive: true })
    const index = await openRun(run, { live: true })
    expect(index.view().state).toBe('stopped')
    const release = await lockFolder(run)
    await mkdir(join(run, 'recipe-s18'))
    await index.refresh()
    expect(index.view()).toMatchObject({ state: 'running' })
    expect(index.view().jobs.at(-1)?.state).toBe('running')
    release()
    await index.refresh()
    expect(index.view().state).toBe('stopped')
  })

  it.each([
    [
      'a line that is no JSON',
      'base-1/rollouts.jsonl',
      (text: string) => text.replace('{', '<'),
      /rollouts\.jsonl, line 1 is damaged/,
    ],
    [
      'a board of fewer notes',
      'base-1/rollouts.jsonl',
      (text: string) => text.replace(/"notes":\[\{.*?\},/, '"notes":['),
      /has 3 notes/,
    ],
    [
      'a file cut short',
      'base-1/rollouts.jsonl',
      (text: string) => text.slice(0, 1000),
      /shorter than progress\.json says/,
    ],
    [
      'an experiment of another program',
      'experiment.json',
      () => '{"kind":"x"}',
      /experiment\.json is damaged \(kind/,
    ],
  ])('says where %s is', async (name, file, change, message) => {
    const run = await copy(`damaged ${name}`)
    const text = await readFile(join(run, file), 'utf8')
    const changed = change(text)
    await writeFile(
      join(run, file),
      changed.length < text.length && changed.length > 1000
        ? changed.padEnd(text.length - 1).concat('\n')
        : changed,
    )
    await expect(openRun(run)).rejects.toThrow(message)
  })

  it('follows no link out of its folder', async () => {
    const run = await copy('linked')
    await rm(join(run, 'base-1'), { recursive: true })
    await symlink(join(whole, 'base-1'), join(run, 'base-1'))
    const { jobs } = (await openRun(run)).view()
    expect(jobs[0].problems.done).toBe(0)
    expect(jobs[1].problems.done).toBe(10)
  })
})

describe('jobs', () => {
  const planned = { name: 'a', role: 'recipe' as const, seed: 1, reads: 'own', steps: 10 }
  const step = (seconds: number, sampledTokens: number): StepRecord => ({
    step: 1,
    sampledTokens,
    seconds: { notes: seconds / 2, replies: seconds / 2 },
  })
  const job = (
    over: Partial<JobFacts> & { steps?: number; evaluated?: number; evaluation?: number },
  ): JobFacts => ({
    planned,
    problems: 20,
    metrics: [],
    changed: null,
    failed: undefined,
    progress: {
      steps: over.steps ?? 0,
      evaluated: over.evaluated ?? 0,
      bytes: { metrics: 0, rollouts: 0 },
      seconds: { train: 0, evaluation: over.evaluation ?? 0 },
    },
    ...over,
  })

  it('are at work where the folder changed last', () => {
    const jobs = [
      job({ steps: 10, evaluated: 20, changed: 9 }),
      job({ changed: 1 }),
      job({ changed: 5 }),
      job({}),
    ]
    expect(jobStates(jobs, true)).toEqual(['finished', 'stopped', 'running', 'waiting'])
    expect(jobStates(jobs, false)).toEqual(['finished', 'stopped', 'stopped', 'waiting'])
    expect(jobStates([job({ changed: 1, failed: 'why' })], false)).toEqual(['failed'])
  })

  it("take as long as their own latest steps, or the others' where they have none", () => {
    const done = job({ steps: 10, evaluated: 20, evaluation: 40, metrics: Array(10).fill(step(3, 300)) })
    const half = job({ steps: 5, metrics: Array(5).fill(step(1, 400)) })
    // 5 steps of 1 s and 20 problems of 2 s; 10 steps of 2 s, the mean of the two paces, and 20 problems of 2 s.
    expect(secondsLeft([done, half, job({})])).toEqual([0, 45, 60])
    expect(secondsLeft([job({})])).toEqual([null])
    expect(tokensPerSecond(half.metrics)).toBe(400)
    expect(tokensPerSecond([])).toBeNull()
  })
})

import { createHash } from 'node:crypto'
import { appendFile, cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { countEpisodes, latestBefore, sameAnswer, vote } from '../board/counts.ts'
import { openRunFolder, readRecord } from '../record/folder.ts'
import { appendInfluence } from '../record/influence.ts'
import { progressText } from '../record/job-log.ts'
import type { MetricsLine, Progress, RolloutLine } from '../record/schema.ts'
import { bit, flagAt, flagStarts, layoutOf } from './flags.ts'
import { listRun } from './listing.ts'
import { openRun } from './run-index.ts'
import {
  aggregated,
  ringOf16,
  type SyntheticArm,
  threeArms,
  twoArms,
  writeSyntheticRun,
} from './testing/synthetic-run.ts'

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

const metricsOf = async (run: string, job: string) =>
  (await readFile(join(run, job, 'metrics.jsonl'), 'utf8'))
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as MetricsLine)

/** What progress.json says of two logs. */
function digests(logs: { metrics: string; rollouts: string }): Pick<Progress, 'bytes' | 'sha256'> {
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
  return {
    bytes: { metrics: Buffer.byteLength(logs.metrics), rollouts: Buffer.byteLength(logs.rollouts) },
    sha256: { metrics: sha256(logs.metrics), rollouts: sha256(logs.rollouts) },
  }
}

/** A copy of the whole run to change. */
async function copy(name: string): Promise<string> {
  const to = join(folder, name)
  await cp(whole, to, { recursive: true })
  return to
}

const small = { holdout: 10, train: 12, steps: 3, problemsPerStep: 4 }

describe('a run, read', () => {
  it.each<[string, Record<string, SyntheticArm>, bases: number]>([
    ['two arms of two rounds', twoArms, 4],
    ['three arms, one of three turns', threeArms, 5],
    ['a vote and an aggregator', aggregated, 4],
    ['a ring of sixteen with credit', ringOf16, 3],
  ])(
    'has every board of %s with its texts, flags and counts as the files have them',
    async (name, arms, bases) => {
      const path = join(folder, name)
      await writeSyntheticRun(path, { ...small, arms, parts: 3 })
      const run = await openRun(path)
      const { jobs, sides } = run.view()
      const columns = run.columns()
      const { job, step, problem, flags, problems } = columns
      const trainings = 2 * Object.keys(arms).length
      expect(job).toHaveLength((bases + trainings) * 10 + trainings * 3 * 4)
      const layouts = sides.map(layoutOf)
      const starts = flagStarts(
        job,
        jobs.map(({ side }) => layouts[side].width),
      )
      expect(flags).toHaveLength(starts[job.length])
      for (const [number, { name, side, problems: evaluated, trace, passAt1 }] of jobs.entries()) {
        const written = await lines(path, name)
        const boards = job.flatMap((each, i) => (each === number ? [i] : []))
        expect(await run.texts(boards)).toEqual(
          written.map(({ rounds, credit }) => (credit ? { rounds, credit } : { rounds })),
        )
        expect(boards.map((i) => problems.id[problem[i]])).toEqual(written.map((line) => line.problem.id))
        expect(problems.parts[problem[boards[0]]]).toEqual(written[0].problem.parts)
        expect(boards.map((i) => step[i])).toEqual(written.map((line) => line.step ?? 0))
        const { scores, rounds, turns } = layouts[side]
        const has = (board: number, post: number, what: keyof typeof bit) =>
          (flagAt(flags, starts[board] + post) & bit[what]) !== 0
        for (const [n, i] of boards.entries()) {
          const played = written[n].rounds
          const posts = played.flatMap((each, r) =>
            each.map((post) => ({ post, before: latestBefore(played, r, post.seat) })),
          )
          for (const [at, { post, before }] of posts.entries()) {
            expect(has(i, at, 'right')).toBe(post.correct)
            expect(has(i, at, 'cut')).toBe(post.cut)
            expect(has(i, at, 'silent')).toBe(post.answer === null)
            expect(has(i, at, 'switched')).toBe(
              before !== undefined && !sameAnswer(post.answer, before.answer),
            )
          }
          // A turn pairs a last post with what its seat said before.
          const last = played[played.length - 1]
          expect(turns.map(({ post, before }) => [posts[post].post, posts[before].post])).toEqual(
            last.flatMap((post) => {
              const before = latestBefore(played, played.length - 1, post.seat)
              return before ? [[post, before]] : []
            }),
          )
          const { final } = sides[side]
          const right =
            final === 'each'
              ? last.map(({ correct }) => correct)
              : final === 'vote'
                ? [vote(last)?.correct === true]
                : [last.find(({ seat }) => seat === final.seat)?.correct]
          expect(scores.map((score) => has(i, score, 'right'))).toEqual(right)
        }
        expect(rounds).toHaveLength(written[0].rounds.length)
        expect(evaluated).toEqual({ done: 10, of: 10 })
        const tested = boards
          .filter((i) => step[i] === 0)
          .flatMap((i) => scores.map((at) => has(i, at, 'right')))
        expect(passAt1).toBe(tested.filter(Boolean).length / tested.length)
        const kept = await metricsOf(path, name)
        expect(trace.step).toEqual(kept.map((line) => line.step))
        for (const [s, line] of kept.entries()) {
          const played = written.filter((each) => each.step === line.step)
          const counts = countEpisodes(
            played.map(({ problem: { id }, rounds }) => ({ problemId: id, rounds })),
          )
          expect(trace.measures.reward[s]).toBeCloseTo(line.reward, 5)
          expect(trace.measures.effective[s]).toBe(line.effective)
          for (const [r, measures] of trace.rounds.entries()) {
            for (const key of ['right', 'voteRight', 'anyRight', 'cut'] as const) {
              expect(measures[key][s]).toBeCloseTo(counts.rounds[r][key], 5)
            }
            const { rescued } = counts.rounds[r]
            if (rescued === null) expect(measures.rescued[s]).toBeNull()
            else expect(measures.rescued[s]).toBeCloseTo(rescued, 5)
            const credit = line.rounds[r].credit
            if (credit === null) expect(measures.creditSpread[s]).toBeNull()
            else expect(measures.creditSpread[s]).toBeCloseTo(credit.spread, 4)
          }
        }
      }
      expect(run.view()).toMatchObject({ state: 'finished', seeds: [17, 18], arms: Object.keys(arms) })
      expect(run.view().results?.training).toHaveLength(Object.keys(arms).length)
      // A part of the columns is what lies between.
      const part = run.part(5, 17, 2)
      expect(part.flags).toBe(flags.slice(starts[5], starts[17]))
      expect(part.problem).toEqual(problem.slice(5, 17))
      expect(part.problems.id).toEqual(problems.id.slice(2))
    },
  )

  it('names the sides: one base for arms that play alike untrained', async () => {
    const path = join(folder, 'sides')
    await writeSyntheticRun(path, {
      ...small,
      arms: { one: twoArms.baseline, two: twoArms.recipe, three: { ...twoArms.recipe, learningRate: 1 } },
    })
    const { sides, jobs } = (await openRun(path)).view()
    expect(sides.map(({ title, arm, arms, base }) => [title, arm, arms.join(), base])).toEqual([
      ['base, own', null, 'one', 0],
      ['base, shared', null, 'two,three', 1],
      ['one', 0, 'one', 0],
      ['two', 1, 'two', 1],
      ['three', 2, 'three', 1],
    ])
    expect(jobs.slice(0, 7).map(({ name, side }) => [name, side])).toEqual([
      ['base-one-1', 0],
      ['base-one-2', 0],
      ['base-one-3', 0],
      ['base-two-1', 1],
      ['one-s17', 2],
      ['two-s17', 3],
      ['three-s17', 4],
    ])
  })

  it('takes what was added, once, and nothing beyond what was kept', async () => {
    const run = await copy('growing')
    const path = join(run, 'recipe-s18', 'rollouts.jsonl')
    const progressPath = join(run, 'recipe-s18', 'progress.json')
    const [text, whole] = await Promise.all([path, progressPath].map((each) => readFile(each, 'utf8')))
    const { seal: _, ...progress } = JSON.parse(whole) as Progress & { seal: string }
    await rm(join(run, 'results.json'))
    // Two steps of training, and half a line of work in hand.
    const kept = text
      .split('\n')
      .slice(0, 8)
      .map((line) => `${line}\n`)
      .join('')
    await writeFile(path, kept)
    const two = (await readFile(join(run, 'recipe-s18', 'metrics.jsonl'), 'utf8')).split('\n').slice(0, 2)
    await writeFile(
      progressPath,
      progressText('recipe-s18', {
        ...progress,
        steps: 2,
        trained: false,
        evaluated: 0,
        ...digests({ metrics: two.map((line) => `${line}\n`).join(''), rollouts: kept }),
      }),
    )
    await appendFile(path, text.slice(kept.length, kept.length + 50))
    const index = await openRun(run, { live: true })
    const before = index.columns().job.length
    expect(index.view().jobs.at(-1)).toMatchObject({ steps: { done: 2, of: 3 }, state: 'stopped' })
    expect(index.view().jobs.at(-1)?.trace.step).toEqual([1, 2])
    const version = index.version()
    await index.refresh()
    expect(index.version()).toBe(version)

    await writeFile(path, text)
    await writeFile(progressPath, whole)
    const epoch = index.epoch()
    await index.refresh()
    expect(index.version()).not.toBe(version)
    expect(index.epoch()).toBe(epoch)
    expect(index.columns().job).toHaveLength(before + 4 + 10)
    expect(index.columns().flags).toHaveLength(8 * index.columns().job.length)
    expect(index.view().jobs.at(-1)?.trace.step).toEqual([1, 2, 3])
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

  it('names the jobs at work while a process holds its folder', async () => {
    const run = await copy('held')
    await rm(join(run, 'results.json'))
    for (const job of ['recipe-s17', 'baseline-s18', 'recipe-s18'])
      await rm(join(run, job), { recursive: true })
    const index = await openRun(run, { live: true })
    expect(index.view().state).toBe('stopped')
    const states = () =>
      index
        .view()
        .jobs.slice(-4)
        .map(({ state }) => state)
    const opened = await openRunFolder(run, await readRecord(run))
    await opened.atWork('recipe-s17', true)
    await opened.atWork('recipe-s18', true)
    await index.refresh()
    expect(index.view()).toMatchObject({ state: 'running' })
    expect(states()).toEqual(['finished', 'running', 'waiting', 'running'])
    await opened.atWork('recipe-s17', false)
    await index.refresh()
    expect(states()).toEqual(['finished', 'waiting', 'waiting', 'running'])
    opened.release()
    await index.refresh()
    expect(index.view().state).toBe('stopped')
  })

  it('says why a job failed', async () => {
    const run = await copy('failed')
    await rm(join(run, 'results.json'))
    const [path, progress] = [join(run, 'recipe-s18'), join(run, 'recipe-s18', 'progress.json')]
    const { seal: _, ...whole } = JSON.parse(await readFile(progress, 'utf8')) as Progress & { seal: string }
    const kept = (await readFile(join(path, 'rollouts.jsonl'), 'utf8')).split('\n').slice(0, -2)
    const rollouts = kept.map((line) => `${line}\n`).join('')
    const metrics = await readFile(join(path, 'metrics.jsonl'), 'utf8')
    await writeFile(join(path, 'rollouts.jsonl'), rollouts)
    await writeFile(
      progress,
      progressText('recipe-s18', { ...whole, evaluated: 9, ...digests({ metrics, rollouts }) }),
    )
    await writeFile(join(path, 'error.txt'), 'The loss became NaN.\n    at step 3\n')
    const { jobs } = (await openRun(run)).view()
    expect(jobs.at(-1)).toMatchObject({ state: 'failed', why: 'The loss became NaN.' })
  })

  it.each([
    [
      'a line that is no JSON',
      'base-baseline-1/rollouts.jsonl',
      (text: string) => text.replace('{', '<'),
      /rollouts\.jsonl is damaged \(it is not|rollouts\.jsonl is damaged \(line 1/,
    ],
    [
      'a board of fewer posts',
      'base-baseline-1/rollouts.jsonl',
      (text: string) => text.replace(/"rounds":\[\[\{.*?\},/, '"rounds":[['),
      /line 1: its posts are not those of the protocol "own"/,
    ],
    [
      'a file cut short',
      'base-baseline-1/rollouts.jsonl',
      (text: string) => text.slice(0, 1000),
      /has \d+ bytes and progress\.json counts/,
    ],
    [
      'an experiment of another program',
      'experiment.json',
      () => '{"kind":"x"}',
      /experiment\.json was not written by message-board/,
    ],
    [
      'an experiment of an older version',
      'experiment.json',
      (text: string) => text.replace('"schemaVersion": 2', '"schemaVersion": 1'),
      /was made by an earlier version of message-board/,
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

  it('has what was measured of the influence of posts, as far as it was measured', async () => {
    const run = await copy('measured')
    const index = await openRun(run)
    const { job, step, problem, problems } = index.columns()
    const boards = job.flatMap((each, i) => (each === 5 && step[i] === 0 ? [i] : []))
    expect((await index.texts(boards)).some(({ influence }) => influence)).toBe(false)
    const { name } = index.view().jobs[5]
    await appendInfluence(
      join(run, name),
      0,
      boards.slice(0, 3).map((board) => ({
        problem: problems.id[problem[board]],
        effects: [{ note: [0, 1], post: [1, 2], change: board / 10 }],
      })),
    )
    expect((await index.texts(boards)).map(({ influence }) => influence?.[0].change)).toEqual([
      ...boards.slice(0, 3).map((board) => board / 10),
      ...Array(7).fill(undefined),
    ])
    const training = job.findIndex((each, i) => each === 5 && step[i] === 1)
    expect((await index.texts([training]))[0].influence).toBeUndefined()
  })

  it('lists a run that an older version wrote with the sentence that says so', async () => {
    const run = await copy('older')
    const text = await readFile(join(run, 'experiment.json'), 'utf8')
    await writeFile(join(run, 'experiment.json'), text.replace('"schemaVersion": 2', '"schemaVersion": 1'))
    expect((await listRun('older', run)).problem).toMatch(/was made by an earlier version of message-board/)
    const { problem, done, found } = await listRun('whole', whole)
    expect([problem, done, found?.contrasts.length]).toEqual([undefined, 1, 1])
  })

  it('follows no link out of its folder', async () => {
    const run = await copy('linked')
    await rm(join(run, 'base-baseline-1'), { recursive: true })
    await symlink(join(whole, 'base-baseline-1'), join(run, 'base-baseline-1'))
    await expect(openRun(run)).rejects.toThrow(/base-baseline-1 is a symbolic link/)
  })
})

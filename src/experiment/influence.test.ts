import { mkdtemp, readFile, rm, truncate } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeTinyModel } from '../selftest/tiny-model.ts'
import { measureInfluence } from './influence.ts'
import { runExperiment } from './run.ts'
import { tinyExperiment } from './testing/tiny-experiment.ts'

let folder: string
let model: string
let out: string
const experiment = () => tinyExperiment(model, { seeds: [17] })

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'influence-'))
  model = join(folder, 'model')
  await writeTinyModel(model, 1)
  out = join(folder, 'run')
  await runExperiment(experiment(), { out })
})
afterAll(() => rm(folder, { recursive: true }))

describe('influence', () => {
  it('is measured once, goes on where it was stopped, and is kept beside the job', async () => {
    const told: number[] = []
    const found = await measureInfluence(experiment(), {
      out,
      jobs: ['recipe-s17'],
      onProgress: ({ problems }) => told.push(problems),
    })
    expect(told).toEqual([4, 6])
    const [{ bySeats, byPosition, right, wrong }] = found.jobs
    expect(bySeats.map((row) => row.length)).toEqual([4, 4, 4, 4])
    expect(byPosition).toHaveLength(4)
    // 6 problems, 4 readers of 4 notes.
    expect(right.effects + wrong.effects).toBe(6 * 4 * 4)
    const path = join(out, 'recipe-s17/influence.jsonl')
    const whole = await readFile(path, 'utf8')
    expect(whole.trim().split('\n')).toHaveLength(6)
    // As a kill in the middle of a line leaves it.
    await truncate(path, whole.length - 10)
    told.length = 0
    const again = await measureInfluence(experiment(), {
      out,
      jobs: ['recipe-s17'],
      onProgress: ({ problems }) => told.push(problems),
    })
    expect(told).toEqual([6])
    expect(again.jobs[0].right.effects).toBe(right.effects)
    expect(again.jobs[0].right.change).toBeCloseTo(right.change!, 3)
  })

  it('of a board that shows each reader its own note alone is of that note alone', async () => {
    const { jobs } = await measureInfluence(experiment(), { out, jobs: ['baseline-s17'] })
    jobs[0].bySeats.forEach((row, from) => {
      row.forEach((change, to) => {
        expect(change === null).toBe(from !== to)
      })
    })
  })

  it('refuses another experiment, and a job that is not there', async () => {
    await expect(
      measureInfluence(tinyExperiment(model, { seeds: [17], evaluation: { baseRuns: 3 } }), { out }),
    ).rejects.toThrow(/another configuration/)
    await expect(measureInfluence(experiment(), { out, jobs: ['x-s1'] })).rejects.toThrow(
      /no finished job x-s1/,
    )
  })
})

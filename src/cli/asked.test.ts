import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { own, shared } from '../board/sights.ts'
import { defineExperiment } from '../experiment/config.ts'
import { findModels } from '../experiment/engine.ts'
import { recordOf } from '../experiment/record.ts'
import { openRunFolder, readRecord } from '../record/folder.ts'
import type { RunRecord } from '../record/schema.ts'
import { askedOf, experimentOfRun } from './asked.ts'
import type { RunFlags } from './flags.ts'
import { experimentText } from './init.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'asked-'))
})
afterAll(() => rm(folder, { recursive: true }))

const split = { train: [], holdout: [], dropped: 0 }

/** The folder of a run as `run` leaves it, without the work. */
async function began(
  name: string,
  what: string | undefined,
  flags: RunFlags,
  changes: Partial<RunRecord> = {},
) {
  const out = join(folder, name)
  const { experiment, command } = await askedOf(what, { ...flags, out })
  const record = await recordOf(experiment, await findModels(experiment), split)
  const opened = await openRunFolder(out, { ...record, command, ...changes })
  opened.release()
  return out
}

/** Goes on with it, and gives what the folder then says. */
async function goesOn(out: string, flags: RunFlags = {}) {
  const asked = await askedOf(out, flags)
  const record = await recordOf(asked.experiment, await findModels(asked.experiment), split)
  const opened = await openRunFolder(out, { ...record, command: asked.command })
  opened.release()
  return { ...asked, record: await readRecord(out) }
}

describe('jobs at a time', () => {
  const cores = availableParallelism()
  const jobsOf = async (flags: RunFlags) => {
    const { flags: asked, experiment } = await askedOf(undefined, flags)
    return [asked.jobs, experiment.engine]
  }

  it('are as many as there are cores for the built-in policy, and no more than there are', async () => {
    const few = Math.min(cores, 4)
    const threads = Math.max(1, Math.floor(cores / few))
    expect(await jobsOf({})).toEqual([few, expect.objectContaining({ threads })])
    expect((await jobsOf({ arm: ['recipe'], seeds: [1] }))[0]).toBe(1)
    expect((await jobsOf({ shard: { k: 1, n: 4 } }))[0]).toBe(1)
  })

  it('leave each the threads that it is told', async () => {
    const asked = await askedOf(undefined, { threads: cores })
    expect([asked.flags.jobs, asked.experiment.engine]).toEqual([
      1,
      expect.objectContaining({ threads: cores }),
    ])
    const [jobs, engine] = await jobsOf({ threads: 1, seeds: [1, 2, 3, 4, 5, 6, 7, 8] })
    expect([jobs, engine]).toEqual([Math.min(cores, 16), expect.objectContaining({ threads: 1 })])
  })

  it('are one for a model of your own, and as many as are asked for', async () => {
    for (const flags of [{ model: 'some/model' }, { device: 'auto' }])
      expect((await jobsOf(flags))[0]).toBeUndefined()
    expect((await jobsOf({ jobs: 3 }))[0]).toBe(3)
  })
})

describe('run FOLDER', () => {
  const flags = { steps: 7, seeds: [1, 2], set: ['arms.recipe.train.learningRate=5e-4'], threads: 3 }

  it('asks for the same experiment again', async () => {
    const out = await began('same', undefined, flags)
    const before = await readRecord(out)
    const { record, experiment, flags: asked } = await goesOn(out)
    expect(record.identity).toEqual(before.identity)
    expect(experiment.arms.recipe.train).toMatchObject({ steps: 7, learningRate: 5e-4 })
    expect(experiment.engine).toMatchObject({ threads: 3 })
    expect([record.seeds, asked.out]).toEqual([[1, 2], out])
  })

  it('lays what is given over that, however often, and keeps no more than it needs', async () => {
    const out = await began('more', undefined, { ...flags, set: [...flags.set, 'seeds=[1,2]'] })
    for (const seeds of [
      [1, 2, 3],
      [1, 2, 3, 4],
      [1, 2, 3, 4, 5],
    ]) {
      expect((await goesOn(out, { seeds })).record.seeds).toEqual(seeds)
    }
    const { record, experiment } = await goesOn(out)
    expect(record.seeds).toEqual([1, 2, 3, 4, 5])
    expect(experiment.arms.recipe.train.learningRate).toBe(5e-4)
    expect(record.command?.flags).toHaveLength(2)
  })

  it('takes arms, jobs at a time, shard, looks, baseline and contrasts from the record', async () => {
    const out = await began(
      'all',
      undefined,
      { jobs: 2 },
      {
        arms: ['recipe'],
        baseline: 'recipe',
        contrasts: [],
        shard: '2/4',
        looks: { first: [17, 18], maxSeeds: 6 },
        seeds: [17, 18, 19],
      },
    )
    const { experiment, flags: asked } = await askedOf(out, {})
    expect(asked).toMatchObject({
      arm: ['recipe'],
      jobs: 2,
      shard: { k: 2, n: 4 },
      untilResolved: true,
      maxSeeds: 6,
    })
    // The looks begin where they began.
    expect(experiment.seeds).toEqual([17, 18])
    expect([experiment.baseline, experiment.contrasts]).toEqual(['recipe', []])
    // In another folder it is a whole run.
    const other = await askedOf(out, { out: join(folder, 'new'), arm: ['baseline'] })
    expect(other.flags).toMatchObject({ out: join(folder, 'new'), arm: ['baseline'] })
    expect(other.flags.shard).toBeUndefined()
  })

  it('refuses a folder that does not say what made it, or whose file is gone', async () => {
    const out = await began('silent', undefined, {}, { command: undefined })
    await expect(askedOf(out, {})).rejects.toThrow(/does not say which command made it .* with --out/)
    const gone = await began('gone', undefined, {}, { command: { file: 'gone.ts', flags: [{}] } })
    await expect(askedOf(gone, {})).rejects.toThrow(/was made by gone\.ts, which is not here/)
    await expect(askedOf(folder, {})).rejects.toThrow(/is no run folder/)
    // What looks at a run later falls back on what is given.
    expect((await experimentOfRun(out, undefined, { steps: 3 })).arms.recipe.train.steps).toBe(3)
    expect((await experimentOfRun(await began('known', undefined, flags), undefined, {})).seeds).toEqual([
      1, 2,
    ])
  })
})

it('init writes the built-in experiment', async () => {
  const path = join(folder, 'mine.ts')
  const index = fileURLToPath(new URL('../index.ts', import.meta.url))
  await writeFile(path, experimentText(path).replace("'message-board'", JSON.stringify(index)))
  const { default: mine } = await import(path)
  const builtIn = defineExperiment({ arms: { baseline: { reads: own }, recipe: { reads: shared } } })
  const models = await findModels(builtIn)
  expect((await recordOf(mine, models, split)).identity).toEqual(
    (await recordOf(builtIn, models, split)).identity,
  )
})

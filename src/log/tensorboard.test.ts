import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openJobLog } from '../record/job-log.ts'
import type { MetricsLine } from '../record/schema.ts'
import { fileHeader, type ScalarEvent, scalarRecord, stepScalars, tensorboardLog } from './tensorboard.ts'

interface Golden {
  start: number
  events: ScalarEvent[]
  hex: string
}

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tensorboard-'))
})
afterAll(() => rm(folder, { recursive: true }))

describe('an event file', () => {
  it("is byte for byte what TensorBoard's own writer writes", async () => {
    const golden = JSON.parse(
      await readFile(new URL('fixtures/tensorboard.json', import.meta.url), 'utf8'),
    ) as Golden
    const bytes = Buffer.concat([fileHeader(golden.start), ...golden.events.map(scalarRecord)])
    expect(bytes.toString('hex')).toBe(golden.hex)
  })
})

const metrics = (step: number): MetricsLine => ({
  step,
  reward: step / 10,
  informative: 1,
  noteAcc: 0.5,
  loss: 0,
  gradNorm: 1,
  learningRate: 1e-3,
  clippedShare: 0,
  logprobDrift: 0,
  replyChars: 100,
  repliesCut: 0,
  sampledTokens: 10,
  scoredTokens: 20,
  trainedTokens: 5,
  effective: null,
  rounds: [
    { name: 'note', right: 0.25, chars: 90, tokens: 20, cut: 0.1, credit: null },
    {
      name: 'reply',
      right: step / 10,
      chars: 100,
      tokens: 25,
      cut: 0,
      credit: { mean: 0.5, spread: 0.25, informative: 1, withOwn: null, unpaid: 0 },
    },
  ],
  seconds: { rounds: [0.25, 0.25], credit: 0, forwardBackward: 0.5, optimStep: 0 },
})

describe('a step', () => {
  it('has a scalar for each value of each round, and none for what it has no value of', () => {
    const scalars = stepScalars(metrics(3))
    expect(scalars).toMatchObject({
      'train/reward': 0.3,
      'tokens/scored': 20,
      'round_1/right': 0.25,
      'round_2/right': 0.3,
      'round_2/credit_spread': 0.25,
      'seconds/round_2': 0.25,
    })
    for (const none of ['train/credit_effective', 'round_1/credit_mean', 'round_2/credit_with_own']) {
      expect(scalars).not.toHaveProperty([none])
    }
    expect(Object.values(scalars).every(Number.isFinite)).toBe(true)
  })
})

/** Keeps the first `last` steps, as a job does before it tells of the step. */
async function written(run: string, last: number): Promise<void> {
  const log = await openJobLog(join(run, 'recipe-s17'), { trains: true })
  for (let step = log.progress().steps + 1; step <= last; step++) {
    await log.step({ metrics: metrics(step), rollouts: [], seconds: 1, trained: false }, async () => {})
  }
}

async function only(run: string): Promise<{ name: string; bytes: Buffer }> {
  const place = join(run, 'tensorboard', 'recipe-s17')
  const names = await readdir(place)
  expect(names).toHaveLength(1)
  return { name: names[0], bytes: await readFile(join(place, names[0])) }
}

describe('a log', () => {
  it('has every step once, though the run was killed before it could log one', async () => {
    const run = join(folder, 'killed')
    const first = tensorboardLog(run)
    await written(run, 1)
    await first('recipe-s17', metrics(1))
    await written(run, 2)
    await first('recipe-s17', metrics(2))
    // Step 3 was kept, and the process was killed before its event.
    await written(run, 4)
    await tensorboardLog(run)('recipe-s17', metrics(4))
    const found = await only(run)

    const start = Number(/tfevents\.(\d+)\./.exec(found.name)?.[1])
    const whole = join(folder, 'whole')
    await mkdir(join(whole, 'tensorboard', 'recipe-s17'), { recursive: true })
    await writeFile(join(whole, 'tensorboard', 'recipe-s17', found.name), '')
    const other = tensorboardLog(whole)
    for (let step = 1; step <= 4; step++) {
      await written(whole, step)
      await other('recipe-s17', metrics(step))
    }
    expect((await only(whole)).bytes.equals(found.bytes)).toBe(true)
    expect(found.bytes.subarray(0, fileHeader(start).length).equals(fileHeader(start))).toBe(true)
  })

  it('goes through no link', async () => {
    const [run, outside] = [join(folder, 'received'), join(folder, 'outside')]
    await mkdir(outside)
    await written(run, 1)
    await symlink(outside, join(run, 'tensorboard'))
    await expect(tensorboardLog(run)('recipe-s17', metrics(1))).rejects.toThrow(
      /tensorboard is a symbolic link/,
    )
    expect(await readdir(outside)).toEqual([])
  })
})

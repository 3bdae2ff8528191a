import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openRunFolder, readRecord, recordText } from '../record/folder.ts'
import { resultsSchema } from '../record/results.ts'
import { type SyntheticRun, twoArms, writeSyntheticRun } from '../view/testing/synthetic-run.ts'
import { compareArms } from './compare.ts'

const made = { holdout: 12, train: 12, steps: 1, problemsPerStep: 3 }
let folder: string
const at = (name: string) => join(folder, name)
/** A folder, or FOLDER:ARM. */
const chosen = (text: string) => {
  const [name, arm] = text.split(':')
  return { folder: at(name), arm }
}
const compare = (one: string, other: string) => compareArms(chosen(one), chosen(other))

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'compare-'))
  const runs: Record<string, SyntheticRun> = {
    one: made,
    other: { ...made, seeds: [21, 22, 23], learningRate: 1e-3 },
    longer: { ...made, seeds: [17, 18, 19] },
    larger: { ...made, holdout: 13 },
    alone: { ...made, seeds: [31], arms: { only: twoArms.baseline } },
    failed: { ...made, failed: 'recipe-s18' },
    stopped: { ...made, stopAfter: 3 },
  }
  for (const [name, run] of Object.entries(runs)) await writeSyntheticRun(at(name), run)
})
afterAll(() => rm(folder, { recursive: true }))

describe('compareArms', () => {
  it('compares each arm that both runs have, as one family', async () => {
    const { arms, contrasts, differing, problems } = await compare('other', 'one')
    const pair = (arm: string) => [`${at('other')}:${arm}`, `${at('one')}:${arm}`]
    expect(contrasts.map(({ arm, against }) => [arm, against])).toEqual([pair('baseline'), pair('recipe')])
    const level = (name: string) => arms.find((arm) => arm.name === name)!.passAt1
    const [arm, against] = pair('recipe')
    expect(contrasts[1].delta).toBeCloseTo(level(arm) - level(against), 12)
    expect(differing[0]).toEqual([{ path: 'train.learningRate', before: '0.002', now: '0.001' }])
    expect(problems).toBe(12)
    // The other way round it is the other way round.
    const { contrasts: back } = await compare('one', 'other')
    expect(back[1].delta).toBeCloseTo(-contrasts[1].delta, 12)
    expect(back[1].p).toBeCloseTo(contrasts[1].p, 9)
    // One pair alone gives away nothing to the other.
    const [single] = (await compare('other:recipe', 'one')).contrasts
    const width = ([low, high]: readonly number[]) => high - low
    expect(width(single.ci95)).toBeLessThan(width(contrasts[1].ci95))
  })

  it('finds what a run found of its own two arms', async () => {
    const results = resultsSchema.parse(JSON.parse(await readFile(at('one/results.json'), 'utf8')))
    const { contrasts } = await compare('one:recipe', 'one:baseline')
    expect(contrasts).toEqual(results.contrasts)
  })

  it('takes any two arms, and the only one of a run by its folder', async () => {
    const { contrasts, differing } = await compare('one:recipe', 'alone')
    expect(contrasts[0].against).toBe(`${at('alone')}:only`)
    expect(differing[0]).toContainEqual({ path: 'protocol.name', before: '"own"', now: '"shared"' })
    expect(contrasts[0].why).toContain('With one training seed in')
  })

  it('says that seeds were added until a verdict was resolved', async () => {
    await writeSyntheticRun(at('looked'), { ...made, seeds: [41, 42] })
    const record = await readRecord(at('looked'))
    const { release } = await openRunFolder(at('looked'), {
      ...record,
      looks: { first: [41, 42], maxSeeds: 4 },
    })
    release()
    const [{ warnings }] = (await compare('looked:recipe', 'one')).contrasts
    expect(warnings).toContainEqual(expect.stringContaining('as many seeds as it took to resolve a verdict'))
  })

  it.each([
    [
      'one',
      'larger',
      /cannot be compared: the held-out problems are others \(12 and 13, \d+ of them the same\)/,
    ],
    ['one', 'nowhere', /is no run folder/],
    ['one', 'one', /Which arm of .*one\? \(.*one has baseline, recipe\.\) Give it as FOLDER:ARM/],
    ['one:recipe', 'one', /Which arm of/],
    ['one:recipe', 'one:recipe', /one:recipe is one arm/],
    ['one:nobody', 'other', /one has no arm "nobody": its arms are baseline, recipe\./],
    ['alone', 'other', /Which arm of each\?/],
    ['one', 'longer', /they hold the same trainings \(baseline-s17, baseline-s18, recipe-s17, recipe-s18\)/],
    ['failed:recipe', 'other', /has not finished recipe-s18: finish it first with message-board run/],
    ['stopped', 'other', /has no results\.json/],
  ])('refuses %s beside %s, saying why', async (one, other, why) => {
    await expect(compare(one, other)).rejects.toThrow(why)
  })

  it('refuses runs whose task, sampling or grader are others, naming each', async () => {
    await writeSyntheticRun(at('graded'), { ...made, seeds: [51] })
    const record = await readRecord(at('graded'))
    const { shared } = record.identity
    const changed = {
      ...record,
      identity: {
        ...record.identity,
        shared: {
          ...shared,
          grader: { name: 'math', version: '2' },
          evaluation: { ...shared.evaluation, sampling: { temperature: 0.5, topP: 0.95 } },
        },
      },
    }
    await writeFile(at('graded/experiment.json'), recordText(changed))
    await expect(compare('graded', 'one')).rejects.toThrow(
      /graded and .*one cannot be compared: evaluation\.sampling\.temperature is 0\.5 in the first and 0\.9 in the second; grader is "math 2" in the first and "math 1" in the second: run one of them again/,
    )
  })
})

import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Grader } from '../grade/types.ts'
import { lockFolder } from '../record/lock.ts'
import { type Results, withoutTimings } from '../record/results.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'
import { powerAfter } from './power.ts'
import { regrade } from './regrade.ts'
import { runExperiment } from './run.ts'
import { tinyExperiment } from './testing/tiny-experiment.ts'

let folder: string
let model: string
/** A whole run, never changed: each test works on a copy. */
let whole: string
let original: Results

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'regrade-'))
  model = join(folder, 'model')
  await writeTinyModel(model, 1)
  whole = join(folder, 'whole')
  original = await runExperiment(tinyExperiment(model), { out: whole })
})
afterAll(() => rm(folder, { recursive: true }))

let copies = 0
async function copy(): Promise<string> {
  const path = join(folder, `copy-${copies++}`)
  await cp(whole, path, { recursive: true })
  return path
}

/** The run's own rule and its opposite, as later versions of its verifier. */
const { grader } = tinyExperiment('any')
const renamed: Grader = { ...grader, version: '2' }
const flipped: Grader = {
  name: grader.name,
  version: '3',
  grade: (reply, gold) => ({ answer: 'x', correct: !grader.grade(reply, gold).correct }),
}

const text = (run: string, name: string) => readFile(join(run, name), 'utf8')
const lines = async (run: string, job: string) =>
  (await text(run, `${job}/rollouts.jsonl`))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

/** Every file of a folder with its text. */
async function snapshot(run: string): Promise<Record<string, string>> {
  const found = await readdir(run, { recursive: true, withFileTypes: true })
  const files = found.filter((entry) => entry.isFile() && !entry.name.startsWith('.lock'))
  const paths = files.map(({ parentPath, name }) => join(parentPath, name))
  return Object.fromEntries(
    await Promise.all(
      paths.map(async (path) => [path.slice(run.length), await readFile(path, 'base64')] as const),
    ),
  )
}

describe('regrade', () => {
  it('writes nothing where nothing changed', async () => {
    const before = await snapshot(whole)
    const found = await regrade(whole, grader)
    const posts = 7 * 6 * 8
    expect(found).toMatchObject({
      from: 'even length 1',
      to: 'even length 1',
      evaluation: { changed: 0, of: posts },
      training: { changed: 0, of: 4 * 3 * 2 * 8 },
    })
    expect(found.results).toEqual(original)
    expect(await snapshot(whole)).toEqual(before)
  })

  it('grades the evaluations again, and leaves what training was paid', async () => {
    const run = await copy()
    const found = await regrade(run, flipped)
    expect(found.evaluation.changed).toBe(found.evaluation.of)
    expect(found.training.changed).toBe(found.training.of)
    const { results } = found
    expect(JSON.parse(await text(run, 'results.json'))).toEqual({ ...results, seal: expect.any(String) })
    expect(results.arms.recipe!.passAt1).toBeCloseTo(1 - original.arms.recipe!.passAt1, 12)
    expect(results.bases[0].board.noteAcc).toBeCloseTo(1 - original.bases[0].board.noteAcc!, 12)
    expect(results.contrasts[0].delta).toBeCloseTo(-original.contrasts[0].delta, 12)
    expect(results.versions.grader).toBe('even length 3')
    expect(results.config.shared).toMatchObject({ grader: { name: 'even length', version: '3' } })
    expect(results.regrades).toEqual([
      { from: 'even length 1', to: 'even length 3', evaluation: found.evaluation, training: found.training },
    ])
    expect(results.trainTrace).toEqual(original.trainTrace)
    expect(results.checks.hackScan).toEqual(original.checks.hackScan)
    const [was, is] = [await lines(whole, 'recipe-s17'), await lines(run, 'recipe-s17')]
    expect(is.slice(0, 6)).toEqual(was.slice(0, 6))
    const [before] = was.at(-1).rounds[1]
    expect(is.at(-1).rounds[1][0]).toEqual({ ...before, answer: 'x', correct: !before.correct })
    expect(await text(run, 'table.md')).toContain('graded again')
    expect(await text(run, 'report.html')).not.toBe(await text(whole, 'report.html'))

    // Its policies learned from other rewards, so the new verifier's run is another experiment.
    const again = runExperiment(tinyExperiment(model, { grader: flipped }), { out: run })
    await expect(again).rejects.toThrow(/grader\.version: "1" before, "3" now/)
    // The old one is as before, and back.
    expect((await regrade(run, grader)).results.contrasts).toEqual(original.contrasts)
  })

  it('lets run go on where training would have been paid the same', async () => {
    const run = await copy()
    const { results, continues } = await regrade(run, renamed)
    expect(continues).toBe(true)
    expect(withoutTimings(results)).toEqual({
      ...(withoutTimings(original) as object),
      config: results.config,
      versions: { ...original.versions, grader: 'even length 2' },
      regrades: results.regrades,
    })
    const further = await runExperiment(tinyExperiment(model, { grader: renamed, seeds: [17, 18, 19] }), {
      out: run,
    })
    expect(further.arms.recipe!.perSeed.slice(0, 2)).toEqual(original.arms.recipe!.perSeed)
    expect(further.regrades).toEqual(results.regrades)
  })

  it('takes the looks again where seeds were added until resolved', async () => {
    const run = join(folder, 'looked')
    const before = await runExperiment(tinyExperiment(model), { out: run, maxSeeds: 3 })
    const { results } = await regrade(run, flipped)
    const deltas = ({ sequential }: Results) => sequential!.taken.map(({ contrasts: [{ delta }] }) => delta)
    expect(deltas(results)).toEqual(deltas(before).map((delta) => expect.closeTo(-delta, 12)))
  })

  it('refuses a running folder, one without results, and a verifier it does not have', async () => {
    const run = await copy()
    const release = await lockFolder(run)
    await expect(regrade(run, flipped)).rejects.toThrow(/is writing this folder/)
    release()
    await expect(regrade(run)).rejects.toThrow(/name the experiment file/)
    await rm(join(run, 'results.json'))
    await expect(regrade(run, flipped)).rejects.toThrow(/no results\.json/)
    await expect(regrade(model)).rejects.toThrow(/is no run folder/)
    expect(await readdir(model)).not.toContain('.lock-1')
  })
})

describe('files that change together', () => {
  it('are not read while they wait', async () => {
    const run = await copy()
    await mkdir(join(run, '.staged'))
    await writeFile(join(run, '.staged/list.json'), JSON.stringify({ files: [], removed: [] }))
    await expect(powerAfter(run)).rejects.toThrow(/cut short: finish it first/)
    await regrade(run, grader)
    expect((await powerAfter(run)).seeds).toBe(2)
  })
})

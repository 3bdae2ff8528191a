/** The command line as a person uses it: going on with a run by its folder, comparing runs, a first file, help, colour. */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readRecord } from '../record/folder.ts'
import type { Results } from '../record/results.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'
import { twoArms, writeSyntheticRun } from '../view/testing/synthetic-run.ts'

const main = fileURLToPath(new URL('./main.ts', import.meta.url))
const tiny = fileURLToPath(new URL('../experiment/testing/tiny-experiment.ts', import.meta.url))

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cli-commands-'))
  const model = join(folder, 'model')
  await writeTinyModel(model, 1)
  await writeFile(
    join(folder, 'tiny.ts'),
    `import { tinyExperiment } from ${JSON.stringify(tiny)}\nexport default tinyExperiment(${JSON.stringify(model)})\n`,
  )
})
afterAll(() => rm(folder, { recursive: true }))

interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

/** Runs the real command line; `until` sees what it says on standard error and may end it by Ctrl-C. */
function cli(
  args: readonly string[],
  { env = {}, until }: { env?: NodeJS.ProcessEnv; until?: (said: string, stop: () => void) => void } = {},
): Promise<Ended> {
  const { NO_COLOR: _, FORCE_COLOR: __, ...inherited } = process.env
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), main, ...args], {
    cwd: folder,
    env: { ...inherited, ...env },
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (data) => {
    stdout += data
  })
  child.stderr.on('data', (data) => {
    stderr += data
    until?.(stderr, () => child.kill('SIGINT'))
  })
  return new Promise((resolve) => {
    child.on('close', (code) => resolve({ code, stdout, stderr }))
  })
}

async function refused(args: readonly string[], why: RegExp) {
  const { code, stdout, stderr } = await cli(args)
  expect(stderr).toMatch(why)
  expect(stderr.trim().split('\n')).toHaveLength(1)
  expect([code, stdout]).toEqual([2, ''])
}

const resultsOf = ({ stdout }: Ended): Results => JSON.parse(stdout)
const jobsKept = ({ stderr }: Ended) => stderr.match(/was finished before/g)?.length ?? 0

describe('run FOLDER', () => {
  it('goes on with a run as it was asked for, and adds to it', async () => {
    const asked = ['run', 'tiny.ts', '--set', 'train.learningRate=5e-4', '--steps', '2', '--seeds', '17']
    const first = resultsOf(await cli([...asked, '--threads', '1', '--out', 'asked', '--json']))
    // Nothing is repeated, and nothing is run again.
    const again = await cli(['run', 'asked'])
    expect([again.code, jobsKept(again)]).toEqual([0, 5])
    const { identity, command } = await readRecord(join(folder, 'asked'))
    expect(command?.file).toBe('tiny.ts')
    expect(identity.arms.recipe.train).toMatchObject({ steps: 2, learningRate: 5e-4 })

    const more = await cli(['run', 'asked', '--seeds', '17,18'])
    expect(jobsKept(more)).toBe(5)
    expect(more.stderr).toContain('recipe-s18 started')
    const results = resultsOf(await cli(['run', 'asked', '--json']))
    expect(results.seeds).toEqual([17, 18])
    expect(results.arms.recipe?.perSeed[0]).toBe(first.arms.recipe?.perSeed[0])
    // What a later command says beats what the first one set.
    expect((await readRecord(join(folder, 'asked'))).seeds).toEqual([17, 18])
  })

  it('goes on with the arms, jobs at a time, shard and looks that the run had', async () => {
    await cli(['run', 'tiny.ts', '--out', 'part', '--arm', 'recipe', '--seeds', '17', '--jobs', '2'])
    const part = await cli(['run', 'part', '--json'])
    expect(Object.keys(resultsOf(part).arms)).toEqual(['recipe'])
    const { command, identity } = await readRecord(join(folder, 'part'))
    expect(command?.flags.at(-1)).toMatchObject({ jobs: 2, threads: identity.shared.engine.threads })

    await cli(['run', 'tiny.ts', '--out', 'shard', '--shard', '2/4'])
    const shard = await cli(['run', 'shard'])
    expect(shard.stderr).toContain('This part is in shard')
    expect(jobsKept(shard)).toBe(2)

    const looks = ['--until-resolved', '--max-seeds', '3']
    await cli(['run', 'tiny.ts', '--out', 'looks', ...looks])
    const { seeds } = await readRecord(join(folder, 'looks'))
    const known = await cli(['run', 'looks', '--json'])
    expect(known.code).toBe(0)
    expect(resultsOf(known).sequential?.maxSeeds).toBe(3)
    expect(resultsOf(known).seeds).toEqual(seeds)
  })

  it('begins a run like it in another folder, with a setting changed', async () => {
    await cli(['run', 'tiny.ts', '--out', 'model-run', '--seeds', '17', '--steps', '1'])
    await refused(['run', 'model-run', '--set', 'train.steps=2'], /train\.steps: 1 before, 2 now/)
    const like = await cli(['run', 'model-run', '--set', 'train.steps=2', '--out', 'like', '--json'])
    expect([resultsOf(like).arms.recipe?.steps, resultsOf(like).seeds]).toEqual([2, [17]])
    const { seeds, identity } = await readRecord(join(folder, 'model-run'))
    expect([seeds, identity.arms.recipe.train.steps]).toEqual([[17], 1])
  })

  it('refuses a folder that does not say what made it, and one whose file is gone', async () => {
    await writeSyntheticRun(join(folder, 'by-a-program'), {
      holdout: 6,
      train: 12,
      steps: 1,
      problemsPerStep: 3,
    })
    await refused(['run', 'by-a-program'], /does not say which command made it .* --out by-a-program/)
    await refused(['run', 'model'], /is no run folder/)
    await writeFile(join(folder, 'gone.ts'), await readFile(join(folder, 'tiny.ts')))
    await cli(['run', 'gone.ts', '--out', 'left', '--seeds', '17', '--steps', '1'])
    await rm(join(folder, 'gone.ts'))
    await refused(['run', 'left'], /left was made by gone\.ts, which is not here/)
  })

  it('measures influence by the same record', async () => {
    await cli(['run', 'tiny.ts', '--out', 'measured', '--seeds', '17', '--steps', '1', '--threads', '1'])
    const { code, stdout } = await cli(['influence', 'measured', '--job', 'recipe-s17', '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout).jobs.map(({ job }: { job: string }) => job)).toEqual(['recipe-s17'])
  })
})

describe('run --ui', () => {
  it('stays until Ctrl-C, and ends on the finished run', async () => {
    let listed: Promise<string> | undefined
    const args = ['run', 'tiny.ts', '--out', 'shown', '--seeds', '17', '--steps', '1', '--ui']
    const { code, stdout } = await cli(args, {
      until(said, stop) {
        const url = /The finished run stays at (http:\S+): Ctrl-C ends it/.exec(said)?.[1]
        if (!url || listed) return
        listed = fetch(new URL('api/runs', url))
          .then((response) => response.text())
          .finally(stop)
      },
    })
    expect(JSON.parse((await listed) ?? '[]')).toMatchObject([{ name: 'shown', state: 'finished', done: 1 }])
    expect(stdout).toContain('Whether training helped is unresolved')
    expect(code).toBe(0)
  })
})

describe('compare', () => {
  const made = { holdout: 12, train: 12, steps: 1, problemsPerStep: 3 }
  beforeAll(async () => {
    await writeSyntheticRun(join(folder, 'one'), made)
    await writeSyntheticRun(join(folder, 'other'), { ...made, seeds: [21, 22, 23], learningRate: 1e-3 })
    await writeSyntheticRun(join(folder, 'larger'), { ...made, holdout: 13 })
    const { baseline } = twoArms
    await writeSyntheticRun(join(folder, 'alone'), { ...made, seeds: [31], arms: { only: baseline } })
  })

  it('gives difference, interval and verdict of each arm that both runs have', async () => {
    const found = JSON.parse((await cli(['compare', 'other', 'one', '--json'])).stdout)
    expect(
      found.contrasts.map(({ arm, against }: { arm: string; against: string }) => [arm, against]),
    ).toEqual([
      ['other:baseline', 'one:baseline'],
      ['other:recipe', 'one:recipe'],
    ])
    const level = (name: string) => found.arms.find((arm: { name: string }) => arm.name === name).passAt1
    expect(found.contrasts[1].delta).toBeCloseTo(level('other:recipe') - level('one:recipe'), 12)
    expect(found.differing[0]).toEqual([{ path: 'train.learningRate', before: '0.002', now: '0.001' }])

    const { stdout, code } = await cli(['compare', 'other', 'one', '--explain'])
    expect(code).toBe(0)
    expect(stdout).toMatch(
      /^(\d of 2|Both|Whether any) changes?.*: other:baseline - one:baseline [+-]0\.\d{3} \[/,
    )
    expect(stdout).toMatch(/^other:recipe +0\.\d{3} \[0\.\d{3}, \d\.\d{3}\] +21, 22, 23$/m)
    expect(stdout).toMatch(/^set otherwise +train\.learningRate 0\.001, not 0\.002$/m)
    expect(stdout).toMatch(/^could have seen +the smallest true difference/m)
  })

  it('gives the same as a run of its own two arms', async () => {
    const results: Results = JSON.parse(await readFile(join(folder, 'one/results.json'), 'utf8'))
    const { contrasts } = JSON.parse((await cli(['compare', 'one:recipe', 'one:baseline', '--json'])).stdout)
    const [{ delta, ci95, verdict, why, smallestEffect }] = results.contrasts
    expect(contrasts).toMatchObject([{ arm: 'recipe', delta, ci95, verdict, why, smallestEffect }])
  })

  it('takes any two arms by name, and the only one of a run by its folder', async () => {
    const text = await cli(['compare', 'one:recipe', 'alone'])
    expect(text.stdout).toMatch(/one:recipe - alone:only [+-]0\.\d{3} \[/)
    expect(text.stdout).toMatch(/^set otherwise +protocol\.name "shared", not "own"/m)
  })

  it.each([
    [['one', 'larger'], /one and larger cannot be compared: the held-out problems are others \(12 and 13, /],
    [['one', 'asked-other'], /no run folder/],
    [['one', 'one'], /Which arm of one\? \(one has baseline, recipe\.\) Give it as FOLDER:ARM/],
    [['one:recipe', 'one:recipe'], /one:recipe is one arm/],
    [['one:nobody', 'other'], /one has no arm "nobody": its arms are baseline, recipe\./],
    [['alone', 'other'], /Which arm of each\?/],
  ])('%j is refused, saying why', (args, why) => refused(['compare', ...args], why))

  it('refuses what was graded otherwise, and one training under two names', async () => {
    await cli(['run', 'tiny.ts', '--out', 'counted', '--seeds', '17', '--steps', '1'])
    await refused(
      ['compare', 'one', 'counted'],
      /task is "word-problems" in the first and "counting" in the second; .*grader is "math 1" in the first and "even length 1"/,
    )
    await writeSyntheticRun(join(folder, 'copy'), made)
    await refused(['compare', 'one', 'copy'], /they hold the same trainings \(baseline-s17, baseline-s18, /)
  })

  it('waits for all seeds of an arm', async () => {
    await writeSyntheticRun(join(folder, 'failed'), { ...made, failed: 'recipe-s18' })
    await refused(
      ['compare', 'failed:recipe', 'other'],
      /failed has not finished recipe-s18: .* message-board run failed/,
    )
  })
})

describe('init', () => {
  it('writes a file that runs as it is, and never over another', async () => {
    const { code, stderr } = await cli(['init', 'mine.ts'])
    expect([code, stderr]).toEqual([0, expect.stringContaining('npx message-board run mine.ts')])
    const small = ['--steps', '1', '--holdout', '2', '--seeds', '17', '--set', 'train.problemsPerStep=2']
    const run = await cli(['run', 'mine.ts', ...small, '--set', 'evaluation.baseRuns=1', '--json'])
    expect(run.stderr).toBe('')
    expect(Object.keys(resultsOf(run).arms)).toEqual(['baseline', 'recipe'])
    // As a file it is the built-in experiment: the same but for what was cut.
    const built = await cli(['run', ...small, '--set', 'evaluation.baseRuns=1', '--json'])
    expect(resultsOf(built).config).toEqual(resultsOf(run).config)
    await refused(['init', 'mine.ts'], /mine\.ts is there already/)
    await refused(['init', 'mine.txt'], /no name of an experiment file/)
    await refused(['init', 'no/such/mine.ts'], /cannot be written \(ENOENT\)/)
  })
})

describe('help', () => {
  it('gives the version', async () => {
    const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'))
    for (const flag of ['--version', '-V']) {
      expect(await cli([flag])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
    }
  })

  it('says defaults and examples, in 80 columns', async () => {
    const { stdout, code } = await cli(['run', '--help'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/--steps <n> +training steps \(default: 40\)/)
    expect(stdout).toMatch(/^Examples:\n {2}# .*\n {2}message-board run\n/m)
    const root = (await cli(['--help'])).stdout
    for (const text of [stdout, root]) {
      expect(Math.max(...text.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(80)
    }
    for (const command of ['init', 'compare', 'completion'])
      expect(root).toMatch(new RegExp(`^ {2}${command}\\b`, 'm'))
  })
})

describe('colour', () => {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this is what is looked for
  const escape = /\u001b\[/
  it('is left out where nobody looks, and shown where it is asked for', async () => {
    await writeSyntheticRun(join(folder, 'coloured'), { holdout: 6, train: 12, steps: 1, problemsPerStep: 3 })
    const told = (env: NodeJS.ProcessEnv) => cli(['compare', 'coloured:recipe', 'coloured:baseline'], { env })
    const plain = (await told({})).stdout
    expect(plain).not.toMatch(escape)
    expect((await told({ NO_COLOR: '1' })).stdout).toBe(plain)
    expect((await told({ FORCE_COLOR: '0' })).stdout).toBe(plain)
    const coloured = (await told({ FORCE_COLOR: '1' })).stdout
    expect(coloured).toMatch(escape)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: this is what is taken out
    expect(coloured.replace(/\u001b\[\d+m/g, '')).toBe(plain)
    expect((await cli(['--help'], { env: { FORCE_COLOR: '1' } })).stdout).toMatch(escape)
    expect((await cli(['--help'])).stdout).not.toMatch(escape)
  })
})

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
import { writeSyntheticRun } from '../view/testing/synthetic-run.ts'

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
  it('says the difference, what was set otherwise and what the words mean, or why it cannot', async () => {
    const made = { holdout: 6, train: 12, steps: 1, problemsPerStep: 3 }
    await writeSyntheticRun(join(folder, 'one'), made)
    await writeSyntheticRun(join(folder, 'other'), { ...made, seeds: [21, 22, 23], learningRate: 1e-3 })
    const { stdout, code } = await cli(['compare', 'other', 'one', '--explain'])
    expect(code).toBe(0)
    expect(stdout).toMatch(
      /^(\d of 2|Both|Whether any) changes?.*: other:baseline - one:baseline [+-]0\.\d{3} \[/,
    )
    expect(stdout).toMatch(/^other:recipe +0\.\d{3} \[0\.\d{3}, \d\.\d{3}\] +21, 22, 23$/m)
    expect(stdout).toMatch(/^set otherwise +train\.learningRate 0\.001, not 0\.002$/m)
    expect(stdout).toMatch(/^could have seen +the smallest true difference/m)
    await refused(
      ['compare', 'one', 'one'],
      /Which arm of one\? \(one has baseline, recipe\.\) Give it as FOLDER:ARM/,
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
    await refused(['init', 'mine.ts'], /mine\.ts is there already/)
  })
})

describe('help', () => {
  it('gives the version', async () => {
    const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'))
    expect(await cli(['--version'])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
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
  const escapes = /\u001b\[/
  it('is left out where nobody looks, and shown where it is asked for', async () => {
    const told = async (env: NodeJS.ProcessEnv) =>
      (await cli(['compare', 'one:recipe', 'one:baseline'], { env })).stdout
    const [plain, without, coloured] = await Promise.all(
      [{}, { FORCE_COLOR: '0' }, { FORCE_COLOR: '1' }].map(told),
    )
    expect(plain).not.toMatch(escapes)
    expect(without).toBe(plain)
    expect(coloured).toMatch(escapes)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: this is what is taken out
    expect(coloured.replace(/\u001b\[\d+m/g, '')).toBe(plain)
    expect((await cli(['--help'], { env: { FORCE_COLOR: '1' } })).stdout).toMatch(escapes)
  })
})

import { spawn } from 'node:child_process'
import { mkdtemp, open, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { random } from '../random.ts'
import { type Results, resultsSchema, withoutTimings } from '../record/results.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'

const main = fileURLToPath(new URL('./main.ts', import.meta.url))
const tiny = fileURLToPath(new URL('../experiment/testing/tiny-experiment.ts', import.meta.url))

let folder: string
let model: string
let experiment: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cli-'))
  model = join(folder, 'model')
  await writeTinyModel(model, 1)
  experiment = join(folder, 'tiny.ts')
  await writeFile(
    experiment,
    `import { tinyExperiment } from ${JSON.stringify(tiny)}\nexport default tinyExperiment(${JSON.stringify(model)})\n`,
  )
})
afterAll(() => rm(folder, { recursive: true }))

interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

/** Starts the real command line in the temporary folder. */
function start(...args: string[]) {
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), main, ...args], {
    cwd: folder,
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (data) => {
    stdout += data
  })
  child.stderr.on('data', (data) => {
    stderr += data
  })
  const ended = new Promise<Ended>((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }))
  })
  return { child, ended, said: () => stderr }
}
const cli = (...args: string[]) => start(...args).ended

/** One clear sentence and exit code 2; no stack, and nothing on the standard output. */
function expectRefused({ code, stdout, stderr }: Ended, why: RegExp) {
  expect(stderr).toMatch(why)
  expect(stderr).not.toMatch(/\n\s+at /)
  expect(stderr.trim().split('\n').length).toBeLessThanOrEqual(3)
  expect(stdout).toBe('')
  expect(code).toBe(2)
}

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  )

describe('run', () => {
  it('prints a table, and with --json the results and nothing else', async () => {
    const table = await cli('run', experiment, '--out', 'table')
    expect(table.code).toBe(0)
    expect(table.stdout).toMatch(/^recipe, all +0\.\d{3} +\[0\.\d{3}, \d\.\d{3}\]/m)
    expect(table.stdout).toMatch(/^recipe - baseline +[+-]0\.\d{3} .*unresolved|moved|flat/m)
    expect(table.stderr).toContain('[4/7] baseline-s17')
    expect(table.stderr).not.toContain('\r')

    const json = await cli('run', experiment, '--out', 'table', '--json')
    expect(json.code).toBe(0)
    expect(json.stderr).toBe('')
    resultsSchema.parse(JSON.parse(json.stdout))
    expect(await readFile(join(folder, 'table/table.md'), 'utf8')).toContain('| recipe, all')
  })

  it('takes the flags over the experiment file', async () => {
    const { stdout } = await cli(
      'run',
      experiment,
      '--steps',
      '1',
      '--seeds',
      '5',
      '--arm',
      'recipe',
      '--json',
    )
    const results: Results = JSON.parse(stdout)
    expect(results.seeds).toEqual([5])
    expect(results.arms.recipe?.steps).toBe(1)
    expect(results.arms.baseline).toBe(undefined)
    expect(await exists(join(folder, 'runs/tiny/results.json'))).toBe(true)
  })

  it('ends the same however often it is killed', async () => {
    const whole: Results = JSON.parse((await cli('run', experiment, '--out', 'whole', '--json')).stdout)
    const chance = random(1, 'kills')
    const kills = 6
    for (let kill = 0; kill < kills; kill++) {
      const { child, ended, said } = start('run', experiment, '--out', 'killed')
      const says = said()
      while (says === said()) await new Promise((resolve) => setTimeout(resolve, 20))
      await new Promise((resolve) => setTimeout(resolve, chance.int(1000)))
      child.kill('SIGKILL')
      await ended
    }
    const last = await cli('run', experiment, '--out', 'killed', '--json')
    expect(last.code).toBe(0)
    expect(withoutTimings(JSON.parse(last.stdout))).toEqual(withoutTimings(whole))
    for (const job of ['base-baseline-2', 'recipe-s18']) {
      const rollouts = (run: string) => readFile(join(folder, run, job, 'rollouts.jsonl'), 'utf8')
      expect(await rollouts('killed')).toBe(await rollouts('whole'))
    }
  })

  it('goes on when nobody reads what it says any more', async () => {
    const { child, ended, said } = start('run', experiment, '--out', 'unread', '--steps', '1')
    child.stdout.destroy()
    while (said() === '') await new Promise((resolve) => setTimeout(resolve, 20))
    child.stderr.destroy()
    expect((await ended).code).toBe(0)
    expect(await exists(join(folder, 'unread/results.json'))).toBe(true)
  })

  it('stops on Ctrl-C with 130 and says how to go on', async () => {
    const { child, ended, said } = start('run', experiment, '--out', 'stopped', '--steps', '500')
    while (!said().includes('baseline-s17 started')) await new Promise((resolve) => setTimeout(resolve, 50))
    child.kill('SIGINT')
    const { code, stderr } = await ended
    expect(code).toBe(130)
    expect(stderr).toContain('The same command goes on from here')
    expect(await readFile(join(folder, 'stopped/.lock-1'), 'utf8')).toBe('')
  })

  it('runs jobs at a time in processes of their own, to the same results', async () => {
    const alone: Results = JSON.parse(
      (await cli('run', experiment, '--out', 'alone', '--threads', '1', '--json')).stdout,
    )
    const { stdout, code } = await cli(
      'run',
      experiment,
      '--out',
      'three',
      '--threads',
      '1',
      '--jobs',
      '3',
      '--json',
    )
    expect(code).toBe(0)
    expect(withoutTimings(JSON.parse(stdout))).toEqual(withoutTimings(alone))
    const stopped = start(
      'run',
      experiment,
      '--out',
      'halted',
      '--threads',
      '1',
      '--jobs',
      '2',
      '--steps',
      '500',
    )
    while (!stopped.said().includes('baseline-s18')) await new Promise((resolve) => setTimeout(resolve, 50))
    stopped.child.kill('SIGINT')
    expect((await stopped.ended).code).toBe(130)
  })

  it('keeps a second process out of a folder', async () => {
    const first = start('run', experiment, '--out', 'busy', '--steps', '500')
    while (!first.said().includes('started')) await new Promise((resolve) => setTimeout(resolve, 50))
    expectRefused(await cli('run', experiment, '--out', 'busy', '--steps', '500'), /is writing this folder/)
    first.child.kill('SIGKILL')
    await first.ended
  })
})

describe('bad input', () => {
  it('is refused by its flag', async () => {
    const cases: [args: string[], why: RegExp][] = [
      [['--stepz', '3'], /unknown option '--stepz'/],
      [['--steps', '0'], /whole number of at least 1/],
      [['--seeds', '17,x'], /such as 17,18/],
      [['--arm', 'all'], /no arm "all": the arms are baseline, recipe/],
      [['--shard', '5/4'], /Give a shard such as 3\/16/],
      [['--device', 'abacus'], /engine\.device = "abacus": it must be cpu/],
      [['--seeds', '17,17'], /seeds = \[17,17\]: it must differ from each other, and 17 stands twice/],
      [['--task', 'sudoku'], /no task "sudoku"/],
      [['--threads', '100000'], /engine\.threads = 100000: it must be at most \d+/],
      [['--holdout', '7'], /asks for 7 problems and .* gives 6/],
    ]
    const ended = await Promise.all(cases.map(([args]) => cli('run', experiment, ...args)))
    ended.forEach((end, i) => {
      expectRefused(end, cases[i][1])
    })
  })

  it('is refused in an experiment file, naming the setting', async () => {
    const define = (settings: string) =>
      `import { defineExperiment, own } from 'message-board'\nexport default defineExperiment(${settings})`
    const cases: [text: string, why: RegExp][] = [
      [define('{ board: { copies: 0 } }'), /board\.copies = 0: it must be at least 1/],
      [define('{ board: { copies: 1e9 } }'), /board\.copies = 1000000000: it must be at most/],
      [define('{ evaluation: { baseRuns: 1e8 } }'), /evaluation\.baseRuns = 100000000: it must be at most/],
      [define('{ board: { copies: 1 } }'), /compare each text with itself alone/],
      [define('{ train: { lora: { rank: 0 } } }'), /train\.lora\.rank = 0: it must be at least 1/],
      [define('{ train: { stepz: 4 } }'), /unknown setting "stepz" under train/],
      [define('{ grader: { name: "mine", grade: () => null } }'), /grader .* must have a name and a version/],
      [define('{ arms: { recipe: { reads: () => [9] } } }'), /gave \[9\]: return different posts/],
      ['export const x = 1', /export default defineExperiment/],
      ['export default {', /does not load/],
    ]
    const ended = await Promise.all(
      cases.map(async ([text], i) => {
        const file = join(folder, `bad-${i}.ts`)
        await writeFile(file, text)
        return cli('run', file, '--out', 'bad')
      }),
    )
    ended.forEach((end, i) => {
      expectRefused(end, cases[i][1])
    })
    expect(await exists(join(folder, 'bad'))).toBe(false)
    expectRefused(await cli('run', 'absent.ts'), /no experiment file at absent\.ts/)
    expectRefused(await cli('run', 'notes.txt'), /is no experiment file/)
  })

  it('is refused in a checkpoint, before the run folder is made', async () => {
    const refused = async (why: RegExp, harm: (broken: string) => Promise<void>) => {
      const broken = join(folder, 'broken')
      await writeTinyModel(broken, 1)
      await harm(broken)
      expectRefused(await cli('run', experiment, '--model', broken, '--out', 'never'), why)
      await rm(broken, { recursive: true, force: true })
      // Nothing of a run that could not begin is kept.
      expect(await exists(join(folder, 'never/experiment.json'))).toBe(false)
    }
    await refused(/no checkpoint in .*broken/, (broken) => rm(broken, { recursive: true }))
    await refused(/model\.safetensors/, (broken) => truncate(join(broken, 'model.safetensors'), 5000))
    await refused(/NaN/, async (broken) => {
      const file = await open(join(broken, 'model.safetensors'), 'r+')
      const { size } = await file.stat()
      await file.write(Buffer.from(Float32Array.of(Number.NaN).buffer), 0, 4, size - 4)
      await file.close()
    })
    await refused(/shape/, async (broken) => {
      const path = join(broken, 'config.json')
      const config = JSON.parse(await readFile(path, 'utf8'))
      await writeFile(path, JSON.stringify({ ...config, intermediate_size: 64 }))
    })
  })

  it('is refused in an output folder', async () => {
    await writeFile(join(folder, 'a-file'), '')
    expectRefused(await cli('run', experiment, '--out', 'a-file/run'), /cannot be written/)
    expectRefused(await cli('run', experiment, '--out', '.'), /already holds other files/)
  })
})

describe('the other commands', () => {
  it('say that this installation works', async () => {
    const { code, stdout } = await cli('selftest')
    expect(stdout).toMatch(/^ok +gradients/m)
    expect(code).toBe(0)
  })

  it('say what this machine can run on', async () => {
    const { facts } = JSON.parse((await cli('doctor', '--json')).stdout)
    expect(facts.map(({ name }: { name: string }) => name)).toContain('onnxruntime-node')
  })

  it('evaluate without training', async () => {
    const text = await cli('eval', experiment, '--reads', 'shared', '--holdout', '3')
    expect(text.stdout).toMatch(/^pass@1 +[01]\.\d{3} \[/m)
    expect(text.code).toBe(0)
    const json = await cli('eval', experiment, '--reads', 'shared', '--holdout', '3', '--json')
    expect(text.stdout).toContain(JSON.parse(json.stdout).protocols[0].passAt1.toFixed(3))
  })

  it('say what an experiment could see, before it and after it', async () => {
    await cli('run', experiment, '--out', 'seen')
    const before = await cli('power', experiment, '--effect', '0.2', '--from', 'seen', '--seeds', '1,2,3')
    expect(before.stdout).toMatch(
      /^As configured \(3 seeds an arm, 6 problems, 4 replies each; [\d.]+ minutes\)/m,
    )
    expect(before.code).toBe(0)
    const timed = JSON.parse((await cli('power', experiment, '--json')).stdout)
    expect(timed).toMatchObject({ effect: 0.05, speed: { minutesPerTraining: expect.any(Number) } })
    const after = await cli('power', 'seen')
    expect(after.stdout).toMatch(
      /^seen, recipe - baseline: [+-]0\.\d{3} \[.*with 2 seeds an arm on 6 problems/,
    )
    expect(after.stdout).toMatch(/^seeds an arm +smallest effect +more minutes$/m)
    expectRefused(await cli('power', '.'), /is no run folder/)

    const graded = await cli('regrade', 'seen', experiment)
    expect(graded.stdout).toMatch(/^0 of 336 grades of the evaluations changed\.$/m)
    expect(graded.stdout).toContain('Nothing was written')
    expectRefused(await cli('regrade', 'seen'), /name the experiment file/)
    expectRefused(await cli('power', '--effect', '2'), /share between 0 and 1/)
  })

  it('refuse what they do not know', async () => {
    expectRefused(await cli('eval', experiment, '--reads', 'ring5'), /no board "ring5": give own, shared/)
    expectRefused(await cli('dance'), /unknown command 'dance'/)
  })
})

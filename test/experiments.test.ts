/** The ready experiments: each loads as the command line loads it, and runs whole on a tiny model. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { experimentOf } from '../src/cli/experiment-file.ts'
import type { Engine } from '../src/engine/contract.ts'
import type { Experiment } from '../src/experiment/config.ts'
import { openEngine } from '../src/experiment/engine.ts'
import { type RunOptions, runExperiment } from '../src/experiment/run.ts'
import { readProgress } from '../src/record/job-log.ts'
import { type Results, withoutTimings } from '../src/record/results.ts'
import { writeTinyModel } from '../src/selftest/tiny-model.ts'
import { cutDown } from './testing/cut-down.ts'

const experiments = fileURLToPath(new URL('../experiments', import.meta.url))
const names = readdirSync(experiments).map((name) => name.replace(/\.ts$/, ''))
const fileOf = (name: string) => join(experiments, `${name}.ts`)

let scratch: string
let model: string
/** One engine for all: opening it is the slow part. */
let engine: Engine
/** What each found that nothing interrupted. */
const whole = new Map<string, Results>()

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'experiments-'))
  model = join(scratch, 'model')
  await writeTinyModel(model, 1)
  engine = await openEngine(cutDown(await experimentOf(fileOf('reference')), model))
})
afterAll(async () => {
  await engine.close()
  await rm(scratch, { recursive: true })
})

const run = (experiment: Experiment, options: RunOptions) =>
  runExperiment(experiment, { openEngine: async () => ({ ...engine, close: async () => {} }), ...options })

it.each(names)('%s runs', async (name) => {
  const experiment = cutDown(await experimentOf(fileOf(name)), model)
  const results = await run(experiment, { out: join(scratch, name) })
  whole.set(name, results)
  expect(results.failed).toEqual([])
  expect(Object.keys(results.arms)).toEqual(Object.keys(experiment.arms))
  for (const [arm, found] of Object.entries(results.arms)) {
    expect(found?.steps).toBe(3)
    expect(found?.board.rounds).toHaveLength(experiment.arms[arm].protocol.rounds.length)
    // Something was learned from: groups whose texts earned differently.
    expect(results.trainTrace[arm][0].informative.some((share) => share > 0)).toBe(true)
  }
  expect(results.contrasts.map(({ arm }) => arm)).toEqual(
    Object.keys(experiment.arms).filter((arm) => arm !== experiment.baseline),
  )
})

it('debate, stopped in the middle of its second training, goes on to the same results', async () => {
  const experiment = cutDown(await experimentOf(fileOf('debate')), model)
  const out = join(scratch, 'stopped')
  const stop = new AbortController()
  const stopped = run(experiment, {
    out,
    signal: stop.signal,
    onEvent: (event) => {
      if (event.type === 'step' && event.job === 'debate-s17' && event.metrics.step === 2) stop.abort()
    },
  })
  await expect(stopped).rejects.toThrow()
  expect(await readdir(out)).not.toContain('results.json')
  expect((await readProgress(join(out, 'debate-s17')))?.trained).toBe(false)
  expect(withoutTimings(await run(experiment, { out }))).toEqual(withoutTimings(whole.get('debate')!))
})

it('two adapters, killed in the middle of the first training, go on to the same results', async () => {
  const out = join(scratch, 'killed')
  const program = fileURLToPath(new URL('testing/killed-run.ts', import.meta.url))
  const child = spawn(process.execPath, ['--import', 'tsx', program, fileOf('two-adapters'), model, out], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])
  expect(await readdir(out)).not.toContain('results.json')
  expect((await readProgress(join(out, 'one-s17')))?.trained).toBe(false)
  const experiment = cutDown(await experimentOf(fileOf('two-adapters')), model)
  expect(withoutTimings(await run(experiment, { out }))).toEqual(withoutTimings(whole.get('two-adapters')!))
})

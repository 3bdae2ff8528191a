/** The calls of message-board/browser in Node, which test/browser makes in Chromium too. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { small } from '../test/browser/library/experiment.ts'
import { playTable } from '../test/browser/library/play.ts'
import {
  defineExperiment,
  exportFolder,
  foldersIn,
  type GrowingText,
  installPolicy,
  openAuthor,
  openEngine,
  openRun,
  runExperiment,
} from './browser.ts'
import { fingerprint } from './engine/checkpoint/fingerprint.ts'
import { openSafetensors } from './engine/checkpoint/safetensors.ts'
import { builtInModel } from './platform/machine.ts'
import type { MetricsLine } from './record/schema.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'browser-'))
})
afterAll(() => rm(folder, { recursive: true }))

it('installs a policy from bytes, all of it or a sentence about what is missing', async () => {
  const names = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors']
  const files = Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await readFile(join(builtInModel, name))] as const)),
  )
  const into = join(folder, 'policy')
  expect(await installPolicy(files, { folder: into })).toBe(into)
  expect(await fingerprint(into)).toBe(await fingerprint(builtInModel))
  const { 'tokenizer.json': _, ...rest } = files
  await expect(installPolicy(rest, { folder: join(folder, 'part') })).rejects.toThrow(
    'The policy has no tokenizer.json: give all of',
  )
})

it('tells posts as they grow, plays the rest again after an edit, and measures what each note did', async () => {
  const growing: GrowingText[] = []
  const { played, edited, effects } = await playTable((text) => growing.push(text))
  const told = growing.filter(({ round, seat }) => round === 0 && seat === 1)
  expect(told.length).toBeGreaterThan(1)
  told.reduce((before, { text }) => {
    expect(text.startsWith(before.trim())).toBe(true)
    return text
  }, '')
  expect(told.at(-1)!.text).toBe(played.rounds[0][1].text)
  // The other note stands; whoever reads the edited one is asked again.
  expect(edited.rounds[0][0]).toMatchObject({ text: 'It is \\boxed{7}.', answer: '0', cut: false })
  expect(edited.rounds[0][1]).toEqual(played.rounds[0][1])
  expect(edited.rounds[1]).not.toEqual(played.rounds[1])
  expect(effects.map(({ note, post }) => [note[1], post[1]])).toEqual([
    [0, 0],
    [1, 0],
    [0, 1],
    [1, 1],
  ])
})

it('refuses an engine that computes elsewhere than the experiment says', async () => {
  const experiment = defineExperiment({ ...small(1).choices, engine: { device: 'webgpu' } })
  const engine = await openEngine({ lanes: 1, device: 'wasm' })
  const out = join(folder, 'elsewhere')
  await expect(runExperiment(experiment, { out, engine })).rejects.toThrow(
    "The experiment names the device webgpu, and the engine computes on wasm: define it with engine: { device: 'wasm' }",
  )
  await engine.close()
})

/** How far WebAssembly's numbers may be from the native runtime's: sums of single precision, taken in another order. */
const ROUNDING = 1e-4

it('runs an experiment on an engine that is open, by either runtime to within rounding', async () => {
  const runs = join(folder, 'runs')
  for (const device of ['cpu', 'wasm'] as const) {
    const { choices } = small(2)
    const experiment = defineExperiment({ ...choices, engine: { device, threads: 2 } })
    const engine = await openEngine({ lanes: 2, device })
    await runExperiment(experiment, { out: join(runs, device), engine })
    // It was left open.
    const author = await openAuthor(engine, join(runs, device, 'recipe-s17/checkpoint-2'))
    author.policy.dispose()
    await engine.close()
  }
  expect((await foldersIn(runs)).sort()).toEqual(['cpu', 'wasm'])
  expect(await foldersIn(join(folder, 'none'))).toEqual([])
  const [native, wasm] = await Promise.all(['cpu', 'wasm'].map((device) => exportFolder(join(runs, device))))
  expect([...wasm.keys()].sort()).toEqual([...native.keys()].sort())
  // The same texts, drawn from log-probabilities that differ in their last digits.
  const boards = [...native.keys()].filter((path) => path.endsWith('rollouts.jsonl'))
  expect(boards.length).toBe(4)
  for (const path of boards) expect(Buffer.from(wasm.get(path)!).equals(native.get(path)!)).toBe(true)
  // Something was learnt.
  const steps = new TextDecoder().decode(wasm.get('recipe-s17/metrics.jsonl')).trim().split('\n')
  const norms = steps.map((line) => (JSON.parse(line) as MetricsLine).gradNorm ?? 0)
  expect(Math.max(...norms)).toBeGreaterThan(0)
  const adapters = await Promise.all(
    ['cpu', 'wasm'].map((device) =>
      openSafetensors(join(runs, device, 'recipe-s17/checkpoint-2/adapter_model.safetensors')),
    ),
  )
  let [difference, size] = [0, 0]
  for (const name of adapters[0].names) {
    const [one, other] = await Promise.all(adapters.map((adapter) => adapter.read(name)))
    one.forEach((value, i) => {
      difference += (value - other[i]) ** 2
      size += value ** 2
    })
  }
  await Promise.all(adapters.map((adapter) => adapter.close()))
  expect(difference).toBeGreaterThan(0)
  expect(Math.sqrt(difference / size)).toBeLessThan(ROUNDING)
  const run = await openRun(join(runs, 'wasm'))
  expect(run.view()).toMatchObject({ state: 'finished', arms: ['baseline', 'recipe'] })
}, 300_000)

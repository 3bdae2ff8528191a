/** The generated TypeScript is compiled and run: it must define the experiment that the page runs. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { protocolRecord } from '../board/protocol.ts'
import { experimentOf } from '../cli/experiment-file.ts'
import { defineExperiment, type Experiment } from '../experiment/config.ts'
import { choicesOf, codeOf } from './experiment.ts'
import { firstSettings, ruleNames, type Settings, worldNames } from './settings.ts'
import { parseWiring, presets } from './wiring.ts'

/** Each rule, world, number of rounds and kind of wiring at least once. */
const several: Settings[] = ruleNames.map((credit, i) => ({
  ...firstSettings,
  world: worldNames[i % worldNames.length],
  steps: 10 + i,
  seeds: [i, 99],
  arms: {
    baseline: { reads: Object.values(presets)[i % 5], rounds: 2 + (i % 3), credit: 'readersOnly' },
    recipe: { reads: i % 2 === 0 ? presets.shared : parseWiring('12.2.-.341')!, rounds: 4 - (i % 3), credit },
  },
}))

/** All that decides a run, as plain data. */
const plain = ({ arms, task, seeds, board, evaluation, contrasts, model }: Experiment) => ({
  arms: Object.entries(arms).map(([name, { protocol, credit, train, sampling }]) => [
    name,
    protocolRecord(protocol),
    credit.name,
    credit.config,
    train,
    sampling,
  ]),
  task: [task.name, task.config],
  seeds,
  board,
  evaluation,
  contrasts,
  model,
})

const root = fileURLToPath(new URL('../..', import.meta.url))
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(root, 'dist', 'generated-'))
  await Promise.all(several.map((settings, i) => writeFile(join(folder, `${i}.ts`), codeOf(settings))))
})
afterAll(() => rm(folder, { recursive: true }))

describe('the experiment as TypeScript', () => {
  it('is twelve lines', () => {
    expect(codeOf(firstSettings)).toBe(
      [
        '// Run it with: npx message-board run experiment.ts',
        "import { board, clues, defineExperiment, grpo, readersOnly, shared, team } from 'message-board'",
        '',
        'export default defineExperiment({',
        '  task: clues({ train: 512, holdout: 120 }),',
        '  arms: {',
        '    baseline: { protocol: board({ reads: shared }), credit: readersOnly() },',
        '    recipe: { protocol: board({ reads: shared }), credit: team() },',
        '  },',
        '  train: grpo({ steps: 40, boards: 2, problemsPerStep: 6 }),',
        '  seeds: [17, 18],',
        '})',
        '',
      ].join('\n'),
    )
  })

  it('compiles', async () => {
    const config = join(folder, 'tsconfig.json')
    const options = {
      noEmit: true,
      types: ['node'],
      paths: { 'message-board': [join(root, 'src/index.ts')] },
    }
    await writeFile(
      config,
      JSON.stringify({
        extends: join(root, 'tsconfig.json'),
        compilerOptions: options,
        include: ['*.ts'],
        exclude: [],
      }),
    )
    const { stdout } = await promisify(execFile)(join(root, 'node_modules/.bin/tsc'), ['-p', config])
    expect(stdout).toBe('')
  })

  it('defines what the page runs, for every rule', async () => {
    for (const [i, settings] of several.entries()) {
      const file = join(folder, `${i}.ts`)
      // As the command line loads it once, and otherwise as the tests load everything, which is faster.
      const loaded =
        i === 0 ? await experimentOf(file) : ((await import(file)) as { default: Experiment }).default
      expect(plain(loaded)).toEqual(plain(defineExperiment(choicesOf(settings))))
    }
  })
})

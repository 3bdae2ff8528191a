/** The command line where the native runtime is not installed: WebAssembly takes its place, and everything says so. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { writeTinyModel } from '../selftest/tiny-model.ts'

const main = fileURLToPath(new URL('./main.ts', import.meta.url))
const blocked = fileURLToPath(new URL('./testing/without-native.cjs', import.meta.url))
const tiny = fileURLToPath(new URL('../experiment/testing/tiny-experiment.ts', import.meta.url))

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'without-native-'))
})
afterAll(() => rm(folder, { recursive: true }))

const cli = (...args: string[]) =>
  promisify(execFile)(
    process.execPath,
    ['--require', blocked, '--import', import.meta.resolve('tsx'), main, ...args],
    { cwd: folder },
  )

it('says by doctor what computes, and the one command that brings the native runtime', async () => {
  const { facts } = JSON.parse((await cli('doctor', '--json')).stdout) as {
    facts: { name: string; ok: boolean; detail: string }[]
  }
  const fact = (name: string) => facts.find((each) => each.name === name)
  expect(fact('onnxruntime-node')).toMatchObject({ ok: true })
  expect(fact('onnxruntime-node')!.detail).toMatch(
    /^not here \(it is not installed\): WebAssembly computes.*npm install --ignore-scripts onnxruntime-node@1\./,
  )
  expect(fact('device cpu')!.detail).toMatch(/^not here/)
  expect(fact('device wasm')).toMatchObject({ ok: true, detail: 'works, single precision' })
})

it('runs an experiment by WebAssembly and says so in one line', async () => {
  const model = join(folder, 'model')
  await writeTinyModel(model, 1)
  await writeFile(
    join(folder, 'tiny.ts'),
    `import { tinyExperiment } from ${JSON.stringify(tiny)}\nexport default tinyExperiment(${JSON.stringify(model)})\n`,
  )
  const { stderr } = await cli('run', 'tiny.ts', '--steps', '1', '--seeds', '17', '--out', 'run')
  expect(stderr.match(/^.*Computing by WebAssembly.*$/gm)).toHaveLength(1)
  const { identity, versions } = JSON.parse(await readFile(join(folder, 'run/experiment.json'), 'utf8'))
  expect(identity.shared.engine.device).toBe('wasm')
  expect(versions['onnxruntime-web']).toMatch(/^1\./)
  expect(versions['onnxruntime-node']).toBeUndefined()
  await expect(cli('run', 'tiny.ts', '--device', 'cpu', '--out', 'native')).rejects.toThrow(
    /device cpu does not work here: it is not installed \(npm install --ignore-scripts onnxruntime-node@/,
  )
}, 300_000)

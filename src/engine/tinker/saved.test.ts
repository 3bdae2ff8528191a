import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { UserError } from '../../errors.ts'
import { writeTinyModel } from '../../selftest/tiny-model.ts'
import { loadAdapter } from '../checkpoint/adapter.ts'
import { readModelConfig } from '../checkpoint/config.ts'
import { openOnnxEngine } from '../onnx/index.ts'
import { nameTargets } from './saved.ts'

let folder: string
let adapter: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'saved-'))
  adapter = join(folder, 'adapter')
  await writeTinyModel(folder, 1)
  const engine = await openOnnxEngine({ model: folder, threads: 1 })
  const policy = await engine.createPolicy({ lora: { rank: 2, alpha: 4, seed: 1 } })
  await policy.save(adapter)
  await engine.close()
})
afterAll(() => rm(folder, { recursive: true }))

it('names the projections of an adapter whose settings name none, and no others’', async () => {
  const path = join(adapter, 'adapter_config.json')
  const { target_modules: all, ...rest } = JSON.parse(await readFile(path, 'utf8'))
  const config = await readModelConfig(join(folder, 'config.json'))
  for (const settings of [rest, { ...rest, target_modules: null }]) {
    await writeFile(path, JSON.stringify(settings))
    // As PEFT reads it: of two projections, with the rest left out.
    await expect(loadAdapter(adapter, config)).rejects.toThrow(/leaves out/)
    await nameTargets(adapter)
    expect(JSON.parse(await readFile(path, 'utf8'))).toEqual({ ...rest, target_modules: [...all].sort() })
    await loadAdapter(adapter, config)
  }
  const own = JSON.stringify({ ...rest, target_modules: ['q_proj'] })
  await writeFile(path, own)
  await nameTargets(adapter)
  expect(await readFile(path, 'utf8')).toBe(own)
})

it('says what of it cannot be read', async () => {
  await writeFile(join(adapter, 'adapter_config.json'), '{"r": 2}')
  await writeFile(join(adapter, 'adapter_model.safetensors'), 'no weights')
  await expect(nameTargets(adapter)).rejects.toThrow(UserError)
})

import { readFileSync } from 'node:fs'
import { cp, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { UserError } from '../../errors.ts'
import { type Adapter, adapterShape, loadAdapter, saveAdapter } from './adapter.ts'
import type { ModelConfig } from './config.ts'
import { openCheckpoint } from './folder.ts'
import { openSafetensors, type Tensor, writeSafetensors } from './safetensors.ts'

const fixture = (name: string) => join(import.meta.dirname, '..', 'fixtures', name)

let scratch: string
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'adapter-'))
})
afterAll(() => rm(scratch, { recursive: true }))

const readJson = async (path: string) => JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>

describe.each(['llama', 'qwen2'])('on the tiny %s', (name) => {
  let config: ModelConfig
  let adapter: Adapter
  beforeAll(async () => {
    config = (await openCheckpoint(fixture(name))).config
    adapter = await loadAdapter(join(fixture(name), 'adapter'), config)
  })

  test('reads what PEFT wrote', () => {
    expect(adapter).toMatchObject({ rank: 4, alpha: 8, baseModel: name })
    expect(adapter.projections.size).toBe(7 * 2)
    const down = adapter.projections.get('model.layers.1.mlp.down_proj')
    expect(down?.a.shape).toEqual([4, 64])
    expect(down?.b.shape).toEqual([32, 4])
  })

  test("writes PEFT's own tensors and settings back", async () => {
    const folder = join(scratch, name, 'adapter')
    await saveAdapter(folder, config, adapter)
    expect(await loadAdapter(folder, config)).toEqual(adapter)

    const theirs = join(fixture(name), 'adapter')
    const [ours, golden] = await Promise.all(
      [folder, theirs].map((from) => openSafetensors(join(from, 'adapter_model.safetensors'))),
    )
    expect([...ours.names].sort()).toEqual([...golden.names].sort())
    for (const tensor of golden.names) expect(await ours.read(tensor)).toEqual(await golden.read(tensor))
    await ours.close()
    await golden.close()

    const written = await readJson(join(folder, 'adapter_config.json'))
    const expected = await readJson(join(theirs, 'adapter_config.json'))
    ;(written.target_modules as string[]).sort()
    expect(expected).toMatchObject(written)
  })
})

describe('refuses', () => {
  let config: ModelConfig
  beforeAll(async () => {
    config = (await openCheckpoint(fixture('llama'))).config
  })
  const q = 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight'

  async function changed(settings: object, change?: (tensors: Map<string, Tensor>) => void): Promise<string> {
    const folder = await mkdtemp(join(scratch, 'changed-'))
    await cp(join(fixture('llama'), 'adapter'), folder, { recursive: true })
    const path = join(folder, 'adapter_config.json')
    await writeFile(path, JSON.stringify({ ...(await readJson(path)), ...settings }))
    if (change) {
      const file = join(folder, 'adapter_model.safetensors')
      const reader = await openSafetensors(file)
      const tensors = new Map<string, Tensor>()
      for (const name of reader.names) {
        tensors.set(name, { shape: reader.info(name).shape, data: await reader.read(name) })
      }
      await reader.close()
      change(tensors)
      await writeSafetensors(file, tensors, { dtype: 'F32' })
    }
    return folder
  }

  test.each<[string, object, RegExp]>([
    ['another method', { peft_type: 'IA3' }, /is of the method IA3, and only LORA/],
    ['a rank of 0', { r: 0 }, /field 'r'/],
    ['a rank without end', { r: 2 ** 31 }, /field 'r': Too big/],
    [
      'a rank without end for one layer',
      { rank_pattern: { q_proj: 2 ** 31 } },
      /field 'rank_pattern.q_proj'/,
    ],
    ['an alpha of 0', { lora_alpha: 0 }, /field 'lora_alpha'/],
    ['what PEFT may come to have', { use_foo: true }, /sets use_foo to true, which is not known here/],
    ['arrows', { arrow_config: { top_k: 2 } }, /sets arrow_config to .*routing between adapters/],
    [
      'LoftQ',
      { init_lora_weights: 'loftq' },
      /init_lora_weights to "loftq": .* a base that was quantised. Merge the two/,
    ],
    ['a start that PEFT may come to have', { init_lora_weights: 'foo' }, /to "foo", which is not known here/],
    ['a name that every object has', { constructor: 3 }, /sets constructor to 3, which is not known here/],
    ['CorDA', { init_lora_weights: 'corda' }, /init_lora_weights to "corda"/],
    ['LoRA-GA', { init_lora_weights: 'lora_ga' }, /init_lora_weights to "lora_ga"/],
    ['a rank that its tensors do not have', { r: 8 }, /q_proj.lora_A.weight' has shape \[4, 32\].*\[8, 32\]/],
    [
      'fewer modules than the file has',
      { target_modules: ['q_proj'] },
      /holds '.*which its adapter_config.json leaves/,
    ],
    [
      'no module of the model',
      { target_modules: ['c_attn'] },
      /adapt no projection of a model with 2 layers/,
    ],
    [
      "a pattern of Python's own",
      { target_modules: '(?P<x>.*)q_proj' },
      /by the pattern .* is not supported/,
    ],
    [
      'a pattern that takes for ever',
      { rank_pattern: { '(a+)+q': 4 } },
      /by the pattern "\(a\+\)\+q", which is not/,
    ],
    ['many repetitions', { target_modules: '.*.*.*.*_proj' }, /by the pattern/],
    ['a long pattern', { target_modules: 'q'.repeat(1000) }, /by the pattern/],
    ['a set that is none', { alpha_pattern: { '[z-a]': 4 } }, /by the pattern/],
    [
      'layers beside a pattern',
      { target_modules: '.*_proj', layers_to_transform: [0] },
      /layers_to_transform beside target_modules that is a pattern/,
    ],
  ])('%s', async (_, settings, message) => {
    const loading = loadAdapter(await changed(settings), config)
    await expect(loading).rejects.toThrow(message)
    await expect(loading).rejects.toBeInstanceOf(UserError)
  })

  const { refused } = JSON.parse(readFileSync(join(fixture('adapters'), 'golden.json'), 'utf8')) as {
    refused: Record<string, object>
  }
  test.each(Object.entries(refused))("PEFT's %s", async (kind, settings) => {
    const folder = await mkdtemp(join(scratch, 'refused-'))
    await writeFile(join(folder, 'adapter_config.json'), JSON.stringify(settings))
    const [name] = kind.split(',')
    await expect(loadAdapter(folder, config)).rejects.toThrow(
      new RegExp(`adapter_config.json sets ${name} to `),
    )
    await expect(adapterShape(folder)).rejects.toBeInstanceOf(UserError)
  })

  test('weights as a pickle', async () => {
    const folder = await changed({})
    await rename(join(folder, 'adapter_model.safetensors'), join(folder, 'adapter_model.bin'))
    await expect(loadAdapter(folder, config)).rejects.toThrow(/adapter_model.bin, a pickle/)
  })

  test.each<[string, (tensors: Map<string, Tensor>) => void, RegExp]>([
    ['a projection without its A', (tensors) => tensors.delete(q), /lacks the tensor .*q_proj.lora_A/],
    [
      'NaN',
      (tensors) => tensors.get(q)?.data.fill(Number.NaN, 5),
      /q_proj.lora_A.weight' holds NaN at position 5/,
    ],
    [
      'a tensor of another kind',
      (tensors) =>
        tensors.set('base_model.model.lm_head.lora_A.weight', { shape: [0], data: new Float32Array() }),
      /lm_head.lora_A.weight'; only LoRA on the seven projections/,
    ],
  ])('%s', async (_, change, message) => {
    await expect(loadAdapter(await changed({}, change), config)).rejects.toThrow(message)
  })

  test("another model's adapter, and a folder without one", async () => {
    const wider = { ...config, hiddenSize: 64 }
    await expect(loadAdapter(join(fixture('llama'), 'adapter'), wider)).rejects.toThrow(/has shape \[4, 32\]/)
    await expect(loadAdapter(fixture('llama'), config)).rejects.toThrow(/Cannot read .*adapter_config.json/)
  })

  test('to write an adapter that is not whole', async () => {
    const adapter: Adapter = { rank: 4, alpha: 8, baseModel: 'llama', projections: new Map() }
    await expect(saveAdapter(join(scratch, 'never'), config, adapter)).rejects.toThrow(/lacks model.layers.0/)
  })
})

import { execFileSync } from 'node:child_process'
import { cp, mkdtemp, open, readdir, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { UserError } from '../../errors.ts'
import type { ModelConfig } from './config.ts'
import { openCheckpoint, saveCheckpoint, type Weights, weightShapes } from './folder.ts'
import { writeSafetensors } from './safetensors.ts'

const fixture = (name: string) => join(import.meta.dirname, '..', 'fixtures', name)

let scratch: string
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'model-'))
})
afterAll(() => rm(scratch, { recursive: true }))

const newFolder = () => mkdtemp(join(scratch, 'checkpoint-'))

describe.each(['llama', 'qwen2'])("transformers' %s", (name) => {
  test('loads, with exactly the tensors that its config asks for', async () => {
    const { config, loadWeights } = await openCheckpoint(fixture(name))
    const weights = await loadWeights()
    expect([...weights.keys()]).toEqual([...weightShapes(config).keys()])
    expect(weights.has('lm_head.weight')).toBe(!config.tieEmbeddings)
    expect(weights.has('model.layers.1.self_attn.k_proj.bias')).toBe(config.attentionBias)
    expect(weights.get('model.layers.1.self_attn.v_proj.weight')?.shape).toEqual([
      config.kvHeads * config.headDim,
      config.hiddenSize,
    ])
  })

  test('is the same after it is saved and opened again', async () => {
    const { config, loadWeights } = await openCheckpoint(fixture(name))
    const weights = await loadWeights()
    const folder = join(await newFolder(), 'made', 'on', 'the', 'way')
    await saveCheckpoint(folder, config, weights, 'F32')
    const again = await openCheckpoint(folder)
    expect(again.config).toEqual(config)
    expect(await again.loadWeights()).toEqual(weights)
    expect((await readdir(folder)).sort()).toEqual(['config.json', 'model.safetensors'])
  })

  test('in bfloat16 is off by at most one part in 256', async () => {
    const { config, loadWeights } = await openCheckpoint(fixture(name))
    const weights = await loadWeights()
    const folder = await newFolder()
    await saveCheckpoint(folder, config, weights, 'BF16')
    const rounded = await (await openCheckpoint(folder)).loadWeights()
    let largest = 0
    for (const [tensor, { data }] of weights) {
      rounded.get(tensor)?.data.forEach((value, i) => {
        largest = Math.max(largest, Math.abs(value - data[i]) / Math.abs(data[i]))
      })
    }
    expect(largest).toBeGreaterThan(0)
    expect(largest).toBeLessThanOrEqual(2 ** -8)
  })
})

describe('bad input', () => {
  let config: ModelConfig
  let weights: Weights
  beforeAll(async () => {
    const checkpoint = await openCheckpoint(fixture('qwen2'))
    config = checkpoint.config
    weights = await checkpoint.loadWeights()
  })

  const q = 'model.layers.0.self_attn.q_proj.weight'
  /** The fixture's folder, with these tensors set (undefined takes one away). */
  async function folderWith(changes: Record<string, { shape: number[]; data: Float32Array } | undefined>) {
    const folder = await newFolder()
    await cp(join(fixture('qwen2'), 'config.json'), join(folder, 'config.json'))
    const tensors = new Map(weights)
    for (const [name, tensor] of Object.entries(changes)) {
      if (tensor) tensors.set(name, tensor)
      else tensors.delete(name)
    }
    await writeSafetensors(join(folder, 'model.safetensors'), tensors, { dtype: 'F32' })
    return folder
  }
  const load = async (folder: string) => (await openCheckpoint(folder)).loadWeights()
  const refused = async (loading: Promise<unknown>, message: RegExp) => {
    await expect(loading).rejects.toThrow(message)
    await expect(loading).rejects.toBeInstanceOf(UserError)
  }

  test('no folder, a file in its place, no config, no weights', async () => {
    await refused(load(join(scratch, 'absent')), /no checkpoint folder .*absent/)
    await refused(load(join(fixture('qwen2'), 'config.json')), /no checkpoint folder/)
    const folder = await newFolder()
    await refused(load(folder), /Cannot read .*config.json \(ENOENT\)/)
    await cp(join(fixture('qwen2'), 'config.json'), join(folder, 'config.json'))
    await refused(load(folder), /has no model.safetensors. Give a folder in Hugging Face's layout/)
    await writeFile(join(folder, 'pytorch_model.bin'), 'not to be loaded')
    await refused(load(folder), /\(there is pytorch_model.bin\). A pickle can run what it likes/)
    await writeFile(join(folder, 'model.safetensors'), '')
    await refused(load(folder), /it holds 0 bytes/)
    await writeFile(
      join(folder, 'model.safetensors'),
      'version https://git-lfs.github.com/spec/v1\noid sha256:1',
    )
    await refused(load(folder), /is a Git LFS pointer/)
  })

  test('quantised weights, whatever else is wrong with them', async () => {
    for (const [dtype, bytes] of [
      ['F8_E4M3', 4],
      ['F4', 2],
      ['U8', 4],
    ] as const) {
      const folder = await newFolder()
      await cp(join(fixture('qwen2'), 'config.json'), join(folder, 'config.json'))
      const json = Buffer.from(JSON.stringify({ [q]: { dtype, shape: [4], data_offsets: [0, bytes] } }))
      const length = Buffer.alloc(8)
      length.writeBigUInt64LE(BigInt(json.length))
      await writeFile(join(folder, 'model.safetensors'), Buffer.concat([length, json, Buffer.alloc(bytes)]))
      await refused(load(folder), new RegExp(`is ${dtype}: quantised weights are not supported`))
    }
  })

  test('a pipe in the place of a file is not waited for', async () => {
    const folder = await newFolder()
    await cp(join(fixture('qwen2'), 'config.json'), join(folder, 'config.json'))
    execFileSync('mkfifo', [join(folder, 'model.safetensors')])
    await refused(load(folder), /model.safetensors is no file/)
    const settings = await newFolder()
    execFileSync('mkfifo', [join(settings, 'config.json')])
    await refused(load(settings), /config.json is a pipe or a device/)
  })

  test('a truncated file', async () => {
    const folder = await folderWith({})
    await truncate(join(folder, 'model.safetensors'), 50_000)
    await refused(load(folder), /cut off, 50000 bytes where its header describes \d{6}/)
  })

  test('a tensor that is missing, misshapen or foreign, named', async () => {
    await refused(
      load(await folderWith({ [q]: undefined })),
      /lacks the tensor 'model.layers.0.self_attn.q_proj.weight'/,
    )
    const wrong = { shape: [16, 64], data: new Float32Array(1024) }
    await refused(
      load(await folderWith({ [q]: wrong })),
      /q_proj.weight' has shape \[16, 64\] .* asks for \[64, 32\]/,
    )
    const more = { shape: [1], data: new Float32Array(1) }
    await refused(load(await folderWith({ 'model.layers.2.mlp.up_proj.weight': more })), /no place for/)
  })

  test.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])(
    '%s in a tensor',
    async (value) => {
      const data = Float32Array.from(weights.get(q)?.data ?? [])
      data[77] = value
      const message = new RegExp(`q_proj.weight' holds ${value} at position 77`)
      await refused(load(await folderWith({ [q]: { shape: [64, 32], data } })), message)
      const spoilt = new Map(weights).set(q, { shape: [64, 32], data })
      const folder = join(scratch, 'never')
      await refused(saveCheckpoint(folder, config, spoilt, 'F32'), message)
      await refused(saveCheckpoint(folder, config, new Map(), 'F32'), /lacks the tensor/)
      await expect(readdir(folder)).rejects.toThrow('ENOENT')
    },
  )

  test("old buffers and a copy of a tied model's head are not held against it", async () => {
    const folder = await folderWith({
      'model.layers.0.self_attn.rotary_emb.inv_freq': { shape: [4], data: new Float32Array(4) },
      'lm_head.weight': weights.get('model.embed_tokens.weight') as { shape: number[]; data: Float32Array },
    })
    expect(await load(folder)).toEqual(weights)
  })

  describe('a tied pair', () => {
    const embedding = 'model.embed_tokens.weight'
    const head = 'lm_head.weight'
    const own = () => weights.get(embedding) as { shape: number[]; data: Float32Array }

    test('of which the head alone was saved is whole', async () => {
      expect(await load(await folderWith({ [embedding]: undefined, [head]: own() }))).toEqual(weights)
    })

    test('whose matrices differ is none: the trained head counts', async () => {
      const trained = {
        shape: own().shape,
        data: own().data.map((x, i) => (i === own().data.length - 1 ? x + 1 : x)),
      }
      const folder = await folderWith({ [head]: trained })
      const { config: found } = await openCheckpoint(folder)
      expect(found).toEqual({ ...config, tieEmbeddings: false })
      expect((await load(folder)).get(head)).toEqual(trained)
      expect((await load(await folderWith({ [head]: own() }))).has(head)).toBe(false)
    })

    test('whose matrices differ in size is refused', async () => {
      const short = { shape: [95, 32], data: new Float32Array(95 * 32) }
      await refused(load(await folderWith({ [head]: short })), /'lm_head.weight' has shape \[95, 32\]/)
    })
  })

  test("names without the decoder's prefix", async () => {
    const folder = await newFolder()
    await cp(join(fixture('qwen2'), 'config.json'), join(folder, 'config.json'))
    const bare = new Map([...weights].map(([name, tensor]) => [name.replace(/^model\./, ''), tensor]))
    await writeSafetensors(join(folder, 'model.safetensors'), bare, { dtype: 'F32' })
    expect(await load(folder)).toEqual(weights)
  })

  test('weights that are changed between opening and loading', async () => {
    const folder = await folderWith({})
    const { loadWeights } = await openCheckpoint(folder)
    const file = await open(join(folder, 'model.safetensors'), 'r+')
    await file.truncate(100)
    await file.close()
    await refused(loadWeights(), /not a whole safetensors file/)
    await writeFile(join(folder, 'model.safetensors'), 'gone')
    await refused(loadWeights(), /it holds 4 bytes/)
  })
})

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { UserError } from '../../errors.ts'
import { type ModelConfig, readModelConfig, toHuggingFaceConfig } from './config.ts'

let path: string
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'config-'))
  path = join(folder, 'config.json')
})
afterAll(() => rm(folder, { recursive: true }))

async function read(json: unknown): Promise<ModelConfig> {
  await writeFile(path, JSON.stringify(json))
  return readModelConfig(path)
}

/** What every architecture's file holds; transformers 4's spelling where there are two. */
const common = {
  vocab_size: 1000,
  hidden_size: 64,
  num_hidden_layers: 3,
  num_attention_heads: 8,
  num_key_value_heads: 2,
  intermediate_size: 160,
  max_position_embeddings: 2048,
  rms_norm_eps: 1e-5,
}
const llama3 = {
  factor: 32,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 8192,
}

test('reads a llama in the spelling of transformers 4 and of 5 alike', async () => {
  const old = await read({
    ...common,
    model_type: 'llama',
    rope_theta: 500000,
    rope_scaling: { ...llama3, rope_type: 'llama3' },
    bos_token_id: 7,
    eos_token_id: [8, 9],
  })
  expect(old).toEqual({
    architecture: 'llama',
    vocabSize: 1000,
    hiddenSize: 64,
    layers: 3,
    heads: 8,
    kvHeads: 2,
    headDim: 8,
    intermediateSize: 160,
    rmsNormEps: 1e-5,
    ropeTheta: 500000,
    ropeScaling: {
      kind: 'llama3',
      factor: 32,
      lowFreqFactor: 1,
      highFreqFactor: 4,
      originalContextLength: 8192,
    },
    tieEmbeddings: false,
    attentionBias: false,
    qkNorm: false,
    contextLength: 2048,
    bosTokenId: 7,
    eosTokenIds: [8, 9],
  })
  const rope_parameters = { ...llama3, rope_type: 'llama3', rope_theta: 500000 }
  const next = await read({
    ...common,
    model_type: 'llama',
    rope_parameters,
    bos_token_id: 7,
    eos_token_id: [8, 9],
  })
  expect(next).toEqual(old)
})

test('fills in what older files leave out, as transformers does', async () => {
  const { num_key_value_heads: _, rms_norm_eps: __, ...minimal } = common
  const config = await read({ ...minimal, model_type: 'llama', rope_scaling: null })
  expect(config).toMatchObject({
    kvHeads: 8,
    rmsNormEps: 1e-6,
    ropeTheta: 10000,
    ropeScaling: null,
    tieEmbeddings: false,
    bosTokenId: null,
    eosTokenIds: [],
  })
})

test('knows what sets the architectures apart', async () => {
  expect(
    await read({ ...common, model_type: 'qwen2', use_sliding_window: false, sliding_window: 32768 }),
  ).toMatchObject({
    attentionBias: true,
    qkNorm: false,
    headDim: 8,
  })
  expect(await read({ ...common, model_type: 'qwen3' })).toMatchObject({
    attentionBias: false,
    qkNorm: true,
    headDim: 128,
  })
})

test.each(['llama', 'qwen2', 'qwen3'] as const)(
  'a %s config that is written is read back',
  async (architecture) => {
    const config: ModelConfig = {
      architecture,
      vocabSize: 384,
      hiddenSize: 48,
      layers: 2,
      heads: 3,
      kvHeads: 1,
      headDim: 20,
      intermediateSize: 100,
      rmsNormEps: 1e-6,
      ropeTheta: 20000,
      ropeScaling: {
        kind: 'llama3',
        factor: 8,
        lowFreqFactor: 1,
        highFreqFactor: 4,
        originalContextLength: 64,
      },
      tieEmbeddings: true,
      attentionBias: architecture === 'qwen2',
      qkNorm: architecture === 'qwen3',
      contextLength: 512,
      bosTokenId: null,
      eosTokenIds: [2],
    }
    expect(await read(toHuggingFaceConfig(config, 'BF16'))).toEqual(config)
    const plain = { ...config, ropeScaling: null, eosTokenIds: [2, 3], bosTokenId: 1 }
    expect(await read(toHuggingFaceConfig(plain, 'F32'))).toEqual(plain)
  },
)

test.each<[string, object, RegExp]>([
  [
    'another architecture',
    { model_type: 'mamba' },
    /'mamba' model. Use one of these architectures: llama, qwen2, qwen3/,
  ],
  ['no architecture', { model_type: undefined }, /field 'model_type'/],
  ['a missing size', { hidden_size: undefined }, /field 'hidden_size'/],
  ['no layers', { num_hidden_layers: 0 }, /field 'num_hidden_layers'/],
  ['layers without end', { num_hidden_layers: 2 ** 31 }, /field 'num_hidden_layers': Too big/],
  ['positions without end', { max_position_embeddings: 2 ** 31 }, /field 'max_position_embeddings': Too big/],
  ['a vocabulary without end', { vocab_size: 2 ** 40 }, /field 'vocab_size': Too big/],
  [
    'tables without end',
    { head_dim: 2 ** 14, max_position_embeddings: 2 ** 20 },
    /take 68719476736 bytes of tables, more than 1073741824/,
  ],
  ['another activation', { hidden_act: 'gelu' }, /field 'hidden_act': only 'silu' is supported/],
  ['a bias on every projection', { attention_bias: true }, /field 'attention_bias': only false/],
  ['a bias in the MLP', { mlp_bias: true }, /field 'mlp_bias': only false/],
  ['sliding windows', { use_sliding_window: true }, /field 'use_sliding_window': only false/],
  ['layers with windows', { layer_types: ['full_attention', 'sliding_attention'] }, /field 'layer_types.1'/],
  ['quantised weights', { quantization_config: { bits: 4 } }, /quantised checkpoints are not supported/],
  ['rotation of part of a head', { rope_parameters: { partial_rotary_factor: 0.5 } }, /only 1 is supported/],
  ['the same in its older place', { partial_rotary_factor: 0.5 }, /field 'partial_rotary_factor': only 1/],
  [
    'rotation by kinds of layers',
    { rope_parameters: { full_attention: { rope_theta: 5 } } },
    /field 'rope_parameters': settings for each kind of layer/,
  ],
  ['weights compressed under another name', { compression_config: { format: 'x' } }, /quantised checkpoints/],
  ['another RoPE scaling', { rope_scaling: { type: 'yarn', factor: 4 } }, /RoPE scaling 'yarn'/],
  [
    'a RoPE scaling with lists',
    { rope_scaling: { type: 'longrope', long_factor: [1, 2] } },
    /RoPE scaling 'longrope'/,
  ],
  ['half a RoPE scaling', { rope_scaling: { type: 'llama3', factor: 4 } }, /llama3 RoPE scaling needs/],
  [
    'heads that cannot be grouped',
    { num_key_value_heads: 3 },
    /8 attention heads cannot share 3 key-value heads/,
  ],
  [
    'a head of odd width',
    { num_attention_heads: 64, num_key_value_heads: 64 },
    /must be an even whole number, not 1/,
  ],
  ['a head of broken width', { num_attention_heads: 6, num_key_value_heads: 6 }, /not 10.666/],
])('refuses %s', async (_, change, message) => {
  const reading = read({ ...common, model_type: 'llama', ...change })
  await expect(reading).rejects.toThrow(message)
  await expect(reading).rejects.toBeInstanceOf(UserError)
})

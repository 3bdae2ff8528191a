/**
 * What a checkpoint's `config.json` says of its model, in Hugging Face's spelling on disk and ours in memory. Pure.
 *
 * transformers 4 puts RoPE's base and scaling into `rope_theta` and `rope_scaling`, transformers 5 into
 * `rope_parameters`; both are read. A setting that would change the computation and that the engine does not
 * know is refused, never ignored.
 */

import { z } from 'zod'
import { UserError } from '../../errors.ts'
import { readJsonFile } from '../../files.ts'
import type { FloatType } from './safetensors.ts'

export type Architecture = 'llama' | 'qwen2' | 'qwen3'

/** Llama 3's RoPE scaling: low frequencies are divided by `factor`, those in between smoothly less. */
export interface RopeScaling {
  kind: 'llama3'
  factor: number
  lowFreqFactor: number
  highFreqFactor: number
  originalContextLength: number
}

export interface ModelConfig {
  architecture: Architecture
  vocabSize: number
  hiddenSize: number
  layers: number
  heads: number
  /** Key-value heads; divides `heads`. */
  kvHeads: number
  /** Per head; even, for RoPE pairs element i with i + headDim / 2. */
  headDim: number
  intermediateSize: number
  rmsNormEps: number
  ropeTheta: number
  ropeScaling: RopeScaling | null
  /** The output head is the embedding matrix; there is no `lm_head.weight`. */
  tieEmbeddings: boolean
  /** q, k and v have a bias (never o). */
  attentionBias: boolean
  /** q and k are normalised per head before RoPE (qwen3). */
  qkNorm: boolean
  /** Longest sequence in tokens. */
  contextLength: number
  bosTokenId: number | null
  eosTokenIds: readonly number[]
}

const architectures = {
  llama: { className: 'LlamaForCausalLM', attentionBias: false, qkNorm: false },
  qwen2: { className: 'Qwen2ForCausalLM', attentionBias: true, qkNorm: false },
  qwen3: { className: 'Qwen3ForCausalLM', attentionBias: false, qkNorm: true },
} as const

/** Above these a number is damage: they bound what is allocated before any weight is looked at. */
const MOST_LAYERS = 1024
const LONGEST_CONTEXT = 1 << 20
/** Of a vocabulary, a width, a number of heads; what they come to is held against the files' own shapes. */
const LARGEST_SIZE = 1 << 24
/** Bytes of the cosines and sines of every position. */
const LARGEST_TABLES = 1 << 30

const size = z.number().int().positive().max(LARGEST_SIZE)
const positive = z.number().positive()
const tokenId = z.number().int().nonnegative()
const unquantised = z.null({ error: 'quantised checkpoints are not supported' }).optional()
const off = z.literal(false, { error: 'only false is supported' }).nullish()

const wholeHead = z.literal(1, { error: 'only 1 is supported' }).nullish()

const ropeSchema = z
  .looseObject({
    rope_type: z.string().optional(),
    type: z.string().optional(),
    rope_theta: positive.optional(),
    factor: positive.optional(),
    low_freq_factor: positive.optional(),
    high_freq_factor: positive.optional(),
    original_max_position_embeddings: size.optional(),
    partial_rotary_factor: wholeHead,
  })
  .refine((rope) => !Object.values(rope).some((value) => z.looseObject({}).safeParse(value).success), {
    error: 'settings for each kind of layer are not supported',
  })

const configSchema = z.looseObject({
  model_type: z.string(),
  vocab_size: size,
  hidden_size: size,
  num_hidden_layers: size.max(MOST_LAYERS),
  num_attention_heads: size,
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  intermediate_size: size,
  rms_norm_eps: positive.default(1e-6),
  max_position_embeddings: size.max(LONGEST_CONTEXT),
  rope_theta: positive.nullish(),
  rope_scaling: ropeSchema.nullish(),
  rope_parameters: ropeSchema.nullish(),
  tie_word_embeddings: z.boolean().default(false),
  bos_token_id: tokenId.nullish(),
  eos_token_id: z.union([tokenId, z.array(tokenId)]).nullish(),
  hidden_act: z.literal('silu', { error: "only 'silu' is supported" }).default('silu'),
  attention_bias: off,
  mlp_bias: off,
  use_sliding_window: off,
  layer_types: z
    .array(z.literal('full_attention', { error: "only 'full_attention' is supported" }))
    .nullish(),
  partial_rotary_factor: wholeHead,
  quantization_config: unquantised,
  compression_config: unquantised,
})

/** Reads and checks a checkpoint's `config.json`. Throws UserError naming the field that does not fit. */
export async function readModelConfig(path: string): Promise<ModelConfig> {
  // The architecture first: of a model that is not supported, that is the one thing worth saying.
  const { model_type } = await readJsonFile(path, z.looseObject({ model_type: z.string() }))
  if (!isArchitecture(model_type)) {
    throw new UserError(
      `${path} is of a '${model_type}' model. Use one of these architectures: ${Object.keys(architectures).join(', ')}.`,
    )
  }
  const json = await readJsonFile(path, configSchema)
  const heads = json.num_attention_heads
  const rope = json.rope_parameters ?? json.rope_scaling ?? {}
  const config: ModelConfig = {
    architecture: model_type,
    vocabSize: json.vocab_size,
    hiddenSize: json.hidden_size,
    layers: json.num_hidden_layers,
    heads,
    kvHeads: json.num_key_value_heads ?? heads,
    // qwen3's heads are 128 wide whatever the hidden size, unless the file says otherwise.
    headDim: json.head_dim ?? (model_type === 'qwen3' ? 128 : json.hidden_size / heads),
    intermediateSize: json.intermediate_size,
    rmsNormEps: json.rms_norm_eps,
    ropeTheta: rope.rope_theta ?? json.rope_theta ?? 10_000,
    ropeScaling: ropeScalingOf(rope, path),
    tieEmbeddings: json.tie_word_embeddings,
    attentionBias: architectures[model_type].attentionBias,
    qkNorm: architectures[model_type].qkNorm,
    contextLength: json.max_position_embeddings,
    bosTokenId: json.bos_token_id ?? null,
    eosTokenIds: [json.eos_token_id ?? []].flat(),
  }
  if (config.heads % config.kvHeads !== 0) {
    throw new UserError(
      `${path}: ${config.heads} attention heads cannot share ${config.kvHeads} key-value heads. Fix the config.`,
    )
  }
  if (config.headDim % 2 !== 0) {
    throw new UserError(
      `${path}: a head's width must be an even whole number, not ${config.headDim}. Fix the config.`,
    )
  }
  const tables = config.contextLength * config.headDim * Float32Array.BYTES_PER_ELEMENT
  if (tables > LARGEST_TABLES) {
    throw new UserError(
      `${path}: ${config.contextLength} positions with heads ${config.headDim} wide take ${tables} bytes of tables, more than ` +
        `${LARGEST_TABLES}. Lower max_position_embeddings.`,
    )
  }
  return config
}

/** The `config.json` that transformers, and servers that read its files, load a model with. */
export function toHuggingFaceConfig(config: ModelConfig, dtype: FloatType): Record<string, unknown> {
  const { ropeScaling, eosTokenIds } = config
  return {
    architectures: [architectures[config.architecture].className],
    model_type: config.architecture,
    vocab_size: config.vocabSize,
    hidden_size: config.hiddenSize,
    num_hidden_layers: config.layers,
    num_attention_heads: config.heads,
    num_key_value_heads: config.kvHeads,
    head_dim: config.headDim,
    intermediate_size: config.intermediateSize,
    hidden_act: 'silu',
    rms_norm_eps: config.rmsNormEps,
    max_position_embeddings: config.contextLength,
    // The older spelling: transformers 5 still reads it, and many servers read nothing else.
    rope_theta: config.ropeTheta,
    rope_scaling: ropeScaling && {
      rope_type: 'llama3',
      factor: ropeScaling.factor,
      low_freq_factor: ropeScaling.lowFreqFactor,
      high_freq_factor: ropeScaling.highFreqFactor,
      original_max_position_embeddings: ropeScaling.originalContextLength,
    },
    tie_word_embeddings: config.tieEmbeddings,
    attention_dropout: 0,
    bos_token_id: config.bosTokenId,
    eos_token_id: eosTokenIds.length > 1 ? eosTokenIds : (eosTokenIds[0] ?? null),
    torch_dtype: { F32: 'float32', F16: 'float16', BF16: 'bfloat16' }[dtype],
    ...(config.architecture === 'qwen2' ? { use_sliding_window: false } : { attention_bias: false }),
    ...(config.architecture === 'llama' ? { mlp_bias: false } : {}),
  }
}

function isArchitecture(name: string): name is Architecture {
  return Object.hasOwn(architectures, name)
}

function ropeScalingOf(rope: z.infer<typeof ropeSchema>, path: string): RopeScaling | null {
  const kind = rope.rope_type ?? rope.type ?? 'default'
  if (kind === 'default') return null
  const { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } = rope
  if (kind !== 'llama3') {
    throw new UserError(
      `${path} asks for RoPE scaling '${kind}'. Use a model with 'default' or 'llama3' scaling.`,
    )
  }
  if (!factor || !low_freq_factor || !high_freq_factor || !original_max_position_embeddings) {
    throw new UserError(
      `${path}: llama3 RoPE scaling needs factor, low_freq_factor, high_freq_factor and original_max_position_embeddings. Add what is missing.`,
    )
  }
  return {
    kind,
    factor,
    lowFreqFactor: low_freq_factor,
    highFreqFactor: high_freq_factor,
    originalContextLength: original_max_position_embeddings,
  }
}

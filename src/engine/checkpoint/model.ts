/**
 * A model's checkpoint folder in Hugging Face's layout (`config.json`, `model.safetensors` or its shards), opened
 * and checked, or written. Touches the file system only.
 */

import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { UserError } from '../../errors.ts'
import { writeJsonAtomic } from '../../files.ts'
import { type ModelConfig, readModelConfig, toHuggingFaceConfig } from './config.ts'
import { type FloatType, openFolder, type Tensor, writeSafetensors } from './safetensors.ts'

/** Tensors by Hugging Face's names, `model.layers.0.self_attn.q_proj.weight` ([out, in]) and so on. */
export type Weights = Map<string, Tensor>

export interface Checkpoint {
  folder: string
  config: ModelConfig
  /** Every weight as float32. Throws UserError naming the tensor for a value that is not finite. */
  loadWeights(): Promise<Weights>
}

/** A linear map that LoRA adapts. */
export interface Projection {
  /** Its module's path, `model.layers.0.self_attn.q_proj`; the weight is `${name}.weight` [out, in]. */
  name: string
  out: number
  in: number
}

/** The seven projections of every layer, in order. */
export function projections(config: ModelConfig): Projection[] {
  return Array.from({ length: config.layers }, (_, layer) => layerProjections(config, layer)).flat()
}

function layerProjections(config: ModelConfig, layer: number): Projection[] {
  const { hiddenSize, intermediateSize, headDim } = config
  const queries = config.heads * headDim
  const keys = config.kvHeads * headDim
  return [
    { name: 'self_attn.q_proj', out: queries, in: hiddenSize },
    { name: 'self_attn.k_proj', out: keys, in: hiddenSize },
    { name: 'self_attn.v_proj', out: keys, in: hiddenSize },
    { name: 'self_attn.o_proj', out: hiddenSize, in: queries },
    { name: 'mlp.gate_proj', out: intermediateSize, in: hiddenSize },
    { name: 'mlp.up_proj', out: intermediateSize, in: hiddenSize },
    { name: 'mlp.down_proj', out: hiddenSize, in: intermediateSize },
  ].map((projection) => ({ ...projection, name: `model.layers.${layer}.${projection.name}` }))
}

/** The name and shape of every tensor that a model of this configuration has. */
export function weightShapes(config: ModelConfig): Map<string, readonly number[]> {
  const { vocabSize, hiddenSize, headDim } = config
  const shapes = new Map<string, readonly number[]>([['model.embed_tokens.weight', [vocabSize, hiddenSize]]])
  for (let layer = 0; layer < config.layers; layer++) {
    const prefix = `model.layers.${layer}`
    shapes.set(`${prefix}.input_layernorm.weight`, [hiddenSize])
    for (const { name, out, in: width } of layerProjections(config, layer)) {
      shapes.set(`${name}.weight`, [out, width])
      if (config.attentionBias && /[qkv]_proj$/.test(name)) shapes.set(`${name}.bias`, [out])
    }
    if (config.qkNorm) {
      shapes.set(`${prefix}.self_attn.q_norm.weight`, [headDim])
      shapes.set(`${prefix}.self_attn.k_norm.weight`, [headDim])
    }
    shapes.set(`${prefix}.post_attention_layernorm.weight`, [hiddenSize])
  }
  shapes.set('model.norm.weight', [hiddenSize])
  if (!config.tieEmbeddings) shapes.set('lm_head.weight', [vocabSize, hiddenSize])
  return shapes
}

/**
 * Opens a checkpoint folder: its configuration, and from the files' headers that every tensor is there in its
 * shape and none is unaccounted for. Throws UserError otherwise.
 */
export async function openCheckpoint(folder: string): Promise<Checkpoint> {
  const isFolder = await stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  )
  if (!isFolder) throw new UserError(`There is no checkpoint folder ${folder}. Check the path.`)
  const config = await readModelConfig(join(folder, 'config.json'))
  const shapes = weightShapes(config)

  const reader = await openFolder(folder)
  try {
    const found = new Map(reader.names.map((name) => [name, reader.info(name).shape]))
    for (const name of found.keys()) {
      // Buffers that older versions saved, and a copy of the embedding that tied models need not have.
      const harmless =
        name.endsWith('.rotary_emb.inv_freq') || (config.tieEmbeddings && name === 'lm_head.weight')
      if (harmless && !shapes.has(name)) found.delete(name)
    }
    checkShapes(shapes, found, folder)
  } finally {
    await reader.close()
  }

  return {
    folder,
    config,
    async loadWeights() {
      const weights: Weights = new Map()
      const reader = await openFolder(folder)
      try {
        for (const [name, shape] of shapes) {
          const data = await reader.read(name)
          checkFinite(name, data, folder)
          weights.set(name, { shape, data })
        }
      } finally {
        await reader.close()
      }
      return weights
    },
  }
}

/**
 * Writes a checkpoint folder that `openCheckpoint` and transformers load; makes the folder. The configuration is
 * written last, so that a new folder which has one is complete. Throws UserError for weights that are missing, misshapen or
 * not finite.
 */
export async function saveCheckpoint(
  folder: string,
  config: ModelConfig,
  weights: ReadonlyMap<string, Tensor>,
  dtype: FloatType,
): Promise<void> {
  checkShapes(weightShapes(config), new Map([...weights].map(([name, { shape }]) => [name, shape])), folder)
  for (const [name, { data }] of weights) checkFinite(name, data, folder)
  await mkdir(folder, { recursive: true })
  await writeSafetensors(join(folder, 'model.safetensors'), weights, { dtype })
  await writeJsonAtomic(join(folder, 'config.json'), toHuggingFaceConfig(config, dtype))
}

/** Checks that exactly the expected tensors are there. `source` names their folder in the error. */
export function checkShapes(
  expected: ReadonlyMap<string, readonly number[]>,
  found: ReadonlyMap<string, readonly number[]>,
  source: string,
): void {
  for (const [name, shape] of expected) {
    const actual = found.get(name)
    if (!actual) throw new UserError(`${source} lacks the tensor '${name}'. Use a complete checkpoint.`)
    if (actual.length !== shape.length || actual.some((length, axis) => length !== shape[axis])) {
      throw new UserError(
        `In ${source} '${name}' has shape [${actual.join(', ')}] where its config asks for [${shape.join(', ')}]. Use files of one model.`,
      )
    }
  }
  for (const name of found.keys()) {
    if (!expected.has(name)) {
      throw new UserError(
        `${source} holds '${name}', which its config has no place for. Use files of one model.`,
      )
    }
  }
}

/** Throws UserError naming the tensor and position of the first NaN or infinity. */
export function checkFinite(name: string, data: Float32Array, source: string): void {
  for (let i = 0; i < data.length; i++) {
    if (!Number.isFinite(data[i])) {
      throw new UserError(`In ${source} '${name}' holds ${data[i]} at position ${i}. Use a sound copy of it.`)
    }
  }
}

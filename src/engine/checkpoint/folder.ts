/**
 * A model's checkpoint folder in Hugging Face's layout (`config.json`, `model.safetensors` or its shards), opened
 * and checked, or written. Touches the file system only.
 */

import { UserError } from '../../errors.ts'
import { writeJsonAtomic } from '../../files.ts'
import { mkdir, stat } from '../../platform/files.ts'
import { join } from '../../platform/path.ts'
import { type ModelConfig, readModelConfig, toHuggingFaceConfig } from './config.ts'
import {
  type FloatType,
  isFloatType,
  openFolder,
  type Tensor,
  type TensorReader,
  writeSafetensors,
} from './safetensors.ts'

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

/** The embedding, and the head that may be the same matrix. */
const embedding = 'model.embed_tokens.weight'
const head = 'lm_head.weight'

/**
 * Opens a checkpoint folder: its configuration, and from the files' headers that every tensor is there in its
 * shape and none is unaccounted for. Throws UserError otherwise.
 *
 * As in transformers, names may lack the `model.` that the bare decoder is saved without; of a tied pair either matrix is
 * enough, and where both are there and differ, they are not tied whatever the configuration says.
 */
export async function openCheckpoint(folder: string): Promise<Checkpoint> {
  const isFolder = await stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  )
  if (!isFolder) throw new UserError(`There is no checkpoint folder ${folder}. Check the path.`)
  const declared = await readModelConfig(join(folder, 'config.json'))

  const reader = await openFolder(folder)
  try {
    const names = fileNames(reader.names, declared.tieEmbeddings)
    const isTied = declared.tieEmbeddings && (await areTied(reader, names))
    const config = { ...declared, tieEmbeddings: isTied }
    const shapes = weightShapes(config)
    const found = new Map([...names].map(([name, inFile]) => [name, reader.info(inFile).shape]))
    for (const name of found.keys()) {
      // Buffers that older versions saved, and a copy of the embedding that tied models need not have.
      const isHarmless = name.endsWith('.rotary_emb.inv_freq') || (isTied && name === head)
      if (isHarmless && !shapes.has(name)) found.delete(name)
    }
    checkTypes(reader, folder)
    checkShapes(shapes, found, folder)
    return { folder, config, loadWeights: () => load(folder, shapes, names) }
  } finally {
    await reader.close()
  }
}

/** The model's names of a file's tensors, with the file's own. */
function fileNames(inFile: readonly string[], tied: boolean): Map<string, string> {
  const isBare = !inFile.some((name) => name.startsWith('model.'))
  const names = new Map(
    inFile.map((name) => [isBare && !name.startsWith('lm_head.') ? `model.${name}` : name, name]),
  )
  const own = names.get(head)
  if (tied && own !== undefined && !names.has(embedding)) names.set(embedding, own)
  return names
}

/** False where both matrices are there and hold different numbers. */
async function areTied(reader: TensorReader, names: ReadonlyMap<string, string>): Promise<boolean> {
  const [one, other] = [names.get(embedding), names.get(head)]
  if (one === undefined || other === undefined || one === other) return true
  const [shape, otherShape] = [reader.info(one).shape, reader.info(other).shape]
  if (shape.join() !== otherShape.join()) return false
  const otherParts = reader.parts(other)
  for await (const part of reader.parts(one)) {
    const { value } = await otherParts.next()
    if (!part.every((x, i) => x === value?.[i])) return false
  }
  return true
}

/** Whatever else is wrong with quantised weights, this is what to say of them. */
function checkTypes(reader: TensorReader, folder: string): void {
  for (const name of reader.names) {
    const { dtype } = reader.info(name)
    if (isFloatType(dtype)) continue
    throw new UserError(
      /^F[468]|^[UI]\d/.test(dtype)
        ? `In ${folder} '${name}' is ${dtype}: quantised weights are not supported. Use the model as F32, F16 or BF16.`
        : `In ${folder} '${name}' is ${dtype}: weights must be F32, F16 or BF16. Save it again in one of these.`,
    )
  }
}

async function load(
  folder: string,
  shapes: ReadonlyMap<string, readonly number[]>,
  names: ReadonlyMap<string, string>,
): Promise<Weights> {
  const weights: Weights = new Map()
  const reader = await openFolder(folder)
  try {
    for (const [name, shape] of shapes) {
      const inFile = names.get(name) as string
      // The files may have been changed since they were checked.
      checkShapes(new Map([[name, shape]]), new Map([[name, reader.info(inFile).shape]]), folder)
      const data = await reader.read(inFile)
      checkFinite(name, data, folder)
      weights.set(name, { shape, data })
    }
  } finally {
    await reader.close()
  }
  return weights
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
  await mkdir(folder)
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
    if (!actual) {
      throw new UserError(
        `${source} lacks the tensor '${name}', which its config asks for. Use files of one model.`,
      )
    }
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

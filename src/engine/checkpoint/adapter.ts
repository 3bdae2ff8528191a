/**
 * LoRA adapters in PEFT's layout (`adapter_config.json`, `adapter_model.safetensors`), so that what is trained
 * here loads in Python PEFT and in servers that read its files, and back. Touches the file system only.
 *
 * A projection W [out, in] with A [r, in] and B [out, r] computes  x W^T + (alpha / r) x A^T B^T  (Hu et al.,
 * arXiv:2106.09685). In memory all seven projections of every layer have one rank and one scale. Where a file says
 * otherwise, missing rows and projections are zeros, which learn nothing either, and B takes up what a scale differs by.
 */

import { UserError } from '../../errors.ts'
import { writeJsonAtomic } from '../../files.ts'
import { mkdir, stat } from '../../platform/files.ts'
import { join } from '../../platform/path.ts'
import type { ModelConfig } from './config.ts'
import { checkFinite, projections as modules, type Projection } from './folder.ts'
import { type AdapterShape, readPeftSettings } from './peft.ts'
import { openSafetensors, type Tensor, type TensorReader, writeSafetensors } from './safetensors.ts'

export interface Adapter extends AdapterShape {
  /** What it was trained on: a hub name or a folder. For the record; loading does not look for it. */
  baseModel: string
  /**
   * A [rank, in] and B [out, rank] for all seven projections of every layer, by the name of the projection:
   * `model.layers.0.self_attn.q_proj`.
   */
  projections: Map<string, { a: Tensor; b: Tensor }>
}

const configName = 'adapter_config.json'
const weightsName = 'adapter_model.safetensors'

/** The files of an adapter that decide what it computes. */
export const adapterFiles = [configName, weightsName] as const

/** Writes an adapter into a folder (made if need be), each file whole or not at all, the configuration last. */
export async function saveAdapter(folder: string, config: ModelConfig, adapter: Adapter): Promise<void> {
  const { rank, alpha, baseModel, projections } = adapter
  const tensors = new Map<string, Tensor>()
  for (const projection of modules(config)) {
    const pair = projections.get(projection.name)
    if (!pair) throw new UserError(`The adapter lacks ${projection.name}. Give one for every projection.`)
    for (const matrix of ['a', 'b'] as const) {
      const { name, shape } = expected(projection, matrix, rank)
      checkShape(name, pair[matrix].shape, shape, folder)
      checkFinite(name, pair[matrix].data, folder)
      tensors.set(name, pair[matrix])
    }
  }
  await mkdir(folder)
  await writeSafetensors(join(folder, weightsName), tensors, { dtype: 'F32' })
  await writeJsonAtomic(join(folder, configName), {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: baseModel,
    r: rank,
    lora_alpha: alpha,
    lora_dropout: 0,
    target_modules: [...new Set(modules(config).map(({ name }) => name.slice(name.lastIndexOf('.') + 1)))],
    bias: 'none',
    fan_in_fan_out: false,
    use_rslora: false,
    use_dora: false,
    modules_to_save: null,
    init_lora_weights: true,
    inference_mode: true,
  })
}

/** The rank and alpha that `loadAdapter` gives, which a policy must be made with before it can load the adapter. */
export async function adapterShape(folder: string): Promise<AdapterShape> {
  const { rank, alpha } = await readPeftSettings(join(folder, configName))
  return { rank, alpha }
}

/**
 * Reads an adapter that PEFT or `saveAdapter` wrote for a model of this configuration. Throws UserError for a
 * missing or broken file, a setting that is not supported (`peft.ts`), a projection that the settings adapt without its A
 * or B, a tensor that they have no place for, a wrong shape, or a value that is not finite.
 */
export async function loadAdapter(folder: string, config: ModelConfig): Promise<Adapter> {
  const settings = await readPeftSettings(join(folder, configName))
  const { rank, alpha, baseModel } = settings
  const reader = await openWeights(folder)
  try {
    const adapted = modules(config).map((projection) => ({ projection, own: settings.of(projection.name) }))
    checkNames(adapted, config, reader.names, folder)
    // Everything is held against the file's header before room is made for it.
    for (const { projection, own } of adapted) {
      if (own === null) continue
      for (const matrix of ['a', 'b'] as const) {
        const { name, shape } = expected(projection, matrix, own.rank)
        checkShape(name, reader.info(name).shape, shape, folder)
      }
    }
    const read = async (projection: Projection, matrix: 'a' | 'b', own: number) => {
      const { name } = expected(projection, matrix, own)
      const data = await reader.read(name)
      checkFinite(name, data, folder)
      return data
    }
    const projections: Adapter['projections'] = new Map()
    for (const { projection, own } of adapted) {
      const { name, in: inputs, out: outputs } = projection
      const a = { shape: [rank, inputs], data: new Float32Array(rank * inputs) }
      const b = { shape: [outputs, rank], data: new Float32Array(outputs * rank) }
      if (own !== null) {
        a.data.set(await read(projection, 'a', own.rank))
        const narrow = await read(projection, 'b', own.rank)
        const change = own.scale / (alpha / rank)
        for (let row = 0; row < outputs; row++) {
          for (let i = 0; i < own.rank; i++) b.data[row * rank + i] = narrow[row * own.rank + i] * change
        }
      }
      projections.set(name, { a, b })
    }
    return { rank, alpha, baseModel, projections }
  } finally {
    await reader.close()
  }
}

async function openWeights(folder: string): Promise<TensorReader> {
  const isThere = (name: string) =>
    stat(join(folder, name)).then(
      () => true,
      () => false,
    )
  if (!(await isThere(weightsName)) && (await isThere('adapter_model.bin'))) {
    throw new UserError(
      `${folder} has its weights as adapter_model.bin, a pickle, which can run what it likes and is never loaded. Load it in ` +
        'Python and save it again with safe_serialization=True.',
    )
  }
  return openSafetensors(join(folder, weightsName))
}

/** PEFT's name of one of a projection's two matrices, and its shape at a rank. */
function expected({ name, in: inputs, out: outputs }: Projection, matrix: 'a' | 'b', rank: number) {
  return {
    name: `base_model.model.${name}.lora_${matrix.toUpperCase()}.weight`,
    shape: matrix === 'a' ? [rank, inputs] : [outputs, rank],
  }
}

/** Checks that the file holds what its settings say, and nothing else. */
function checkNames(
  adapted: readonly { projection: Projection; own: object | null }[],
  config: ModelConfig,
  names: readonly string[],
  folder: string,
): void {
  const places = new Map(
    adapted.flatMap(({ projection, own }) =>
      (['a', 'b'] as const).map((matrix) => [expected(projection, matrix, 0).name, own !== null] as const),
    ),
  )
  if (!adapted.some(({ own }) => own !== null)) {
    throw new UserError(
      `The settings in ${folder} adapt no projection of a model with ${config.layers} layers. Use an adapter of this model.`,
    )
  }
  for (const name of names) {
    const isWanted = places.get(name)
    if (isWanted === undefined) {
      throw new UserError(
        `${folder} holds '${name}'; only LoRA on the seven projections of the model's ${config.layers} layers is supported. ` +
          'Use an adapter with these alone.',
      )
    }
    if (!isWanted) {
      throw new UserError(
        `${folder} holds '${name}', which its ${configName} leaves out, as Python's PEFT then does. Use files of one adapter.`,
      )
    }
  }
  const found = new Set(names)
  for (const [name, isWanted] of places) {
    if (isWanted && !found.has(name)) {
      throw new UserError(
        `${folder} lacks the tensor '${name}', which its ${configName} asks for. Use files of one adapter.`,
      )
    }
  }
}

function checkShape(name: string, actual: readonly number[], shape: readonly number[], folder: string): void {
  if (actual.join() === shape.join()) return
  throw new UserError(
    `In ${folder} '${name}' has shape [${actual.join(', ')}], where its ${configName} and the model ask for ` +
      `[${shape.join(', ')}]. Use an adapter of this model.`,
  )
}

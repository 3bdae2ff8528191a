/**
 * LoRA adapters in PEFT's layout (`adapter_config.json`, `adapter_model.safetensors`), so that what is trained
 * here loads in Python PEFT and in servers that read its files, and back. Touches the file system only.
 *
 * A projection W [out, in] with A [r, in] and B [out, r] computes  x W^T + (alpha / r) x A^T B^T  (Hu et al.,
 * arXiv:2106.09685).
 */

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { readJsonFile, writeJsonAtomic } from '../../files.ts'
import type { ModelConfig } from './config.ts'
import { checkFinite, checkShapes, projections as modules } from './model.ts'
import { openSafetensors, type Tensor, writeSafetensors } from './safetensors.ts'

export interface Adapter {
  rank: number
  alpha: number
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

const absent = (what: string) =>
  z
    .union([z.literal(false), z.null(), z.tuple([]), z.strictObject({})], {
      error: `${what} is not supported`,
    })
    .optional()

/** Settings of PEFT that would change the computation must be off; the rest of the file is free. */
const configSchema = z.looseObject({
  peft_type: z.literal('LORA', { error: "only 'LORA' is supported" }),
  r: z.number().int().positive(),
  lora_alpha: z.number().positive(),
  base_model_name_or_path: z.string().nullish(),
  bias: z.literal('none', { error: "only 'none' is supported" }).optional(),
  fan_in_fan_out: absent('transposed weights'),
  use_rslora: absent('rank-stabilised scaling'),
  use_dora: absent('DoRA'),
  use_qalora: absent('QALoRA'),
  use_bdlora: absent('block-diagonal LoRA'),
  alora_invocation_tokens: absent('activation by tokens'),
  lora_bias: absent('a bias in LoRA'),
  rank_pattern: absent('a rank for each layer'),
  alpha_pattern: absent('an alpha for each layer'),
  modules_to_save: absent('training whole modules beside LoRA'),
  layer_replication: absent('layer replication'),
})

/** Writes an adapter into a folder (made if need be), each file whole or not at all, the configuration last. */
export async function saveAdapter(folder: string, config: ModelConfig, adapter: Adapter): Promise<void> {
  const { rank, alpha, baseModel, projections } = adapter
  const tensors = new Map<string, Tensor>()
  for (const [module, { a, b }] of projections) {
    tensors.set(nameOf(module, 'A'), a)
    tensors.set(nameOf(module, 'B'), b)
  }
  check(config, rank, tensors, folder)
  await mkdir(folder, { recursive: true })
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

/**
 * Reads an adapter that PEFT or `saveAdapter` wrote for a model of this configuration. Throws UserError for a
 * missing or broken file, a setting that is not supported, a projection without its A or B (all seven of every
 * layer are needed), a wrong shape, or a value that is not finite.
 */
export async function loadAdapter(folder: string, config: ModelConfig): Promise<Adapter> {
  const json = await readJsonFile(join(folder, configName), configSchema)
  const reader = await openSafetensors(join(folder, weightsName))
  const tensors = new Map<string, Tensor>()
  try {
    for (const name of reader.names) {
      tensors.set(name, { shape: reader.info(name).shape, data: await reader.read(name) })
    }
  } finally {
    await reader.close()
  }
  check(config, json.r, tensors, folder)
  const projections = new Map(
    modules(config).map(({ name: module }) => [
      module,
      { a: tensors.get(nameOf(module, 'A')) as Tensor, b: tensors.get(nameOf(module, 'B')) as Tensor },
    ]),
  )
  return { rank: json.r, alpha: json.lora_alpha, baseModel: json.base_model_name_or_path ?? '', projections }
}

function check(
  config: ModelConfig,
  rank: number,
  tensors: ReadonlyMap<string, Tensor>,
  folder: string,
): void {
  const expected = new Map<string, readonly number[]>()
  for (const { name: module, out, in: width } of modules(config)) {
    expected.set(nameOf(module, 'A'), [rank, width])
    expected.set(nameOf(module, 'B'), [out, rank])
  }
  checkShapes(expected, new Map([...tensors].map(([name, { shape }]) => [name, shape])), folder)
  for (const [name, { data }] of tensors) checkFinite(name, data, folder)
}

/** PEFT's name for one of a projection's two matrices. */
function nameOf(module: string, matrix: 'A' | 'B'): string {
  return `base_model.model.${module}.lora_${matrix}.weight`
}

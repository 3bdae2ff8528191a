/**
 * PEFT's settings of a LoRA adapter (`adapter_config.json`): what is honoured, what changes nothing about a stored adapter,
 * and the rest, which is refused by name. A setting that PEFT may come to have is refused too, unless it is off.
 * Reads that one file. The rules are PEFT's own (0.21, `tuners/tuners_utils.py`, `tuners/lora/layer.py`).
 */
import { z } from 'zod'
import { UserError } from '../../errors.ts'
import { readJsonFile } from '../../files.ts'

/** One rank and one alpha for every projection; the scale is alpha / rank. */
export interface AdapterShape {
  rank: number
  alpha: number
}

export interface PeftSettings extends AdapterShape {
  baseModel: string
  /** A projection's own rank and scale, by its name `model.layers.0.self_attn.q_proj`; null where it is not adapted. */
  of(module: string): { rank: number; scale: number } | null
}

/** Ranks above this are taken for damage: room is made for the largest one in every projection. */
const LARGEST_RANK = 1024
/** Entries of a pattern by module, and characters of a pattern. */
const MOST_PATTERNS = 10_000
const LONGEST_PATTERN = 300

const rankSchema = z.number().int().positive().max(LARGEST_RANK)
const texts = z.union([z.string(), z.array(z.string())]).nullish()
const settingsSchema = z.looseObject({
  peft_type: z.string(),
  r: rankSchema,
  lora_alpha: z.number().positive(),
  use_rslora: z.boolean().nullish(),
  rank_pattern: z.record(z.string(), rankSchema).nullish(),
  alpha_pattern: z.record(z.string(), z.number().nonnegative()).nullish(),
  target_modules: texts,
  exclude_modules: texts,
  layers_to_transform: z.union([z.number(), z.array(z.number())]).nullish(),
  layers_pattern: texts,
  init_lora_weights: z.union([z.boolean(), z.string()]).nullish(),
  base_model_name_or_path: z.string().nullish(),
})
type Settings = z.infer<typeof settingsSchema>

/** Settings that say how it was trained, started or filed, and nothing of what it computes once it is stored. */
const withoutEffect = new Set([
  'task_type',
  'inference_mode',
  'revision',
  'auto_mapping',
  'peft_version',
  'lora_dropout',
  // PEFT turns it off for linear maps, which is what all projections are.
  'fan_in_fan_out',
  // Only looked at where the setting beside it is on.
  'megatron_core',
  'qalora_group_size',
  'loftq_config',
  'eva_config',
  'corda_config',
  'lora_ga_config',
  'ensure_weight_tying',
  'runtime_config',
])

/** Settings that must be off, and what they would be. */
const unsupported: Readonly<Record<string, string>> = {
  use_dora: 'DoRA',
  lora_bias: 'a bias in LoRA',
  modules_to_save: 'training whole modules beside LoRA',
  trainable_token_indices: 'training the embedding of some tokens',
  target_parameters: 'LoRA on bare parameters',
  layer_replication: 'replicating layers',
  alora_invocation_tokens: 'activation by tokens (aLoRA)',
  use_qalora: 'QALoRA',
  use_bdlora: 'block-diagonal LoRA',
  arrow_config: 'routing between adapters (Arrow)',
  kasa_config: 'KaSA',
  velora_config: 'VeLoRA',
  monteclora_config: 'MonteCLoRA',
  megatron_config: "Megatron's layers",
}

/** Beginnings that leave the base's weights as they are, so that the stored matrices say everything. */
const plainBeginnings = /^(gaussian|eva|orthogonal|mica)$/i
/** Beginnings that take a part of the base's weights into the adapter, which PEFT can give back. */
const changingBeginnings = /^(pissa|pissa_niter_\d+|olora|corda|lora_ga)$/i

const isOff = (value: unknown) =>
  value === null ||
  value === false ||
  (typeof value === 'object' && Object.keys(value as object).length === 0)

/**
 * Reads an adapter's settings. Throws UserError for a file that is missing or malformed, and for a setting that changes
 * what the adapter computes and is not supported, by its name.
 */
export async function readPeftSettings(path: string): Promise<PeftSettings> {
  const settings = await readJsonFile(path, settingsSchema)
  checkSettings(settings, path)
  const { r, lora_alpha, use_rslora } = settings
  const ranks = byPattern(settings.rank_pattern ?? {}, `${path} sets rank_pattern`)
  const alphas = byPattern(settings.alpha_pattern ?? {}, `${path} sets alpha_pattern`)
  const isTarget = targetsOf(settings, path)
  const scaleOf = (rank: number, alpha: number) => alpha / (use_rslora ? Math.sqrt(rank) : rank)
  const rank = Math.max(r, ...Object.values(settings.rank_pattern ?? {}))
  return {
    rank,
    // Of the scale that is common, so that a plain adapter keeps its own alpha to the last digit.
    alpha: use_rslora ? (lora_alpha * rank) / Math.sqrt(r) : lora_alpha * (rank / r),
    baseModel: settings.base_model_name_or_path ?? '',
    of(module) {
      if (!isTarget(module)) return null
      const own = ranks(module) ?? r
      return { rank: own, scale: scaleOf(own, alphas(module) ?? lora_alpha) }
    },
  }
}

function checkSettings(settings: Settings, path: string): void {
  const { peft_type, init_lora_weights: beginning } = settings
  if (peft_type !== 'LORA') {
    throw new UserError(
      `${path} is of the method ${peft_type}, and only LORA is supported. Use a LoRA adapter.`,
    )
  }
  for (const [name, value] of Object.entries(settings)) {
    if (Object.hasOwn(settingsSchema.shape, name) || withoutEffect.has(name) || isOff(value)) continue
    const set = `${path} sets ${name} to ${JSON.stringify(value).slice(0, 60)}`
    if (name === 'bias') {
      if (value === 'none') continue
      throw new UserError(
        `${set}: trained biases are not supported. Use an adapter trained with bias 'none'.`,
      )
    }
    if (Object.hasOwn(unsupported, name)) {
      throw new UserError(`${set}: ${unsupported[name]} is not supported. Use an adapter trained without it.`)
    }
    throw new UserError(
      `${set}, which is not known here and may change what the adapter computes. Take it out where it does not, or use ` +
        'another adapter.',
    )
  }
  if (typeof beginning === 'string' && !plainBeginnings.test(beginning)) {
    const set = `${path} sets init_lora_weights to ${JSON.stringify(beginning)}`
    if (changingBeginnings.test(beginning)) {
      throw new UserError(
        `${set}: such an adapter goes with a base whose weights its start changed. Save it in Python with ` +
          'path_initial_model_for_weight_conversion, which makes a plain one of it.',
      )
    }
    throw new UserError(
      beginning === 'loftq'
        ? `${set}: such an adapter goes with a base that was quantised. Merge the two in Python and use the merged model.`
        : `${set}, which is not known here and may have changed the base's weights. Use another adapter.`,
    )
  }
}

/** A module's value by the first pattern that fits the end of its name. */
function byPattern(
  patterns: Readonly<Record<string, number>>,
  what: string,
): (module: string) => number | undefined {
  const entries = Object.entries(patterns)
  if (entries.length > MOST_PATTERNS) {
    throw new UserError(
      `${what} for ${entries.length} patterns, more than ${MOST_PATTERNS}. Use another adapter.`,
    )
  }
  const compiled = entries.map(([pattern, value]) => {
    const fits = expression(`(?:.*\\.)?(?:${checked(pattern, what)})`)
    return { fits, value }
  })
  return (module) => compiled.find(({ fits }) => fits.test(module))?.value
}

/** Whether a projection is adapted: `check_target_module_exists` of PEFT. */
function targetsOf(settings: Settings, path: string): (module: string) => boolean {
  const { target_modules, exclude_modules, layers_to_transform, layers_pattern } = settings
  // What PEFT takes for these architectures where nothing is said.
  const targets = named(target_modules ?? ['q_proj', 'v_proj'], `${path} sets target_modules`)
  const excluded = named(exclude_modules ?? [], `${path} sets exclude_modules`)
  const layers = layers_to_transform == null ? null : [layers_to_transform].flat()
  const patterns = [layers_pattern ?? []].flat()
  const isLayered = patterns.length === 0 || patterns.some((pattern) => ends('model.layers', pattern))
  if (typeof target_modules === 'string' && (layers !== null || patterns.length > 0)) {
    throw new UserError(
      `${path} sets layers_to_transform beside target_modules that is a pattern. Say the layers in the pattern.`,
    )
  }
  return (module) => {
    if (excluded(module) || !targets(module)) return false
    if (layers === null || layers.length === 0) return true
    return isLayered && layers.includes(Number(/^model\.layers\.(\d+)\./.exec(module)?.[1]))
  }
}

const ends = (module: string, name: string) => module === name || module.endsWith(`.${name}`)

/** Whether modules are meant by a list of names, or by a pattern of the whole name. */
function named(modules: string | readonly string[], what: string): (module: string) => boolean {
  if (typeof modules !== 'string') {
    if (modules.length > MOST_PATTERNS) {
      throw new UserError(
        `${what} to ${modules.length} names, more than ${MOST_PATTERNS}. Use another adapter.`,
      )
    }
    return (module) => modules.some((name) => ends(module, name))
  }
  if (modules === '') return () => false
  if (modules.toLowerCase() === 'all-linear') return () => true
  const fits = expression(checked(modules, what))
  return (module) => fits.test(module)
}

const expression = (pattern: string) => new RegExp(`^(?:${pattern})$`)

/**
 * A pattern of Python's that means the same here and is soon done with: letters, dots, simple sets, groups without
 * repetition, and few repetitions.
 */
function checked(pattern: string, what: string): string {
  const known = /^(?:[\w.\-^$|?*+)]|\\[.dw]|\[[\w-]+\]|\((?:\?:)?(?!\?))*$/
  const repetitions = pattern.match(/[*+]/g)?.length ?? 0
  try {
    const isPlain = known.test(pattern) && !/\)[*+]/.test(pattern) && repetitions <= 3
    if (pattern.length <= LONGEST_PATTERN && isPlain) {
      expression(pattern)
      return pattern
    }
  } catch {
    // No expression: said below.
  }
  throw new UserError(
    `${what} by the pattern "${pattern.slice(0, 60)}", which is not supported. Name the modules instead.`,
  )
}

/** Lays command-line flags over an experiment. Pure. */
import { z } from 'zod'
import type { RoundChoices, Sampling } from '../board/protocol.ts'
import { UserError } from '../errors.ts'
import type { ArmChoices } from '../experiment/arms.ts'
import { type Experiment, type ExperimentChoices, overrideExperiment } from '../experiment/config.ts'
import { cutTask, taskNamed } from '../experiment/tasks.ts'
import { withSettings } from './settings.ts'

/** Options that say which experiment it is. */
export interface ExperimentFlags {
  model?: string
  task?: string
  train?: number
  holdout?: number
  steps?: number
  seeds?: number[]
  device?: string
  engine?: string
  threads?: number
  url?: string[]
  tokenizer?: string
  temperature?: number
  loraAlpha?: number
  /** Settings by their paths; they have the last word. */
  set?: string[]
}

/** Of whatever prints results. */
export interface OutputFlags {
  json?: boolean
  explain?: boolean
}

/** Those of `run`, here because its workers lay them over the experiment too. */
export interface RunFlags extends ExperimentFlags, OutputFlags {
  jobs?: number
  out?: string
  fresh?: boolean
  arm?: string[]
  shard?: { k: number; n: number }
  untilResolved?: boolean
  maxSeeds?: number
  ui?: boolean
  log?: 'tensorboard'
}

const text = z.string()
const texts = z.array(text)
const number = z.number()

/** All of some flags that says what is run, and how many jobs at a time: what a run folder keeps. */
const keptSchema = z
  .object({
    model: text,
    task: text,
    train: number,
    holdout: number,
    steps: number,
    seeds: z.array(number),
    device: text,
    engine: text,
    threads: number,
    url: texts,
    tokenizer: text,
    temperature: number,
    loraAlpha: number,
    set: texts,
    jobs: number,
  })
  .partial()

export type KeptFlags = z.infer<typeof keptSchema>

export const keptFlags = (flags: unknown): KeptFlags => keptSchema.parse(flags)

export function withFlags(experiment: Experiment, flags: ExperimentFlags): Experiment {
  const over: ExperimentChoices = {}
  const sizes = Object.fromEntries(
    (['train', 'holdout'] as const).flatMap((set) => (flags[set] === undefined ? [] : [[set, flags[set]]])),
  )
  const own = flags.task === undefined ? experiment.choices.task : undefined
  if (own && Object.keys(sizes).length > 0) over.task = cutTask(own, sizes)
  else if (!own) over.task = taskNamed(flags.task ?? 'word-problems', sizes)
  if (flags.model !== undefined) over.model = flags.model
  if (flags.steps !== undefined) over.train = { steps: flags.steps }
  if (flags.loraAlpha !== undefined) {
    over.train = { ...over.train, lora: { ...experiment.choices.train?.lora, alpha: flags.loraAlpha } }
  }
  if (flags.temperature !== undefined) over.sampling = atTemperature(experiment, flags.temperature)
  const { arms } = experiment.choices
  if (arms) {
    for (const [name, arm] of Object.entries(arms)) refuseFixed(name, arm, flags)
    over.arms = Object.fromEntries(Object.entries(arms).map(([name, arm]) => [name, armWith(arm, flags)]))
  }
  if (flags.seeds !== undefined) over.seeds = flags.seeds
  const { device, threads, url: urls, tokenizer } = flags
  const engine = { name: flags.engine, device, threads, urls, tokenizer }
  const stated = Object.entries(engine).filter(([, value]) => value !== undefined)
  // The names are checked where the experiment is completed, as those of an experiment file are.
  if (stated.length > 0) over.engine = Object.fromEntries(stated) as ExperimentChoices['engine']
  return withSettings(overrideExperiment(experiment, over), flags.set ?? [])
}

/**
 * Said on the command line, it is meant for every arm: the setting of an arm, or of one of its rounds, gives way to the
 * experiment's.
 */
function armWith(arm: ArmChoices, { model, steps, loraAlpha, temperature }: ExperimentFlags): ArmChoices {
  const patch = model === undefined ? { ...arm } : without('model', arm)
  if (steps !== undefined) patch.train = without('steps', patch.train)
  if (loraAlpha !== undefined && patch.train?.lora) {
    patch.train = { ...patch.train, lora: without('alpha', patch.train.lora) }
  }
  if (temperature !== undefined) {
    patch.sampling = drawn(patch.sampling, ['trained', 'context'])
    const { protocol } = patch
    if (protocol) patch.protocol = { ...protocol, rounds: protocol.rounds.map(roundWith) }
  }
  return patch
}

const roundWith = (round: RoundChoices): RoundChoices => ({
  ...round,
  ...(round.sampling && { sampling: drawn(round.sampling, ['train', 'evaluation']) }),
})

/** Draws without a temperature of their own. */
function drawn<Part extends string>(
  sampling: { [P in Part]?: Partial<Sampling> } | undefined,
  parts: readonly Part[],
): { [P in Part]?: Partial<Sampling> } {
  const each = parts.map((part) => [
    part,
    without('temperature', sampling?.[part] as Partial<Sampling> | undefined),
  ])
  return Object.fromEntries(each) as { [P in Part]?: Partial<Sampling> }
}

function without<T extends object>(key: keyof T, of: T | undefined): Partial<T> {
  const { [key]: _, ...rest } = of ?? ({} as T)
  return rest as Partial<T>
}

/** Refuses a flag for an arm to which it cannot be meant to go. */
function refuseFixed(
  name: string,
  { policies = {}, adapter }: ArmChoices,
  { model, loraAlpha }: ExperimentFlags,
): void {
  for (const [policy, own] of Object.entries(policies)) {
    if (model !== undefined && own.model !== undefined) {
      throw new UserError(
        `--model ${model} is meant for every policy, and the arm "${name}" has the policy "${policy}" with a model of its ` +
          `own (${own.model}): leave --model out, or change the experiment.`,
      )
    }
  }
  const started = [adapter, ...Object.values(policies).map((own) => own.adapter)].find((path) => path)
  if (loraAlpha !== undefined && started) {
    throw new UserError(
      `--lora-alpha ${loraAlpha} is meant for every adapter, and the arm "${name}" starts from ${started}, which has an ` +
        'alpha of its own: leave --lora-alpha out.',
    )
  }
}

/** Every draw at a temperature, and each with the nucleus that it has. */
function atTemperature(
  { choices: { sampling } }: Experiment,
  temperature: number,
): ExperimentChoices['sampling'] {
  const { trained, context } = sampling?.train ?? {}
  return {
    train: { trained: { ...trained, temperature }, context: { ...context, temperature } },
    evaluation: { ...sampling?.evaluation, temperature },
  }
}

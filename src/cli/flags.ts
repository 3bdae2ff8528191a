/** Lays command-line flags over an experiment. Pure. */
import type { RoundChoices } from '../board/protocol.ts'
import { UserError } from '../errors.ts'
import type { ArmChoices } from '../experiment/arms.ts'
import { type Experiment, type ExperimentChoices, overrideExperiment } from '../experiment/config.ts'
import { cutTask, taskNamed } from '../experiment/tasks.ts'

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
}

/** Those of `run`, here because its workers lay them over the experiment too. */
export interface RunFlags extends ExperimentFlags {
  jobs?: number
  out?: string
  fresh?: boolean
  arm?: string[]
  shard?: { k: number; n: number }
  untilResolved?: boolean
  maxSeeds?: number
  json?: boolean
  ui?: boolean
  log?: 'tensorboard'
}

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
  return overrideExperiment(experiment, over)
}

/** Said on the command line, it is meant for every arm: the setting of an arm, or of one of its rounds, gives way. */
function armWith(arm: ArmChoices, { model, steps, loraAlpha, temperature }: ExperimentFlags): ArmChoices {
  const { train = {}, sampling, protocol } = arm
  return {
    ...arm,
    ...(model !== undefined && { model }),
    train: {
      ...train,
      ...(steps !== undefined && { steps }),
      ...(loraAlpha !== undefined && train.lora && { lora: { ...train.lora, alpha: loraAlpha } }),
    },
    ...(temperature !== undefined && {
      sampling: {
        trained: { ...sampling?.trained, temperature },
        context: { ...sampling?.context, temperature },
      },
      ...(protocol && {
        protocol: { ...protocol, rounds: protocol.rounds.map((round) => roundAt(round, temperature)) },
      }),
    }),
  }
}

function roundAt(round: RoundChoices, temperature: number): RoundChoices {
  const { train, evaluation } = round.sampling ?? {}
  return {
    ...round,
    ...(round.sampling && {
      sampling: {
        ...(train && { train: { ...train, temperature } }),
        ...(evaluation && { evaluation: { ...evaluation, temperature } }),
      },
    }),
  }
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

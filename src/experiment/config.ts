/**
 * What an experiment is: `defineExperiment` turns the few lines that a user writes into a complete, checked
 * configuration. Touches no files and no engine; experiment/record.ts makes the plain data that a run folder keeps.
 */
import { z } from 'zod'
import type { Sampling } from '../board/protocol.ts'
import { own, shared } from '../board/sights.ts'
import type { Device } from '../engine/onnx/devices.ts'
import { defaultDevice } from '../engine/onnx/runtime.ts'
import { tinkerAddress } from '../engine/tinker/address.ts'
import { UserError } from '../errors.ts'
import { mathGrader } from '../grade/grader.ts'
import type { Grader } from '../grade/types.ts'
import { builtInModel, cores } from '../platform/machine.ts'
import { armName } from '../record/plan.ts'
import type { Task } from '../tasks/types.ts'
import { wordProblems } from '../tasks/word-problems.ts'
import type { TemplateArguments } from '../tokens/template.ts'
import type { Credit } from '../train/credit/types.ts'
import type { TrainSampling } from '../train/loop.ts'
import type { TrainChoices } from '../train/options.ts'
import { type Arm, type ArmChoices, defaultArms, resolveArm } from './arms.ts'
import { referenceSettings, type Settings, smallPolicySettings } from './defaults.ts'

/** What a user states. Everything left out takes its default from experiment/defaults.ts. */
export interface ExperimentChoices {
  /** A checkpoint folder in Hugging Face's layout, or a model on the hub (owner/name, owner/name@revision); the
   * built-in policy when left out. */
  model?: string
  /** Where the problems come from; the built-in word problems when left out. */
  task?: Task
  board?: Partial<Settings['board']>
  /** Arms by name, each a patch over the rest; `baseline` with own notes and `recipe` with all of them unless told. */
  arms?: Readonly<Record<string, ArmChoices>>
  /** The arm that the others are compared with: `baseline`, or else the first, unless told. */
  baseline?: string
  /** The pairs to compare; each other arm against the baseline unless told. */
  contrasts?: readonly Pair[]
  train?: TrainChoices
  /** Of all arms; `train` may be patched by an arm. */
  sampling?: {
    train?: { [Part in keyof TrainSampling]?: Partial<TrainSampling[Part]> }
    evaluation?: Partial<Sampling>
  }
  evaluation?: Partial<Settings['evaluation']>
  /** Training seeds: each arm is trained once with each. */
  seeds?: number[]
  grader?: Grader
  /** What chat templates are given beside the chat: `{ enable_thinking: false }`. */
  template?: TemplateArguments
  engine?: EngineChoices
}

/** What a user states of the engine: the settings of the one that `name` says, onnx unless told. */
export interface EngineChoices
  extends Partial<Omit<OnnxChoice, 'name'>>,
    Partial<Omit<TinkerChoice, 'name'>> {
  name?: EngineChoice['name']
}

export type EngineChoice = OnnxChoice | TinkerChoice

/** Servers of the Tinker API; `model` is the name of a model there. */
export interface TinkerChoice {
  name: 'tinker'
  /** The servers' addresses: http://localhost:8000. */
  urls: readonly string[]
  /** A folder, or a model on the hub, with the model's tokenizer and config.json; `model` itself unless told. */
  tokenizer: string | null
}

/** The built-in engine. */
export interface OnnxChoice {
  name: 'onnx'
  /** Where it computes; `auto` takes the best that works when the engine is opened. */
  device: Device | 'auto'
  /** Threads of the engine; all cores of this machine unless told. How work is split decides the last digits. */
  threads: number
}

/** One arm against another: a test of the family. */
export interface Pair {
  arm: string
  against: string
}

/** A complete and checked experiment. */
export interface Experiment {
  /** What the user stated: the command line's flags are laid over it. */
  choices: ExperimentChoices
  model: string
  task: Task
  board: Settings['board']
  arms: Readonly<Record<string, Arm>>
  baseline: string
  contrasts: readonly Pair[]
  evaluation: Settings['evaluation'] & { sampling: Sampling }
  seeds: number[]
  grader: Grader
  template: TemplateArguments
  engine: EngineChoice
}

/**
 * Completes and checks an experiment.
 *
 * @throws UserError for a setting that cannot be, naming it, its value and what it may be.
 */
export function defineExperiment(choices: ExperimentChoices = {}): Experiment {
  const known = checked(choicesSchema, choices, 'The experiment') as ExperimentChoices
  const settings = known.model === undefined ? smallPolicySettings : referenceSettings
  const model = known.model ?? builtInModel
  const sizes = { ...settings.board, ...known.board }
  const { train: drawn } = settings.sampling
  const defaults = {
    sizes,
    train: { ...settings.train, ...known.train, lora: { ...settings.train.lora, ...known.train?.lora } },
    sampling: {
      trained: { ...drawn.trained, ...known.sampling?.train?.trained },
      context: { ...drawn.context, ...known.sampling?.train?.context },
    },
    model,
  }
  const arms = Object.fromEntries(
    Object.entries(known.arms ?? defaultArms({ own, shared })).map(([name, arm]) => [
      name,
      resolveArm(name, arm, defaults),
    ]),
  )
  const baseline = known.baseline ?? ('baseline' in arms ? 'baseline' : Object.keys(arms)[0])
  const contrasts =
    known.contrasts ??
    Object.keys(arms)
      .filter((arm) => arm !== baseline)
      .map((arm) => ({ arm, against: baseline }))
  for (const name of [baseline, ...contrasts.flatMap(({ arm, against }) => [arm, against])]) {
    if (!(name in arms)) {
      throw new UserError(`There is no arm "${name}": the arms are ${Object.keys(arms).join(', ')}.`)
    }
  }
  const twice = contrasts.find(
    ({ arm, against }, i) =>
      arm === against ||
      contrasts.some((other, j) => j < i && other.arm === arm && other.against === against),
  )
  if (twice) {
    throw new UserError(
      `contrasts has ${twice.arm} against ${twice.against}: name different arms, each pair once.`,
    )
  }
  return {
    choices: known,
    model,
    task: known.task ?? wordProblems(settings.problems),
    board: sizes,
    arms,
    baseline,
    contrasts,
    evaluation: {
      ...settings.evaluation,
      ...known.evaluation,
      sampling: { ...settings.sampling.evaluation, ...known.sampling?.evaluation },
    },
    seeds: known.seeds ?? settings.seeds,
    grader: known.grader ?? mathGrader,
    template: known.template ?? {},
    engine: engineOf(known),
  }
}

function engineOf({ model, engine = {} }: ExperimentChoices): EngineChoice {
  const { name = 'onnx', urls, tokenizer, ...own } = engine
  if (name === 'onnx') {
    if (urls !== undefined || tokenizer !== undefined) {
      throw new UserError(
        'engine.urls and engine.tokenizer are of the engine tinker: give --engine tinker too.',
      )
    }
    return { name, device: defaultDevice(), threads: cores(), ...own }
  }
  if (Object.keys(own).length > 0) {
    throw new UserError(
      `engine.${Object.keys(own)[0]} is of the engine onnx, and with ${name} the server decides: leave it out.`,
    )
  }
  if (urls === undefined || urls.length === 0) {
    throw new UserError('The engine tinker needs a server: give --url http://host:8000.')
  }
  // They are written into the run's folder.
  for (const url of urls) tinkerAddress(url)
  if (model === undefined) {
    throw new UserError("The engine tinker needs --model: give the model's name at the server.")
  }
  return { name, urls, tokenizer: tokenizer ?? null }
}

export const noSuchArm = ({ arms }: Experiment, name: string) =>
  new UserError(`There is no arm "${name}": the arms are ${Object.keys(arms).join(', ')}.`)

/** The same experiment with other choices laid over the user's own. */
export function overrideExperiment(experiment: Experiment, over: ExperimentChoices): Experiment {
  const { choices } = experiment
  return defineExperiment({
    ...choices,
    ...over,
    board: { ...choices.board, ...over.board },
    train: { ...choices.train, ...over.train },
    sampling: { ...choices.sampling, ...over.sampling },
    engine: { ...choices.engine, ...over.engine },
  })
}

const count = z.number().int().min(1)
const positive = z.number().positive()
const fraction = z.number().min(0).lt(1)
const samplingSchema = z
  .strictObject({ temperature: positive.optional(), topP: positive.max(1).optional() })
  .optional()
const trainSamplingSchema = z.strictObject({ trained: samplingSchema, context: samplingSchema }).optional()
const isFunction = (value: unknown) => typeof value === 'function'
const isObject = (value: unknown) => typeof value === 'object' && value !== null

/** Bounds of counts: far above what anybody has trained, and below what takes a machine down. */
const trainSchema = z
  .strictObject({
    steps: count.max(1_000_000).optional(),
    tokens: count.nullable().optional(),
    problemsPerStep: count.max(100_000).optional(),
    boards: count.max(64).optional(),
    roundWeights: z.array(z.number().min(0)).min(1).nullable().optional(),
    noteScale: z.enum(['none', 'std']).optional(),
    learningRate: positive.optional(),
    lora: z.strictObject({ rank: count.max(4096).optional(), alpha: positive.optional() }).optional(),
    clipLow: positive.max(1).optional(),
    clipHigh: positive.optional(),
    beta1: fraction.optional(),
    beta2: fraction.optional(),
    epsilon: positive.optional(),
    weightDecay: z.number().min(0).optional(),
    maxGradNorm: positive.optional(),
  })
  .optional()

const armSchema = z.strictObject({
  reads: z.custom<ArmChoices['reads']>(isFunction, 'must be a sight, such as own or shared').optional(),
  protocol: z
    .custom<ArmChoices['protocol']>(
      (value) => isObject(value) && Array.isArray((value as { rounds?: unknown }).rounds),
      'must be a protocol, such as board({ reads: shared })',
    )
    .optional(),
  credit: z
    .custom<Credit>(
      (value) => isObject(value) && isFunction((value as { assign?: unknown }).assign),
      'must be a credit rule, such as leaveOneOut()',
    )
    .optional(),
  train: trainSchema,
  sampling: trainSamplingSchema,
  model: z.string().min(1).optional(),
  adapter: z.string().min(1).optional(),
  policies: z
    .record(
      z.string().regex(armName),
      z.strictObject({
        model: z.string().min(1).optional(),
        adapter: z.string().min(1).nullable().optional(),
        trained: z.boolean().optional(),
      }),
    )
    .optional(),
})

const choicesSchema = z.strictObject({
  model: z.string().min(1).optional(),
  task: z
    .custom<Task>(
      (value) => typeof value === 'object' && value !== null && 'load' in value && isFunction(value.load),
      'must be a task, such as wordProblems({ train: 512, holdout: 120 })',
    )
    .optional(),
  board: z
    .strictObject({
      copies: z.number().int().min(1).max(256).optional(),
      noteTokens: count.max(1_000_000).optional(),
      replyTokens: count.max(1_000_000).optional(),
      readTokens: count.nullable().optional(),
    })
    .optional(),
  arms: z
    .record(
      z.string().regex(armName, 'must start with a letter and hold letters, digits, - and _ (40 at most)'),
      armSchema,
    )
    .refine((arms) => Object.keys(arms).length >= 1, 'must have at least one arm')
    .refine((arms) => Object.keys(arms).length <= 64, 'must have at most 64 arms')
    .refine((arms) => !Object.keys(arms).some((name) => /^base(-|$)/.test(name)), {
      message: 'must not be named base: that is what the untrained model is called',
    })
    .optional(),
  baseline: z.string().optional(),
  contrasts: z.array(z.strictObject({ arm: z.string(), against: z.string() })).optional(),
  train: trainSchema,
  sampling: z.strictObject({ train: trainSamplingSchema, evaluation: samplingSchema }).optional(),
  evaluation: z
    .strictObject({ baseRuns: count.max(1000).optional(), problemsAtOnce: count.max(100_000).optional() })
    .optional(),
  seeds: z
    .array(z.number().int().min(0).max(0xffff_ffff))
    .min(1, 'must have at least one seed')
    .max(10_000)
    .refine((seeds) => new Set(seeds).size === seeds.length, {
      error: ({ input }) =>
        `must differ from each other, and ${firstRepeated(input as number[])} stands twice`,
    })
    .optional(),
  grader: z
    .custom<Grader>(
      (value) => isObject(value) && isFunction((value as Partial<Grader>).grade),
      'must be a grader, such as { name, version, grade }',
    )
    .refine(
      ({ name, version }) => [name, version].every((said) => typeof said === 'string' && said !== ''),
      'must have a name and a version, by which its grades are known',
    )
    .optional(),
  template: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).optional(),
  engine: z
    .strictObject({
      name: z.enum(['onnx', 'tinker']).optional(),
      device: z.enum(['cpu', 'wasm', 'cuda', 'webgpu', 'auto']).optional(),
      // More on a core only wait for each other, and each has memory of its own.
      threads: count.max(16 * cores()).optional(),
      urls: z.array(z.string().min(1)).optional(),
      tokenizer: z.string().min(1).nullish(),
    })
    .optional(),
})

const firstRepeated = (values: number[]) => values.find((value, i) => values.indexOf(value) !== i)

/** Parses, or throws one sentence for the first thing that is wrong: where it is, what it is, what it may be. */
export function checked<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  if (issue.code === 'unrecognized_keys') {
    const where = issue.path.length > 0 ? ` under ${issue.path.join('.')}` : ''
    throw new UserError(`${what} has an unknown setting "${issue.keys[0]}"${where}: remove or rename it.`)
  }
  let found: unknown = value
  for (const key of issue.path) found = (found as Record<PropertyKey, unknown> | undefined)?.[key]
  const shown = typeof found === 'function' ? 'a function' : JSON.stringify(found)
  throw new UserError(`${what} has ${issue.path.join('.')} = ${shown}: ${expected(issue)}.`)
}

function expected(issue: z.core.$ZodIssue): string {
  if (issue.code === 'too_small' && issue.origin !== 'array' && issue.message.startsWith('Too small')) {
    return `it must be ${issue.inclusive ? 'at least' : 'above'} ${issue.minimum}`
  }
  if (issue.code === 'too_big' && issue.message.startsWith('Too big')) {
    return `it must be ${issue.inclusive ? 'at most' : 'below'} ${issue.maximum}`
  }
  if (issue.code === 'invalid_type')
    return `it must be ${issue.expected === 'int' ? 'a whole number' : issue.expected}`
  if (issue.code === 'invalid_value') return `it must be ${issue.values.map(String).join(' or ')}`
  return /^must/.test(issue.message) ? `it ${issue.message}` : issue.message
}

/**
 * What an experiment is: `defineExperiment` turns the few lines that a user writes into a complete, checked
 * configuration, and `configRecord` into the plain data that a run folder keeps. Touches no files and no engine.
 */
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { layout, own, shared } from '../board/reads.ts'
import type { Reads } from '../board/types.ts'
import type { Device } from '../engine/onnx/device.ts'
import { tinkerAddress } from '../engine/tinker/address.ts'
import { UserError } from '../errors.ts'
import { mathGrader } from '../grade/grader.ts'
import type { Grader } from '../grade/types.ts'
import type { Task } from '../tasks/types.ts'

import { wordProblems } from '../tasks/word-problems.ts'

import type { TrainChoices } from '../train/options.ts'
import { type ArmName, armNames } from './arms.ts'
import { referenceSettings, type Sampling, type Settings, smallPolicySettings } from './defaults.ts'

/** The one thing that differs between arms: what a reader sees. */
export interface Arm {
  reads: Reads
}

/** Rounds may be stated in part, as may everything else. */
interface SamplingChoices {
  notes?: Partial<Sampling>
  replies?: Partial<Sampling>
}

/** What a user states. Everything left out takes its default from experiment/defaults.ts. */
export interface ExperimentChoices {
  /** A checkpoint folder in Hugging Face's layout, or a model on the hub (owner/name, owner/name@revision); the
   * built-in policy when left out. */
  model?: string
  /** Where the problems come from; the built-in word problems when left out. */
  task?: Task
  board?: Partial<Settings['board']>
  arms?: Partial<Record<ArmName, Arm>>
  train?: TrainChoices
  sampling?: { train?: SamplingChoices; evaluation?: SamplingChoices }
  evaluation?: Partial<Settings['evaluation']>
  /** Training seeds: each arm is trained once with each. */
  seeds?: number[]
  grader?: Grader
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

/** A complete and checked experiment. */
export interface Experiment extends Omit<Settings, 'problems'> {
  /** What the user stated: the command line's flags are laid over it. */
  choices: ExperimentChoices
  model: string
  task: Task
  arms: Record<ArmName, Arm>
  grader: Grader
  engine: EngineChoice
}

/** The built-in policy's folder. It stands beside src/ in a checkout and beside dist/ in an installed package. */
export const builtInModel = fileURLToPath(new URL('../../policies/word-problems', import.meta.url))

/**
 * Completes and checks an experiment.
 *
 * @throws UserError for a setting that cannot be, naming it, its value and what it may be.
 */
export function defineExperiment(choices: ExperimentChoices = {}): Experiment {
  const known = checked(choicesSchema, choices, 'The experiment') as ExperimentChoices
  const settings = known.model === undefined ? smallPolicySettings : referenceSettings
  const { train: t, evaluation: e } = settings.sampling
  const experiment: Experiment = {
    choices: known,
    model: known.model ?? builtInModel,
    task: known.task ?? wordProblems(settings.problems),
    board: { ...settings.board, ...known.board },
    arms: {
      baseline: known.arms?.baseline ?? { reads: own },
      recipe: known.arms?.recipe ?? { reads: shared },
    },
    train: { ...settings.train, ...known.train, lora: { ...settings.train.lora, ...known.train?.lora } },
    sampling: {
      train: rounds(t, known.sampling?.train),
      evaluation: rounds(e, known.sampling?.evaluation),
    },
    evaluation: { ...settings.evaluation, ...known.evaluation },
    seeds: known.seeds ?? settings.seeds,
    grader: known.grader ?? mathGrader,
    engine: engineOf(known),
  }
  for (const arm of armNames) layout(experiment.arms[arm].reads, experiment.board.copies)
  return experiment
}

function engineOf({ model, engine = {} }: ExperimentChoices): EngineChoice {
  const { name = 'onnx', urls, tokenizer, ...own } = engine
  if (name === 'onnx') {
    if (urls !== undefined || tokenizer !== undefined) {
      throw new UserError(
        'engine.urls and engine.tokenizer are of the engine tinker: give --engine tinker too.',
      )
    }
    return { name, device: 'cpu', threads: availableParallelism(), ...own }
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

function rounds(
  base: Settings['sampling']['train'],
  chosen: SamplingChoices = {},
): Settings['sampling']['train'] {
  return {
    notes: { ...base.notes, ...chosen.notes },
    replies: { ...base.replies, ...chosen.replies },
  }
}

/** The same experiment with other choices laid over the user's own. */
export function overrideExperiment(experiment: Experiment, over: ExperimentChoices): Experiment {
  const { choices } = experiment
  return defineExperiment({
    ...choices,
    ...over,
    board: { ...choices.board, ...over.board },
    train: { ...choices.train, ...over.train },
    engine: { ...choices.engine, ...over.engine },
  })
}

/**
 * The configuration as plain data: all that decides what a job computes. Seeds are not in it, since a job with one
 * seed is the same whatever other seeds there are: adding one pays for that one alone.
 */
export function configRecord(experiment: Experiment) {
  const { board, train, sampling, evaluation, engine, task, grader } = experiment
  const arm = (name: ArmName) => {
    const { reads } = experiment.arms[name]
    return { reads: reads.name, layout: layout(reads, board.copies) }
  }
  return {
    task: { name: task.name, ...task.config },
    board,
    arms: { baseline: arm('baseline'), recipe: arm('recipe') },
    train,
    sampling,
    evaluation,
    grader: { name: grader.name, version: grader.version },
    // Where the servers are decides nothing: a run may go on at another address.
    engine: engine.name === 'tinker' ? { name: engine.name } : engine,
  }
}

const count = z.number().int().min(1)
const positive = z.number().positive()
const fraction = z.number().min(0).lt(1)
const samplingSchema = z
  .strictObject({ temperature: positive.optional(), topP: positive.max(1).optional() })
  .optional()
const roundsSchema = z.strictObject({ notes: samplingSchema, replies: samplingSchema }).optional()
const isFunction = (value: unknown) => typeof value === 'function'
const armSchema = z
  .strictObject({ reads: z.custom<Reads>(isFunction, 'must be a board, such as own or shared') })
  .optional()

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
      // One copy is a group of one: no reply can be better than its group's mean, so nothing can be learned.
      copies: z.number().int().min(2, 'must be at least 2: copies are compared with each other').optional(),
      noteTokens: count.optional(),
      replyTokens: count.optional(),
      readTokens: count.nullable().optional(),
    })
    .optional(),
  arms: z.strictObject({ baseline: armSchema, recipe: armSchema }).optional(),
  train: z
    .strictObject({
      steps: count.optional(),
      problemsPerStep: count.optional(),
      learningRate: positive.optional(),
      lora: z.strictObject({ rank: count.optional(), alpha: positive.optional() }).optional(),
      clipLow: positive.max(1).optional(),
      clipHigh: positive.optional(),
      beta1: fraction.optional(),
      beta2: fraction.optional(),
      epsilon: positive.optional(),
      weightDecay: z.number().min(0).optional(),
      maxGradNorm: positive.optional(),
    })
    .optional(),
  sampling: z.strictObject({ train: roundsSchema, evaluation: roundsSchema }).optional(),
  evaluation: z.strictObject({ baseRuns: count.optional(), problemsAtOnce: count.optional() }).optional(),
  seeds: z
    .array(z.number().int().min(0).max(0xffff_ffff))
    .min(1, 'must have at least one seed')
    .refine((seeds) => new Set(seeds).size === seeds.length, 'must differ from each other')
    .optional(),
  grader: z
    .custom<Grader>((value) => typeof value === 'object' && value !== null && 'grade' in value)
    .optional(),
  engine: z
    .strictObject({
      name: z.enum(['onnx', 'tinker']).optional(),
      device: z.enum(['cpu', 'cuda', 'webgpu', 'auto']).optional(),
      threads: count.optional(),
      urls: z.array(z.string().min(1)).optional(),
      tokenizer: z.string().min(1).nullish(),
    })
    .optional(),
})

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

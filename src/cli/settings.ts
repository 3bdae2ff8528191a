/**
 * `--set PATH=VALUE`: one setting of an experiment by its path, as if it stood in the experiment's file and checked as that
 * is. Pure.
 */
import { alone, board, debate, proposers, revisers } from '../board/protocols.ts'
import { everything, own, shared, sights } from '../board/sights.ts'
import { UserError } from '../errors.ts'
import { defaultArms } from '../experiment/arms.ts'
import { defineExperiment, type Experiment, type ExperimentChoices, noSuchArm } from '../experiment/config.ts'
import { taskNamed } from '../experiment/tasks.ts'
import { leaveOneOut, ownAnswer, readersOf, readersOnly, subsets, team } from '../train/credit/index.ts'

/** What is a function, or made by one, in a file has a name here, and its defaults. */
const protocols = { alone, board, debate, proposers, revisers }
const credits = { leaveOneOut, ownAnswer, readersOf, readersOnly, subsets, team }
const made: Readonly<Record<string, Readonly<Record<string, () => unknown>>>> = {
  reads: Object.fromEntries(
    Object.entries({ ...sights, everything }).map(([name, sight]) => [name, () => sight]),
  ),
  protocol: Object.fromEntries(Object.entries(protocols).map(([name, protocol]) => [name, () => protocol()])),
  credit: credits,
}

/** @throws UserError in the words of defineExperiment, and for a path or an arm that cannot be. */
export function withSettings(experiment: Experiment, settings: readonly string[]): Experiment {
  if (settings.length === 0) return experiment
  const set = (choices: ExperimentChoices, setting: string) => withSetting(choices, setting, experiment)
  // Checked once all are there: one may be for another.
  return defineExperiment(settings.reduce(set, experiment.choices))
}

function withSetting(choices: ExperimentChoices, setting: string, experiment: Experiment): ExperimentChoices {
  const [, path, text] = /^([A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)*)=(.*)$/s.exec(setting) ?? []
  if (path === undefined) {
    throw new UserError(
      `--set ${setting} sets nothing: give a path and a value, such as train.learningRate=5e-4.`,
    )
  }
  const keys = path.split('.')
  const [first, name, part] = keys
  if (first === 'task' || first === 'grader') {
    if (path === 'task') return { ...choices, task: taskNamed(text, {}) }
    throw new UserError(
      `--set ${setting}: ${first} is made by a function, and what is in it cannot be set from here: write it in an ` +
        'experiment file.',
    )
  }
  if (first !== 'arms') return put(choices, keys, parsed(text)) as ExperimentChoices

  const arms = choices.arms ?? defaultArms({ own, shared })
  if (name === undefined || part === undefined) {
    throw new UserError(
      `--set ${setting} sets no setting of an arm: give one, such as arms.recipe.train.steps=80.`,
    )
  }
  // A new arm has more to say than one setting, and this one may be a slip of the pen.
  if (!Object.hasOwn(arms, name)) throw noSuchArm(experiment, name)
  if (!Object.hasOwn(made, part)) {
    return { ...choices, arms: put(arms, keys.slice(1), parsed(text)) as ExperimentChoices['arms'] }
  }
  const make = Object.hasOwn(made[part], text) ? made[part][text] : undefined
  if (make === undefined || keys.length > 3) {
    throw new UserError(
      `--set ${setting}: give arms.${name}.${part} as one of ${Object.keys(made[part]).join(', ')}, or write it in an ` +
        'experiment file.',
    )
  }
  // One is short for the other.
  const { reads, protocol, ...rest } = arms[name]
  const kept = part === 'credit' ? arms[name] : rest
  return { ...choices, arms: { ...arms, [name]: { ...kept, [part]: make() } } }
}

/** A copy with a value at a path. */
function put(into: unknown, [key, ...rest]: readonly string[], value: unknown): Record<string, unknown> {
  const own = typeof into === 'object' && into !== null ? (into as Record<string, unknown>) : {}
  const at = Object.hasOwn(own, key) ? own[key] : undefined
  return { ...own, [key]: rest.length === 0 ? value : put(at, rest, value) }
}

/** A number, true, false, null, JSON, numbers with commas between them, or a text. */
function parsed(text: string): unknown {
  const isNumber = (part: string) => part.trim() !== '' && Number.isFinite(Number(part))
  if (isNumber(text)) return Number(text)
  const parts = text.split(',')
  if (parts.length > 1 && parts.every(isNumber)) return parts.map(Number)
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/**
 * What an experiment could see and what that would cost: before a run from a short timing of the engine or from an
 * earlier run, after one from its own results. Asks an engine or reads a run folder; writes nothing.
 */
import { performance } from 'node:perf_hooks'
import { playRounds } from '../board/rounds.ts'
import { UserError } from '../errors.ts'
import type { LocateOptions } from '../hub/model.ts'
import {
  type CompareInput,
  type Components,
  compare,
  detectableEffect,
  expectedComponents,
  fewestSeeds,
  type Interval,
  layOut,
  minutesOf,
  type Plan,
  type PowerOptions,
  plan,
  plannedComponents,
  predict,
  type Sizes,
  type Speed,
  seedsToResolve,
  type Verdict,
} from '../stats/index.ts'
import { trainSteps } from '../train/loop.ts'
import { armNames } from './arms.ts'
import { builtInModel, type Experiment } from './config.ts'
import { findModel, openEngine } from './engine.ts'
import { roundsOf } from './job.ts'
import { checkPrompts, checkSplit } from './preflight.ts'
import { comparison, evaluationFacts } from './results.ts'
import { openStoredRun, type StoredRun, storedOutcomes } from './stored.ts'

/** What was learned before a run: how much scores vary, and how fast this machine is. */
export interface Pilot {
  components: Components
  speed: Speed
  /** Where both come from, one sentence. */
  source: string
  warnings: string[]
}

/** Problems of the timed evaluation: enough to know the rollouts' variance to a tenth of itself. */
const TIMED_PROBLEMS = 40

/** Training steps that are timed; one before them compiles graphs. */
const TIMED_STEPS = 2

/**
 * Times the engine on the experiment's own model and task: an evaluation of up to 40 held-out problems, and two
 * training steps under each arm's board. The evaluation's replies give the rollouts' variance; the rest is as
 * expectedComponents says.
 */
export async function measurePilot(
  experiment: Experiment,
  options: Pick<LocateOptions, 'onDownload' | 'onNotice'> & { onPhase?: (phase: string) => void } = {},
): Promise<Pilot> {
  const { onPhase = () => {} } = options
  const split = await experiment.task.load()
  checkSplit(experiment, split)
  const engine = await openEngine(experiment, await findModel(experiment, options))
  try {
    const boards = armNames.map((arm) => experiment.arms[arm].reads)
    checkPrompts(experiment, engine, split, boards)
    const { board, evaluation, train } = experiment
    const context = { engine, experiment, onEvent: () => {} }

    onPhase('an evaluation')
    const problems = split.holdout.slice(0, Math.min(TIMED_PROBLEMS, evaluation.problemsAtOnce))
    const base = await engine.createPolicy({})
    const rounds = roundsOf(context, experiment.arms.baseline.reads, 'evaluation')
    const play = (seed: string) =>
      playRounds(base, engine.tokenizer, problems, { ...rounds, seed: ['power', seed] })
    await play('warm-up')
    const { played, seconds } = await play('timed')
    base.dispose()

    let training = 0
    for (const arm of armNames) {
      onPhase(`training steps of the ${arm}`)
      const policy = await engine.createPolicy({ lora: { ...train.lora, seed: experiment.seeds[0] } })
      const steps = trainSteps({
        policy,
        tokenizer: engine.tokenizer,
        problems: split.train,
        rounds: roundsOf(context, experiment.arms[arm].reads, 'train'),
        train,
        seed: experiment.seeds[0],
        done: 0,
      })
      const timed = Math.min(TIMED_STEPS, train.steps)
      if (timed < train.steps) await steps.next()
      const started = performance.now()
      for (let step = 0; step < timed; step++) await steps.next()
      training += (performance.now() - started) / 1000 / timed
      policy.dispose()
    }

    const replies = played.map(({ board: { replies } }) => replies.map(({ correct }) => correct))
    return {
      components: expectedComponents(replies),
      speed: {
        minutesPerTraining: (train.steps * training) / armNames.length / 60,
        secondsPerRollout: (seconds.notes + seconds.replies) / (problems.length * board.copies),
      },
      source:
        `Timed on ${problems.length} problems and ${TIMED_STEPS} training steps of each arm; the replies' variance is ` +
        "measured on the base, seeds are taken to be 0.02 apart and trainings to differ on problems by a quarter of the replies' variance.",
      warnings: [],
    }
  } finally {
    await engine.close()
  }
}

/**
 * Learns from an earlier run of a like experiment: its variances, and its times scaled to this experiment's steps.
 *
 * @throws UserError for a folder without results of both arms.
 */
export async function pilotFrom(folder: string, experiment: Experiment): Promise<Pilot> {
  const run = await openStoredRun(folder)
  const input = await compared(run)
  const { config, results } = run
  const { problemsPerStep } = experiment.train
  const speed = measuredSpeed(run)
  const scale =
    (experiment.train.steps / config.train.steps) *
    (problemsPerStep / config.train.problemsPerStep) *
    (experiment.board.copies / config.board.copies)
  const model = experiment.model === builtInModel ? results.model.name : experiment.model
  return {
    components: plannedComponents(layOut(input.baseline, input.recipe)),
    speed: { ...speed, minutesPerTraining: speed.minutesPerTraining * scale },
    source: `Variances and times are those of ${folder}.`,
    warnings: [
      ...(model !== results.model.name
        ? [`${folder} ran ${results.model.name}, this experiment ${model}: the minutes are not its own.`]
        : []),
      ...(experiment.task.name !== results.task.name
        ? [`${folder} ran on ${results.task.name}, this experiment on ${experiment.task.name}.`]
        : []),
    ],
  }
}

/** Both arms of a stored run as compare takes them. */
async function compared(run: StoredRun): Promise<CompareInput> {
  const input = comparison(evaluationFacts(run.config), await storedOutcomes(run))
  if (!input) {
    throw new UserError(`${run.folder} does not have both arms trained: run it without --arm first.`)
  }
  return { ...input, alpha: run.results.sequential?.alpha }
}

function measuredSpeed({ results, holdout, config }: StoredRun): Speed {
  const jobs = Object.entries(results.timing.jobs)
  const trained = jobs.filter(([name]) => !name.startsWith('base-')).map(([, minutes]) => minutes)
  const evaluations = jobs.map(([, { evaluationMinutes }]) => evaluationMinutes)
  return {
    minutesPerTraining: mean(trained.map(({ trainMinutes }) => trainMinutes)),
    secondsPerRollout: (60 * mean(evaluations)) / (holdout * config.board.copies),
  }
}

export interface PowerBefore extends Pilot {
  schemaVersion: 1
  effect: number
  /** Designs that find the effect with 80% power, cheapest first. */
  plans: Plan[]
  /** The experiment as it is configured. */
  configured: Sizes & {
    /** Chance of `moved` at the effect asked for. */
    power: number
    /** The effect found with 80% power; null where none is. */
    detectable: number | null
    minutes: number
  }
}

/** What an experiment needs to find `effect`, from what is known before it is run. Rollouts are its copies' replies. */
export function powerBefore(
  experiment: Experiment,
  pilot: Pilot,
  effect: number,
  { holdout, maxProblems }: { holdout: number; maxProblems?: number },
): PowerBefore {
  const { components, speed } = pilot
  const rollouts = experiment.board.copies
  const sizes = { problems: holdout, seeds: experiment.seeds.length, rollouts }
  const options = { baseRuns: Math.max(2, experiment.evaluation.baseRuns) }
  return {
    schemaVersion: 1,
    effect,
    ...pilot,
    plans: plan(effect, components, { ...options, rollouts: [rollouts], maxProblems, speed }),
    configured: {
      ...sizes,
      power: predict(effect, components, sizes, options).moved,
      detectable: detectableEffect(components, sizes, options),
      minutes: minutesOf(sizes, speed, options.baseRuns),
    },
  }
}

/** More seeds an arm that a table of what they could see goes up to. */
const MORE = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]

export interface PowerAfter {
  schemaVersion: 1
  verdict: Verdict
  delta: number
  ci95: Interval
  problems: number
  /** Seeds an arm that the run has. */
  seeds: number
  /** Seeds an arm that resolve it, and minutes of those that are missing; null where seeds alone do not. */
  toResolve: { seeds: number | null; minutes: number | null; why: string }
  /** What more seeds an arm could see: the effect found with 80% power, and the minutes of the further seeds. */
  more: { seeds: number; detectable: number | null; minutes: number }[]
}

/**
 * How many more seeds would resolve a finished run - if the true difference were the observed one, or `effect` - and
 * what more seeds could see.
 *
 * @throws UserError for a folder without results of both arms.
 */
export async function powerAfter(folder: string, effect?: number): Promise<PowerAfter> {
  const run = await openStoredRun(folder)
  const input = await compared(run)
  const { verdict, delta, ci95 } = compare(input)
  const design = layOut(input.baseline, input.recipe)
  const components = plannedComponents(design)
  const seeds = Math.max(input.baseline.length, input.recipe.length)
  const sizes = { problems: design.problems.length, seeds, rollouts: run.config.board.copies }
  const options = { baseRuns: Math.max(2, input.baseRuns.length), alpha: input.alpha }
  const speed = measuredSpeed(run)
  const minutes = (more: number) =>
    minutesOf({ ...sizes, seeds: seeds + more }, speed) - minutesOf(sizes, speed)
  const needed =
    effect !== undefined
      ? seedsFor(effect, components, sizes, options)
      : verdict === 'unresolved'
        ? seedsToResolve(input)
        : { seeds, why: `It is resolved: ${verdict}.` }
  return {
    schemaVersion: 1,
    verdict,
    delta,
    ci95,
    problems: sizes.problems,
    seeds,
    toResolve: { ...needed, minutes: needed.seeds === null ? null : minutes(needed.seeds - seeds) },
    more: MORE.map((more) => ({
      seeds: seeds + more,
      detectable: detectableEffect(components, { ...sizes, seeds: seeds + more }, options),
      minutes: minutes(more),
    })),
  }
}

function seedsFor(effect: number, components: Components, sizes: Sizes, options: PowerOptions) {
  const seeds = fewestSeeds(effect, components, sizes, options)
  const why =
    seeds === null
      ? `An effect of ${effect} needs more held-out problems than ${sizes.problems}: not even 64 seeds an arm would resolve it.`
      : `If the true difference is ${effect}, ${seeds} seeds an arm (${seeds - sizes.seeds} more) resolve it with 80% chance.`
  return { seeds, why }
}

const mean = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0) / values.length

/**
 * What an experiment could see and what that would cost: before a run from a short timing of the engine or from an
 * earlier run, after one from its own results. Asks an engine or reads a run folder; writes nothing.
 */
import { finalScores } from '../board/counts.ts'
import { play } from '../board/play.ts'
import { policyWriter } from '../board/policy-writer.ts'
import type { Final } from '../board/protocol.ts'
import { UserError } from '../errors.ts'
import type { LocateOptions } from '../hub/locate.ts'
import type { ContrastResult } from '../record/results.ts'
import {
  type CompareInput,
  type Components,
  detectableEffect,
  expectedComponents,
  type FamilyInput,
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
  seedsToResolveEach,
  type Verdict,
} from '../stats/index.ts'
import { trainSteps } from '../train/loop.ts'
import type { Experiment } from './config.ts'
import { findModels, openEngines } from './engine.ts'
import { evaluationPlay, openAuthors } from './job.ts'
import { checkPrompts, checkSplit } from './preflight.ts'
import { modelName } from './record.ts'
import { familyOf } from './results.ts'
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

/** Texts that a protocol writes on one problem. */
const textsOf = ({ rounds }: { rounds: readonly { speakers: readonly number[] }[] }): number =>
  rounds.reduce((sum, { speakers }) => sum + speakers.length, 0)

/**
 * Times the engine on the experiment's own models and task: an evaluation of up to 40 held-out problems under the
 * baseline's protocol, and two training steps of each arm. The evaluation's scores give the rollouts' variance; the rest
 * is as expectedComponents says.
 */
export async function measurePilot(
  experiment: Experiment,
  options: Pick<LocateOptions, 'onDownload' | 'onNotice'> & { onPhase?: (phase: string) => void } = {},
): Promise<Pilot> {
  const { onPhase = () => {} } = options
  const split = await experiment.task.load()
  checkSplit(experiment, split)
  const engines = openEngines(experiment, await findModels(experiment, options), options.onNotice)
  try {
    await checkPrompts(experiment, engines, split)
    const { board, evaluation, arms, grader } = experiment
    const { readTokens } = board
    const seed = experiment.seeds[0]

    onPhase('an evaluation')
    const problems = split.holdout.slice(0, Math.min(TIMED_PROBLEMS, evaluation.problemsAtOnce))
    const baseline = arms[experiment.baseline]
    const authors = await openAuthors(engines, baseline, null)
    const timedPlay = (key: string) =>
      play(
        policyWriter(authors, { readTokens }),
        problems.map((problem) => ({ problem })),
        { ...evaluationPlay(experiment, baseline.protocol), seed: ['power', key] },
      )
    await timedPlay('warm-up')
    const { played, seconds } = await timedPlay('timed')
    for (const { policy } of authors.values()) policy.dispose()

    let training = 0
    for (const [name, arm] of Object.entries(arms)) {
      onPhase(`training steps of ${name}`)
      const learning = await openAuthors(engines, arm, seed)
      const steps = trainSteps({
        authors: learning,
        protocol: arm.protocol,
        credit: arm.credit,
        sampling: arm.sampling,
        problems: split.train,
        grader,
        readTokens,
        train: arm.train,
        seed,
        done: { steps: 0, tokens: 0 },
      })
      const timed = Math.min(TIMED_STEPS, arm.train.steps)
      if (timed < arm.train.steps) await steps.next()
      const started = performance.now()
      for (let step = 0; step < timed; step++) await steps.next()
      training += ((performance.now() - started) / 1000 / timed) * arm.train.steps
      for (const { policy } of learning.values()) policy.dispose()
    }

    const { protocol } = baseline
    const scores = played.map(({ episode }) => finalScores(episode, protocol.final))
    return {
      components: expectedComponents(scores),
      speed: {
        minutesPerTraining: training / Object.keys(arms).length / 60,
        secondsPerRollout:
          seconds.reduce((sum, one) => sum + one, 0) / (problems.length * finalsOf(protocol)),
      },
      source:
        `Timed on ${problems.length} problems and ${TIMED_STEPS} training steps of each arm; the replies' variance is ` +
        "measured on the base, seeds are taken to be 0.02 apart and trainings to differ on problems by a quarter of the replies' variance.",
      warnings: [],
    }
  } finally {
    await engines.close()
  }
}

/** Final answers of a problem: the rollouts that its score is the mean of. */
const finalsOf = ({
  rounds,
  final,
}: {
  rounds: readonly { speakers: readonly number[] }[]
  final: Final
}): number => (final === 'each' ? rounds[rounds.length - 1].speakers.length : 1)

/**
 * Learns from an earlier run of a like experiment: its variances, and its times scaled to this experiment's steps.
 *
 * @throws UserError for a folder without results of two arms.
 */
export async function pilotFrom(folder: string, experiment: Experiment): Promise<Pilot> {
  const run = await openStoredRun(folder)
  const { input } = await comparedArms(run)
  const { record, results } = run
  const earlier = record.identity.arms[record.baseline]
  const now = experiment.arms[experiment.baseline]
  const speed = measuredSpeed(run)
  const scale =
    (now.train.steps / earlier.train.steps) *
    ((now.train.problemsPerStep * now.train.boards) /
      (earlier.train.problemsPerStep * earlier.train.boards)) *
    (textsOf(now.protocol) / textsOf(earlier.protocol))
  const model = modelName(experiment.model)
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

/** The pair of a stored run that is least resolved, as the family has it. */
async function comparedArms(run: StoredRun): Promise<{
  family: FamilyInput
  input: Pick<CompareInput, 'baseline' | 'recipe'>
  /** Which of the family's pairs it is. */
  at: number
  found: ContrastResult
}> {
  const family = familyOf(run.record, await storedOutcomes(run))
  const [worst] = [...run.results.contrasts].sort(
    (a, b) => Number(b.verdict === 'unresolved') - Number(a.verdict === 'unresolved') || width(b) - width(a),
  )
  if (!family || !worst) {
    throw new UserError(
      `${run.folder} does not have two arms to compare trained: run it without --arm first.`,
    )
  }
  const at = family.pairs.findIndex(({ arm, against }) => arm === worst.arm && against === worst.against)
  const input = { baseline: family.arms[worst.against], recipe: family.arms[worst.arm] }
  return { family, input, at, found: worst }
}

const width = ({ ci95: [low, high] }: ContrastResult): number => high - low

function measuredSpeed({ results, record }: StoredRun): Speed {
  const jobs = Object.entries(results.timing.jobs)
  const trained = jobs.filter(([name]) => !name.startsWith('base-')).map(([, minutes]) => minutes)
  const evaluations = jobs.map(([, { evaluationMinutes }]) => evaluationMinutes)
  const { protocol } = record.identity.arms[record.baseline]
  return {
    minutesPerTraining: mean(trained.map(({ trainMinutes }) => trainMinutes)),
    secondsPerRollout: (60 * mean(evaluations)) / (results.task.holdout * finalsOf(protocol)),
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
  const rollouts = finalsOf(experiment.arms[experiment.baseline].protocol)
  const sizes = { problems: holdout, seeds: experiment.seeds.length, rollouts }
  const options = {
    baseRuns: Math.max(2, experiment.evaluation.baseRuns),
    arms: Math.max(2, Object.keys(experiment.arms).length),
    contrasts: Math.max(1, experiment.contrasts.length),
  }
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
  schemaVersion: 2
  /** The least resolved pair of the run. */
  arm: string
  against: string
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
 * @throws UserError for a folder without results of two arms.
 */
export async function powerAfter(folder: string, effect?: number): Promise<PowerAfter> {
  const run = await openStoredRun(folder)
  const { input, family, at, found } = await comparedArms(run)
  const { arm, against, verdict, delta, ci95 } = found
  const design = layOut(input.baseline, input.recipe)
  const components = plannedComponents(design)
  const seeds = Math.max(input.baseline.length, input.recipe.length)
  const sizes = {
    problems: design.problems.length,
    seeds,
    rollouts: finalsOf(run.record.identity.arms[run.record.baseline].protocol),
  }
  const options = {
    baseRuns: Math.max(2, family.baseRuns.length),
    alpha: family.alpha,
    arms: Object.keys(family.arms).length,
    contrasts: family.pairs.length,
  }
  const speed = measuredSpeed(run)
  const minutes = (more: number) =>
    minutesOf({ ...sizes, seeds: seeds + more }, speed) - minutesOf(sizes, speed)
  const needed =
    effect !== undefined
      ? seedsFor(effect, components, sizes, options)
      : verdict === 'unresolved'
        ? seedsToResolveEach(family)[at]
        : { seeds, why: `It is resolved: ${verdict}.` }
  return {
    schemaVersion: 2,
    arm,
    against,
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

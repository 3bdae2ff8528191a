/**
 * results.json: what a run found, as one documented record (docs/results.md), computed from its jobs' folders alone.
 * Pure: the same jobs give the same record, and what depends on the clock is kept apart (see withoutTimings).
 */
import { z } from 'zod'
import { type ReaderCounts, whatReadersDid } from '../board/readers.ts'
import type { Board } from '../board/types.ts'
import {
  type CompareInput,
  compare,
  type EvaluationFacts,
  hackScan,
  type Interval,
  noiseBand,
  passAt,
  type SeedScores,
  seedsToResolve,
} from '../stats/index.ts'
import type { StepMetrics } from '../train/loop.ts'
import { type ArmName, armNames } from './arms.ts'
import type { Settings } from './defaults.ts'
import { type JobOutcome, sharedBase } from './job.ts'
import { type LookPlan, lookAlpha, lookCount, readBefore } from './looks.ts'

const share = z.number().min(0).max(1)
const interval: z.ZodType<Interval> = z.tuple([z.number(), z.number()])

const verdictSchema = z.enum(['moved', 'moved the wrong way', 'flat', 'unresolved'])

const lookSchema = z.strictObject({
  seeds: z.number().int(),
  recipeVsBaseline: z.number(),
  ci95: interval,
  p: z.number(),
  verdict: verdictSchema,
})
export type Look = z.infer<typeof lookSchema>

const counted = z.strictObject({ changed: z.number().int(), of: z.number().int() })
const regradeSchema = z.strictObject({
  /** Names and versions of the verifiers. */
  from: z.string(),
  to: z.string(),
  /** Notes and replies of the evaluations whose grade changed. */
  evaluation: counted,
  /** Of training, whose grades were paid as rewards and are kept: those that would be others now. */
  training: counted,
})
export type Regrade = z.infer<typeof regradeSchema>

const boardSchema: z.ZodType<ReaderCounts> = z.strictObject({
  noteAcc: share,
  voteAcc: share,
  anyNote: share,
  switched: share,
  rescued: share,
  misled: share,
  notesCut: share,
  repliesCut: share,
  notesBoxed: share,
  noteChars: z.number(),
  replyChars: z.number(),
  noteTokens: z.number(),
  replyTokens: z.number(),
})

const armFields = {
  passAt1: share,
  ci95: interval,
  passAtK: share,
  k: z.number().int(),
  chars: z.number(),
  board: boardSchema,
}
const baseArmSchema = z.strictObject({ ...armFields, runs: z.array(share) })
const trainedArmSchema = z.strictObject({
  ...armFields,
  reads: z.string(),
  seeds: z.array(z.number().int()),
  perSeed: z.array(share),
  ci95PerSeed: z.array(interval),
  passAtKPerSeed: z.array(share),
  boardPerSeed: z.array(boardSchema),
  pooled: share,
  steps: z.number().int(),
  minutes: z.number(),
})

const traceSchema = z.strictObject({
  seed: z.number().int(),
  reward: z.array(share),
  informative: z.array(share),
  noteAcc: z.array(share),
  replyChars: z.array(z.number()),
  /** Null where the engine does not tell. */
  gradNorm: z.array(z.number().nullable()),
  /** Mean reward of the first and of the last ten steps (of all, where there are fewer). */
  rewardFirst10: share,
  rewardLast10: share,
})

export const resultsSchema = z.strictObject({
  schemaVersion: z.literal(1),
  model: z.strictObject({ name: z.string(), sha256: z.string() }),
  task: z.strictObject({ name: z.string(), train: z.number().int(), holdout: z.number().int() }),
  config: z.record(z.string(), z.unknown()),
  seeds: z.array(z.number().int()),
  arms: z.strictObject({
    base: baseArmSchema.nullable(),
    baseSharedBoard: baseArmSchema.nullable(),
    baseline: trainedArmSchema.nullable(),
    recipe: trainedArmSchema.nullable(),
  }),
  delta: z
    .strictObject({
      recipeVsBaseline: z.number(),
      ci95: interval,
      verdict: verdictSchema,
      why: z.string(),
      p: z.number(),
      smallestEffect: z.number().nullable(),
      flatWithin: z.number(),
      warnings: z.array(z.string()),
      /** Of an unresolved comparison: the seeds an arm that would resolve it (null: seeds alone would not). */
      toResolve: z
        .strictObject({ seeds: z.number().int().nullable(), why: z.string() })
        .nullable()
        .default(null),
    })
    .nullable(),
  /** How seeds were added until the verdict was resolved; null where the verdict is read once. */
  sequential: z
    .strictObject({
      maxSeeds: z.number().int(),
      looks: z.number().int(),
      alpha: z.number(),
      taken: z.array(lookSchema),
    })
    .nullable()
    .default(null),
  /** Each time that the stored rollouts were graded again. */
  regrades: z.array(regradeSchema).default([]),
  checks: z.strictObject({
    noise: z
      .strictObject({ runs: z.array(share), runStd: z.number(), t: z.number(), band: z.number() })
      .nullable(),
    decontamination: z.strictObject({ dropped: z.number().int() }),
    length: z.array(z.strictObject({ arm: z.string(), before: z.number(), after: z.number() })),
    cut: z.array(z.strictObject({ arm: z.string(), notes: share, replies: share })),
    /** Of the last training batch of each job: the text feature that best separates reward within a problem. */
    hackScan: z.array(
      z.strictObject({
        job: z.string(),
        floor: z.number(),
        top: z.strictObject({ name: z.string(), rho: z.number() }).nullable(),
        why: z.string(),
      }),
    ),
    overOptimisation: z.strictObject({ proxy: z.null(), overOptimised: z.literal(false), why: z.string() }),
  }),
  trainTrace: z.strictObject({ baseline: z.array(traceSchema), recipe: z.array(traceSchema) }),
  failed: z.array(z.strictObject({ job: z.string(), why: z.string() })),
  versions: z.record(z.string(), z.string()),
  timing: z.strictObject({
    finishedAt: z.string(),
    minutes: z.number(),
    jobs: z.record(z.string(), z.strictObject({ trainMinutes: z.number(), evaluationMinutes: z.number() })),
  }),
})

export type Results = z.infer<typeof resultsSchema>
export type TrainedArm = z.infer<typeof trainedArmSchema>
export type BaseArm = z.infer<typeof baseArmSchema>

/** What the results say of a run beside what its jobs found. */
export interface RunFacts {
  model: Results['model']
  task: Results['task']
  config: Record<string, unknown>
  evaluation: Omit<EvaluationFacts, 'cutShare'>
  seeds: number[]
  dropped: number
  versions: Record<string, string>
  failed: Results['failed']
  finishedAt: string
  /** Where seeds are added until resolved: the plan, and the looks before this one. */
  looks?: { plan: LookPlan; before: readonly Look[] }
  /** The seeds with which the verdict was read before, at the plain level. */
  read?: readonly number[][]
  regrades?: readonly Regrade[]
}

/** What decides how an experiment's evaluations are drawn and graded. */
export function evaluationFacts({
  board,
  sampling: { evaluation },
  grader,
}: {
  board: Settings['board']
  sampling: Settings['sampling']
  grader: { name: string; version: string }
}): RunFacts['evaluation'] {
  const { notes, replies } = evaluation
  return {
    grader: graderName(grader),
    sampling: {
      copies: board.copies,
      'note tokens': board.noteTokens,
      'reply tokens': board.replyTokens,
      'prompt tokens': board.readTokens ?? 'all that fit',
      'note temperature': notes.temperature,
      'note top-p': notes.topP,
      'reply temperature': replies.temperature,
      'reply top-p': replies.topP,
    },
  }
}

/** A verifier with its version, as results name it. */
export const graderName = ({ name, version }: { name: string; version: string }): string =>
  `${name} ${version}`

/** Computes the results from finished jobs. Jobs that failed are absent, and an arm without jobs is null. */
export function summarise(facts: RunFacts, outcomes: readonly JobOutcome[]): Results {
  const shared = outcomes.filter(({ job }) => job.name === sharedBase)
  const trained = (arm: ArmName) => outcomes.filter(({ job }) => job.trained?.arm === arm)
  const arms = {
    base: baseArm(baseRuns(outcomes)),
    baseSharedBoard: baseArm(shared),
    baseline: trainedArm(trained('baseline')),
    recipe: trainedArm(trained('recipe')),
  }
  const found = delta(facts, outcomes)
  return {
    schemaVersion: 1,
    model: facts.model,
    task: facts.task,
    config: facts.config,
    seeds: facts.seeds,
    arms,
    delta: found,
    sequential: sequential(facts, found),
    regrades: [...(facts.regrades ?? [])],
    checks: {
      noise: noise(arms),
      decontamination: { dropped: facts.dropped },
      length: lengths(arms),
      cut: Object.entries(arms).flatMap(([arm, found]) =>
        found ? [{ arm, notes: found.board.notesCut, replies: found.board.repliesCut }] : [],
      ),
      hackScan: [...trained('baseline'), ...trained('recipe')].map(scan),
      overOptimisation: {
        proxy: null,
        overOptimised: false,
        why: 'The reward is the target: there is no proxy to over-optimise.',
      },
    },
    trainTrace: { baseline: trained('baseline').map(trace), recipe: trained('recipe').map(trace) },
    failed: facts.failed,
    versions: facts.versions,
    timing: {
      finishedAt: facts.finishedAt,
      minutes: sum(outcomes.map(minutes)),
      jobs: Object.fromEntries(
        outcomes.map(({ job, seconds }) => [
          job.name,
          { trainMinutes: seconds.train / 60, evaluationMinutes: seconds.evaluation / 60 },
        ]),
      ),
    },
  }
}

/** The results without all that the clock decided: equal for two runs of one configuration on one machine. */
export function withoutTimings(results: Results): unknown {
  const { timing: _, ...kept } = results
  const still = (arm: TrainedArm | null) => arm && { ...arm, minutes: 0 }
  const { arms } = results
  return { ...kept, arms: { ...arms, baseline: still(arms.baseline), recipe: still(arms.recipe) } }
}

const rewards = (boards: readonly Board[]) =>
  boards.map(({ replies }) => replies.map((reply) => (reply.correct ? 1 : 0)))

/** Several evaluations of the same problems as one: a problem's rollouts are those of all. */
function pooled(outcomes: readonly JobOutcome[]) {
  const runs = outcomes.map(({ boards }) => passAt(rewards(boards)))
  const all = passAt(
    outcomes[0].boards.map((_, p) => outcomes.flatMap(({ boards }) => rewards(boards)[p])),
    { k: runs[0].k },
  )
  const board = whatReadersDid(outcomes.flatMap(({ boards }) => boards))
  return {
    runs,
    summary: {
      passAt1: all.passAt1.value,
      ci95: all.passAt1.ci95,
      // Of one policy's k replies, then averaged: replies of different policies do not help one another.
      passAtK: mean(runs.map(({ passAtK }) => passAtK.value)),
      k: runs[0].k,
      chars: board.replyChars,
      board,
    },
  }
}

function baseArm(outcomes: readonly JobOutcome[]): BaseArm | null {
  if (outcomes.length === 0) return null
  const { runs, summary } = pooled(outcomes)
  return { ...summary, runs: runs.map(({ passAt1 }) => passAt1.value) }
}

function trainedArm(outcomes: readonly JobOutcome[]): TrainedArm | null {
  if (outcomes.length === 0) return null
  const { runs, summary } = pooled(outcomes)
  return {
    ...summary,
    reads: outcomes[0].job.reads.name,
    seeds: outcomes.map(seedOf),
    perSeed: runs.map(({ passAt1 }) => passAt1.value),
    ci95PerSeed: runs.map(({ passAt1 }) => passAt1.ci95),
    passAtKPerSeed: runs.map(({ passAtK }) => passAtK.value),
    boardPerSeed: outcomes.map(({ boards }) => whatReadersDid(boards)),
    pooled: summary.passAt1,
    steps: outcomes[0].metrics.length,
    minutes: sum(outcomes.map(minutes)),
  }
}

/** What is compared, from a run's finished jobs; null without both arms. */
export function comparison(
  evaluation: RunFacts['evaluation'],
  outcomes: readonly JobOutcome[],
): CompareInput | null {
  const [baseline, recipe] = armNames.map((arm) => outcomes.filter(({ job }) => job.trained?.arm === arm))
  if (baseline.length === 0 || recipe.length === 0) return null
  const factsOf = (arm: readonly JobOutcome[]): EvaluationFacts => ({
    ...evaluation,
    cutShare: mean(arm.map(({ boards }) => whatReadersDid(boards).repliesCut)),
  })
  return {
    baseline: baseline.map(scores),
    recipe: recipe.map(scores),
    baseRuns: baseRuns(outcomes).map(({ boards }) => passAt(rewards(boards)).passAt1.value),
    facts: { baseline: factsOf(baseline), recipe: factsOf(recipe) },
  }
}

/** The evaluations of the untrained base under the baseline's board. */
const baseRuns = (outcomes: readonly JobOutcome[]) =>
  outcomes.filter(({ job }) => job.trained === null && job.name !== sharedBase)

function delta(facts: RunFacts, outcomes: readonly JobOutcome[]): Results['delta'] {
  const { failed, looks, read = [], seeds } = facts
  const compared = comparison(facts.evaluation, outcomes)
  if (!compared) return null
  const input = { ...compared, alpha: looks && lookAlpha(looks.plan) }
  const found = compare(input)
  const incomplete = failed.map(({ job }) => job).join(', ')
  return {
    recipeVsBaseline: found.delta,
    ci95: found.ci95,
    // A verdict on what happened to survive would not be the experiment's.
    verdict: failed.length > 0 ? 'unresolved' : found.verdict,
    why: failed.length > 0 ? `Not all jobs finished (${incomplete}): run the same command again.` : found.why,
    p: found.p,
    smallestEffect: found.smallestEffect,
    flatWithin: found.flatWithin,
    warnings: [...found.warnings, ...readBefore(read, looks ? null : seeds)],
    toResolve: failed.length === 0 && found.verdict === 'unresolved' ? seedsToResolve(input) : null,
  }
}

function sequential({ looks, seeds }: RunFacts, found: Results['delta']): Results['sequential'] {
  if (!looks || !found) return null
  const { plan, before } = looks
  const { recipeVsBaseline, ci95, p, verdict } = found
  return {
    maxSeeds: plan.maxSeeds,
    looks: lookCount(plan),
    alpha: lookAlpha(plan),
    taken: [...before, { seeds: seeds.length, recipeVsBaseline, ci95, p, verdict }],
  }
}

function scores(outcome: JobOutcome): SeedScores {
  const values = rewards(outcome.boards)
  return {
    seed: seedOf(outcome),
    problems: outcome.boards.map(({ problemId }, p) => ({ id: problemId, scores: values[p] })),
  }
}

function noise({ base, baseline, recipe }: Results['arms']): Results['checks']['noise'] {
  if (!base || base.runs.length < 2) return null
  // Without an arm the band is the one of a single run against another.
  const { runs, runStd, t, band } = noiseBand(
    base.runs,
    baseline?.seeds.length ?? 1,
    recipe?.seeds.length ?? 1,
  )
  return { runs, runStd, t, band }
}

function lengths({ base, baseSharedBoard, baseline, recipe }: Results['arms']): Results['checks']['length'] {
  // Each arm is held against the base under the board that the arm reads.
  return [
    ...(base && baseline ? [{ arm: 'baseline', before: base.chars, after: baseline.chars }] : []),
    ...(baseSharedBoard && recipe
      ? [{ arm: 'recipe', before: baseSharedBoard.chars, after: recipe.chars }]
      : []),
  ]
}

function scan({ job, lastBatch }: JobOutcome): Results['checks']['hackScan'][number] {
  const { floor, top, why } = hackScan(
    lastBatch.flatMap(({ problemId, replies }) =>
      replies.map((reply) => ({
        problemId,
        text: reply.text,
        reward: reply.correct ? 1 : 0,
        features: { tokens: reply.tokens, cut: reply.cut ? 1 : 0 },
      })),
    ),
  )
  return { job: job.name, floor, top: top && { name: top.name, rho: top.rho }, why }
}

function trace(outcome: JobOutcome): z.infer<typeof traceSchema> {
  const { metrics } = outcome
  const column = (of: (step: StepMetrics) => number) => metrics.map(of)
  const reward = column((step) => step.reward)
  return {
    seed: seedOf(outcome),
    reward,
    informative: column((step) => step.informative),
    noteAcc: column((step) => step.noteAcc),
    replyChars: column((step) => step.replyChars),
    gradNorm: metrics.map((step) => step.gradNorm),
    rewardFirst10: mean(reward.slice(0, 10)),
    rewardLast10: mean(reward.slice(-10)),
  }
}

function seedOf({ job }: JobOutcome): number {
  if (!job.trained) throw new Error(`${job.name} has no training seed`)
  return job.trained.seed
}

const minutes = ({ seconds }: JobOutcome): number => (seconds.train + seconds.evaluation) / 60
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
const mean = (values: readonly number[]): number => sum(values) / values.length

/**
 * What a run found, computed from its jobs alone (record/results.ts says what is in it). Pure: the same jobs give the
 * same results, and what depends on the clock is kept apart (see withoutTimings).
 */
import { countEpisodes, finalScores } from '../board/counts.ts'
import type { Final } from '../board/protocol.ts'
import type { Episode } from '../board/types.ts'
import { evaluationFacts } from '../record/facts.ts'
import { planBases } from '../record/plan.ts'
import type {
  ArmResult,
  BaseResult,
  ContrastResult,
  Look,
  Results,
  Trace,
  TrainingResult,
} from '../record/results.ts'
import { type ArmRecord, type MetricsLine, type RunRecord, schemaVersion } from '../record/schema.ts'
import {
  compareFamily,
  type FamilyInput,
  hackScan,
  noiseBand,
  passAt,
  type SeedScores,
  seedsToResolveEach,
  trainingHelped,
} from '../stats/index.ts'
import { lookAlpha, lookCount, readBefore } from '../stats/looks.ts'
import type { JobOutcome } from './job.ts'

/** What the results say of a run beside what its jobs found. */
export interface RunFacts {
  /** experiment.json; its seeds are those of this reading. */
  record: RunRecord
  failed: Results['failed']
  finishedAt: string
  /** Where seeds are added until resolved: the looks before this one. */
  before?: readonly Look[]
}

/**
 * Whether what is paid is what is counted. An arm is known by its log: where a last post's pay is not its being right, the
 * reward is a proxy, and nothing here says whether it was had without the target.
 */
function overOptimisation(
  record: RunRecord,
  outcomes: readonly JobOutcome[],
): Results['checks']['overOptimisation'] {
  const isOther = ({ rounds }: MetricsLine) => {
    const { right, credit } = rounds.at(-1)!
    return credit !== null && (Math.abs(credit.mean - right) > 1e-9 || (credit.withOwn ?? 1) < 1 - 1e-9)
  }
  const others = record.arms.filter((arm) =>
    outcomes.some(({ job, metrics }) => job.seed !== null && job.arm === arm && metrics.some(isOther)),
  )
  if (others.length === 0) {
    return {
      proxy: null,
      overOptimised: false,
      why: 'The reward is the target: there is no proxy to over-optimise.',
    }
  }
  return {
    proxy: others.join(', '),
    overOptimised: null,
    why: `The rule of credit of ${others.join(', ')} pays last posts otherwise than for being right: look whether what they earned (rounds[].credit.mean in metrics.jsonl) rose and their being right did not.`,
  }
}

/** Computes the results from finished jobs. Jobs that failed are absent, and an arm without jobs is null. */
export function summarise(facts: RunFacts, outcomes: readonly JobOutcome[]): Results {
  const { record, failed, finishedAt } = facts
  const { shared } = record.identity
  const ofArm = (arm: string) => outcomes.filter(({ job }) => job.seed !== null && job.arm === arm)
  const arms = Object.fromEntries(
    record.arms.map((name) => [name, armResult(record.identity.arms[name], ofArm(name))]),
  )
  const bases = planBases(record).flatMap(({ name, arms }) => {
    const its = baseOutcomes(outcomes, name)
    return its.length === 0 ? [] : [baseResult(name, arms, record.identity.arms[arms[0]], its)]
  })
  const contrasts = contrastResults(facts, outcomes)
  const training = trainingResults(record, outcomes)
  return {
    schemaVersion,
    model: { name: record.model, sha256: modelSha256(record) },
    task: { name: shared.task.name, train: shared.data.train, holdout: shared.data.holdout },
    config: record.identity,
    seeds: record.seeds,
    baseline: record.baseline,
    arms,
    bases,
    contrasts,
    training,
    sequential: sequential(facts, contrasts),
    regrades: record.history?.regrades ?? [],
    checks: {
      noise: noise(record, outcomes),
      decontamination: { dropped: shared.data.dropped },
      length: bases.flatMap((base) =>
        base.arms.flatMap((arm) => {
          const after = arms[arm]
          return after ? [{ arm, before: base.chars, after: after.chars }] : []
        }),
      ),
      cut: [
        ...bases.map(({ name, board }) => ({ of: name, notes: board.notesCut, replies: board.repliesCut })),
        ...Object.entries(arms).flatMap(([name, arm]) =>
          arm ? [{ of: name, notes: arm.board.notesCut, replies: arm.board.repliesCut }] : [],
        ),
      ],
      hackScan: record.arms.flatMap((arm) => ofArm(arm).map(scan)),
      overOptimisation: overOptimisation(record, outcomes),
    },
    trainTrace: Object.fromEntries(record.arms.map((arm) => [arm, ofArm(arm).map(trace)])),
    failed,
    versions: record.versions,
    timing: {
      finishedAt,
      minutes: sum(outcomes.map(minutes)),
      jobs: Object.fromEntries(
        outcomes.map(({ job, progress: { seconds } }) => [
          job.name,
          { trainMinutes: seconds.train / 60, evaluationMinutes: seconds.evaluation / 60 },
        ]),
      ),
    },
  }
}

/** Of the model that the baseline starts from. */
function modelSha256({ identity, baseline }: RunRecord): string {
  return Object.values(identity.arms[baseline].policies)[0].sha256
}

/** The evaluations of a base. */
function baseOutcomes(outcomes: readonly JobOutcome[], name: string): JobOutcome[] {
  return outcomes.filter(({ job }) => job.seed === null && job.name.replace(/-\d+$/, '') === name)
}

const rewards = (episodes: readonly Episode[], final: Final) =>
  episodes.map((episode) => finalScores(episode, final))

/** Several evaluations of the same problems as one: a problem's rollouts are those of all. */
function pooled(outcomes: readonly JobOutcome[], { protocol }: ArmRecord) {
  const scores = outcomes.map(({ episodes }) => rewards(episodes, protocol.final))
  const runs = scores.map((problems) => passAt(problems))
  const all = passAt(
    scores[0].map((_, p) => scores.flatMap((problems) => problems[p])),
    { k: runs[0].k },
  )
  const board = countEpisodes(outcomes.flatMap(({ episodes }) => episodes))
  return {
    runs,
    evaluated: {
      passAt1: all.passAt1.value,
      ci95: all.passAt1.ci95,
      // Of one policy's k answers, then averaged: answers of different policies do not help one another.
      passAtK: mean(runs.map(({ passAtK }) => passAtK.value)),
      k: runs[0].k,
      chars: board.replyChars,
      board,
    },
  }
}

function baseResult(
  name: string,
  arms: string[],
  arm: ArmRecord,
  outcomes: readonly JobOutcome[],
): BaseResult {
  const { runs, evaluated } = pooled(outcomes, arm)
  return {
    ...evaluated,
    name,
    protocol: arm.protocol.name,
    arms,
    runs: runs.map(({ passAt1 }) => passAt1.value),
  }
}

function armResult(arm: ArmRecord, outcomes: readonly JobOutcome[]): ArmResult | null {
  if (outcomes.length === 0) return null
  const { runs, evaluated } = pooled(outcomes, arm)
  const stepsPerSeed = outcomes.map(({ progress }) => progress.steps)
  const tokens = (of: 'sampled' | 'scored' | 'trained') =>
    mean(outcomes.map(({ progress }) => progress.tokens[of]))
  return {
    ...evaluated,
    protocol: arm.protocol.name,
    credit: arm.credit.name,
    seeds: outcomes.map(seedNumber),
    perSeed: runs.map(({ passAt1 }) => passAt1.value),
    ci95PerSeed: runs.map(({ passAt1 }) => passAt1.ci95),
    passAtKPerSeed: runs.map(({ passAtK }) => passAtK.value),
    boardPerSeed: outcomes.map(({ episodes }) => countEpisodes(episodes)),
    stepsPerSeed,
    steps: Math.max(...stepsPerSeed),
    tokens: { sampled: tokens('sampled'), scored: tokens('scored'), trained: tokens('trained') },
    minutes: sum(outcomes.map(minutes)),
  }
}

/** What is compared, from a run's finished jobs: the pairs of which both arms have some. Null where none has. */
export function familyOf(record: RunRecord, outcomes: readonly JobOutcome[]): FamilyInput | null {
  const ofArm = (arm: string) => outcomes.filter(({ job }) => job.seed !== null && job.arm === arm)
  const pairs = record.contrasts.filter(
    ({ arm, against }) => ofArm(arm).length > 0 && ofArm(against).length > 0,
  )
  if (pairs.length === 0) return null
  const names = record.arms.filter((name) => ofArm(name).length > 0)
  return {
    arms: Object.fromEntries(names.map((name) => [name, ofArm(name).map((one) => scores(record, one))])),
    pairs,
    baseRuns: baseRuns(record, outcomes),
    facts: Object.fromEntries(
      names.map((name) => [name, evaluationFacts(record.identity, name, cutShare(ofArm(name)))]),
    ),
    alpha: record.looks && lookAlpha(record.looks),
  }
}

export const cutShare = (outcomes: readonly JobOutcome[]): number =>
  mean(outcomes.map(({ episodes }) => countEpisodes(episodes).repliesCut))

/** pass@1 of each evaluation of the untrained model under the baseline's protocol. */
export function baseRuns(record: RunRecord, outcomes: readonly JobOutcome[]): number[] {
  const { final } = record.identity.arms[record.baseline].protocol
  const [{ name }] = planBases(record)
  return baseOutcomes(outcomes, name).map(({ episodes }) => passAt(rewards(episodes, final)).passAt1.value)
}

function contrastResults({ record, failed }: RunFacts, outcomes: readonly JobOutcome[]): ContrastResult[] {
  const input = familyOf(record, outcomes)
  if (!input) return []
  const { looks, history, seeds } = record
  const incomplete = failed.map(({ job }) => job).join(', ')
  const whole = failed.length === 0
  const contrasts = compareFamily(input)
  const open = whole && contrasts.some(({ verdict }) => verdict === 'unresolved')
  const toResolve = open ? seedsToResolveEach(input) : []
  return contrasts.map((found, i): ContrastResult => {
    const { arm, against, delta, ci95, p, smallestEffect, flatWithin, warnings } = found
    return {
      arm,
      against,
      delta,
      ci95,
      p,
      // A verdict on what happened to survive would not be the experiment's.
      verdict: whole ? found.verdict : 'unresolved',
      why: whole ? found.why : `Not all jobs finished (${incomplete}): run the same command again.`,
      smallestEffect,
      flatWithin,
      warnings: [...warnings, ...readBefore(history?.read ?? [], looks ? null : seeds)],
      toResolve: whole && found.verdict === 'unresolved' ? toResolve[i] : null,
    }
  })
}

/** Each trained arm against the untrained model under its own protocol. */
function trainingResults(record: RunRecord, outcomes: readonly JobOutcome[]): TrainingResult[] {
  const known = planBases(record).flatMap(({ name, arms }) => {
    const base = baseOutcomes(outcomes, name)
    return arms.flatMap((arm) => {
      const trained = outcomes.filter(({ job }) => job.seed !== null && job.arm === arm)
      return trained.length > 0 && base.length > 0 ? [{ arm, base: name, trained, runs: base }] : []
    })
  })
  const inOrder = record.arms.flatMap((arm) => known.filter((one) => one.arm === arm))
  const effects = trainingHelped({
    arms: Object.fromEntries(
      inOrder.map(({ arm, trained }) => [arm, trained.map((one) => scores(record, one))]),
    ),
    bases: Object.fromEntries(
      inOrder.map(({ arm, runs }) => [arm, runs.map((one) => scores(record, one).problems)]),
    ),
  })
  return effects.map(({ arm, delta, ci95, p, verdict, why }, i) => ({
    arm,
    base: inOrder[i].base,
    delta,
    ci95,
    p,
    verdict,
    why,
  }))
}

function sequential(
  { record: { looks, seeds }, before = [] }: RunFacts,
  contrasts: readonly ContrastResult[],
): Results['sequential'] {
  if (!looks || contrasts.length === 0) return null
  const look: Look = {
    seeds: seeds.length,
    contrasts: contrasts.map(({ arm, against, delta, ci95, p, verdict }) => ({
      arm,
      against,
      delta,
      ci95,
      p,
      verdict,
    })),
  }
  return {
    maxSeeds: looks.maxSeeds,
    looks: lookCount(looks),
    alpha: lookAlpha(looks),
    taken: [...before, look],
  }
}

/** One evaluation as the statistics take it. A base has no training seed: its number of run stands there. */
export function scores(record: RunRecord, { job, episodes }: JobOutcome): SeedScores {
  const { final } = record.identity.arms[job.arm].protocol
  const values = rewards(episodes, final)
  return {
    seed: job.seed ?? Number(/\d+$/.exec(job.name)?.[0]),
    problems: episodes.map(({ problemId }, p) => ({ id: problemId, scores: values[p] })),
  }
}

function noise(record: RunRecord, outcomes: readonly JobOutcome[]): Results['checks']['noise'] {
  const its = baseRuns(record, outcomes)
  if (its.length < 2) return null
  // The band of a difference between two arms; without them, of a single run against another.
  const seedsOf = (arm: string) => outcomes.filter(({ job }) => job.seed !== null && job.arm === arm).length
  const [pair] = record.contrasts
  const { runs, runStd, t, band } = noiseBand(
    its,
    (pair && seedsOf(pair.against)) || 1,
    (pair && seedsOf(pair.arm)) || 1,
  )
  return { runs, runStd, t, band }
}

function scan({ job, lastBatch }: JobOutcome): Results['checks']['hackScan'][number] {
  const { floor, top, why } = hackScan(
    lastBatch.flatMap(({ problemId, rounds }) =>
      rounds[rounds.length - 1].map(({ text, correct, tokens, cut }) => ({
        problemId,
        text,
        reward: correct ? 1 : 0,
        features: { tokens, cut: cut ? 1 : 0 },
      })),
    ),
  )
  return { job: job.name, floor, top: top && { name: top.name, rho: top.rho }, why }
}

function trace(outcome: JobOutcome): Trace {
  const { metrics } = outcome
  const reward = metrics.map((step) => step.reward)
  return {
    seed: seedNumber(outcome),
    reward,
    informative: metrics.map((step) => step.informative),
    noteAcc: metrics.map((step) => step.noteAcc),
    replyChars: metrics.map((step) => step.replyChars),
    gradNorm: metrics.map((step) => step.gradNorm),
    effective: metrics.map((step) => step.effective),
    rounds: metrics[0].rounds.map(({ name }, r) => {
      const round = metrics.map((step) => step.rounds[r])
      const paid = round.some(({ credit }) => credit !== null)
      return {
        name,
        right: round.map(({ right }) => right),
        chars: round.map(({ chars }) => chars),
        cut: round.map(({ cut }) => cut),
        credit: paid
          ? {
              mean: round.map(({ credit }) => credit?.mean ?? null),
              spread: round.map(({ credit }) => credit?.spread ?? null),
              informative: round.map(({ credit }) => credit?.informative ?? null),
              withOwn: round.map(({ credit }) => credit?.withOwn ?? null),
            }
          : null,
      }
    }),
    rewardFirst10: mean(reward.slice(0, 10)),
    rewardLast10: mean(reward.slice(-10)),
  }
}

function seedNumber({ job }: JobOutcome): number {
  if (job.seed === null) throw new Error(`${job.name} has no training seed`)
  return job.seed
}

const minutes = ({ progress: { seconds } }: JobOutcome): number => (seconds.train + seconds.evaluation) / 60
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
const mean = (values: readonly number[]): number => sum(values) / values.length

/** results.json: what a run found, as one documented record (docs/results.md). The schema alone; pure. */
import { z } from 'zod'
import type { ReaderCounts } from '../board/counts.ts'
import type { Interval } from '../stats/index.ts'
import { contrastNameSchema, regradeSchema, schemaVersion } from './schema.ts'

const count = z.number().int().min(0)
const share = z.number().min(0).max(1)
const interval: z.ZodType<Interval> = z.tuple([z.number(), z.number()])
export const verdictSchema = z.enum(['moved', 'moved the wrong way', 'flat', 'unresolved'])

const roundCounts = {
  right: share,
  voteRight: share,
  anyRight: share,
  switched: share.nullable(),
  rescued: share.nullable(),
  misled: share.nullable(),
  cut: share,
  boxed: share,
  chars: z.number(),
  tokens: z.number(),
}

/** See board/counts.ts. */
export const boardSchema: z.ZodType<ReaderCounts> = z.strictObject({
  noteAcc: share.nullable(),
  voteAcc: share.nullable(),
  anyNote: share.nullable(),
  switched: share.nullable(),
  rescued: share.nullable(),
  misled: share.nullable(),
  notesCut: share.nullable(),
  repliesCut: share,
  notesBoxed: share.nullable(),
  noteChars: z.number().nullable(),
  replyChars: z.number(),
  noteTokens: z.number().nullable(),
  replyTokens: z.number(),
  rounds: z.array(z.strictObject(roundCounts)),
})

const evaluated = {
  /** Mean over problems of the share of final answers that are right. */
  passAt1: share,
  ci95: interval,
  passAtK: share,
  k: count,
  /** Mean length of final posts in characters. */
  chars: z.number(),
  board: boardSchema,
}

/** The untrained model under a protocol. */
const baseSchema = z.strictObject({
  ...evaluated,
  /** Its jobs are `NAME-1`, `NAME-2`, ... */
  name: z.string(),
  protocol: z.string(),
  /** The arms that start from it. */
  arms: z.array(z.string()),
  /** pass@1 of each evaluation. */
  runs: z.array(share),
})

const armSchema = z.strictObject({
  ...evaluated,
  protocol: z.string(),
  credit: z.string(),
  seeds: z.array(count),
  perSeed: z.array(share),
  ci95PerSeed: z.array(interval),
  passAtKPerSeed: z.array(share),
  boardPerSeed: z.array(boardSchema),
  /** Training steps of each seed. */
  stepsPerSeed: z.array(count),
  /** The most of these. */
  steps: count,
  /** Completion tokens that a training took, in the mean over seeds. */
  tokens: z.strictObject({ sampled: z.number(), scored: z.number(), trained: z.number() }),
  minutes: z.number(),
})

const compared = {
  delta: z.number(),
  ci95: interval,
  p: z.number(),
  verdict: verdictSchema,
  why: z.string(),
}

/** One arm against another: a test of the family. Interval and p are the family's. */
const contrastSchema = z.strictObject({
  ...contrastNameSchema.shape,
  ...compared,
  smallestEffect: z.number().nullable(),
  flatWithin: z.number(),
  warnings: z.array(z.string()),
  /** Of an unresolved one: the seeds an arm that would resolve it (null: seeds alone would not). */
  toResolve: z.strictObject({ seeds: count.nullable(), why: z.string() }).nullable(),
})

/** Did training help: an arm against the untrained model under its own protocol. */
const trainingSchema = z.strictObject({ arm: z.string(), base: z.string(), ...compared })

const lookSchema = z.strictObject({
  seeds: count,
  contrasts: z.array(
    z.strictObject({
      ...contrastNameSchema.shape,
      delta: z.number(),
      ci95: interval,
      p: z.number(),
      verdict: verdictSchema,
    }),
  ),
})
export type Look = z.infer<typeof lookSchema>

const traceSchema = z.strictObject({
  seed: count,
  reward: z.array(share),
  informative: z.array(share),
  noteAcc: z.array(share.nullable()),
  replyChars: z.array(z.number()),
  /** Null where the engine does not tell. */
  gradNorm: z.array(z.number().nullable()),
  effective: z.array(z.number().nullable()),
  rounds: z.array(
    z.strictObject({
      name: z.string(),
      right: z.array(share),
      chars: z.array(z.number()),
      cut: z.array(share),
      /** Of a paid round: mean, spread, share of informative groups, correlation with the posts' own correctness. */
      credit: z
        .strictObject({
          mean: z.array(z.number().nullable()),
          spread: z.array(z.number().nullable()),
          informative: z.array(share.nullable()),
          withOwn: z.array(z.number().nullable()),
        })
        .nullable(),
    }),
  ),
  /** Mean reward of the first and of the last ten steps (of all, where there are fewer). */
  rewardFirst10: share,
  rewardLast10: share,
})

export const resultsSchema = z.strictObject({
  /** Of the file: a checksum of all that stands in it beside. */
  seal: z.string().optional(),
  schemaVersion: z.literal(schemaVersion),
  model: z.strictObject({ name: z.string(), sha256: z.string() }),
  task: z.strictObject({ name: z.string(), train: count, holdout: count }),
  /** experiment.json's identity: what is shared, and each arm. */
  config: z.record(z.string(), z.unknown()),
  seeds: z.array(count),
  /** The name of the arm that others are compared with unless told. */
  baseline: z.string(),
  /** By name, in the experiment's order; null where no job of it is finished. */
  arms: z.record(z.string(), armSchema.nullable()),
  bases: z.array(baseSchema),
  contrasts: z.array(contrastSchema),
  training: z.array(trainingSchema),
  /** How seeds were added until resolved; null where the verdicts are read once. */
  sequential: z
    .strictObject({ maxSeeds: count, looks: count, alpha: z.number(), taken: z.array(lookSchema) })
    .nullable(),
  /** Each time that the stored rollouts were graded again. */
  regrades: z.array(regradeSchema),
  checks: z.strictObject({
    /** Of the untrained model under the baseline's protocol. */
    noise: z
      .strictObject({ runs: z.array(share), runStd: z.number(), t: z.number(), band: z.number() })
      .nullable(),
    decontamination: z.strictObject({ dropped: count }),
    /** Of each arm, against its base. */
    length: z.array(z.strictObject({ arm: z.string(), before: z.number(), after: z.number() })),
    /** Of bases and arms. */
    cut: z.array(z.strictObject({ of: z.string(), notes: share.nullable(), replies: share })),
    /** Of the last training batch of each job: the text feature that best separates reward within a problem. */
    hackScan: z.array(
      z.strictObject({
        job: z.string(),
        floor: z.number(),
        top: z.strictObject({ name: z.string(), rho: z.number() }).nullable(),
        why: z.string(),
      }),
    ),
    /** Null: an arm's reward is a proxy, named, and whether it was over-optimised is for the reader to see. */
    overOptimisation: z.strictObject({
      proxy: z.string().nullable(),
      overOptimised: z.literal(false).nullable(),
      why: z.string(),
    }),
  }),
  /** By arm. */
  trainTrace: z.record(z.string(), z.array(traceSchema)),
  failed: z.array(z.strictObject({ job: z.string(), why: z.string() })),
  versions: z.record(z.string(), z.string()),
  timing: z.strictObject({
    finishedAt: z.string(),
    minutes: z.number(),
    jobs: z.record(z.string(), z.strictObject({ trainMinutes: z.number(), evaluationMinutes: z.number() })),
  }),
})

export type Results = z.infer<typeof resultsSchema>
export type ArmResult = z.infer<typeof armSchema>
export type BaseResult = z.infer<typeof baseSchema>
export type ContrastResult = z.infer<typeof contrastSchema>
export type TrainingResult = z.infer<typeof trainingSchema>
export type Trace = z.infer<typeof traceSchema>

/** The results without all that the clock decided: equal for two runs of one configuration on one machine. */
export function withoutTimings(results: Results): unknown {
  const { timing: _, arms, ...kept } = results
  const still = Object.entries(arms).map(([name, arm]) => [name, arm && { ...arm, minutes: 0 }])
  return { ...kept, arms: Object.fromEntries(still) }
}

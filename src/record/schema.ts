/**
 * The run folder's files as schemas, and the types of what they hold: the one description of the record, checked on
 * the way in by everything that reads a folder. Pure; runs in a browser too.
 *
 *   experiment.json         what the run is (`RunRecord`)
 *   JOB/metrics.jsonl       one line for each training step (`MetricsLine`)
 *   JOB/rollouts.jsonl      one line for each board played (`RolloutLine`)
 *   JOB/progress.json       how far the job is (`Progress`)
 *   results.json            what was found (record/results.ts)
 *   notes.json              what a person says of it (`Notes`)
 */
import { z } from 'zod'

/** Marks experiment.json as this project's. */
export const kind = 'message-board experiment'

/** The version of all files of a run folder. */
export const schemaVersion = 2

const count = z.number().int().min(0)
const share = z.number().min(0).max(1)

/** Round and seat, both from 0. */
export const refSchema = z.tuple([count, count])

export const postSchema = z.object({
  seat: count,
  reads: z.array(refSchema),
  text: z.string(),
  tokens: count,
  answer: z.string().nullable(),
  correct: z.boolean(),
  cut: z.boolean(),
})

export const problemSchema = z.object({
  id: z.string(),
  question: z.string(),
  gold: z.string(),
  parts: z.array(z.string()).optional(),
})

export const rolloutSchema = z.object({
  phase: z.enum(['train', 'evaluation']),
  /** The training step, 1 for the first; absent in an evaluation. */
  step: count.optional(),
  /** Which of several boards of this problem in a step; absent where there is one. */
  board: count.optional(),
  problem: problemSchema,
  /** Posts by round, in the order of the round's speakers. */
  rounds: z.array(z.array(postSchema)),
  /** What each post earned in training, as `rounds`; null: nothing. */
  credit: z.array(z.array(z.number().nullable())).optional(),
})
export type RolloutLine = z.infer<typeof rolloutSchema>

const creditSchema = z.object({
  mean: z.number(),
  spread: z.number(),
  informative: share,
  withOwn: z.number().nullable(),
  unpaid: share,
})

/** See train/loop.ts, which writes it. */
export const metricsSchema = z.object({
  step: count.min(1),
  reward: share,
  informative: share,
  noteAcc: share.nullable(),
  loss: z.number(),
  gradNorm: z.number().nullable(),
  learningRate: z.number(),
  clippedShare: share,
  logprobDrift: z.number(),
  /** Absent in folders of before they were measured. */
  entropy: z.number().nullable().optional(),
  kl: z.number().nullable().optional(),
  replyChars: z.number(),
  repliesCut: share,
  sampledTokens: count,
  scoredTokens: count,
  trainedTokens: count,
  effective: z.number().nullable(),
  rounds: z.array(
    z.object({
      name: z.string(),
      right: share,
      chars: z.number(),
      tokens: z.number(),
      cut: share,
      credit: creditSchema.nullable(),
    }),
  ),
  seconds: z.object({
    rounds: z.array(z.number()),
    credit: z.number(),
    forwardBackward: z.number(),
    optimStep: z.number(),
  }),
})
export type MetricsLine = z.infer<typeof metricsSchema>

const sha256 = z.string().regex(/^[0-9a-f]{64}$/)

export const progressSchema = z.strictObject({
  schemaVersion: z.literal(schemaVersion),
  /** Training steps taken; checkpoint-N holds the state after them. 0: none. */
  steps: count,
  /** Whether training is over (from the start, where nothing is trained). */
  trained: z.boolean(),
  /** Completion tokens that training took. */
  tokens: z.strictObject({ sampled: count, scored: count, trained: count }),
  /** Held-out problems evaluated. */
  evaluated: count,
  /** Lengths of the two logs that belong to this progress. */
  bytes: z.strictObject({ metrics: count, rollouts: count }),
  /** SHA-256 of so many bytes of each. */
  sha256: z.strictObject({ metrics: sha256, rollouts: sha256 }),
  /** The files of checkpoint-N, by their paths in it. */
  checkpoint: z.record(z.string(), z.strictObject({ bytes: count, sha256 })),
  /** Wall-clock seconds of the work that was kept. */
  seconds: z.strictObject({ train: z.number().min(0), evaluation: z.number().min(0) }),
})
export type Progress = z.infer<typeof progressSchema>

const samplingSchema = z.object({ temperature: z.number(), topP: z.number() })

/** A protocol as board/protocol.ts records it. */
export const protocolSchema = z.object({
  name: z.string(),
  seats: z.array(z.object({ name: z.string(), policy: z.string() })),
  rounds: z
    .array(
      z.object({
        name: z.string(),
        speakers: z.array(count),
        sees: z.string().nullable(),
        sights: z.array(z.array(refSchema).nullable()),
        prompt: z.string(),
        maxTokens: count,
        sampling: z.object({
          train: samplingSchema.partial(),
          evaluation: samplingSchema.partial(),
        }),
      }),
    )
    .min(1),
  final: z.union([z.enum(['each', 'vote']), z.object({ seat: count })]),
})
export type ProtocolLine = z.infer<typeof protocolSchema>

/** All that decides what an arm's jobs compute, beside what every arm shares. */
export const armSchema = z.object({
  protocol: protocolSchema,
  credit: z.looseObject({ name: z.string() }),
  train: z.looseObject({ steps: count, problemsPerStep: count, boards: count }),
  sampling: z.object({ trained: samplingSchema, context: samplingSchema }),
  /** Who writes, by the names that seats give. `adapter`: where it starts; null: at the model itself. */
  policies: z.record(
    z.string(),
    z.object({ model: z.string(), sha256: z.string(), adapter: z.string().nullable(), trained: z.boolean() }),
  ),
})
export type ArmRecord = z.infer<typeof armSchema>

/** What all arms share: what must be equal for them to be compared. */
export const sharedSchema = z.object({
  task: z.looseObject({ name: z.string() }),
  /** `dropped`: training problems left out for overlap with held-out ones. */
  data: z.object({ train: count, holdout: count, dropped: count, sha256: z.string() }),
  evaluation: z.object({
    baseRuns: count,
    problemsAtOnce: count,
    sampling: samplingSchema,
    readTokens: count.nullable(),
  }),
  /** What chat templates are given beside the chat. */
  template: z.record(z.string(), z.unknown()),
  grader: z.object({ name: z.string(), version: z.string() }),
  engine: z.looseObject({ name: z.string() }),
  versions: z.record(z.string(), z.string()),
})
export type SharedRecord = z.infer<typeof sharedSchema>

export const contrastNameSchema = z.object({ arm: z.string(), against: z.string() })

const counted = z.strictObject({ changed: count, of: count })
/** One time that the stored rollouts were graded again. */
export const regradeSchema = z.strictObject({
  /** Names and versions of the verifiers. */
  from: z.string(),
  to: z.string(),
  /** Posts of the evaluations whose grade changed. */
  evaluation: counted,
  /** Of training, whose grades were paid as rewards and are kept: those that would be others now. */
  training: counted,
})
export type Regrade = z.infer<typeof regradeSchema>

export const recordSchema = z.looseObject({
  kind: z.literal(kind),
  schemaVersion: z.literal(schemaVersion),
  /** Two jobs of equal identity (what is shared, and its arm's) compute the same. */
  identity: z.object({ shared: sharedSchema, arms: z.record(z.string(), armSchema) }),
  /** The arms of the experiment now, in order: those of `identity.arms` that are compared. */
  arms: z.array(z.string()).min(1),
  baseline: z.string(),
  /** All arms that the run has had, in the order in which they came; absent: the baseline, then `arms`. */
  came: z.array(z.string()).optional(),
  contrasts: z.array(contrastNameSchema),
  seeds: z.array(count),
  /** The part of the jobs that this folder runs, 'k/n'; absent: all. */
  shard: z.string().optional(),
  /** How often the verdict may be looked at while seeds are added (stats/looks.ts); absent where it is read once. */
  looks: z.strictObject({ first: z.array(count).min(1), maxSeeds: count }).optional(),
  model: z.string(),
  /**
   * The command line that made it: the experiment file as it was named, null for the built-in experiment, and the flags
   * that say what is run, each time's over those before. Absent where a program made the run.
   */
  command: z
    .strictObject({ file: z.string().nullable(), flags: z.array(z.record(z.string(), z.unknown())) })
    .optional(),
  versions: z.record(z.string(), z.string()),
  machine: z.record(z.string(), z.union([z.string(), z.number()])),
  /**
   * Where it was computed, in the engine's words, in the order in which that came: more than one where a run went on
   * elsewhere. Absent before an engine was opened.
   */
  devices: z.array(z.string()).optional(),
  /** What happened to this run that its configuration does not say. Kept by whoever opens the folder later. */
  history: z
    .strictObject({
      /** The seeds with which a verdict was read at the plain level. */
      read: z.array(z.array(count)).optional(),
      regrades: z.array(regradeSchema).optional(),
    })
    .optional(),
})
export type RunRecord = z.infer<typeof recordSchema>
export type RunCommand = NonNullable<RunRecord['command']>
export type History = NonNullable<RunRecord['history']>

/** A note stands in a list: so many characters at most, and so many tags. */
export const mostNotes = { characters: 10_000, tags: 50 } as const

/** A tag as it is typed and shown: a word, so that it can stand in a list and an address. */
export const tagSchema = z.string().regex(/^[\p{L}\p{N}][\p{L}\p{N}_.-]{0,39}$/u)

export const notesSchema = z.strictObject({
  note: z.string().max(mostNotes.characters),
  /** Different ones, in the order in which they were given. */
  tags: z.array(tagSchema).max(mostNotes.tags),
})
export type Notes = z.infer<typeof notesSchema>

/** The run folder's small files as checked data: what experiment.json, progress.json and metrics.jsonl must hold. */
import { z } from 'zod'

const name = z.string()
const whole = z.number().int().min(0)

/** experiment.json, as far as it is shown. */
export const experimentSchema = z.looseObject({
  kind: z.literal('message-board experiment'),
  schemaVersion: z.literal(1),
  identity: z.looseObject({
    config: z.looseObject({
      task: z.looseObject({ name }),
      board: z.looseObject({ copies: whole.min(1) }),
      arms: z.object({ baseline: z.looseObject({ reads: name }), recipe: z.looseObject({ reads: name }) }),
      train: z.looseObject({ steps: whole }),
      evaluation: z.looseObject({ baseRuns: whole }),
    }),
    data: z.looseObject({ train: whole, holdout: whole }),
  }),
  model: name,
  arms: z.array(z.enum(['baseline', 'recipe'])),
  seeds: z.array(whole),
  versions: z.record(z.string(), z.string()),
  machine: z.record(z.string(), z.union([z.string(), z.number()])),
})
export type ExperimentRecord = z.infer<typeof experimentSchema>

/** progress.json of a job. */
export const progressSchema = z.looseObject({
  steps: whole,
  evaluated: whole,
  bytes: z.object({ metrics: whole, rollouts: whole }),
  seconds: z.object({ train: z.number(), evaluation: z.number() }),
})
export type JobProgress = z.infer<typeof progressSchema>

/** One line of metrics.jsonl, as far as it is shown. */
export const metricsSchema = z.looseObject({
  step: whole,
  sampledTokens: z.number(),
  seconds: z.record(z.string(), z.number()),
})
export type StepRecord = z.infer<typeof metricsSchema>

const post = {
  text: z.string(),
  tokens: z.number(),
  answer: z.string().nullable(),
  correct: z.boolean(),
  cut: z.boolean(),
}

/** One line of rollouts.jsonl. */
export const rolloutSchema = z.object({
  phase: z.enum(['train', 'evaluation']),
  step: whole.optional(),
  problem: z.object({ id: z.string(), question: z.string(), gold: z.string() }),
  notes: z.array(z.object(post)),
  replies: z.array(z.object({ ...post, reads: z.array(whole) })),
})

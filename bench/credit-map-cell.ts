/** A cell of the map of credit as bench/credit-map.ts stores it and scripts/credit-map.ts reads it. */
import { z } from 'zod'

/** One cell as it is stored. */
export const cellSchema = z.object({
  world: z.string(),
  /** `base`: the untrained model. */
  rule: z.string(),
  seed: z.number(),
  /** Who reads whom (`shared`, `own`, `ring`, `random 2`), in how many rounds, the notes' and the answers' included. */
  reads: z.string(),
  rounds: z.number(),
  copies: z.number(),
  /** Completion tokens after which training ended; null where it ended by its steps. */
  budget: z.number().nullable(),
  /** Of training, as many as were taken. */
  steps: z.number(),
  /** Right replies of each held-out problem, a digit each. */
  right: z.string(),
  passAt1: z.number(),
  counts: z.record(z.string(), z.unknown()),
  /** Notes that carry their part (clues) or a trial (insight); null in worlds without. */
  carries: z.number().nullable(),
  tokens: z.object({ sampled: z.number(), scored: z.number(), trained: z.number() }),
  /** By training step. */
  trace: z.object({
    reward: z.array(z.number()),
    noteAcc: z.array(z.number().nullable()),
    noteChars: z.array(z.number()),
    notesCut: z.array(z.number()),
    spread: z.array(z.number().nullable()),
    withOwn: z.array(z.number().nullable()),
    informative: z.array(z.number().nullable()),
    effective: z.array(z.number().nullable()),
  }),
  seconds: z.object({ train: z.number(), evaluation: z.number() }),
  /** Three held-out boards, as posted. */
  boards: z.array(z.unknown()),
  machine: z.string(),
  versions: z.record(z.string(), z.string()),
})
export type Cell = z.infer<typeof cellSchema>

/** The board of the map itself. */
export const usual = { reads: 'shared', rounds: 2, copies: 4, budget: null }

const meanEffect = z.object({ change: z.number().nullable(), effects: z.number() })

/** What readers make of notes, by world, as bench/credit-influence.ts stores it: means in nats. */
export const influenceFiguresSchema = z.object({
  worlds: z.record(
    z.string(),
    z.object({
      machine: z.string(),
      versions: z.record(z.string(), z.string()),
      jobs: z.array(
        z.object({
          /** `base`: the untrained policy. */
          rule: z.string(),
          problems: z.number(),
          /** Rows are who wrote the note, columns who read it. */
          bySeats: z.array(z.array(z.number().nullable())),
          right: meanEffect,
          wrong: meanEffect,
          whole: meanEffect,
          cut: meanEffect,
        }),
      ),
    }),
  ),
})

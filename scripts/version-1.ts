/**
 * Results of version 1, as bench/results keeps some from machines that are lent by the hour: the fields that docs/gpu.md
 * and docs/models.md show, as a table and the lines under it. Two arms, named `baseline` and `recipe`. Pure.
 */
import { z } from 'zod'
import { signed, three } from '../src/report/numbers.ts'

const interval = z.tuple([z.number(), z.number()])
const counts = ['replyChars', 'noteAcc', 'voteAcc', 'anyNote', 'switched', 'rescued', 'misled'] as const
const boardSchema = z.object(
  Object.fromEntries(counts.map((name) => [name, z.number()])) as Record<
    (typeof counts)[number],
    z.ZodNumber
  >,
)
const evaluated = {
  passAt1: z.number(),
  ci95: interval,
  passAtK: z.number(),
  k: z.number(),
  board: boardSchema,
}
const baseSchema = z.object({ ...evaluated, runs: z.array(z.number()) })
const armSchema = z.object({
  ...evaluated,
  seeds: z.array(z.number()),
  perSeed: z.array(z.number()),
  ci95PerSeed: z.array(interval),
  passAtKPerSeed: z.array(z.number()),
  boardPerSeed: z.array(boardSchema),
  minutes: z.number(),
})
const traceSchema = z.object({ seed: z.number(), rewardFirst10: z.number(), rewardLast10: z.number() })

export const versionOneSchema = z.object({
  schemaVersion: z.literal(1),
  model: z.object({ name: z.string() }),
  task: z.object({ name: z.string(), holdout: z.number() }),
  seeds: z.array(z.number()),
  arms: z.object({ base: baseSchema, baseSharedBoard: baseSchema, baseline: armSchema, recipe: armSchema }),
  delta: z.object({
    recipeVsBaseline: z.number(),
    ci95: interval,
    verdict: z.string(),
    why: z.string(),
    smallestEffect: z.number().nullable(),
    warnings: z.array(z.string()),
    toResolve: z.object({ why: z.string() }).nullable(),
  }),
  checks: z.object({
    noise: z.object({ runs: z.array(z.number()), runStd: z.number(), band: z.number() }),
    decontamination: z.object({ dropped: z.number() }),
    length: z.array(z.object({ arm: z.string(), before: z.number(), after: z.number() })),
    cut: z.array(z.object({ arm: z.string(), notes: z.number(), replies: z.number() })),
    hackScan: z.array(z.object({ job: z.string(), why: z.string() })),
    overOptimisation: z.object({ why: z.string() }),
  }),
  trainTrace: z.object({ baseline: z.array(traceSchema), recipe: z.array(traceSchema) }),
  timing: z.object({
    jobs: z.record(z.string(), z.object({ trainMinutes: z.number(), evaluationMinutes: z.number() })),
  }),
})
export type VersionOne = z.infer<typeof versionOneSchema>

const named = ['baseline', 'recipe'] as const

/** The header, then one row for each base, each arm and seed, and each arm over its seeds. */
export function versionOneTable({ arms, timing }: VersionOne): [head: string[], ...rows: string[][]] {
  const row = (
    name: string,
    { passAt1, ci95: [low, high], passAtK, board }: Omit<z.infer<typeof baseSchema>, 'runs' | 'k'>,
    minutes = '',
  ) => {
    const [chars, ...shares] = counts.map((count) => board[count])
    return [
      name,
      three(passAt1),
      `[${three(low)}, ${three(high)}]`,
      ...[passAtK, ...shares].map(three),
      chars.toFixed(0),
      minutes,
    ]
  }
  return [
    ['arm', 'pass@1', '95% CI', `pass@${arms.base.k}`, 'note_acc', 'vote_acc', 'any_note'].concat([
      'switched',
      'rescued',
      'misled',
      'chars',
      'minutes',
    ]),
    row(`base, ${arms.base.runs.length} times`, arms.base),
    row("base, recipe's board", arms.baseSharedBoard),
    ...named.flatMap((name) => {
      const arm = arms[name]
      const rows = arm.seeds.map((seed, s) => {
        const { trainMinutes, evaluationMinutes } = timing.jobs[`${name}-s${seed}`]
        const one = {
          passAt1: arm.perSeed[s],
          ci95: arm.ci95PerSeed[s],
          passAtK: arm.passAtKPerSeed[s],
          board: arm.boardPerSeed[s],
        }
        return row(`${name}, seed ${seed}`, one, (trainMinutes + evaluationMinutes).toFixed(1))
      })
      return rows.length > 1 ? [...rows, row(`${name}, all seeds`, arm, arm.minutes.toFixed(1))] : rows
    }),
  ]
}

/** `[what, said]` pairs, the verdict first. */
export function versionOneLines({ delta, checks, trainTrace }: VersionOne): [what: string, said: string][] {
  const { noise, decontamination, length, cut, hackScan, overOptimisation } = checks
  const [low, high] = delta.ci95
  const lines: ([what: string, said: string] | null)[] = [
    [
      'recipe - baseline',
      `${signed(delta.recipeVsBaseline)} [${signed(low)}, ${signed(high)}]: ${delta.verdict}. ${delta.why}`,
    ],
    delta.smallestEffect === null
      ? null
      : ['could have seen', `an effect of ${three(delta.smallestEffect)}, four times in five`],
    delta.toResolve && ['to resolve it', delta.toResolve.why],
    ...delta.warnings.map((warning): [string, string] => ['warning', warning]),
    [
      'noise',
      `base runs ${noise.runs.map(three).join(', ')}; run_std ${noise.runStd.toFixed(4)}, band ${three(noise.band)}`,
    ],
    ...named.flatMap((arm) =>
      trainTrace[arm].map(({ seed, rewardFirst10, rewardLast10 }): [string, string] => [
        `${arm}, seed ${seed}`,
        `training reward ${three(rewardFirst10)} in the first ten steps, ${three(rewardLast10)} in the last ten`,
      ]),
    ),
    [
      'reply length',
      length
        .map(({ arm, before, after }) => `${arm} ${before.toFixed(0)} to ${after.toFixed(0)} chars`)
        .join('; '),
    ],
    [
      'cut off',
      cut
        .map(({ arm, notes, replies }) => `${arm} ${three(notes)} of notes, ${three(replies)} of replies`)
        .join('; '),
    ],
    [
      'decontamination',
      `${decontamination.dropped} training problems dropped for overlap with the held-out set`,
    ],
    ...hackScan.map(({ job, why }): [string, string] => [`hack scan, ${job}`, why]),
    ['over-optimised', `no. ${overOptimisation.why}`],
  ]
  return lines.filter((line) => line !== null)
}

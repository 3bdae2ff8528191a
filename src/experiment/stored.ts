/**
 * A run folder read back without the experiment that made it: what it says of itself, its results and its finished
 * jobs. Reads only.
 */
import { join } from 'node:path'
import { z } from 'zod'
import type { Reads } from '../board/types.ts'
import { UserError } from '../errors.ts'
import { readJsonFile } from '../files.ts'
import type { ArmName } from './arms.ts'
import { type RunRecord, readRecord } from './folder.ts'
import { isFinished, type Job, type JobOutcome, planJobs, readOutcome, readProgress } from './job.ts'
import { type Results, resultsSchema } from './results.ts'
import { isUnsettled } from './staged.ts'

const whole = z.number().int().min(0)
const rounds = z.object({
  notes: z.object({ temperature: z.number(), topP: z.number() }),
  replies: z.object({ temperature: z.number(), topP: z.number() }),
})
const arm = z.looseObject({ reads: z.string(), layout: z.array(z.array(whole)) })

/** experiment.json's configuration (see configRecord), as far as a stored run needs it. */
const storedSchema = z.looseObject({
  identity: z.looseObject({
    config: z.looseObject({
      board: z.looseObject({
        copies: whole,
        noteTokens: whole,
        replyTokens: whole,
        readTokens: whole.nullable(),
      }),
      arms: z.object({ baseline: arm, recipe: arm }),
      train: z.looseObject({ steps: whole, problemsPerStep: whole }),
      sampling: z.looseObject({ train: rounds, evaluation: rounds }),
      evaluation: z.looseObject({ baseRuns: whole, problemsAtOnce: whole }),
      grader: z.object({ name: z.string(), version: z.string() }),
    }),
    data: z.looseObject({ holdout: whole }),
  }),
  arms: z.array(z.enum(['baseline', 'recipe'])),
})

export interface StoredRun {
  folder: string
  /** experiment.json as it stands. */
  record: RunRecord
  config: z.infer<typeof storedSchema>['identity']['config']
  holdout: number
  results: Results
  /** The jobs that the results are made of, in their order. */
  jobs: Job[]
}

/**
 * Opens the folder of a run that has results.
 *
 * @throws UserError for a folder that is no run, or whose run has no results yet.
 */
export async function openStoredRun(folder: string): Promise<StoredRun> {
  const record = await readRecord(folder)
  if (await isUnsettled(folder)) {
    throw new UserError(
      `Grading ${folder} again was cut short: finish it first with message-board regrade ${folder}.`,
    )
  }
  const { identity, arms } = await readJsonFile(join(folder, 'experiment.json'), storedSchema)
  const results = await readJsonFile(join(folder, 'results.json'), resultsSchema.nullable(), {
    optional: true,
  })
  if (!results) {
    throw new UserError(
      `${folder} has no results.json: let its run finish first (the same command continues it).`,
    )
  }
  const { config } = identity
  const reads = (name: ArmName) => ({ reads: storedReads(config.arms[name]) })
  const experiment = {
    evaluation: config.evaluation,
    arms: { baseline: reads('baseline'), recipe: reads('recipe') },
    seeds: results.seeds,
  }
  const jobs: Job[] = []
  for (const job of planJobs(experiment, arms)) {
    const progress = await readProgress(folder, job)
    if (isFinished(config, job, progress, identity.data.holdout)) jobs.push(job)
  }
  return { folder, record, config, holdout: identity.data.holdout, results, jobs }
}

/** What the run's finished jobs left. */
export function storedOutcomes({ folder, jobs }: StoredRun): Promise<JobOutcome[]> {
  return Promise.all(jobs.map((job) => readOutcome(folder, job)))
}

/** The board as the run recorded it: its name, and which notes each reader saw. */
function storedReads({ reads, layout }: z.infer<typeof arm>): Reads {
  return Object.defineProperty((reader: number) => layout[reader], 'name', { value: reads })
}

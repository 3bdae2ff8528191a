/**
 * results.json of a made-up run: levels and counts as its files have them, and of each comparison a plain bootstrap over
 * problems. For tests of what shows results: real verdicts are src/experiment's and src/stats's.
 */
import { join } from 'node:path'
import { countEpisodes, finalScores } from '../../board/counts.ts'
import { type JobRecord, readJob } from '../../record/job-log.ts'
import { type Job, planBases, planJobs } from '../../record/plan.ts'
import { type ArmResult, type BaseResult, type Results, resultsSchema } from '../../record/results.ts'
import { type RunRecord, schemaVersion } from '../../record/schema.ts'
import { bootstrapMean, noiseBand, passAt } from '../../stats/index.ts'

interface Done extends JobRecord {
  job: Job
}

export async function madeUpResults(
  folder: string,
  record: RunRecord,
  facts: { model: Results['model']; dropped: number; failed: Results['failed'] },
): Promise<Results> {
  const failed = new Set(facts.failed.map(({ job }) => job))
  const done: Done[] = await Promise.all(
    planJobs(record)
      .filter(({ name }) => !failed.has(name))
      .map(async (job) => ({ job, ...(await readJob(join(folder, job.name))) })),
  )
  const finalOf = (arm: string) => record.identity.arms[arm].protocol.final
  const scores = ({ job, rollouts }: Done) =>
    evaluated(rollouts).map((episode) => finalScores(episode, finalOf(job.arm)))
  /** Mean score of each problem over jobs. */
  const byProblem = (jobs: Done[]) => {
    const all = jobs.map(scores)
    return all[0].map((_, p) => mean(all.flatMap((each) => each[p])))
  }
  const level = (jobs: Done[]) => {
    const each = jobs.map((job) => passAt(scores(job)))
    const board = countEpisodes(jobs.flatMap(({ rollouts }) => evaluated(rollouts)))
    const values = byProblem(jobs)
    return {
      passAt1: mean(values),
      ci95: bootstrapMean(values),
      passAtK: mean(each.map(({ passAtK }) => passAtK.value)),
      k: each[0].k,
      chars: board.replyChars,
      board,
    }
  }
  const minutes = ({ progress: { seconds } }: Done) => (seconds.train + seconds.evaluation) / 60
  const trained = (arm: string) => done.filter(({ job }) => job.seed !== null && job.arm === arm)
  const arms = Object.fromEntries(
    record.arms.map((arm): [string, ArmResult | null] => {
      const jobs = trained(arm)
      if (jobs.length === 0) return [arm, null]
      const { protocol, credit } = record.identity.arms[arm]
      const each = jobs.map((job) => passAt(scores(job)))
      return [
        arm,
        {
          ...level(jobs),
          protocol: protocol.name,
          credit: credit.name,
          seeds: jobs.map(({ job }) => job.seed!),
          perSeed: each.map(({ passAt1 }) => passAt1.value),
          ci95PerSeed: each.map(({ passAt1 }) => passAt1.ci95),
          passAtKPerSeed: each.map(({ passAtK }) => passAtK.value),
          boardPerSeed: jobs.map(({ rollouts }) => countEpisodes(evaluated(rollouts))),
          stepsPerSeed: jobs.map(({ progress }) => progress.steps),
          steps: Math.max(...jobs.map(({ progress }) => progress.steps)),
          tokens: {
            sampled: mean(jobs.map(({ progress }) => progress.tokens.sampled)),
            scored: mean(jobs.map(({ progress }) => progress.tokens.scored)),
            trained: mean(jobs.map(({ progress }) => progress.tokens.trained)),
          },
          minutes: jobs.reduce((sum, job) => sum + minutes(job), 0),
        },
      ]
    }),
  )
  const planned = planBases(record)
  const ofBase = (name: string) =>
    done.filter(({ job }) => job.seed === null && job.name.replace(/-\d+$/, '') === name)
  const bases = planned.flatMap(({ name, arms: starting }): BaseResult[] => {
    const jobs = ofBase(name)
    if (jobs.length === 0) return []
    const { protocol } = record.identity.arms[starting[0]]
    const runs = jobs.map((job) => passAt(scores(job)).passAt1.value)
    return [{ ...level(jobs), name, protocol: protocol.name, arms: starting, runs }]
  })
  const baseRuns = bases[0].runs
  return resultsSchema.parse({
    schemaVersion,
    model: facts.model,
    task: {
      name: record.identity.shared.task.name,
      train: record.identity.shared.data.train,
      holdout: record.identity.shared.data.holdout,
    },
    config: record.identity,
    seeds: record.seeds,
    baseline: record.baseline,
    arms,
    bases,
    contrasts: record.contrasts.flatMap(({ arm, against }) => {
      if (!arms[arm] || !arms[against]) return []
      const found = compared(byProblem(trained(against)), byProblem(trained(arm)))
      const toResolve = { seeds: 9, why: '9 seeds an arm resolve it.' }
      return [
        {
          arm,
          against,
          ...found,
          smallestEffect: 1.4 * (found.ci95[1] - found.delta),
          flatWithin: 0.03,
          warnings: [],
          toResolve: found.verdict === 'unresolved' ? toResolve : null,
        },
      ]
    }),
    training: planned.flatMap(({ name, arms: starting }) =>
      starting.flatMap((arm) =>
        arms[arm] && ofBase(name).length > 0
          ? [{ arm, base: name, ...compared(byProblem(ofBase(name)), byProblem(trained(arm))) }]
          : [],
      ),
    ),
    sequential: null,
    regrades: [],
    checks: {
      noise:
        baseRuns.length < 2
          ? null
          : (({ runStd, t, band }) => ({ runs: baseRuns, runStd, t, band }))(
              noiseBand(baseRuns, record.seeds.length, record.seeds.length),
            ),
      decontamination: { dropped: facts.dropped },
      length: bases.flatMap((base) =>
        base.arms.flatMap((arm) => {
          const after = arms[arm]
          return after ? [{ arm, before: base.chars, after: after.chars }] : []
        }),
      ),
      cut: [...bases.map((base) => ({ of: base.name, ...base })), ...armList(arms)].map(({ of, board }) => ({
        of,
        notes: board.notesCut,
        replies: board.repliesCut,
      })),
      hackScan: record.arms.flatMap(trained).map(({ job }) => ({
        job: job.name,
        floor: 0.4,
        top: null,
        why: 'No text feature separates reward within a problem beyond chance (made up).',
      })),
      overOptimisation: {
        proxy: null,
        overOptimised: false,
        why: 'The reward is the target: there is no proxy to over-optimise.',
      },
    },
    trainTrace: Object.fromEntries(record.arms.map((arm) => [arm, trained(arm).map(trace)])),
    failed: facts.failed,
    versions: record.versions,
    timing: {
      finishedAt: '2026-01-01T00:00:00.000Z',
      minutes: done.reduce((sum, job) => sum + minutes(job), 0),
      jobs: Object.fromEntries(
        done.map(({ job, progress: { seconds } }) => [
          job.name,
          { trainMinutes: seconds.train / 60, evaluationMinutes: seconds.evaluation / 60 },
        ]),
      ),
    },
  } satisfies Results)
}

const evaluated = (rollouts: JobRecord['rollouts']) =>
  rollouts
    .filter(({ phase }) => phase === 'evaluation')
    .map(({ problem, rounds }) => ({ problemId: problem.id, rounds }))

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

const armList = (arms: Results['arms']) =>
  Object.entries(arms).flatMap(([of, arm]) => (arm ? [{ of, board: arm.board }] : []))

function compared(before: readonly number[], after: readonly number[]) {
  const differences = after.map((value, p) => value - before[p])
  const [delta, ci95] = [mean(differences), bootstrapMean(differences)]
  const verdict: Results['training'][number]['verdict'] =
    ci95[0] > 0 ? 'moved' : ci95[1] < 0 ? 'moved the wrong way' : 'unresolved'
  const excludes = verdict === 'unresolved' ? 'holds' : 'excludes'
  const why = `The difference ${delta.toFixed(3)} has an interval that ${excludes} 0 (made up).`
  return { delta, ci95, p: verdict === 'unresolved' ? 0.3 : 0.01, verdict, why }
}

function trace({ job, metrics }: Done): Results['trainTrace'][string][number] {
  const rewards = metrics.map(({ reward }) => reward)
  return {
    seed: job.seed!,
    reward: rewards,
    informative: metrics.map(({ informative }) => informative),
    noteAcc: metrics.map(({ noteAcc }) => noteAcc),
    replyChars: metrics.map(({ replyChars }) => replyChars),
    gradNorm: metrics.map(({ gradNorm }) => gradNorm),
    effective: metrics.map(({ effective }) => effective),
    rounds: metrics[0].rounds.map(({ name, credit }, r) => ({
      name,
      right: metrics.map(({ rounds }) => rounds[r].right),
      chars: metrics.map(({ rounds }) => rounds[r].chars),
      cut: metrics.map(({ rounds }) => rounds[r].cut),
      credit:
        credit === null
          ? null
          : {
              mean: metrics.map(({ rounds }) => rounds[r].credit?.mean ?? null),
              spread: metrics.map(({ rounds }) => rounds[r].credit?.spread ?? null),
              informative: metrics.map(({ rounds }) => rounds[r].credit?.informative ?? null),
              withOwn: metrics.map(({ rounds }) => rounds[r].credit?.withOwn ?? null),
            },
    })),
    rewardFirst10: mean(rewards.slice(0, 10)),
    rewardLast10: mean(rewards.slice(-10)),
  }
}

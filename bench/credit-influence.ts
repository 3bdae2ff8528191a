/**
 * What readers make of notes before training and after it: in each world of the map of credit (experiments/credit-map.ts),
 * seed 1, the mean over held-out boards of what showing a note adds to the log-probability of what its reader wrote, by
 * the seats of both, for the untrained policy, readers alone and a rule that pays notes.
 *
 *   npx tsx bench/credit-influence.ts [--rule replay] [--worlds clues,insight]
 *
 * The figures go to bench/results/credit-influence.json; scripts/credit-map.ts makes docs/credit-map.md's tables of them.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { creditMap, worlds } from '../experiments/credit-map.ts'
import { overrideExperiment } from '../src/experiment/config.ts'
import { versions } from '../src/experiment/engine.ts'
import { measureInfluence } from '../src/experiment/influence.ts'
import { runExperiment } from '../src/experiment/run.ts'
import { readJsonFile, writeJsonAtomic } from '../src/files.ts'
import { influenceFiguresSchema } from './credit-map-cell.ts'

const { values } = parseArgs({
  options: {
    rule: { type: 'string', default: 'replay' },
    worlds: { type: 'string', default: Object.keys(worlds).join() },
  },
})
const path = new URL('results/credit-influence.json', import.meta.url).pathname
const found = (await readJsonFile(path, influenceFiguresSchema, { optional: true })) ?? { worlds: {} }

for (const world of values.worlds.split(',')) {
  const whole = creditMap(world, [1])
  const experiment = overrideExperiment(whole, {
    arms: {
      readersOnly: whole.choices.arms!.readersOnly,
      [values.rule]: whole.choices.arms![values.rule],
    },
    baseline: 'readersOnly',
    contrasts: [],
    evaluation: { baseRuns: 1 },
  })
  const out = await mkdtemp(join(tmpdir(), 'credit-influence-'))
  try {
    const { failed } = await runExperiment(experiment, { out })
    if (failed.length > 0) throw new Error(`${world}: ${failed[0].why}`)
    const { jobs } = await measureInfluence(experiment, { out })
    found.worlds[world] = {
      machine: cpus()[0]?.model ?? 'unknown',
      versions: versions(experiment),
      jobs: jobs.map(({ job, problems, bySeats, right, wrong, whole: finished, cut }) => ({
        // `base-readersOnly-1`, `readersOnly-s1`, `replay-s1`.
        rule: job.startsWith('base-') ? 'base' : job.replace(/-s1$/, ''),
        problems,
        bySeats,
        right,
        wrong,
        whole: finished,
        cut,
      })),
    }
    await writeJsonAtomic(path, found)
    console.log(`${world}: ${jobs.map(({ job }) => job).join(', ')}`)
  } finally {
    await rm(out, { recursive: true })
  }
}

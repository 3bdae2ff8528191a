/**
 * Makes the finished report that the documentation shows, docs/public/example/report.html: the first run of
 * docs/getting-started.md, in runs/example. A run that is there already is not paid for again.
 *
 *   npx tsx scripts/example-report.ts
 */
import { copyFile, mkdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { defineExperiment } from '../src/experiment/config.ts'
import { runExperiment } from '../src/experiment/run.ts'
import { writeReport } from '../src/report/html.ts'
import { clues } from '../src/tasks/clues.ts'

const path = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url))

const run = path('runs/example')
const experiment = defineExperiment({
  task: clues({ holdout: 60 }),
  train: { steps: 20 },
  // Of any machine, so that a run that was begun on another goes on.
  engine: { threads: 1 },
})
await runExperiment(experiment, {
  out: run,
  onEvent: (event) => {
    if (event.type === 'job') console.log(event.job, event.state)
  },
})
await mkdir(path('docs/public/example'), { recursive: true })
await copyFile(await writeReport(run), path('docs/public/example/report.html'))

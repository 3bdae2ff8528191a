/**
 * A process of its own for jobs of a run: on the CPU, jobs at a time share nothing that one of them could wait for. Started
 * by job-pool.ts, which holds the run folder's lock; told job by job what to run, it writes into these jobs' folders
 * alone. Killing it at any moment is safe.
 */
import { findModels, openEngines } from '../experiment/engine.ts'
import { runJob } from '../experiment/job.ts'
import { recordOf } from '../experiment/record.ts'
import { checkRunFolder, readRecord } from '../record/folder.ts'
import type { Job } from '../record/plan.ts'
import { experimentBy } from './asked.ts'
import type { WorkerMessage, WorkerStart } from './job-pool.ts'
import { thinned } from './thinned.ts'

const tell = (message: WorkerMessage) => process.send!(message)

async function open({ command, out }: WorkerStart) {
  const experiment = await experimentBy(command)
  const split = await experiment.task.load()
  const found = await findModels(experiment)
  const record = await recordOf(experiment, found, split)
  const onEvent = thinned((event) => tell({ type: 'event', event }))
  const engines = openEngines(experiment, found, (text) => onEvent({ type: 'notice', text }))
  return { record, context: { engines, experiment, ...split, folder: out, onEvent } }
}

let opened: ReturnType<typeof open> | undefined

process.on('message', async (told: { start: WorkerStart } | { job: Job }) => {
  if ('start' in told) {
    opened = open(told.start)
    // Whatever is wrong is told when a job is asked for.
    opened.catch(() => {})
    return
  }
  try {
    const { record, context } = await opened!
    // The experiment file may have been changed since the run began.
    const { looks } = await readRecord(context.folder)
    await checkRunFolder(context.folder, { ...record, looks })
    await runJob(context, told.job)
    tell({ type: 'done' })
  } catch (error) {
    const failure = error instanceof Error ? error : new Error(String(error))
    tell({
      type: 'failed',
      message: failure.message,
      user: failure.name === 'UserError',
      stack: failure.stack ?? failure.message,
    })
  }
})
// The run is over, or its process is gone.
process.on('disconnect', () => process.exit(0))

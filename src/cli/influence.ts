/** `message-board influence`: how much each note moved each reply, in the evaluations of a finished run. */
import { type Influence, measureInfluence } from '../experiment/influence.ts'
import { alignedRows } from '../report/layout.ts'
import { experimentOfRun } from './asked.ts'
import type { ExperimentFlags } from './flags.ts'
import { downloadProgress } from './progress.ts'
import { stopOnSignals } from './signals.ts'
import { printJson, printText, say } from './terminal.ts'

export interface InfluenceFlags extends ExperimentFlags {
  job?: string[]
  json?: boolean
}

export async function influenceCommand(
  folder: string,
  file: string | undefined,
  flags: InfluenceFlags,
): Promise<void> {
  const experiment = await experimentOfRun(folder, file, flags)
  const { signal, ignore } = stopOnSignals(
    'Stopped. The same command goes on from here: what was measured is kept.',
  )
  try {
    const found = await measureInfluence(experiment, {
      out: folder,
      jobs: flags.job,
      onDownload: flags.json ? undefined : downloadProgress(process.stderr),
      onNotice: say,
      onProgress: flags.json
        ? undefined
        : ({ job, problems, of }) => say(`${job}: ${problems}/${of} problems`),
      signal,
    })
    if (flags.json) printJson(found)
    else printText(influenceText(found))
  } finally {
    ignore()
  }
}

function influenceText({ jobs }: Influence): string {
  const cell = (change: number | null) =>
    change === null ? '-' : `${change < 0 ? '-' : '+'}${Math.abs(change).toFixed(3)}`
  const rows = jobs.map(({ job, right, wrong, whole, cut, byPosition }) => [
    job,
    cell(right.change),
    cell(wrong.change),
    cell(whole.change),
    cell(cut.change),
    byPosition.map(({ change }) => cell(change)).join(' '),
  ])
  return [
    'What showing a note adds to the log-probability of what its reader wrote, in nats (mean over readers and problems):',
    '',
    ...alignedRows([
      ['job', 'right note', 'wrong note', 'whole note', 'cut note', 'by position on the board'],
      ...rows,
    ]),
    '',
    'Each problem’s own figures are in influence.jsonl of each job, and on its page in the report.',
  ].join('\n')
}

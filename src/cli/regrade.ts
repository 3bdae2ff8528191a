/** `message-board regrade`: grades a run's stored rollouts again and says what changed. */
import { regrade } from '../experiment/regrade.ts'
import { signed } from '../report/rows.ts'
import { tableLines } from '../report/table.ts'
import { experimentOf } from './experiment-file.ts'
import type { OutputFlags } from './flags.ts'
import { lineWidth, printJson, printLines, printText } from './terminal.ts'

export async function regradeCommand(
  folder: string,
  file: string | undefined,
  { json, explain }: OutputFlags,
): Promise<void> {
  const grader = file === undefined ? undefined : (await experimentOf(file)).grader
  const { before, results, ...found } = await regrade(folder, grader)
  if (json) {
    printJson({ schemaVersion: 2, ...found, results })
    return
  }
  const { from, to, evaluation, training, continues } = found
  const changes = results.contrasts.map(({ arm, against, delta, verdict }, i) => {
    const earlier = before.contrasts[i]
    return `${arm} - ${against}: ${signed(earlier.delta)}, ${earlier.verdict}; now ${signed(delta)}, ${verdict}.`
  })
  const lines = [
    `${folder}: graded by ${from}, and again by ${to}.`,
    `${evaluation.changed} of ${evaluation.of} grades of the evaluations changed.`,
    `${training.changed} of ${training.of} grades of training would be others; they stay as they were paid.`,
    continues
      ? 'run continues this folder.'
      : 'run does not continue this folder: its policies were trained for the other verifier.',
    ...(results === before ? ['Nothing was written.'] : changes),
  ]
  printText(`${lines.join('\n')}\n`)
  printLines(tableLines(results, { width: lineWidth(), explain }))
}

/** `message-board report`: writes report.html from a run folder. */
import { writeReport } from '../report/html.ts'
import { print } from './terminal.ts'

export async function reportCommand(folder: string, { out }: { out?: string }): Promise<void> {
  print(`${await writeReport(folder, out)}\n`)
}

/** `message-board report`: writes report.html from a run folder. */
import { writeReport } from '../report/html.ts'

export async function reportCommand(folder: string, { out }: { out?: string }): Promise<void> {
  process.stdout.write(`${await writeReport(folder, out)}\n`)
}

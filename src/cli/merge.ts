/** `message-board merge`: one run of the folders of its shards. */
import { mergeShards } from '../experiment/merge.ts'
import { tableText } from '../report/table.ts'

export async function mergeCommand(
  folders: readonly string[],
  { out, json }: { out: string; json?: boolean },
): Promise<void> {
  const results = await mergeShards(folders, out)
  process.stdout.write(json ? `${JSON.stringify(results, null, 2)}\n` : `\n${tableText(results)}`)
  if (!json) process.stderr.write(`\nThe whole run is in ${out}.\n`)
}

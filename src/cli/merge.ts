/** `message-board merge`: one run of the folders of its shards. */
import { mergeShards } from '../experiment/merge.ts'
import { tableText } from '../report/table.ts'
import { print, printJson, tell } from './terminal.ts'

export async function mergeCommand(
  folders: readonly string[],
  { out, json }: { out: string; json?: boolean },
): Promise<void> {
  const results = await mergeShards(folders, out)
  if (json) return printJson(results)
  print(`\n${tableText(results)}`)
  tell(`\nThe whole run is in ${out}.\n`)
}

/** `message-board merge`: one run of the folders of its shards. */
import { mergeShards } from '../experiment/merge.ts'
import { tableLines } from '../report/table.ts'
import type { OutputFlags } from './flags.ts'
import { lineWidth, print, printJson, printLines, tell } from './terminal.ts'

export async function mergeCommand(
  folders: readonly string[],
  { out, json, explain }: OutputFlags & { out: string },
): Promise<void> {
  const results = await mergeShards(folders, out)
  if (json) return printJson(results)
  print('\n')
  printLines(tableLines(results, { width: lineWidth(), explain }))
  tell(`\nThe whole run is in ${out}.\n`)
}

/** A run in the formats of other tools. */
import { join } from '../platform/path.ts'
import { exportInspect } from './inspect.ts'
import { exportParquet } from './parquet.ts'

const formats = { inspect: exportInspect, parquet: exportParquet }

/** Writes a run for another tool, in a folder of the run's own unless told, and returns the files' paths. */
export const exportRun = (
  folder: string,
  to: keyof typeof formats,
  out = join(folder, to),
): Promise<string[]> => formats[to](folder, out)

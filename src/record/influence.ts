/**
 * influence.jsonl of a job: one line for each held-out problem whose posts were scored again, in the problems' order.
 * Kept beside the job's logs and no part of its progress: it can be deleted and measured again. A last line that was cut
 * short is measured anew.
 */
import { z } from 'zod'
import { utf8 } from '../bytes.ts'
import { UserError } from '../errors.ts'
import { appendAt, readRegular } from '../files.ts'
import { join } from '../platform/path.ts'
import { refSchema } from './schema.ts'

/** A line of influence.jsonl. */
export const influenceSchema = z.strictObject({
  problem: z.string(),
  effects: z.array(z.strictObject({ note: refSchema, post: refSchema, change: z.number() })),
})
export type InfluenceLine = z.infer<typeof influenceSchema>

export const influenceFile = 'influence.jsonl'

const fileOf = (jobFolder: string) => join(jobFolder, influenceFile)

/**
 * What was measured of a job so far, and the length of its whole lines in bytes.
 *
 * @throws UserError for a file that is damaged, or that is of other problems than `problems`, in their order.
 */
export async function readInfluence(
  jobFolder: string,
  problems: readonly string[],
): Promise<{ lines: InfluenceLine[]; bytes: number }> {
  const path = fileOf(jobFolder)
  const text = (await readRegular(path)) ?? ''
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  const lines = whole
    .split('\n')
    .slice(0, -1)
    .map((row, i): InfluenceLine => {
      try {
        const line = influenceSchema.parse(JSON.parse(row))
        if (line.problem === problems[i]) return line
      } catch {
        // Said below, whatever it was.
      }
      throw new UserError(
        `Line ${i + 1} of ${path} is not what it should be: delete the file and measure again.`,
      )
    })
  return { lines, bytes: utf8(whole).length }
}

/** Adds lines behind the first `bytes`; returns how long the file is then. */
export function appendInfluence(
  jobFolder: string,
  bytes: number,
  lines: readonly InfluenceLine[],
): Promise<number> {
  return appendAt(fileOf(jobFolder), bytes, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
}

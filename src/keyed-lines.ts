/**
 * A file of answers, one JSON line under each key: what was paid for once is kept, whatever ends the process, and is
 * looked up instead of asked for again. Each line carries its checksum. Touches that file only.
 */
import type { z } from 'zod'
import { utf8 } from './bytes.ts'
import { UserError } from './errors.ts'
import { appendAt, makeFolder, readRegular } from './files.ts'
import { dirname } from './platform/path.ts'
import { parseSealed, sealed } from './sealed.ts'

export interface KeyedLines<Line> {
  get(key: string): Line | undefined
  /** Keeps a line, flushed to the disk. Lines that are added while others are written go together in the next write. */
  add(line: Line): Promise<void>
  close(): Promise<void>
}

/** What the seal of a line belongs to, beside its key. */
const sealName = 'answer'

/**
 * Opens the file, making it and its folder; null keeps lines in memory alone. A last line that was cut short is removed.
 *
 * @throws UserError for a file that cannot be used, naming it and the line.
 */
export async function openKeyedLines<Line extends { key: string }>(
  path: string | null,
  schema: z.ZodType<Line>,
): Promise<KeyedLines<Line>> {
  const known = new Map<string, Line>()
  if (path === null) {
    return {
      get: (key) => known.get(key),
      add: async (line) => void known.set(line.key, line),
      close: async () => {},
    }
  }
  await makeFolder(dirname(path))
  const found = (await readRegular(path)) ?? ''
  const whole = found.slice(0, found.lastIndexOf('\n') + 1)
  for (const [i, text] of whole.split('\n').slice(0, -1).entries()) {
    const line = parseSealed(sealName, text, schema)
    if (line.fault !== undefined) {
      throw new UserError(`Line ${i + 1} of ${path} is no answer: delete that line or choose another --out.`)
    }
    known.set(line.value.key, line.value)
  }
  // Drops what was cut short, and shows now rather than after the first answer that the file can be written.
  let length = await appendAt(path, utf8(whole).length, '')

  let latest: Promise<void> = Promise.resolve()
  /** Lines whose write has not begun. */
  let next: { text: string; written: Promise<void> } | null = null
  async function writeAfter(before: Promise<void>, batch: { text: string }): Promise<void> {
    // Whoever added those lines is told of it.
    await before.catch(() => {})
    next = null
    length = await appendAt(path!, length, batch.text)
  }
  return {
    get: (key) => known.get(key),
    async add(line) {
      const text = `${JSON.stringify(sealed(sealName, line))}\n`
      if (next) next.text += text
      else {
        const batch = { text, written: latest }
        next = batch
        batch.written = writeAfter(latest, batch)
        latest = batch.written
      }
      await next.written
      known.set(line.key, line)
    },
    close: () => latest.catch(() => {}),
  }
}

/**
 * A job's log: lines that are only ever added, of which so many bytes belong to the job's progress, known by their
 * SHA-256. Read in one pass, a line at a time, from the start or from where an earlier reader stopped. Touches that file
 * only, and changes nothing.
 */
import { concat, hex } from '../bytes.ts'
import { type Digest, isAbsence, openRegular, readFailure } from '../files.ts'
import { type Hash, sha256 } from '../platform/hash.ts'

/** How far a log was read; `hash` is of all bytes so far. */
export interface LogPosition {
  bytes: number
  lines: number
  hash: Hash
}

export const logStart = (): LogPosition => ({ bytes: 0, lines: 0, hash: sha256() })

/** What is wrong with a log, in words that follow "is damaged (". */
export class Damage extends Error {
  override name = 'Damage'
}

/** Longest line that is taken, in bytes: what lost its ends of lines is not read into memory whole. */
const longestLine = 2 ** 27

/**
 * Calls `take` with each line from `from` on, up to `to`, and returns how far that is: what a later call goes on from.
 * `take` gets the line's bytes without its end, the byte at which it starts, and its number from 1.
 *
 * @throws Damage for a log that is not what `to` says, and UserError for one that cannot be read. Lines may have been
 * taken by then: nothing is to be made of them.
 */
export async function readLog(
  path: string,
  from: LogPosition,
  to: Digest,
  take: (line: Uint8Array, start: number, number: number) => void,
): Promise<LogPosition> {
  const hash = from.hash.copy()
  let { bytes: start, lines } = from
  let rest: Uint8Array[] = []
  let waiting = 0
  for await (const part of partsOf(path, from.bytes, to.bytes)) {
    hash.update(part)
    let chunk = part
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10)) {
      const line = waiting === 0 ? chunk.subarray(0, end) : concat([...rest, chunk.subarray(0, end)])
      rest = []
      waiting = 0
      lines++
      take(line, start, lines)
      start += line.length + 1
      chunk = chunk.subarray(end + 1)
    }
    if (chunk.length > 0) rest.push(chunk)
    waiting += chunk.length
    if (waiting > longestLine) throw new Damage(`line ${lines + 1} has more than ${longestLine} bytes`)
  }
  if (waiting > 0) throw new Damage(`line ${lines + 1} has no end`)
  if (hex(hash.copy().digest()) !== to.sha256) {
    throw new Damage('it is not what was written: the checksum in progress.json is another')
  }
  return { bytes: to.bytes, lines, hash }
}

/** The bytes of a file between two offsets, a part at a time. */
async function* partsOf(path: string, from: number, to: number): AsyncGenerator<Uint8Array> {
  if (to <= from) return
  try {
    const file = await openRegular(path)
    try {
      const { size } = await file.stat()
      if (size < to) throw new Damage(`it has ${size} bytes and progress.json counts ${to}`)
      for (let position = from; position < to; ) {
        const buffer = new Uint8Array(Math.min(1 << 20, to - position))
        const { bytesRead } = await file.read(buffer, 0, buffer.length, position)
        if (bytesRead === 0) throw new Damage('it became shorter while it was read')
        position += bytesRead
        yield buffer.subarray(0, bytesRead)
      }
    } finally {
      await file.close()
    }
  } catch (error) {
    throw isAbsence(error) ? new Damage('it is missing') : readFailure(path, error)
  }
}

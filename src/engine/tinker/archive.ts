/** An adapter as a server gives it, a tar archive, as files in a folder. Touches the file system only. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { UserError } from '../../errors.ts'
import { writeFileAtomic } from '../../files.ts'

const BLOCK = 512

/** Files of a tar archive (POSIX.1-1988 and later) by the last part of their names; gzipped or not. */
export function untar(archive: Buffer): Map<string, Buffer> {
  const bytes = archive[0] === 0x1f && archive[1] === 0x8b ? gunzipSync(archive) : archive
  const files = new Map<string, Buffer>()
  for (let at = 0; at + BLOCK <= bytes.length; ) {
    const header = bytes.subarray(at, at + BLOCK)
    // Two blocks of zeros end it.
    if (header[0] === 0) break
    const name = textAt(header, 0, 100)
    const size = sizeOf(header)
    const start = at + BLOCK
    if (Number.isNaN(size) || start + size > bytes.length) {
      throw new UserError(`The archive of an adapter is damaged at ${name}: save the adapter again.`)
    }
    const type = String.fromCharCode(header[156])
    if (type === '0' || type === '\0') {
      files.set(name.slice(name.lastIndexOf('/') + 1), bytes.subarray(start, start + size))
    }
    at = start + Math.ceil(size / BLOCK) * BLOCK
  }
  return files
}

const textAt = (header: Buffer, from: number, length: number) =>
  header.toString('utf8', from, from + length).replace(/\0.*$/s, '')

/** Octal digits, or where the first bit is set a big-endian number (GNU tar, for files of 8 GiB and more). */
function sizeOf(header: Buffer): number {
  const field = header.subarray(124, 136)
  return field[0] & 0x80 ? Number(field.readBigUInt64BE(4)) : Number.parseInt(textAt(field, 0, 12), 8)
}

/** Writes an adapter in PEFT's layout, its configuration last; false for an archive that holds none. */
export async function unpackAdapter(archive: Buffer, folder: string): Promise<boolean> {
  const files = untar(archive)
  const names = ['adapter_model.safetensors', 'adapter_config.json']
  if (!names.every((name) => files.has(name))) return false
  await mkdir(folder, { recursive: true })
  for (const name of names) await writeFileAtomic(join(folder, name), files.get(name) as Buffer)
  return true
}

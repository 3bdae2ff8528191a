/**
 * An adapter as a server gives it, a tar archive, as files in a folder: read piece by piece, so that an archive of any
 * size takes little memory, and within bounds, so that a small one does not become a full disk. Touches that folder only.
 */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { UserError } from '../../errors.ts'
import { writeAtomically, writeFileAtomic } from '../../files.ts'

type Pieces = AsyncIterable<Uint8Array>

/** An archive that cannot be what it says it is. */
export class DamagedArchive extends UserError {}

const BLOCK = 512

/** Bytes that come in, and unpacked ones: a flat number and so many for each that came in, as weights never shrink. */
const LIMITS = { received: 8 * 2 ** 30, flat: 64 * 2 ** 20, ratio: 100, files: 10_000, config: 2 ** 20 }

/**
 * Reads a tar archive (POSIX.1-1988 and later), gzipped or not. `visit` gets each file by the last part of its name, and
 * reads its content or leaves it.
 *
 * @throws DamagedArchive for what is none, ends early, or unpacks to what no adapter does.
 */
export async function untar(
  archive: Pieces,
  visit: (name: string, size: number, content: Pieces) => Promise<void>,
): Promise<void> {
  let received = 0
  async function* counted(): Pieces {
    for await (const piece of archive) {
      received += piece.length
      if (received > LIMITS.received) throw damaged('larger than any adapter')
      yield piece
    }
  }
  const source = openReader(counted())
  const [first, second] = await source.peek(2)
  const isZipped = first === 0x1f && second === 0x8b
  const room = () => LIMITS.flat + LIMITS.ratio * received
  const files = isZipped ? openReader(within(gunzipped(source.rest()), room)) : source
  try {
    await readFiles(files, visit)
  } finally {
    // What comes behind the last file is not waited for.
    await files.close()
    await source.close()
  }
}

async function* gunzipped(pieces: Pieces): Pieces {
  const input = Readable.from(pieces)
  const gunzip = createGunzip()
  input.on('error', (error) => gunzip.destroy(error))
  input.pipe(gunzip)
  try {
    yield* gunzip as Pieces
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    throw code.startsWith('Z_') ? damaged(`broken (${code})`) : error
  } finally {
    gunzip.destroy()
    input.destroy()
  }
}

const damaged = (how: string) =>
  new DamagedArchive(`The archive of an adapter is ${how}: save the adapter again.`)

async function* within(pieces: Pieces, room: () => number): Pieces {
  let size = 0
  for await (const piece of pieces) {
    size += piece.length
    if (size > room()) throw damaged('packed so tightly that it is no adapter')
    yield piece
  }
}

async function readFiles(source: Reader, visit: Parameters<typeof untar>[1]): Promise<void> {
  for (let files = 0; ; files++) {
    const header = await source.take(BLOCK)
    // Two blocks of zeros end it, or its end does.
    if (header.length === 0 || header[0] === 0) return
    if (files === LIMITS.files) throw damaged(`one of more than ${LIMITS.files} files`)
    const name = textAt(header, 0, 100)
    const size = header.length < BLOCK ? undefined : sizeOf(header)
    if (size === undefined) throw damaged(`damaged at ${name}`)
    const content = source.pieces(size, () => damaged(`damaged at ${name}`))
    const type = String.fromCharCode(header[156])
    if (type === '0' || type === '\0') await visit(name.slice(name.lastIndexOf('/') + 1), size, content)
    // What was left of it, and the rest of its last block.
    for await (const _ of content);
    await source.take((BLOCK - (size % BLOCK)) % BLOCK)
  }
}

const textAt = (header: Uint8Array, from: number, length: number) =>
  Buffer.from(header.subarray(from, from + length))
    .toString('utf8')
    .replace(/\0.*$/s, '')

/** Octal digits, or where the first bit is set a big-endian number (GNU tar, for files of 8 GiB and more). */
function sizeOf(header: Uint8Array): number | undefined {
  const field = Buffer.from(header.subarray(124, 136))
  if (field[0] === 0x80) {
    const size = Number(field.readBigUInt64BE(4))
    return Number.isSafeInteger(size) ? size : undefined
  }
  const digits = textAt(field, 0, 12).trim()
  return /^[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : undefined
}

interface Reader {
  /** So many bytes, fewer at the end. */
  take(size: number): Promise<Uint8Array>
  /** The same without taking them. */
  peek(size: number): Promise<Uint8Array>
  /** So many bytes in pieces, once; throws `short` where there are fewer. What is not read can be read later. */
  pieces(size: number, short: () => Error): Pieces
  /** All that is left. */
  rest(): Pieces
  /** No more is wanted. */
  close(): Promise<void>
}

/** Reads pieces as a run of bytes, holding few more than are asked for. */
function openReader(source: Pieces): Reader {
  const pieces = source[Symbol.asyncIterator]()
  let held: Uint8Array = new Uint8Array()
  const more = async (): Promise<boolean> => {
    const { value, done } = await pieces.next()
    if (done) return false
    held = held.length === 0 ? value : Buffer.concat([held, value])
    return true
  }
  const peek = async (size: number) => {
    while (held.length < size && (await more()));
    return held.subarray(0, size)
  }
  const takeHeld = (size: number) => {
    const taken = held.subarray(0, size)
    held = held.subarray(taken.length)
    return taken
  }
  return {
    peek,
    async take(size) {
      await peek(size)
      return takeHeld(size)
    },
    pieces(size, short) {
      let left = size
      return {
        [Symbol.asyncIterator]: () => ({
          async next() {
            if (left === 0) return { value: undefined, done: true }
            if (held.length === 0 && !(await more())) throw short()
            const value = takeHeld(left)
            left -= value.length
            return { value, done: false }
          },
        }),
      }
    },
    async *rest() {
      while (held.length > 0 || (await more())) yield takeHeld(held.length)
    },
    async close() {
      await pieces.return?.()
    },
  }
}

const weights = 'adapter_model.safetensors'
const config = 'adapter_config.json'

/** Writes an adapter in PEFT's layout, its configuration last; false for an archive that holds none. */
export async function unpackAdapter(archive: Pieces, folder: string): Promise<boolean> {
  let configuration: Buffer | undefined
  let hasWeights = false
  await mkdir(folder, { recursive: true })
  try {
    await untar(archive, async (name, size, content) => {
      if (name === config) {
        if (size > LIMITS.config) throw damaged(`one with a configuration of ${size} bytes`)
        const pieces: Uint8Array[] = []
        for await (const piece of content) pieces.push(piece)
        configuration = Buffer.concat(pieces)
      } else if (name === weights) {
        await writeAtomically(join(folder, weights), async (file) => {
          for await (const piece of content) await file.writeFile(piece)
        })
        hasWeights = true
      }
    })
    if (configuration && hasWeights) {
      await writeFileAtomic(join(folder, config), configuration)
      return true
    }
  } catch (error) {
    await rm(join(folder, weights), { force: true })
    throw error
  }
  await rm(join(folder, weights), { force: true })
  return false
}

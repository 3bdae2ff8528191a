/**
 * Safetensors files, read and written: named tensors in a checked layout. Touches the file system only.
 *
 * The format (huggingface/safetensors): 8 bytes, little-endian, give the header's length N; N bytes of JSON map
 * each name to its dtype, shape and byte range; the tensors' bytes follow, without gaps. A file that breaks any
 * of this is refused when it is opened, before a byte of weights is read.
 */

import { z } from 'zod'
import { textOf, utf8 } from '../../bytes.ts'
import { UserError } from '../../errors.ts'
import { codeOf, lfsPointer, readJsonFile, writeAtomically } from '../../files.ts'
import { type FileHandle, open, readdir, stat } from '../../platform/files.ts'
import { join } from '../../platform/path.ts'
import { bf16ToF32, f16ToF32, f32ToBf16, f32ToF16 } from './halves.ts'

/** A tensor in memory: row-major float32, whatever its precision on disk. */
export interface Tensor {
  shape: readonly number[]
  data: Float32Array
}

/** Bits that an element takes, for every dtype of the format; those of `FloatType` can be read. */
const elementBits = {
  BOOL: 8,
  F4: 4,
  F6_E2M3: 6,
  F6_E3M2: 6,
  U8: 8,
  I8: 8,
  F8_E5M2: 8,
  F8_E4M3: 8,
  F8_E8M0: 8,
  F8_E5M2FNUZ: 8,
  F8_E4M3FNUZ: 8,
  I16: 16,
  U16: 16,
  F16: 16,
  BF16: 16,
  I32: 32,
  U32: 32,
  F32: 32,
  C64: 64,
  F64: 64,
  I64: 64,
  U64: 64,
} as const

export type DType = keyof typeof elementBits
export type FloatType = 'F32' | 'F16' | 'BF16'

export const isFloatType = (dtype: DType): dtype is FloatType =>
  dtype === 'F32' || dtype === 'F16' || dtype === 'BF16'

export interface TensorInfo {
  dtype: DType
  shape: readonly number[]
}

/** An open file (or a folder of shards), whose tensors are read one at a time. */
export interface TensorReader {
  readonly names: readonly string[]
  /** What the header says of a tensor. Throws UserError for a name that the file lacks. */
  info(name: string): TensorInfo
  /** One tensor as float32. Throws UserError for a name that the file lacks or a dtype that is no `FloatType`. */
  read(name: string): Promise<Float32Array>
  /** The same in parts of some megabytes, equally many elements each but the last, whatever the dtype. */
  parts(name: string): AsyncGenerator<Float32Array>
  close(): Promise<void>
}

/**
 * A longer header is an attack or a broken length: the reference implementation allows 100 MB, which take a minute to read,
 * and the largest models' headers have 10.
 */
const maxHeaderBytes = 1 << 24

/** Elements converted at a time, so that loading a 16-bit tensor never holds a second copy of it. */
const chunkElements = 1 << 22

const countSchema = z.number().int().nonnegative()
const entrySchema = z.object({
  dtype: z.enum(Object.keys(elementBits) as [DType, ...DType[]]),
  shape: z.array(countSchema).max(8),
  data_offsets: z.tuple([countSchema, countSchema]),
})
const metadataSchema = z.record(z.string(), z.string())

interface Entry extends TensorInfo {
  /** Byte range within the data, which starts after the header. */
  begin: number
  end: number
}

/**
 * Opens one safetensors file and checks its whole header: names, dtypes, shapes, and byte ranges that cover the
 * rest of the file exactly. Throws UserError when the file is missing or any of that does not hold.
 */
export async function openSafetensors(path: string): Promise<TensorReader> {
  const file = await openFile(path)
  try {
    const { entries, dataStart } = await readHeader(file, path)
    const entryOf = (name: string) => {
      const entry = entries.get(name)
      if (!entry) throw new UserError(`${path} has no tensor '${name}'. Use a checkpoint that holds it.`)
      return entry
    }
    const floatsOf = (name: string) => {
      const { dtype, shape, begin } = entryOf(name)
      if (!isFloatType(dtype)) {
        throw new UserError(
          `Tensor '${name}' of ${path} is ${dtype}; weights must be F32, F16 or BF16. Use a copy in one of these.`,
        )
      }
      return { dtype, begin, count: countOf(shape) }
    }
    /** Elements of a tensor from `first` on, as many as `into` has room for. */
    const fill = async (name: string, first: number, into: Float32Array): Promise<void> => {
      const { dtype, begin } = floatsOf(name)
      const start = dataStart + begin + (first * elementBits[dtype]) / 8
      if (dtype === 'F32') return readFully(file, bytesOf(into), start, path)
      const toF32 = dtype === 'F16' ? f16ToF32 : bf16ToF32
      const chunk = new Uint16Array(Math.min(chunkElements, into.length))
      for (let at = 0; at < into.length; at += chunk.length) {
        const part = chunk.subarray(0, into.length - at)
        await readFully(file, bytesOf(part), start + 2 * at, path)
        toF32(part, into.subarray(at))
      }
    }
    return {
      names: [...entries.keys()],
      info: (name) => ({ dtype: entryOf(name).dtype, shape: entryOf(name).shape }),
      async read(name) {
        const data = new Float32Array(floatsOf(name).count)
        await fill(name, 0, data)
        return data
      },
      async *parts(name) {
        const { count } = floatsOf(name)
        for (let at = 0; at < count; at += chunkElements) {
          const part = new Float32Array(Math.min(chunkElements, count - at))
          await fill(name, at, part)
          yield part
        }
      },
      close: () => file.close(),
    }
  } catch (error) {
    await file.close()
    throw error
  }
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    // Opening a pipe would wait for whoever writes to it.
    if (!(await stat(path)).isFile()) throw new UserError(`${path} is no file. Put the weights there.`)
    return await open(path, 'r')
  } catch (error) {
    const code = codeOf(error)
    if (code === undefined) throw error
    throw new UserError(`Cannot open ${path} (${code}). Check the path.`)
  }
}

const indexSchema = z.object({ weight_map: z.record(z.string(), z.string()) })

const singleName = 'model.safetensors'
const indexName = 'model.safetensors.index.json'
/** Files of weights at most: the largest models come in some hundreds. */
const MOST_SHARDS = 1000

/** What an index says: the shard of each tensor. Null where the weights are one file. */
async function readIndex(folder: string): Promise<Readonly<Record<string, string>> | null> {
  // A single file wins over an index, as in transformers: it is what a later save leaves beside old shards.
  const names = new Set(await readdir(folder).catch((): string[] => []))
  if (names.has(singleName)) return null
  if (!names.has(indexName)) {
    const pickle = [...names].find((name) => /\.(bin|pt|pth|ckpt)$/.test(name))
    const found = [...names].find((name) => /\.(safetensors|gguf|onnx|h5|msgpack)$/.test(name)) ?? pickle
    const seen = found === undefined ? '' : ` (there is ${found})`
    throw new UserError(
      `${folder} has no ${singleName}${seen}. ` +
        (pickle === undefined
          ? "Give a folder in Hugging Face's layout."
          : 'A pickle can run what it likes and is never loaded: load it in Python and save it again with ' +
            'safe_serialization=True.'),
    )
  }
  const path = join(folder, indexName)
  const { weight_map } = await readJsonFile(path, indexSchema)
  const shards = new Set(Object.values(weight_map))
  for (const file of shards) {
    if (!/^[\w-][\w.-]*$/.test(file)) {
      throw new UserError(`${path} names the shard '${file}'; a shard is a file beside it. Fix the index.`)
    }
  }
  if (shards.size > MOST_SHARDS) {
    throw new UserError(`${path} names ${shards.size} shards, more than ${MOST_SHARDS}. Save it in fewer.`)
  }
  return weight_map
}

/** The names of the files that `openFolder` reads. Throws UserError where there are none, or the index is broken. */
export async function weightFiles(folder: string): Promise<string[]> {
  const index = await readIndex(folder)
  return index === null ? [singleName] : [indexName, ...new Set(Object.values(index))]
}

/**
 * Opens a checkpoint folder's weights: `model.safetensors`, or the shards that `model.safetensors.index.json`
 * lists. Throws UserError as `openSafetensors` does, and when a shard lacks a tensor that the index promises.
 */
export async function openFolder(folder: string): Promise<TensorReader> {
  const index = await readIndex(folder)
  if (index === null) return openSafetensors(join(folder, singleName))

  const shards = new Map<string, TensorReader>()
  const close = async () => {
    for (const shard of shards.values()) await shard.close()
  }
  try {
    for (const file of new Set(Object.values(index))) {
      shards.set(file, await openSafetensors(join(folder, file)))
    }
    const shardOf = new Map<string, TensorReader>()
    for (const [name, file] of Object.entries(index)) {
      const shard = shards.get(file) as TensorReader
      shard.info(name)
      shardOf.set(name, shard)
    }
    const find = (name: string) => {
      const shard = shardOf.get(name)
      if (!shard)
        throw new UserError(
          `${join(folder, indexName)} has no tensor '${name}'. Use a checkpoint that holds it.`,
        )
      return shard
    }
    return {
      names: [...shardOf.keys()],
      info: (name) => find(name).info(name),
      read: async (name) => find(name).read(name),
      parts: (name) => find(name).parts(name),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

export interface WriteOptions {
  dtype: FloatType
  /** Free text kept in the header; `format: 'pt'` is what Hugging Face's loaders expect of a checkpoint. */
  metadata?: Readonly<Record<string, string>>
}

/**
 * Writes tensors to one file, whole or not at all, rounding to nearest even where `dtype` is 16 bits wide.
 * Tensors are laid out by name, so equal contents give equal bytes. Throws UserError where data and shape
 * disagree and where a finite value is too large for `dtype`.
 */
export async function writeSafetensors(
  path: string,
  tensors: ReadonlyMap<string, Tensor> | Readonly<Record<string, Tensor>>,
  { dtype, metadata = { format: 'pt' } }: WriteOptions,
): Promise<void> {
  const entries = (tensors instanceof Map ? [...tensors] : Object.entries(tensors)) as [string, Tensor][]
  entries.sort(([a], [b]) => (a < b ? -1 : 1))

  // Pairs, not an object: assigning to a key named `__proto__` would lose it.
  const header: [string, unknown][] = [['__metadata__', metadata]]
  let offset = 0
  for (const [name, { shape, data }] of entries) {
    if (data.length !== countOf(shape)) {
      throw new UserError(
        `Tensor '${name}' has ${data.length} values but shape [${shape.join(', ')}]. Pass data that fills its shape.`,
      )
    }
    const end = offset + (data.length * elementBits[dtype]) / 8
    header.push([name, { dtype, shape, data_offsets: [offset, end] }])
    offset = end
  }
  const json = utf8(JSON.stringify(Object.fromEntries(header)))
  // Spaces up to a multiple of 8, as the format asks, so that the data is aligned when the file is mapped.
  const start = new Uint8Array(8 + Math.ceil(json.length / 8) * 8).fill(0x20)
  new DataView(start.buffer).setBigUint64(0, BigInt(start.length - 8), true)
  start.set(json, 8)

  await writeAtomically(path, async (file) => {
    await writeFully(file, start)
    for (const [name, { data }] of entries) {
      if (dtype === 'F32') {
        await writeFully(file, bytesOf(data))
        continue
      }
      const toHalf = dtype === 'F16' ? f32ToF16 : f32ToBf16
      const chunk = new Uint16Array(Math.min(chunkElements, data.length))
      for (let at = 0; at < data.length; at += chunk.length) {
        const part = data.subarray(at, at + chunk.length)
        if (!toHalf(part, chunk)) {
          throw new UserError(`Tensor '${name}' has a value too large for ${dtype}. Write it as F32.`)
        }
        await writeFully(file, bytesOf(chunk.subarray(0, part.length)))
      }
    }
  })
}

async function readHeader(
  file: FileHandle,
  path: string,
): Promise<{ entries: Map<string, Entry>; dataStart: number }> {
  const refuse = (what: string): never => {
    throw new UserError(`${path} is not a whole safetensors file: ${what}. Copy or download it again.`)
  }
  const { size } = await file.stat()
  if (size < 8) refuse(`it holds ${size} bytes`)
  const first = new Uint8Array(8)
  await readFully(file, first, 0, path)
  if (textOf(first) === lfsPointer.slice(0, 8)) {
    throw new UserError(
      `${path} is a Git LFS pointer, not the file itself. Run 'git lfs pull' where it comes from.`,
    )
  }
  const headerBytes = new DataView(first.buffer).getBigUint64(0, true)
  if (headerBytes > BigInt(size - 8)) {
    refuse(`its header should take ${headerBytes} bytes and the file holds ${size}`)
  }
  if (headerBytes > BigInt(maxHeaderBytes)) {
    throw new UserError(
      `${path} has a header of ${headerBytes} bytes, more than the ${maxHeaderBytes} that are read. Save it in more files.`,
    )
  }
  const bytes = new Uint8Array(Number(headerBytes))
  await readFully(file, bytes, 8, path)
  const json = parseObject(bytes) ?? refuse('its header is not a JSON object')

  const entries = new Map<string, Entry>()
  for (const [name, value] of Object.entries(json)) {
    if (name === '__metadata__') {
      if (!metadataSchema.safeParse(value).success) refuse('its metadata is not a map of text to text')
      continue
    }
    const parsed = entrySchema.safeParse(value)
    if (!parsed.success) {
      const [issue] = parsed.error.issues
      return refuse(`the entry of '${name}' is malformed (${issue.path.join('.')}: ${issue.message})`)
    }
    const { dtype, shape, data_offsets } = parsed.data
    const [begin, end] = data_offsets
    const expected = (countOf(shape) * elementBits[dtype]) / 8
    if (end - begin !== expected) {
      refuse(
        `'${name}' takes ${end - begin} bytes where ${dtype} of shape [${shape.join(', ')}] takes ${expected}`,
      )
    }
    entries.set(name, { dtype, shape, begin, end })
  }

  // Every byte of the data belongs to exactly one tensor: that rules out overlaps, gaps and truncation at once.
  const dataStart = 8 + Number(headerBytes)
  let covered = 0
  for (const [name, { begin, end }] of [...entries].sort(
    ([, a], [, b]) => a.begin - b.begin || a.end - b.end,
  )) {
    if (begin < covered) refuse(`'${name}' overlaps the tensor before it`)
    if (begin > covered) refuse(`${begin - covered} bytes before '${name}' belong to no tensor`)
    covered = end
  }
  if (dataStart + covered > size) {
    refuse(`it is cut off, ${size} bytes where its header describes ${dataStart + covered}`)
  }
  if (dataStart + covered < size) refuse(`its last ${size - dataStart - covered} bytes belong to no tensor`)
  return { entries, dataStart }
}

function parseObject(bytes: Uint8Array): object | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}

function countOf(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1)
}

// The bytes of a typed array are the file's bytes only on a little-endian machine, which all of ONNX Runtime's are.
function bytesOf(array: Float32Array | Uint16Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
}

async function readFully(file: FileHandle, into: Uint8Array, position: number, path: string): Promise<void> {
  for (let done = 0; done < into.length; ) {
    // Linux reads at most 2 GiB at a time, and Node refuses more.
    const length = Math.min(into.length - done, 1 << 30)
    const { bytesRead } = await file.read(into, done, length, position + done)
    if (bytesRead === 0) throw new UserError(`${path} became shorter while it was read. Load it again.`)
    done += bytesRead
  }
}

async function writeFully(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const length = Math.min(bytes.length - done, 1 << 30)
    done += (await file.write(bytes, done, length)).bytesWritten
  }
}

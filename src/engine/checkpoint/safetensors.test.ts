import { mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { UserError } from '../../errors.ts'
import { bf16ToF32, f16ToF32 } from './halves.ts'
import { type FloatType, openFolder, openSafetensors, type Tensor, writeSafetensors } from './safetensors.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'safetensors-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function readAll(path: string): Promise<Map<string, Tensor>> {
  const reader = await openSafetensors(path)
  try {
    const tensors = new Map<string, Tensor>()
    for (const name of reader.names) {
      tensors.set(name, { shape: reader.info(name).shape, data: await reader.read(name) })
    }
    return tensors
  } finally {
    await reader.close()
  }
}

/** A file with this header (or its raw bytes) and this many bytes of data. */
async function fileWith(header: unknown, dataBytes: number): Promise<string> {
  const json = header instanceof Uint8Array ? header : Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(json.length))
  const path = join(folder, 'crafted.safetensors')
  await writeFile(path, Buffer.concat([length, json, Buffer.alloc(dataBytes)]))
  return path
}

const halfValue = (convert: typeof f16ToF32) => (bits: number) => {
  const value = new Float32Array(1)
  convert(Uint16Array.of(bits), value)
  return value[0]
}
/** Values that each dtype holds exactly, so that a round trip must give them back. */
const exactValue: Record<FloatType, fc.Arbitrary<number>> = {
  F32: fc.float(),
  F16: fc.integer({ min: 0, max: 0xffff }).map(halfValue(f16ToF32)),
  BF16: fc.integer({ min: 0, max: 0xffff }).map(halfValue(bf16ToF32)),
}
const names = fc
  .oneof(
    fc.string({ minLength: 1 }),
    fc.constantFrom('__proto__', 'constructor', 'lora_A.weight', '0', 'é\n"'),
  )
  .filter((name) => name !== '__metadata__')

describe.each(['F32', 'F16', 'BF16'] as const)('%s', (dtype) => {
  const tensor = fc.array(fc.nat({ max: 4 }), { maxLength: 3 }).chain((shape) => {
    const length = shape.reduce((a, b) => a * b, 1)
    return fc
      .array(exactValue[dtype], { minLength: length, maxLength: length })
      .map((values): Tensor => ({ shape, data: Float32Array.from(values) }))
  })

  test('what is written is read back, whatever the names, shapes and values', async () => {
    const path = join(folder, `${dtype}.safetensors`)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(names, tensor), { maxLength: 5 }), async (entries) => {
        const tensors = new Map(entries)
        await writeSafetensors(path, tensors, { dtype })
        const found = await readAll(path)
        expect(new Set(found.keys())).toEqual(new Set(tensors.keys()))
        for (const [name, { shape, data }] of tensors) {
          expect(found.get(name)?.shape).toEqual(shape)
          expect(found.get(name)?.data).toEqual(data) // Object.is on each element: -0 and NaN count
        }
      }),
      { numRuns: 60 },
    )
  })
})

test('equal contents give equal bytes, in whatever order they come', async () => {
  const a = { shape: [2], data: Float32Array.of(1, 2) }
  const b = { shape: [1, 1], data: Float32Array.of(3) }
  await writeSafetensors(join(folder, 'ab'), { a, b }, { dtype: 'F32' })
  await writeSafetensors(join(folder, 'ba'), { b, a }, { dtype: 'F32' })
  const bytes = await readFile(join(folder, 'ab'))
  expect(bytes).toEqual(await readFile(join(folder, 'ba')))
  expect(bytes.readBigUInt64LE() % 8n).toBe(0n)
})

test("reads PyTorch's file of several dtypes", async () => {
  const fixtures = join(import.meta.dirname, 'fixtures')
  const golden: Record<string, { shape: number[]; values: number[] }> = JSON.parse(
    await readFile(join(fixtures, 'mixed.json'), 'utf8'),
  )
  const path = join(fixtures, 'mixed.safetensors')
  const reader = await openSafetensors(path)
  expect([...reader.names].sort()).toEqual(Object.keys(golden).sort())
  for (const [name, { shape, values }] of Object.entries(golden)) {
    expect(reader.info(name).shape).toEqual(shape)
    if (name === 'd.int64')
      await expect(reader.read(name)).rejects.toThrow(/'d.int64' .* is I64; weights must be/)
    else expect(await reader.read(name)).toEqual(Float32Array.from(values))
  }
  await expect(reader.read('g')).rejects.toThrow(/has no tensor 'g'/)
  await reader.close()
})

test('converts tensors larger than one chunk', async () => {
  const data = Float32Array.from({ length: 5_000_000 }, (_, i) => (i % 1009) - 500)
  const path = join(folder, 'large.safetensors')
  await writeSafetensors(path, { large: { shape: [data.length], data } }, { dtype: 'F16' })
  const found = (await readAll(path)).get('large')?.data
  expect(found?.every((value, i) => value === data[i])).toBe(true)
  const reader = await openSafetensors(path)
  let at = 0
  for await (const part of reader.parts('large')) {
    expect(part.every((value, i) => value === data[at + i])).toBe(true)
    at += part.length
  }
  expect(at).toBe(data.length)
  await reader.close()
})

test('refuses a header that is longer than any, before it is read', async () => {
  const path = join(folder, 'header.safetensors')
  const start = Buffer.alloc(8)
  start.writeBigUInt64LE(1n << 25n)
  await writeFile(path, start)
  await truncate(path, 2 ** 25 + 8)
  await expect(openSafetensors(path)).rejects.toThrow(
    /a header of 33554432 bytes, more than the 16777216 that/,
  )
})

const entry = (begin: number, end: number, shape = [(end - begin) / 4], dtype = 'F32') => ({
  dtype,
  shape,
  data_offsets: [begin, end],
})
test.each<[string, unknown, number, RegExp]>([
  ['no JSON', Buffer.from('{"a": '), 0, /not a JSON object/],
  ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 0, /not a JSON object/],
  ['a list', [], 0, /not a JSON object/],
  ['an unknown dtype', { a: entry(0, 4, [1], 'F12') }, 4, /entry of 'a' is malformed \(dtype:/],
  ['a negative length', { a: entry(0, 4, [-1]) }, 4, /entry of 'a' is malformed \(shape.0:/],
  ['a fractional length', { a: entry(0, 4, [0.5, 2]) }, 4, /entry of 'a' is malformed \(shape.0:/],
  ['no offsets', { a: { dtype: 'F32', shape: [1] } }, 4, /entry of 'a' is malformed \(data_offsets:/],
  [
    'bytes that do not fit the shape',
    { a: entry(0, 8, [3]) },
    8,
    /'a' takes 8 bytes where F32 of shape \[3\] takes 12/,
  ],
  ['a range that ends before it begins', { a: entry(8, 4, [1]) }, 8, /'a' takes -4 bytes/],
  ['an overlap', { a: entry(0, 8), b: entry(4, 12) }, 12, /'b' overlaps the tensor before it/],
  ['two names for one range', { a: entry(0, 8), b: entry(0, 8) }, 8, /'b' overlaps/],
  ['a gap', { a: entry(0, 4), b: entry(8, 12) }, 12, /4 bytes before 'b' belong to no tensor/],
  ['missing data', { a: entry(0, 8) }, 7, /cut off, \d+ bytes where its header describes \d+/],
  ['data left over', { a: entry(0, 8) }, 9, /last 1 bytes belong to no tensor/],
  ['metadata that is not text', { __metadata__: { step: 3 } }, 0, /metadata is not a map of text/],
])('refuses a header with %s', async (_, header, dataBytes, message) => {
  const opening = openSafetensors(await fileWith(header, dataBytes))
  await expect(opening).rejects.toThrow(message)
  await expect(opening).rejects.toBeInstanceOf(UserError)
})

test('refuses a header longer than the file, an empty file and a missing one', async () => {
  const path = join(folder, 'short')
  await writeFile(path, Buffer.from([255, 255, 255, 255, 255, 255, 255, 255, 0x7b, 0x7d]))
  await expect(openSafetensors(path)).rejects.toThrow(/header should take 18446744073709551615 bytes/)
  await writeFile(path, '')
  await expect(openSafetensors(path)).rejects.toThrow(/it holds 0 bytes/)
  await expect(openSafetensors(join(folder, 'absent'))).rejects.toThrow(/Cannot open .*absent \(ENOENT\)/)
  await expect(openSafetensors(folder)).rejects.toBeInstanceOf(Error)
})

test('a file cut anywhere is refused; one with a byte changed is refused or read, and nothing else', async () => {
  const path = join(folder, 'whole.safetensors')
  const tensors = { a: { shape: [2, 3], data: Float32Array.from([1, 2, 3, 4, 5, 6]) } }
  await writeSafetensors(path, tensors, { dtype: 'F32' })
  const whole = await readFile(path)
  const other = join(folder, 'damaged.safetensors')
  await fc.assert(
    fc.asyncProperty(fc.nat({ max: whole.length - 1 }), fc.nat({ max: 255 }), async (at, byte) => {
      await writeFile(other, whole)
      await truncate(other, at)
      await expect(openSafetensors(other)).rejects.toBeInstanceOf(UserError)

      const damaged = Buffer.from(whole)
      damaged[at] = byte
      await writeFile(other, damaged)
      // Some changes leave a sound file (another name, other data): it opens, or it is refused as the user's.
      try {
        for (const { data, shape } of (await readAll(other)).values()) {
          expect(data.length).toBe(shape.reduce((a, b) => a * b, 1))
        }
      } catch (error) {
        expect(error).toBeInstanceOf(UserError)
      }
    }),
  )
})

test('refuses to write data that does not fill its shape, or is too large for the dtype, and leaves nothing', async () => {
  const empty = await mkdtemp(join(folder, 'empty-'))
  const path = join(empty, 'a.safetensors')
  const write = (values: number[], shape: number[], dtype: FloatType) =>
    writeSafetensors(path, { a: { shape, data: Float32Array.from(values) } }, { dtype })
  await expect(write([1, 2], [3], 'F32')).rejects.toThrow(/'a' has 2 values but shape \[3\]/)
  await expect(write([1, 65520], [2], 'F16')).rejects.toThrow(/'a' has a value too large for F16/)
  await expect(write([1, 3.4e38], [2], 'BF16')).rejects.toThrow(/'a' has a value too large for BF16/)
  expect(await readdir(empty)).toEqual([])
})

describe('a folder of shards', () => {
  let shards: string
  const index = (weight_map: unknown) =>
    writeFile(join(shards, 'model.safetensors.index.json'), JSON.stringify({ weight_map }))
  beforeAll(async () => {
    shards = await mkdtemp(join(folder, 'shards-'))
    const tensor = (value: number) => ({ shape: [1], data: Float32Array.of(value) })
    await writeSafetensors(join(shards, 'one.safetensors'), { a: tensor(1), b: tensor(2) }, { dtype: 'F32' })
    await writeSafetensors(join(shards, 'two.safetensors'), { c: tensor(3) }, { dtype: 'BF16' })
  })

  test('reads as one file', async () => {
    await index({ a: 'one.safetensors', b: 'one.safetensors', c: 'two.safetensors' })
    const reader = await openFolder(shards)
    expect(reader.names).toEqual(['a', 'b', 'c'])
    expect(await reader.read('b')).toEqual(Float32Array.of(2))
    expect(await reader.read('c')).toEqual(Float32Array.of(3))
    expect(reader.info('c')).toEqual({ dtype: 'BF16', shape: [1] })
    expect(() => reader.info('d')).toThrow(/index.json has no tensor 'd'/)
    await reader.close()
  })

  test.each<[string, unknown, RegExp]>([
    ['a shard that is not there', { a: 'three.safetensors' }, /Cannot open .*three.safetensors/],
    ['a tensor that its shard lacks', { a: 'two.safetensors' }, /two.safetensors has no tensor 'a'/],
    ['a shard outside the folder', { a: '../one.safetensors' }, /a shard is a file beside it/],
    ['no map', 7, /field 'weight_map'/],
  ])('refuses an index with %s', async (_, map, message) => {
    await index(map)
    const opening = openFolder(shards)
    await expect(opening).rejects.toThrow(message)
    await expect(opening).rejects.toBeInstanceOf(UserError)
  })

  test('a single file beside a stale index wins', async () => {
    await index({ a: 'gone.safetensors' })
    await writeSafetensors(
      join(shards, 'model.safetensors'),
      { new: { shape: [0], data: new Float32Array() } },
      { dtype: 'F32' },
    )
    const reader = await openFolder(shards)
    expect(reader.names).toEqual(['new'])
    await reader.close()
  })
})

import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DamagedArchive, unpackAdapter, untar } from './archive.ts'
import { scratch } from './testing/server.ts'

/** A tar archive as POSIX lays it out: a header of 512 bytes for each file, content in blocks, two blocks of zeros. */
function tar(files: readonly (readonly [string, Uint8Array])[], size?: string): Buffer {
  const blocks = files.flatMap(([name, content]) => {
    const header = Buffer.alloc(512)
    header.write(name, 0)
    header.write(size ?? `${content.length.toString(8).padStart(11, '0')}\0`, 124, 'latin1')
    header.write('0', 156)
    header.write('ustar\0', 257)
    const padded = Buffer.alloc(Math.ceil(content.length / 512) * 512)
    padded.set(content)
    return [header, padded]
  })
  return Buffer.concat([...blocks, Buffer.alloc(1024)])
}

/** In pieces of a size, as a network brings them. */
async function* pieces(bytes: Uint8Array, size = 1000): AsyncIterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function filesOf(archive: AsyncIterable<Uint8Array>): Promise<[string, Buffer][]> {
  const files: [string, Buffer][] = []
  await untar(archive, async (name, _, content) => {
    const parts: Uint8Array[] = []
    for await (const part of content) parts.push(part)
    files.push([name, Buffer.concat(parts)])
  })
  return files
}

const names = ['./adapter_config.json', 'a/b/adapter_model.safetensors', 'README']

describe('untar', () => {
  it('reads back what was packed, gzipped or not, in pieces of any size', async () => {
    const contents = fc.array(fc.uint8Array({ maxLength: 1500 }), { minLength: 0, maxLength: 3 })
    await fc.assert(
      fc.asyncProperty(
        contents,
        fc.boolean(),
        fc.integer({ min: 1, max: 2000 }),
        async (list, zipped, size) => {
          const archive = tar(list.map((content, i) => [names[i], content]))
          const files = await filesOf(pieces(zipped ? gzipSync(archive) : archive, size))
          const bases = ['adapter_config.json', 'adapter_model.safetensors', 'README']
          expect(files).toEqual(list.map((content, i) => [bases[i], Buffer.from(content)]))
        },
      ),
      { numRuns: 60 },
    )
  })

  it('leaves out folders, and what is not asked for', async () => {
    const archive = tar([['folder/', new Uint8Array()]])
    archive.write('5', 156)
    expect(await filesOf(pieces(archive))).toEqual([])
    const seen: string[] = []
    const two = tar([
      ['first', new Uint8Array(3000)],
      ['second', new Uint8Array(3)],
    ])
    await untar(pieces(two), async (name) => void seen.push(name))
    expect(seen).toEqual(['first', 'second'])
  })

  it('reads a length as GNU writes those of large files', async () => {
    const content = Buffer.from('twelve bytes')
    const large = `\x80\0\0\0\0\0\0\0\0\0\0${String.fromCharCode(content.length)}`
    expect(await filesOf(pieces(tar([['a', content]], large)))).toEqual([['a', content]])
  })

  it.each<[string, Buffer]>([
    ['was cut off', tar([['a', new Uint8Array(2000)]]).subarray(0, 1024)],
    ['was cut off in a header', tar([['a', new Uint8Array()]]).subarray(0, 300)],
    ['names a negative length', tar([['a', new Uint8Array()]], '-0000001000\0')],
    ['names a negative length in base 256', tar([['a', new Uint8Array()]], '\xff'.repeat(12))],
    ['names a length beyond all', tar([['a', new Uint8Array()]], `\x80${'\x7f'.repeat(11)}`)],
    ['names no length', tar([['a', new Uint8Array()]], 'eight bytes\0')],
    ['holds other bytes', Buffer.from('<html>Sign in</html>')],
  ])('refuses an archive that %s', async (_, archive) => {
    await expect(filesOf(pieces(archive))).rejects.toThrow(
      /The archive of an adapter is damaged at .*: save the/,
    )
    await expect(filesOf(pieces(gzipSync(archive)))).rejects.toThrow(DamagedArchive)
  })

  it('refuses what is packed too tightly, without end, or broken', async () => {
    // 559 bytes once grew past 2 GiB: a stream of zeros in a file that names that length.
    const header = tar([['adapter_model.safetensors', new Uint8Array()]], '20000000000\0').subarray(0, 512)
    const bomb = gzipSync(Buffer.concat([header, Buffer.alloc(2 ** 27)]), { level: 9 })
    const before = process.memoryUsage().rss
    const unpacking = untar(pieces(bomb), async (_name, _size, content) => {
      for await (const _ of content);
    })
    await expect(unpacking).rejects.toThrow(/packed so tightly that it is no adapter/)
    expect(process.memoryUsage().rss - before).toBeLessThan(2 ** 27)
    const empty = tar([['a', new Uint8Array()]]).subarray(0, 512)
    async function* endless() {
      for (;;) yield empty
    }
    await expect(filesOf(endless())).rejects.toThrow(/more than 10000 files/)
    const zipped = gzipSync(tar([['a', new Uint8Array(3000).fill(7)]]))
    zipped.fill(255, 30, 40)
    await expect(filesOf(pieces(zipped))).rejects.toThrow(/is broken \(Z_/)
    await expect(filesOf(pieces(zipped.subarray(0, 20)))).rejects.toThrow(/is broken \(Z_BUF_ERROR\)/)
  })

  it('ends a download that goes on behind the last file', async () => {
    let ended = false
    async function* endless() {
      try {
        yield* pieces(tar([['a', new Uint8Array(5)]]))
        for (;;) yield new Uint8Array(512)
      } finally {
        ended = true
      }
    }
    expect(await filesOf(endless())).toHaveLength(1)
    expect(ended).toBe(true)
  })
})

describe('unpackAdapter', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(scratch, 'archive-'))
  })
  afterAll(() => rm(folder, { recursive: true }))
  const [config, weights] = [Buffer.from('{"r": 4}'), Buffer.alloc(100_000, 5)]

  it('writes both files, in whichever order they come, and nothing else', async () => {
    const files = [
      ['../../adapter_config.json', config],
      ['x/../adapter_model.safetensors', weights],
      ['../evil', config],
    ] as const
    for (const archive of [tar(files), gzipSync(tar(files.toReversed()))]) {
      const into = await mkdtemp(join(folder, 'in-'))
      expect(await unpackAdapter(pieces(archive), into)).toBe(true)
      expect((await readdir(into)).sort()).toEqual(['adapter_config.json', 'adapter_model.safetensors'])
      expect(await readFile(join(into, 'adapter_model.safetensors'))).toEqual(weights)
    }
    expect((await readdir(folder)).every((name) => name.startsWith('in-'))).toBe(true)
  })

  it('leaves nothing of an archive that is not whole', async () => {
    const whole = tar([
      ['adapter_model.safetensors', weights],
      ['adapter_config.json', config],
    ])
    const into = await mkdtemp(join(folder, 'in-'))
    for (const length of [512, 50_000, 101_000, whole.length - 1540]) {
      await expect(unpackAdapter(pieces(whole.subarray(0, length)), into)).rejects.toThrow(DamagedArchive)
      expect(await readdir(into)).toEqual([])
    }
    expect(await unpackAdapter(pieces(tar([['adapter_model.safetensors', weights]])), into)).toBe(false)
    expect(await readdir(into)).toEqual([])
  })
})

import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { untar } from './archive.ts'

/** A tar archive as POSIX lays it out: a header of 512 bytes for each file, content in blocks, two blocks of zeros. */
function tar(files: readonly (readonly [string, Uint8Array])[]): Buffer {
  const blocks = files.flatMap(([name, content]) => {
    const header = Buffer.alloc(512)
    header.write(name, 0)
    header.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124)
    header.write('0', 156)
    header.write('ustar\0', 257)
    const padded = Buffer.alloc(Math.ceil(content.length / 512) * 512)
    padded.set(content)
    return [header, padded]
  })
  return Buffer.concat([...blocks, Buffer.alloc(1024)])
}

const names = ['./adapter_config.json', 'a/b/adapter_model.safetensors', 'README']

describe('untar', () => {
  it('reads back what was packed, gzipped or not', () => {
    const contents = fc.array(fc.uint8Array({ maxLength: 1500 }), { minLength: 0, maxLength: 3 })
    fc.assert(
      fc.property(contents, fc.boolean(), (list, zipped) => {
        const archive = tar(list.map((content, i) => [names[i], content]))
        const files = untar(zipped ? gzipSync(archive) : archive)
        const bases = ['adapter_config.json', 'adapter_model.safetensors', 'README']
        expect([...files]).toEqual(list.map((content, i) => [bases[i], Buffer.from(content)]))
      }),
    )
  })

  it('leaves out folders', () => {
    const archive = tar([['folder/', new Uint8Array()]])
    archive.write('5', 156)
    expect(untar(archive).size).toBe(0)
  })

  it('refuses an archive that was cut off', () => {
    const archive = tar([['adapter_model.safetensors', new Uint8Array(2000)]])
    expect(() => untar(archive.subarray(0, 1024))).toThrow(/damaged at adapter_model.safetensors/)
  })
})

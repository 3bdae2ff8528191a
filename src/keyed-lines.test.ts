import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { openKeyedLines } from './keyed-lines.ts'

const schema = z.object({ key: z.string(), text: z.string() })
const a = { key: 'a', text: 'first' }
let folder: string
let path: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keyed-'))
  path = join(folder, 'answers.jsonl')
})
afterAll(() => rm(folder, { recursive: true }))

describe('openKeyedLines', () => {
  it('reads past a byte-order mark, and drops a last line that was cut', async () => {
    await writeFile(path, `\ufeff${JSON.stringify(a)}\n{"key": "b`)
    const lines = await openKeyedLines(path, schema)
    expect(lines.get('a')).toEqual(a)
    await lines.add({ key: 'b', text: 'second' })
    await lines.close()
    expect(await readFile(path, 'utf8')).toBe(
      `\ufeff${JSON.stringify(a)}\n${JSON.stringify({ key: 'b', text: 'second' })}\n`,
    )
  })

  it.each([
    ['UTF-16', Buffer.from(`\ufeff${JSON.stringify(a)}\n{"`, 'utf16le'), /is saved as UTF-16/],
    ['a line that is none', Buffer.from(`${JSON.stringify(a)}\nnull\n{"ke`), /Line 2 of .* is no answer/],
  ])('leaves a file as it is that it cannot read: %s', async (_, bytes, message) => {
    await writeFile(path, bytes)
    await expect(openKeyedLines(path, schema)).rejects.toThrow(message)
    expect(await readFile(path)).toEqual(bytes)
  })
})

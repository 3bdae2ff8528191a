import { appendFile, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { z } from 'zod'
import { openKeyedLines } from './keyed-lines.ts'

const schema = z.object({ key: z.string(), text: z.string(), tokens: z.number() })
let folder: string
let path: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lines-'))
  path = join(folder, 'below/answers.jsonl')
})
afterEach(() => rm(folder, { recursive: true }))

const line = (i: number) => ({ key: `k${i}`, text: `text ${i} Ü`, tokens: i })

it('keeps lines that are added at the same time, each once and whole', async () => {
  const lines = await openKeyedLines(path, schema)
  await Promise.all(Array.from({ length: 200 }, (_, i) => lines.add(line(i))))
  await lines.close()
  expect((await readFile(path, 'utf8')).split('\n')).toHaveLength(201)
  const again = await openKeyedLines(path, schema)
  for (let i = 0; i < 200; i++) expect(again.get(`k${i}`)).toEqual(line(i))
  expect(again.get('k200')).toBeUndefined()
})

it('removes a last line that was cut short, and goes on after the others', async () => {
  const first = await openKeyedLines(path, schema)
  await first.add(line(1))
  await appendFile(path, '{"key":"Ü')
  const second = await openKeyedLines(path, schema)
  await second.add(line(2))
  const third = await openKeyedLines(path, schema)
  expect([third.get('k1'), third.get('k2')]).toEqual([line(1), line(2)])
})

it('gives no text that is not the one that was kept', async () => {
  const lines = await openKeyedLines(path, schema)
  for (const i of [1, 2]) await lines.add(line(i))
  const whole = await readFile(path, 'utf8')
  for (const harmed of [
    whole.replace('text 2', 'text 3'),
    whole.replace('"tokens":2', '"tokens":3'),
    whole.replace('}\n{', '}\nnull\n{'),
    whole.replace('}\n{', '}\n\n{'),
  ]) {
    expect(harmed).not.toBe(whole)
    await writeFile(path, harmed)
    await expect(openKeyedLines(path, schema)).rejects.toThrow(
      /^Line 2 of .*answers.jsonl is no answer: delete that line/,
    )
    expect(await readFile(path, 'utf8')).toBe(harmed)
  }
})

it('writes through no link', async () => {
  const thesis = join(folder, 'thesis.txt')
  await writeFile(thesis, 'years of work')
  path = join(folder, 'answers.jsonl')
  await symlink(thesis, path)
  await expect(openKeyedLines(path, schema)).rejects.toThrow(/answers.jsonl is a symbolic link/)
  expect(await readFile(thesis, 'utf8')).toBe('years of work')
})

it('lives in memory alone without a path', async () => {
  const lines = await openKeyedLines(null, schema)
  await lines.add(line(1))
  expect(lines.get('k1')).toEqual(line(1))
})

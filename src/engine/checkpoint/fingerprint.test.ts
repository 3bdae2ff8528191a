import { cp, mkdtemp, open, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { UserError } from '../../errors.ts'
import { writeTinyModel } from '../../selftest/tiny-model.ts'
import { adapterFingerprint, fingerprint, tokenizerFingerprint } from './fingerprint.ts'

let scratch: string
let folder: string
let before: string
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'fingerprint-'))
  await writeTinyModel(join(scratch, 'tiny'), 1)
})
afterAll(() => rm(scratch, { recursive: true }))
beforeEach(async () => {
  folder = await mkdtemp(join(scratch, 'model-'))
  await cp(join(scratch, 'tiny'), folder, { recursive: true })
  before = await fingerprint(folder)
})

test('says what is in the folder and not where it lies', async () => {
  expect(before).toBe(await fingerprint(join(scratch, 'tiny')))
  expect(before).toMatch(/^[0-9a-f]{64}$/)
})

test.each(['generation_config.json', 'special_tokens_map.json', 'chat_template.jinja'])(
  'a %s that comes is seen',
  async (name) => {
    await writeFile(join(folder, name), '{}')
    expect(await fingerprint(folder)).not.toBe(before)
    expect(await tokenizerFingerprint(folder)).not.toBe(await tokenizerFingerprint(join(scratch, 'tiny')))
  },
)

test('what is not read is not looked at', async () => {
  for (const name of ['README.md', 'optimizer.safetensors', 'model.safetensors.index.json']) {
    await writeFile(join(folder, name), '{}')
  }
  expect(await fingerprint(folder)).toBe(before)
})

test('one byte in the middle of a large file is seen, though its size and time are as before', async () => {
  const path = join(folder, 'model.safetensors')
  const file = await open(path, 'r+')
  const { size, atime, mtime } = await file.stat()
  await file.truncate(40 * 1024 * 1024)
  await file.close()
  const long = await fingerprint(folder)
  const again = await open(path, 'r+')
  await again.write(Buffer.from([1]), 0, 1, 20 * 1024 * 1024)
  await again.close()
  await utimes(path, atime, mtime)
  expect(size).toBeLessThan(20 * 1024 * 1024)
  expect(await fingerprint(folder)).not.toBe(long)
})

test('of shards the index counts, and those that it names', async () => {
  await rename(join(folder, 'model.safetensors'), join(folder, 'one.safetensors'))
  await writeFile(join(folder, 'model.safetensors.index.json'), '{"weight_map": {"a": "one.safetensors"}}')
  const sharded = await fingerprint(folder)
  await writeFile(join(folder, 'two.safetensors'), 'x')
  expect(await fingerprint(folder)).toBe(sharded)
  await writeFile(
    join(folder, 'model.safetensors.index.json'),
    '{"weight_map": {"a": "one.safetensors", "b": "one.safetensors"}}',
  )
  expect(await fingerprint(folder)).not.toBe(sharded)
})

test('of an adapter the settings and the weights count', async () => {
  const adapter = await mkdtemp(join(scratch, 'adapter-'))
  await writeFile(join(adapter, 'adapter_config.json'), '{}')
  await expect(adapterFingerprint(adapter)).rejects.toThrow(
    /Cannot read .*adapter_model.safetensors \(ENOENT\)/,
  )
  await writeFile(join(adapter, 'adapter_model.safetensors'), 'x')
  const one = await adapterFingerprint(adapter)
  await writeFile(join(adapter, 'optimizer.safetensors'), 'x')
  expect(await adapterFingerprint(adapter)).toBe(one)
})

test('a folder without a model is refused', async () => {
  await expect(fingerprint(join(scratch, 'absent'))).rejects.toThrow(UserError)
  await rm(join(folder, 'model.safetensors'))
  await expect(fingerprint(folder)).rejects.toThrow(/has no model.safetensors/)
  expect(await tokenizerFingerprint(folder)).toMatch(/^[0-9a-f]{64}$/)
})

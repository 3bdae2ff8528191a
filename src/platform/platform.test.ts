/** A browser's siblings do what the system's own do; test/browser runs the files in Chromium. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { hex } from '../bytes.ts'
import * as files from './files.ts'
import * as hash from './hash.ts'
import * as path from './path.ts'
import { outcomesOf } from './testing/outcomes.ts'

// Of a browser's, not seen by the types of Node's programs.
const siblingOf = async <T>(name: string): Promise<T> => (await import(`./${name}.web.ts`)) as T

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'platform-'))
})
afterAll(() => rm(folder, { recursive: true }))

it('keeps files in memory as the system keeps them', async () => {
  const web = await siblingOf<typeof files>('files')
  const expected = await outcomesOf(files, join(folder, 'made'))
  expect(await outcomesOf(web, '/made')).toEqual(expected)
  expect(expected).toContainEqual(['a new file where one is', 'EEXIST'])
  expect(expected).toContainEqual(['read that', 'ONE two!'])
})

it('hashes as the system does, in parts and in copies', async () => {
  const web = await siblingOf<typeof hash>('hash')
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.string(), fc.uint8Array({ maxLength: 200 }))), (parts) => {
      const [one, other] = [hash.sha256(), web.sha256()]
      for (const part of parts) {
        one.update(part)
        other.update(part)
        expect(hex(other.copy().digest())).toBe(hex(one.copy().digest()))
      }
    }),
  )
})

it('joins and parts paths as POSIX does', async () => {
  const web = await siblingOf<typeof path>('path')
  const name = fc.constantFrom('', '.', '..', 'a', 'b.txt', '/', '//', '/c/', 'd/e', '../f')
  fc.assert(
    fc.property(fc.array(name, { maxLength: 6 }), (parts) => {
      const tidy = (found: string) => (found === '/' ? found : found.replace(/\/+$/, ''))
      expect(web.join(...parts)).toBe(tidy(path.join(...parts)))
    }),
  )
  for (const each of ['/a/b', '/a/b/', 'a', '/a', 'a/b.txt', '/']) {
    expect([each, web.dirname(each), web.basename(each)]).toEqual([
      each,
      path.dirname(each),
      path.basename(each),
    ])
  }
})

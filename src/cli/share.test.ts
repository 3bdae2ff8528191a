import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { writeSyntheticRun } from '../view/testing/synthetic-run.ts'
import { shareCommands } from './share.ts'

let folder: string
const path = (...names: string[]) => join(folder, ...names)
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'share-'))
  for (const run of ['one', 'two']) {
    await writeSyntheticRun(path(run), { holdout: 6, train: 12, steps: 2, problemsPerStep: 2 })
  }
})
afterEach(() => vi.restoreAllMocks())
afterAll(() => rm(folder, { recursive: true }))

/** What the command line prints. */
async function cli(...args: string[]): Promise<string> {
  let printed = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    printed += text
    return true
  })
  vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const root = new Command().exitOverride()
  shareCommands(root)
  await root.parseAsync(args, { from: 'user' })
  return printed
}

it('keeps tags and a note, and says what they are', async () => {
  expect(await cli('tag', path('one'), 'keep', 'gpu', 'keep')).toBe('keep gpu\n')
  expect(await cli('tag', path('one'), '--remove', 'keep')).toBe('gpu\n')
  expect(await cli('tag', path('one'))).toBe('gpu\n')
  expect(await cli('note', path('one'), 'The first.')).toBe('The first.\n')
  expect(await cli('note', path('one'))).toBe('The first.\n')
  expect(await cli('note', path('one'), '--remove')).toBe('')
  await expect(cli('tag', path('nowhere'), 'keep')).rejects.toThrow('is no run folder')
})

it('writes exports and bundles', async () => {
  const posts = path('one', 'parquet', 'posts.parquet')
  expect(await cli('export', path('one'), '--to', 'parquet')).toContain(posts)
  await cli('export', path('one'), '--to', 'inspect', '--out', path('logs'))
  expect(await readdir(path('logs'))).toHaveLength(8)
  await cli('bundle', path('one'), path('two'), '--out', path('out'))
  expect((await readdir(path('out'))).sort()).toEqual(['index.html', 'one', 'two'])
})

it('does not push without a token', async () => {
  vi.stubEnv('HF_TOKEN', '')
  await expect(cli('push', path('one'), '--to', 'me/it')).rejects.toThrow('set HF_TOKEN')
  vi.unstubAllEnvs()
})

import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { writeSyntheticRun } from '../view/testing/synthetic-run.ts'
import type { BundledRun } from '../view/types.ts'
import { writeBundle } from './bundle.ts'

let folder: string
const path = (...names: string[]) => join(folder, ...names)
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bundle-'))
  for (const run of ['a/one', 'a/two', 'b/one']) {
    await writeSyntheticRun(path(run), { holdout: 6, train: 12, steps: 2, problemsPerStep: 2 })
  }
})
afterAll(() => rm(folder, { recursive: true }))

it('writes an index of the runs and a report of each, and asks for no network', async () => {
  const index = await writeBundle([path('a/one'), path('a/two')], path('out'))
  expect(index).toBe(path('out', 'index.html'))
  expect((await readdir(path('out'))).sort()).toEqual(['index.html', 'one', 'two'])
  const html = await readFile(index, 'utf8')
  expect(html).toContain("connect-src 'none'")
  const [, json] = /<script type="text\/plain" id="runs">(.*?)<\/script>/s.exec(html) ?? []
  const runs = JSON.parse(json) as BundledRun[]
  expect(runs.map(({ listing, run }) => [listing.name, run.results?.seeds])).toEqual([
    ['one', [17, 18]],
    ['two', [17, 18]],
  ])
  expect(await readFile(path('out', 'two', 'report.html'), 'utf8')).toContain('class="block"')
})

it('refuses two runs of one name, what is no run, and a folder that is in use', async () => {
  await expect(writeBundle([path('a/one'), path('b/one')], path('new'))).rejects.toThrow('are called one')
  await expect(writeBundle([path('a')], path('new'))).rejects.toThrow('is no run folder')
  await expect(writeBundle([path('a/one')], path('a'))).rejects.toThrow('already holds other files')
  expect(await readdir(folder)).not.toContain('new')
})

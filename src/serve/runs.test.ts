import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { writeSyntheticRun } from '../view/testing/synthetic-run.ts'
import type { LiveEvent } from '../view/types.ts'
import { openRuns } from './runs.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'runs-'))
  await writeSyntheticRun(folder, { holdout: 6, train: 12, steps: 1, problemsPerStep: 3 })
})
afterAll(() => rm(folder, { recursive: true }))

/** Collects what a watcher is told. */
function ear() {
  const heard: (LiveEvent | { trouble: string })[] = []
  return { heard, tell: (event: LiveEvent | { trouble: string }) => void heard.push(event) }
}
const states = (heard: (LiveEvent | { trouble: string })[]) =>
  heard.map((event) => ('trouble' in event ? event.trouble : event.run.state))
const soon = <T>(value: () => T) => expect.poll(value, { timeout: 10_000 })

it('tells every watcher of a change, though another reader saw it first, and of nothing else', async () => {
  const runs = openRuns()
  const [one, two] = [ear(), ear()]
  const unwatch = [runs.watch(folder, one.tell)]
  await soon(() => states(one.heard)).toEqual(['finished'])
  unwatch.push(runs.watch(folder, two.tell))
  await soon(() => states(two.heard)).toEqual(['finished'])

  const results = await readFile(join(folder, 'results.json'), 'utf8')
  await rm(join(folder, 'results.json'))
  // As a page does that asks for boards.
  expect((await runs.get(folder)).view().state).toBe('stopped')
  await soon(() => states(one.heard)).toEqual(['finished', 'stopped'])
  expect(states(two.heard)).toEqual(['finished', 'stopped'])

  // Something broken is told as a sentence, and what is mended as the run again.
  await writeFile(join(folder, 'results.json'), '{')
  await soon(() => states(one.heard).at(-1)).toMatch(/results\.json is damaged/)
  await writeFile(join(folder, 'results.json'), results)
  await soon(() => states(one.heard).at(-1)).toBe('finished')
  for (const stop of unwatch) stop()
  const count = one.heard.length
  await rm(join(folder, 'results.json'))
  await runs.get(folder)
  await new Promise((resolve) => setTimeout(resolve, 1000))
  expect(one.heard).toHaveLength(count)
  runs.close()
})

/** message-board/browser as a page uses it, in Chromium, against the same calls in Node by the same runtime. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Browser } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { exportFolder, type GrowingText, type RunEvent, runExperiment } from '../../src/browser.ts'
import * as files from '../../src/platform/files.ts'
import { outcomesOf } from '../../src/platform/testing/outcomes.ts'
import { readResults } from '../../src/record/folder.ts'
import { type Results, withoutTimings } from '../../src/record/results.ts'
import { chromiumPath, launch, openPage, type Watched } from './chromium.ts'
import { small } from './library/experiment.ts'
import { playTable } from './library/play.ts'
import { openSite, type Site } from './site.ts'

/** Steps of a training. */
const length = 3

describe.skipIf(!chromiumPath)('the library, in Chromium', () => {
  let folder: string
  let site: Site
  let browser: Browser
  let watched: Watched
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'library-'))
    site = await openSite(fileURLToPath(new URL('./library', import.meta.url)), 'page.html')
    browser = await launch()
  })
  beforeEach(async () => {
    watched = await openPage(browser, site.address)
    await call('install', '/policy/')
  })
  afterEach(async () => {
    watched.expectQuiet()
    await watched.page.close()
  })
  afterAll(async () => {
    await browser?.close()
    await site?.close()
    await rm(folder, { recursive: true })
  })

  const call = <T>(name: string, ...given: unknown[]): Promise<T> =>
    watched.page.evaluate(([its, all]) => library().call(its, ...all), [name, given] as const) as Promise<T>
  const told = <T>(): Promise<T[]> => watched.page.evaluate(() => library().told) as Promise<T[]>

  it('plays a table token by token, and again with an edited note, as Node does', async () => {
    const growing: GrowingText[] = []
    const expected = await playTable((text) => growing.push(text))
    expect(await call('play')).toEqual(JSON.parse(JSON.stringify(expected)))
    for (const texts of [growing, await told<GrowingText>()]) {
      for (const [round, posts] of expected.played.rounds.entries()) {
        for (const { seat, text, tokens } of posts) {
          const its = texts.filter((one) => one.round === round && one.seat === seat)
          expect(its.map((one) => one.tokens)).toEqual(its.map((_, i) => i + 1))
          expect(text).toBe(its.at(-1)!.text)
          expect([tokens, tokens - 1]).toContain(its.length)
        }
      }
    }
  })

  it('goes on from the last step after its worker was killed, and ends with the results of Node', async () => {
    const out = '/runs/killed'
    const steps = (events: RunEvent[]) =>
      events.flatMap((event) =>
        event.type === 'step' && event.job === 'baseline-s17' ? [event.metrics.step] : [],
      )
    call('run', length, out).catch(() => {})
    await expect.poll(async () => steps(await told<RunEvent>()), { timeout: 200_000 }).toContain(1)
    await watched.page.evaluate(() => library().kill())
    const before = (await told()).length
    const found = new Map(await call<[string, string][]>('run', length, out))
    // The step in hand when it was killed may have been kept already.
    expect([[2, 3], [3]]).toContainEqual(steps((await told<RunEvent>()).slice(before)))

    const here = join(folder, 'run')
    await runExperiment(small(length), { out: here })
    const expected = (await readResults(here)) as Results
    const results = JSON.parse(atob(found.get('results.json')!)) as Results & { seal: string }
    // What runs JavaScript is another, and so is the checksum that counts it.
    const { browser: agent, ...deciding } = results.versions
    expect(agent).toMatch(/Chrom/)
    const { node, ...decidingHere } = expected.versions
    expect(node).toBe(process.version)
    const { seal, ...kept } = results
    expect(seal).toMatch(/^[0-9a-f]{64}$/)
    expect(JSON.stringify(withoutTimings({ ...kept, versions: deciding }))).toBe(
      JSON.stringify(withoutTimings({ ...expected, versions: decidingHere })),
    )
    // Every text, log-probability and weight too.
    const files = [...(await exportFolder(here)).keys()].filter((path) => /rollouts|safetensors/.test(path))
    expect(files.length).toBeGreaterThan(6)
    for (const path of files) {
      const bytes = await readFile(join(here, path), 'base64')
      expect(found.get(path) === bytes, path).toBe(true)
    }
  }, 300_000)

  it('keeps files as the system does, in a worker and in the page', async () => {
    const expected = JSON.parse(JSON.stringify(await outcomesOf(files, join(folder, 'made'))))
    expect(await call('files')).toEqual(expected)
    expect(await watched.page.evaluate(() => library().files())).toEqual(expected)
  })
})

describe.skipIf(!chromiumPath)('the example of docs/browser.md', () => {
  const folder = fileURLToPath(new URL('./example', import.meta.url))

  it('is the one that is tested', async () => {
    const [docs, source] = await Promise.all([
      readFile(new URL('../../docs/browser.md', import.meta.url), 'utf8'),
      readFile(join(folder, 'worker.web.ts'), 'utf8'),
    ])
    expect(docs).toContain(source)
  })

  it('plays a board and runs an experiment', async () => {
    const site = await openSite(folder, 'page.html')
    const browser = await launch()
    try {
      const { page, expectQuiet } = await openPage(browser, site.address)
      const board = () => page.textContent('#board')
      await expect.poll(board, { timeout: 200_000 }).toMatch(/copy 4: [\s\S]*insight, 4 held out, 1 seed\./)
      expectQuiet()
    } finally {
      await browser.close()
      await site.close()
    }
  }, 300_000)
})

/** What library/page.web.ts gives the page; called there. */
declare const library: () => {
  told: unknown[]
  call(name: string, ...given: unknown[]): Promise<unknown>
  files(): Promise<unknown>
  kill(): void
}

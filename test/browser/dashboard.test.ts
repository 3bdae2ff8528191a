/** The dashboard in Chromium: a run followed from nothing to its end, while the run and the server come and go. */
import { createHash } from 'node:crypto'
import { appendFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openRunFolder, readRecord } from '../../src/record/folder.ts'
import { beginning, progressText } from '../../src/record/job-log.ts'
import type { Results } from '../../src/record/results.ts'
import type { Progress } from '../../src/record/schema.ts'
import { changeSentence, trainingSentence } from '../../src/report/sentences.ts'
import { type Dashboard, serve } from '../../src/serve/server.ts'
import { writeSyntheticRun } from '../../src/view/testing/synthetic-run.ts'
import { chromiumPath, eventually, launch, openPage } from './chromium.ts'

describe.skipIf(!chromiumPath)('the dashboard, in Chromium', () => {
  let browser: Browser
  let folder: string
  let made: string
  let dashboard: Dashboard

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'dashboard-'))
    made = join(folder, 'made')
    await writeSyntheticRun(made, { holdout: 30, train: 24, steps: 4, problemsPerStep: 3 })
    await mkdir(join(folder, 'runs'))
    dashboard = await serve({ folder: join(folder, 'runs') })
    browser = await launch()
  })
  afterAll(async () => {
    await browser?.close()
    await dashboard.close()
    await rm(folder, { recursive: true })
  })

  /** Copies what a run wrote, bit by bit, in the order in which a run writes it. */
  async function replay(to: string) {
    const text = (name: string) => readFile(join(made, name), 'utf8')
    const put = async (name: string, content: string) => {
      await writeFile(join(to, `${name}.part`), content)
      await rename(join(to, `${name}.part`), join(to, name))
    }
    const opened = await openRunFolder(to, await readRecord(made))
    const digest = (content: string) => createHash('sha256').update(content).digest('hex')
    const job = async (name: string, portions: number) => {
      await opened.atWork(name, true)
      await mkdir(join(to, name), { recursive: true })
      const { seal: _, ...progress } = JSON.parse(await text(join(name, 'progress.json'))) as Progress & {
        seal: string
      }
      // Before any line, as a run does: a log without it is damage.
      await put(join(name, 'progress.json'), progressText(name, beginning(progress.steps > 0)))
      const [metrics, rollouts] = await Promise.all(
        ['metrics.jsonl', 'rollouts.jsonl'].map((file) => text(join(name, file))),
      )
      const lines = rollouts.split('\n').slice(0, -1)
      await writeFile(join(to, name, 'metrics.jsonl'), metrics)
      await writeFile(join(to, name, 'rollouts.jsonl'), '')
      const training = lines.filter((line) => line.includes('"phase":"train"')).length
      let written = 0
      return async () => {
        const next = Math.min(lines.length, written + Math.ceil(lines.length / portions))
        const upTo = (end: number, from = 0) =>
          lines
            .slice(from, end)
            .map((line) => `${line}\n`)
            .join('')
        await appendFile(join(to, name, 'rollouts.jsonl'), upTo(next, written))
        written = next
        const steps = next >= training ? progress.steps : Math.floor((progress.steps * next) / training)
        await put(
          join(name, 'progress.json'),
          progressText(name, {
            ...progress,
            steps,
            trained: steps === progress.steps,
            evaluated: Math.max(0, next - training),
            bytes: { ...progress.bytes, rollouts: Buffer.byteLength(upTo(next)) },
            sha256: { ...progress.sha256, rollouts: digest(upTo(next)) },
          }),
        )
        if (written === lines.length) await opened.atWork(name, false)
      }
    }
    return {
      job,
      async finish() {
        await put('results.json', await text('results.json'))
        opened.release()
      },
    }
  }

  it('shows a run that begins, goes on and ends, without a reload', async () => {
    const { page, expectQuiet } = await openPage(browser, dashboard.url)
    await page.getByText('No run in this folder yet').waitFor()
    const run = await replay(join(folder, 'runs', 'first run'))
    await page.getByRole('link', { name: 'first run' }).click()
    await page.getByRole('heading', { name: 'Running' }).waitFor()
    const bar = (what: string) =>
      page.getByLabel(what).evaluate((each) => (each as unknown as { value: number }).value)

    for (const name of ['base-baseline-1', 'base-baseline-2', 'base-baseline-3', 'base-recipe-1'])
      await (await run.job(name, 1))()
    await eventually(() => bar('base-recipe-1, held-out problems')).toBe(30)
    await eventually(() => page.locator('.count').textContent()).toContain('30 of 30')

    const step = await run.job('baseline-s17', 3)
    await step()
    await page.locator('tr.running').getByText('baseline-s17').waitFor()
    await page.getByRole('heading', { name: 'Latest boards' }).waitFor()
    expect(await page.locator('.latest article').count()).toBe(3)
    await eventually(() => page.locator('#training .plot svg').count()).toBe(9)
    await step()
    await step()
    await eventually(() => bar('baseline-s17, held-out problems')).toBe(30)

    // While a problem is read, the run goes on and the page stays.
    await page.locator('.table-row a').first().click()
    await page.locator('.column').nth(1).locator('.post').first().waitFor()
    const address = page.url()
    for (const name of ['recipe-s17', 'baseline-s18', 'recipe-s18']) await (await run.job(name, 1))()
    await page.locator('.column').nth(3).locator('.post').first().waitFor()
    expect(page.url()).toBe(address)
    await page.keyboard.press('Escape')
    await run.finish()
    const results = JSON.parse(await readFile(join(made, 'results.json'), 'utf8')) as Results
    await eventually(() => page.locator('h1.verdict').textContent()).toBe(
      `${trainingSentence(results).headline} ${changeSentence(results).headline} `,
    )
    expect(await page.locator('#arms .plot svg').count()).toBe(1)
    await eventually(() => page.locator('#progress').count()).toBe(0)
    expectQuiet()
    await page.close()
  })

  it('shows jobs that run at the same time, and a run of an older version by its one sentence', async () => {
    const run = await replay(join(folder, 'runs', 'parallel'))
    const older = join(folder, 'runs', 'older')
    await mkdir(older)
    const experiment = await readFile(join(made, 'experiment.json'), 'utf8')
    await writeFile(
      join(older, 'experiment.json'),
      experiment.replace('"schemaVersion": 2', '"schemaVersion": 1'),
    )
    const [one, two] = [await run.job('baseline-s17', 3), await run.job('recipe-s17', 3)]
    await one()
    await two()
    const { page, expectQuiet } = await openPage(browser, `${dashboard.url}#/`)
    await page.getByText('was made by an earlier version of message-board').waitFor()
    await page.getByRole('link', { name: 'parallel' }).click()
    await eventually(() => page.locator('tr.running th').allTextContents()).toEqual([
      'baseline-s17',
      'recipe-s17',
    ])
    expect(await page.locator('tr.stopped').count()).toBe(0)
    await run.finish()
    await rm(older, { recursive: true })
    expectQuiet()
    await page.close()
  })

  it('finds its server again after a restart, and loses nothing', async () => {
    await writeSyntheticRun(join(folder, 'runs', 'second'), {
      holdout: 30,
      train: 24,
      steps: 4,
      problemsPerStep: 3,
      stopAfter: 5,
    })
    const port = Number(new URL(dashboard.url).port)
    const { page } = await openPage(browser, `${dashboard.url}#/run/second`)
    await eventually(() => page.locator('.count').textContent()).toContain('30 of 30')
    // Boards come late: a problem opened meanwhile is asked for as the old server numbered it, and refused at first.
    await page.route(/\/boards\?/, async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 1000))
      await route.continue()
    })
    await dashboard.close()
    await page.getByRole('alert').waitFor()
    dashboard = await serve({ folder: join(folder, 'runs'), port })
    await eventually(() => page.getByRole('alert').count()).toBe(0)
    await page.locator('.table-row a').first().click()
    await page.locator('.column .post').first().waitFor()
    await page.close()
  })

  it('puts two runs side by side with what was set differently', async () => {
    await writeSyntheticRun(join(folder, 'runs', 'third'), {
      holdout: 30,
      train: 24,
      steps: 4,
      problemsPerStep: 3,
      learningRate: 1e-4,
    })
    await writeSyntheticRun(join(folder, 'runs', 'fourth'), {
      holdout: 30,
      train: 24,
      steps: 4,
      problemsPerStep: 3,
    })
    const { page, expectQuiet } = await openPage(browser, dashboard.url)
    await page.getByLabel('Compare third').check()
    await page.getByLabel('Compare fourth').check()
    await page.getByRole('button', { name: 'Compare two runs' }).click()
    await page.locator('.differences').waitFor()
    const rows = await page
      .locator('.differences tbody tr')
      .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)))
    expect(rows).toEqual([['train.learningRate', '0.0001', '0.002']])
    expect(await page.locator('.side-by-side h1').count()).toBe(2)
    expectQuiet()
    await page.close()
  })
})

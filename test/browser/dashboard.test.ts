/** The dashboard in Chromium: a run followed from nothing to its end, while the run and the server come and go. */
import { createHash } from 'node:crypto'
import { appendFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openRunFolder, readRecord } from '../../src/record/folder.ts'
import { beginning, progressText } from '../../src/record/job-log.ts'
import { writeNotes } from '../../src/record/notes.ts'
import type { Results } from '../../src/record/results.ts'
import type { Progress } from '../../src/record/schema.ts'
import { writeBundle } from '../../src/report/bundle.ts'
import { changeSentence, trainingSentence } from '../../src/report/sentences.ts'
import { type Dashboard, serve } from '../../src/serve/server.ts'
import { threeArms, writeSyntheticRun } from '../../src/view/testing/synthetic-run.ts'
import { chromiumPath, eventually, launch, openPage, violations } from './chromium.ts'

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
    // Nine of the board, six of the update but for the distance, which no step has measured yet.
    await eventually(() => page.locator('#training .plot svg').count()).toBe(14)
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

  const small = { holdout: 30, train: 24, steps: 6, problemsPerStep: 3 }

  it('puts runs together with what was set differently, and their differences', async () => {
    const runs = join(folder, 'runs')
    await writeSyntheticRun(join(runs, 'third'), { ...small, learningRate: 1e-4, seeds: [19, 20] })
    await writeSyntheticRun(join(runs, 'fourth'), small)
    await writeSyntheticRun(join(runs, 'stopped'), { ...small, stopAfter: 6 })
    const { page, expectQuiet } = await openPage(browser, dashboard.url)
    for (const name of ['third', 'fourth']) await page.getByLabel(`Compare ${name}`).check()
    await page.getByRole('button', { name: 'Compare two runs' }).click()
    await page.locator('.differences').waitFor()
    const cells = (rows: string) =>
      page
        .locator(rows)
        .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)))
    expect(await cells('.differences tbody tr')).toEqual([
      ['seeds', '19, 20', '17, 18'],
      ['train.learningRate', '0.0001', '0.002'],
    ])
    // Worked out from the results: each arm less the first run's baseline.
    const results = async (run: string) =>
      JSON.parse(await readFile(join(runs, run, 'results.json'), 'utf8')) as Results
    const [third, fourth] = [await results('third'), await results('fourth')]
    const less = (arm: Results['arms'][string]) => arm!.passAt1 - third.arms.baseline!.passAt1
    const expected = [third.arms.recipe, fourth.arms.baseline, fourth.arms.recipe].map(less)
    const shown = async () =>
      (await page.locator('.across .differs b').allTextContents()).map((text) => Number.parseFloat(text))
    for (const [i, value] of (await shown()).entries()) expect(value).toBeCloseTo(expected[i], 3)
    expect(await shown()).toHaveLength(3)
    expect(await page.locator('#across .plot [aria-label="dot"] circle').count()).toBe(3)
    // Four arms in each panel, each in a colour of its own.
    const lines = page.locator('#curves .plot').first().locator('[stroke-width="2.25"]')
    expect(
      new Set(await lines.evaluateAll((all) => all.map((each) => each.getAttribute('stroke')))).size,
    ).toBe(4)
    // Held against another, which the address says.
    await page.getByLabel('Each arm against').selectOption('fourth/recipe')
    await eventually(() => page.url()).toContain('against=fourth%2Frecipe')
    expect((await shown())[0]).toBeCloseTo(third.arms.baseline!.passAt1 - fourth.arms.recipe!.passAt1, 3)
    await page.goto(`${dashboard.url}#/compare/third/stopped`)
    await eventually(() => page.locator('.across .differs').allTextContents()).toContain(
      'Not compared. stopped is not finished.',
    )
    expect(await violations(page)).toEqual([])
    expectQuiet()
    await page.close()
  })

  it('keeps what was chosen in the address: in the list of runs, and in a run', async () => {
    const run = join(folder, 'runs', 'tagged')
    await writeSyntheticRun(run, small)
    await writeNotes(run, { note: 'Of the second kind.', tags: ['keep'] })
    const { page, expectQuiet } = await openPage(browser, dashboard.url)
    await page.getByRole('button', { name: 'keep' }).click()
    await eventually(() => page.locator('.runs tbody tr').count()).toBe(1)
    expect(await page.locator('.note').textContent()).toBe('Of the second kind.')
    await page.getByRole('searchbox').fill('second kind')
    await eventually(() => page.url()).toContain('?tags=keep&q=second+kind')
    await page.reload()
    await eventually(() => page.locator('.runs tbody tr').count()).toBe(1)
    expect(await violations(page)).toEqual([])
    await page.getByRole('link', { name: 'tagged' }).click()
    // Another subject has choices of its own.
    await eventually(() => page.locator('.count').textContent()).toContain('30 of 30')
    await page.locator('.chip', { hasText: 'Misled' }).click()
    await page.getByLabel('Look in').selectOption({ label: 'recipe' })
    await page.getByRole('button', { name: 'Recipe' }).last().click()
    await page.getByLabel('Smoothing').selectOption('9')
    const count = await page.locator('.count').textContent()
    await eventually(() => page.url()).toContain('?show=misled&in=recipe&sort=of:recipe,most&smooth=9')
    const order = await page.locator('.table-row .question').allTextContents()
    // A problem is read and left again, and the page is opened anew from its address.
    await page.locator('.table-row a').first().click()
    await page.locator('.column .post').first().waitFor()
    await page.goBack()
    await eventually(() => page.url()).toContain('show=misled')
    await page.reload()
    await eventually(() => page.locator('.count').textContent()).toBe(count)
    expect(await page.locator('.table-row .question').allTextContents()).toEqual(order)
    expect(await page.getByLabel('Smoothing').inputValue()).toBe('9')
    await page.goto(`${dashboard.url}#/run/tagged?show=nonsense&sort=of:nobody,most&steps=9-2&smooth=x`)
    await eventually(() => page.locator('.count').textContent()).toContain('30 of 30')
    expectQuiet()
    await page.close()
  })

  it('looks at some steps alone, by a drag or by their numbers', async () => {
    await writeSyntheticRun(join(folder, 'runs', 'curves'), { ...small, steps: 20 })
    const { page, expectQuiet } = await openPage(browser, `${dashboard.url}#/run/curves`)
    const plot = page.locator('#training .plot').first()
    await plot.locator('svg').waitFor()
    await plot.scrollIntoViewIfNeeded()
    const box = (await plot.boundingBox())!
    // The axis goes from step 1 to step 20, from 40 pixels on to 10 before the end.
    const at = (step: number) => box.x + 40 + ((box.width - 50) * (step - 1)) / 19
    await page.mouse.move(at(5), box.y + 60)
    await page.mouse.down()
    await page.mouse.move(at(9), box.y + 60, { steps: 4 })
    expect(await page.locator('.stretch').count()).toBe(1)
    await page.mouse.move(at(12), box.y + 60, { steps: 4 })
    await page.mouse.up()
    await eventually(() => page.url()).toContain('steps=5-12')
    expect(await page.locator('.stretch').count()).toBe(0)
    expect(await page.getByLabel('First step shown').inputValue()).toBe('5')
    // Each line has as many points as steps are shown.
    const points = async () =>
      (await page
        .locator('#training .plot')
        .first()
        .locator('path[stroke-width="2.25"], [stroke-width="2.25"] path')
        .first()
        .getAttribute('d'))!.split(/[LMC]/).length - 1
    expect(await points()).toBe(8)
    await page.getByLabel('Last step shown').fill('7')
    await page.keyboard.press('Enter')
    await eventually(points).toBe(3)
    await page.getByRole('button', { name: 'All steps' }).click()
    await eventually(points).toBe(20)
    // A click is no drag.
    await page.mouse.click(at(5), box.y + 60)
    expect(await points()).toBe(20)
    // Without one of the arms.
    const lines = page.locator('#training .plot').first().locator('[stroke-width="2.25"]')
    expect(await lines.count()).toBe(2)
    await page.locator('.chip.arm', { hasText: 'recipe' }).click()
    await eventually(() => lines.count()).toBe(1)
    expectQuiet()
    await page.close()
  })

  it('shows the list of runs whole on a screen of 1,280 pixels, and as cards on a phone', async () => {
    const long = join(folder, 'runs', 'a-run-with-a-name-that-is-rather-long-as-they-often-are')
    await writeSyntheticRun(long, { ...small, arms: threeArms, seeds: [17, 18, 19, 20, 21, 22] })
    for (const [width, dark] of [
      [1280, false],
      [375, true],
    ] as const) {
      const { page, expectQuiet } = await openPage(browser, `${dashboard.url}#/`, { width, dark })
      await page.getByRole('link', { name: 'a-run-with' }).waitFor()
      expect(await page.evaluate(hidden('.scroll-x'))).toBe(0)
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
      expect(await violations(page)).toEqual([])
      expectQuiet()
      await page.close()
    }
  })
})

/** Pixels of an element that one has to scroll sideways for. */
const hidden = (selector: string) =>
  `(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('${selector}'))`

describe.skipIf(!chromiumPath)('a bundle, in Chromium', () => {
  it('opens from disk: a list, a comparison, and each report', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'bundle-'))
    const browser = await launch()
    try {
      for (const [run, seeds] of [
        ['one & only', [19, 20]],
        ['two', [17, 18]],
      ] as const) {
        await writeSyntheticRun(join(folder, run), {
          holdout: 20,
          train: 12,
          steps: 3,
          problemsPerStep: 2,
          seeds: [...seeds],
        })
      }
      const index = await writeBundle(
        ['one & only', 'two'].map((run) => join(folder, run)),
        join(folder, 'out'),
      )
      const { page, expectQuiet } = await openPage(browser, pathToFileURL(index).href)
      for (const name of ['one & only', 'two']) await page.getByLabel(`Compare ${name}`).check()
      await page.getByRole('button', { name: 'Compare two runs' }).click()
      await eventually(() => page.locator('.across .differs b').count()).toBe(3)
      await page.getByRole('link', { name: 'one & only' }).click()
      await eventually(() => page.locator('.count').textContent()).toContain('20 of 20')
      await page.locator('.table-row a').first().click()
      await page.locator('.column .post').first().waitFor()
      expectQuiet()
    } finally {
      await browser.close()
      await rm(folder, { recursive: true })
    }
  })
})

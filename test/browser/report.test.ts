/** The report as a person meets it: opened from disk in Chromium, without a network. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { latestBefore } from '../../src/board/counts.ts'
import { readPrompt } from '../../src/board/prompts.ts'
import type { Post } from '../../src/board/types.ts'
import { appendInfluence } from '../../src/record/influence.ts'
import type { Results } from '../../src/record/results.ts'
import type { RolloutLine } from '../../src/record/schema.ts'
import { writeReport } from '../../src/report/html.ts'
import { changeSentence, trainingSentence } from '../../src/report/sentences.ts'
import { tableMarkdown } from '../../src/report/table.ts'
import {
  aggregated,
  ringOf16,
  type SyntheticArm,
  threeArms,
  writeSyntheticRun,
} from '../../src/view/testing/synthetic-run.ts'
import { chromiumPath, eventually, launch, openPage, violations } from './chromium.ts'

/** What a model might write, to the harm of whoever shows it. */
const hostile = [
  '<img src=x onerror="alert(1)"><script>alert(2)</script></script><svg onload=alert(3)>{{7*7}}',
  `</textarea><!-- ]]> \u202Egnp.exe\u202C zero\u200Bwidth \u0000\u0007 \ud83d\udca5 \\boxed{<b>9</b>}`,
  'أجاب أحمد: المجموع هو 42 \u05d4\u05ea\u05e9\u05d5\u05d1\u05d4',
  `${'long '.repeat(200_000)}end of a megabyte`,
]

/** A run's name is a folder's name, and may be anything. */
const name = '<i>run & co'

describe.skipIf(!chromiumPath)('the report, in Chromium', () => {
  let browser: Browser
  let folder: string
  let url: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'report-'))
    const run = join(folder, name)
    await writeSyntheticRun(run, { holdout: 60, train: 24, steps: 6, problemsPerStep: 4, hostile })
    url = pathToFileURL(await writeReport(run)).href
    browser = await launch()
  })
  afterAll(async () => {
    await browser?.close()
    await rm(folder, { recursive: true })
  })

  const resultsOf = async () =>
    JSON.parse(await readFile(join(folder, name, 'results.json'), 'utf8')) as Results

  const evaluated = async (job: string) =>
    (await readFile(join(folder, name, job, 'rollouts.jsonl'), 'utf8'))
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as RolloutLine)
      .filter(({ phase }) => phase === 'evaluation')

  it('says the verdict first, with its figures, and the table as the results have it', async () => {
    const { page, expectQuiet } = await openPage(browser, url)
    const heading = page.locator('h1').first()
    await heading.waitFor()
    const results = await resultsOf()
    expect(await heading.textContent()).toBe(
      `${trainingSentence(results).headline} ${changeSentence(results).headline} `,
    )
    expect(await page.locator('.lead').first().textContent()).toBe(results.contrasts[0].why)
    // Two of the verdict, one of the arms, nine of the board in training and six of the update.
    expect(await page.locator('.plot svg').count()).toBe(18)
    expect(await page.locator('table.results tbody tr').count()).toBe(8)
    expect(await page.title()).toContain(name)
    expectQuiet()
    await page.close()
  })

  it('leads by a filter to a rescued reply and the right notes', async () => {
    // Worked out from the files: the first problem on which a reader of the recipe was rescued.
    const jobs = await Promise.all(['recipe-s17', 'recipe-s18'].map(evaluated))
    const rescued = ({ rounds }: RolloutLine) =>
      rounds[1].findIndex((reply, copy) => reply.correct && !rounds[0][copy].correct)
    const at = jobs[0].findIndex((_, i) => i > 0 && jobs.some((lines) => rescued(lines[i]) >= 0))
    const job = jobs.findIndex((lines) => rescued(lines[at]) >= 0)
    const expected = jobs[job][at]
    const copy = rescued(expected)

    const { page, expectQuiet } = await openPage(browser, url)
    const count = async () =>
      Number(/^(\d+) of 60/.exec((await page.locator('.count').textContent()) ?? '')?.[1])
    await eventually(count).toBe(60)
    await page.locator('.chip', { hasText: 'Rescued' }).click()
    await page.getByLabel('Look in').selectOption({ label: 'recipe' })
    const hits = jobs[0].filter((_, i) => jobs.some((lines) => rescued(lines[i]) >= 0)).length
    expect(await count()).toBe(hits)
    expect(hits).toBeLessThan(60)
    await page.getByRole('searchbox').fill(expected.problem.question.slice(0, 60))
    await page.locator('.table-row a').first().click()

    expect(await page.locator('h1.question').textContent()).toBe(expected.problem.question)
    const column = page.locator('.column').nth(3)
    await column.locator('.post').first().waitFor()
    expect(await column.locator('h2').textContent()).toContain(`recipe-s${job + 17}`)
    const notes = await column.locator('.round-1 .post .text').allTextContents()
    expect(notes).toEqual(expected.rounds[0].map(({ text }) => text))
    const marks = await column
      .locator('.round-1 .post')
      .evaluateAll((all) => all.map((note) => note.classList.contains('right')))
    expect(marks).toEqual(expected.rounds[0].map(({ correct }) => correct))
    const reply = column.locator('.round-2 .post').nth(copy)
    expect(await reply.locator('.reads').textContent()).toContain('rescued')
    expect(await reply.locator('.reads').textContent()).toContain('all notes')
    expect(await reply.locator('mark').textContent()).toBe(`\\boxed{${expected.rounds[1][copy].answer}}`)
    // Four boards side by side, and the address leads back here.
    expect(await page.locator('.column .board').count()).toBe(4)
    const address = page.url()
    expectQuiet()
    await page.close()
    const again = await openPage(browser, address)
    await eventually(() => again.page.locator('h1.question').textContent()).toBe(expected.problem.question)
    await again.page.close()
  })

  it('shows the exact prompt that a reader saw', async () => {
    const [, expected] = await evaluated('recipe-s17')
    const { page, expectQuiet } = await openPage(browser, url)
    await page.getByRole('searchbox').fill(expected.problem.question.slice(0, 60))
    await page.locator('.table-row a').first().click()
    const reply = page.locator('.column').nth(3).locator('.round-2 .post').nth(2)
    await reply.getByText('Prompt').click()
    const [{ content }] = readPrompt(
      expected.problem.question,
      expected.rounds[0].map(({ text }) => text),
    )
    const shown = await reply.locator('.message .text').textContent()
    // But for what would not be seen, which the page names.
    const plain = (text: string) => text.replace(/[^\x20-\x7e]|U\+[0-9A-F]{4,6}/g, '')
    expect(plain(shown ?? '')).toBe(plain(content))
    expect(await violations(page)).toEqual([])
    expectQuiet()
    await page.close()
  })

  it('leads to any board of training', async () => {
    const text = await readFile(join(folder, name, 'baseline-s18', 'rollouts.jsonl'), 'utf8')
    const lines = text.split('\n').filter(Boolean)
    const expected = lines
      .map((line) => JSON.parse(line) as RolloutLine)
      .filter(({ phase, step }) => phase === 'train' && step === 5)
    const { page, expectQuiet } = await openPage(browser, url)
    await page.getByText('The boards of a training step').click()
    await page.getByLabel('Job').selectOption('baseline-s18')
    await page.getByRole('slider').fill('5')
    const links = page.locator('.step-boards a')
    expect(await links.allTextContents()).toEqual(
      expected.map(({ problem }) => problem.question.slice(0, 200)),
    )
    await links.nth(2).click()
    await page.locator('.problem .post').first().waitFor()
    expect(await page.locator('.problem .round-2 .text').allTextContents()).toEqual(
      expected[2].rounds[1].map((reply) => reply.text),
    )
    // Replies earned their own correctness, and notes nothing.
    expect(await page.locator('.round-1 .earned').count()).toBe(0)
    expect(await page.locator('.round-2 .earned').allTextContents()).toEqual(
      expected[2].rounds[1].map(({ correct }) => (correct ? 'earned +1.000' : 'earned 0')),
    )
    expectQuiet()
    await page.close()
  })

  it('searches notes and replies too', async () => {
    const { page, expectQuiet } = await openPage(browser, url)
    await page.getByRole('searchbox').fill('END of a megabyte')
    await eventually(() => page.locator('.count').textContent()).toContain('0 of 60')
    await page.getByLabel('in all posts too').check()
    await eventually(() => page.locator('.count').textContent()).toContain('1 of 60')
    expectQuiet()
    await page.close()
  })

  it('shows hostile texts as texts', async () => {
    const { page, expectQuiet } = await openPage(browser, url)
    await page.locator('.table-row a').first().click()
    const column = page.locator('.column').first()
    await column.locator('.post').first().waitFor()
    const texts = await column.locator('.round-1 .text').allTextContents()
    expect(texts[0]).toBe(hostile[0])
    expect(texts[1]).toContain('U+202Egnp.exeU+202C zeroU+200Bwidth U+0000U+0007')
    expect(texts[2]).toBe(hostile[2])
    expect(await column.locator('.round-1 .post').nth(3).textContent()).toContain(
      'Show all 1,000,017 characters',
    )
    expect(texts[3].length).toBeLessThan(5000)
    await column.getByRole('button', { name: /Show all/ }).click()
    await expect
      .poll(async () => (await column.locator('.round-1 .text').nth(3).textContent())?.length)
      .toBeGreaterThan(1_000_000)
    // Nothing of it became an element, and nothing of it pushes the page wider.
    expect(await page.locator('.text img, .text svg, .text script, .text b').count()).toBe(0)
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
    expectQuiet()
    await page.close()
  })

  it('works by keyboard alone', async () => {
    const { page, expectQuiet } = await openPage(browser, url)
    await page.locator('.table-row').first().waitFor()
    const press = (...keys: string[]) =>
      keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve())
    const focused = () =>
      page.evaluate(
        '(({ textContent, dataset, tagName }) => ({ text: textContent, row: dataset.row, tag: tagName }))(document.activeElement)',
      ) as Promise<{ text: string; row?: string; tag: string }>
    // To the filter, by Tab alone.
    for (let i = 0; i < 60 && (await focused()).text !== 'Misled'; i++) await press('Tab')
    await press('Space')
    expect(await page.locator('.chip', { hasText: 'Misled' }).getAttribute('aria-pressed')).toBe('true')
    for (let i = 0; i < 30 && (await focused()).row === undefined; i++) await press('Tab')
    expect((await focused()).row).toBe('0')
    await press('ArrowDown', 'ArrowDown')
    await eventually(async () => (await focused()).row).toBe('2')
    await press('End')
    const last = Number(/^(\d+)/.exec((await page.locator('.count').textContent()) ?? '')?.[1]) - 1
    await eventually(async () => (await focused()).row).toBe(String(last))
    await press('Home')
    await eventually(async () => (await focused()).row).toBe('0')
    await press('ArrowDown')
    await eventually(async () => (await focused()).row).toBe('1')
    await press('Enter')
    // A screen reader begins at the question.
    await eventually(async () => (await focused()).tag).toBe('H1')
    const question = (await focused()).text
    await press('ArrowRight')
    await eventually(async () => (await focused()).text).not.toBe(question)
    await press('Escape')
    // Back where one was.
    await eventually(async () => (await focused()).row).toBe('1')
    expectQuiet()
    await page.close()
  })

  it('names what it draws for a screen reader', async () => {
    const { page } = await openPage(browser, url)
    await page.locator('.plot svg').first().waitFor()
    const labels = await page
      .locator('[role="img"]')
      .evaluateAll((all) => all.map((each) => each.getAttribute('aria-label')))
    expect(labels.every((label) => label !== null && label.length > 5)).toBe(true)
    expect(labels[0]).toMatch(/^baseline: [+-]0\.\d{3}, 95% interval .* recipe: [+-]0/)
    expect(labels[1]).toMatch(/^recipe - baseline: [+-]0\.\d{3}, 95% interval/)
    const unnamed = await page
      .locator('button, a, input, select')
      .evaluateAll(
        (all) =>
          all.filter(
            (each) => !(each.textContent?.trim() || each.getAttribute('aria-label') || each.closest('label')),
          ).length,
      )
    expect(unnamed).toBe(0)
    expect(await page.locator('table.table').getAttribute('aria-rowcount')).toBe('61')
    await page.close()
  })

  it('is dark where the system is', async () => {
    const brightness = async (dark: boolean) => {
      const { page, expectQuiet } = await openPage(browser, url, { dark })
      await page.locator('h1').first().waitFor()
      const colours = (await page.evaluate(
        '[getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(document.querySelector("h1")).color]',
      )) as string[]
      expectQuiet()
      await page.close()
      return colours.map(
        (colour) =>
          (colour.match(/\d+/g) ?? [])
            .slice(0, 3)
            .map(Number)
            .reduce((a, b) => a + b) / 3,
      )
    }
    const [light, dark] = [await brightness(false), await brightness(true)]
    expect(light[0]).toBeGreaterThan(230)
    expect(dark[0]).toBeLessThan(40)
    expect(dark[1]).toBeGreaterThan(dark[0])
  })

  it('fits a screen 400 pixels wide, in every view', async () => {
    const { page, expectQuiet } = await openPage(browser, url, { width: 400, height: 850 })
    const fits = () => page.evaluate('document.documentElement.scrollWidth <= innerWidth')
    await page.locator('.table-row').first().waitFor()
    expect(await fits()).toBe(true)
    // Tabs, chips and rows are large enough for a thumb.
    const heights = await page
      .locator('.chip, .table-row')
      .evaluateAll((all) => all.map((each) => each.getBoundingClientRect().height))
    expect(Math.min(...heights)).toBeGreaterThanOrEqual(36)
    await page.locator('.table-row a').nth(2).click()
    await page.locator('.post').first().waitFor()
    expect(await fits()).toBe(true)
    expectQuiet()
    await page.close()
  })

  it('gives the data behind its figures, and copies its table', async () => {
    const { page, expectQuiet } = await openPage(browser, url)
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download training-reward.csv' }).click(),
    ])
    const csv = await readFile(await download.path(), 'utf8')
    const lines = csv.trim().split('\r\n')
    expect(lines[0]).toBe('arm,seed,step,reward')
    // 2 arms, 2 seeds, 6 steps.
    expect(lines).toHaveLength(25)
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByRole('button', { name: 'Copy as Markdown' }).click()
    await page.getByText('Copied').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(tableMarkdown(await resultsOf()))
    expectQuiet()
    await page.close()
  })

  it('prints the figures and the words, without controls', async () => {
    const { page } = await openPage(browser, url)
    await page.locator('.plot svg').first().waitFor()
    await page.emulateMedia({ media: 'print' })
    expect(await page.locator('h1').first().isVisible()).toBe(true)
    expect(await page.locator('.filters').isVisible()).toBe(false)
    expect(await page.locator('.table-scroll').isVisible()).toBe(false)
    // Every problem of the filter, and each answer counted.
    const rows = page.locator('.printed-boards tbody tr')
    await eventually(() => rows.count()).toBe(60)
    const { arms } = await resultsOf()
    const right = await rows.evaluateAll((all) =>
      all.map((row) => Number.parseInt(row.children[5].textContent ?? '', 10)).reduce((a, b) => a + b, 0),
    )
    expect(right / (60 * 8)).toBeCloseTo(arms.recipe!.passAt1, 9)
    expect((await page.pdf()).length).toBeGreaterThan(10_000)
    await page.emulateMedia({ media: 'screen' })
    await eventually(() => rows.count()).toBe(0)
    await page.close()
  })
})

/** Whether a control or a figure has no name for a screen reader, and whether anything is wider than the screen. */
const isUsable = `(() => {
  const unnamed = [...document.querySelectorAll('button, a, input, select, [role=img], summary, section[tabindex]')].filter(
    (each) => !(each.textContent.trim() || each.getAttribute('aria-label') || each.closest('label')),
  )
  const ids = [...document.querySelectorAll('[id]')].map(({ id }) => id)
  return {
    unnamed: unnamed.map((each) => each.outerHTML.slice(0, 80)),
    twice: ids.filter((id, i) => ids.indexOf(id) < i),
    wide: document.documentElement.scrollWidth > innerWidth,
  }
})()`
const usable = { unnamed: [], twice: [], wide: false }

describe.skipIf(!chromiumPath)('the report of other experiments, in Chromium', () => {
  let browser: Browser
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'reports-'))
    browser = await launch()
  })
  afterAll(async () => {
    await browser?.close()
    await rm(folder, { recursive: true })
  })

  const eight = Object.fromEntries(
    Object.keys({ alone: 0, own: 0, shared: 0, ring: 0, star: 0, debate: 0, writers: 0, critics: 0 }).map(
      (arm, i): [string, SyntheticArm] => [
        arm,
        { ...Object.values(threeArms)[i % 3], skill: 0.6 + 0.03 * i },
      ],
    ),
  )

  async function made(
    run: string,
    arms: Record<string, SyntheticArm>,
    { parts = 0, measure = async (_: string) => {} } = {},
  ) {
    const path = join(folder, run)
    await writeSyntheticRun(path, { holdout: 20, train: 24, steps: 3, problemsPerStep: 4, arms, parts })
    await measure(path)
    const url = pathToFileURL(await writeReport(path)).href
    const results = JSON.parse(await readFile(join(path, 'results.json'), 'utf8')) as Results
    const boards = async (job: string) =>
      (await readFile(join(path, job, 'rollouts.jsonl'), 'utf8'))
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as RolloutLine)
    return { url, results, boards }
  }

  it.each([
    ['three arms, one of three turns', threeArms],
    ['a vote and an aggregator', aggregated],
    ['a ring of sixteen', ringOf16],
    ['eight arms', eight],
  ])('shows %s on a wide screen and on a phone, in both schemes', async (run, arms) => {
    const { url, results } = await made(run, arms)
    for (const [width, dark] of [
      [1280, false],
      [900, true],
      [400, true],
    ] as const) {
      const { page, expectQuiet } = await openPage(browser, url, { width, dark })
      await eventually(() => page.locator('.count').textContent()).toContain('20 of 20')
      // A line for each arm against its base, and one for each contrast.
      const drawn = (what: string) => page.locator(`.finding.${what} .plot [aria-label="dot"] circle`).count()
      expect(await drawn('training')).toBe(results.training.length)
      expect(await drawn('change')).toBe(results.contrasts.length)
      const sides = results.bases.length + Object.keys(results.arms).length
      const seeds = Object.keys(results.arms).length * 2
      expect(await page.locator('section[aria-label="Result table"] tbody tr').count()).toBe(sides + seeds)
      if (width === 400) {
        for (const summary of await page.locator('.panel-group.no-print > summary').all()) {
          await summary.click()
        }
        await eventually(() => page.locator('.panel-group .plot svg').count()).toBeGreaterThan(18)
      }
      expect(await page.evaluate(isUsable)).toEqual(usable)
      await page.locator('.table-row a').nth(2).click()
      await page.locator('.column .post').first().waitFor()
      expect(await page.evaluate(isUsable)).toEqual(usable)
      expectQuiet()
      await page.close()
    }
  })

  it('breaks no rule of axe-core, in either scheme', async () => {
    const { url } = await made('rules', threeArms)
    for (const [width, dark] of [
      [1280, false],
      [400, true],
    ] as const) {
      const { page } = await openPage(browser, url, { width, dark })
      await eventually(() => page.locator('.count').textContent()).toContain('20 of 20')
      expect(await violations(page)).toEqual([])
      await page.locator('.table-row a').nth(2).click()
      await page.locator('.column .post').first().waitFor()
      await page.locator('.prompt summary').first().click()
      expect(await violations(page)).toEqual([])
      await page.close()
    }
  })

  it('shows the rounds in order, who read whom, and which arms one picks', async () => {
    const { url, boards } = await made('turns', threeArms, {
      parts: 3,
      // Of the debate's problems the first five: in the second turn, what copy 1 made of copy 4.
      async measure(path) {
        const lines = (await readFile(join(path, 'debate-s18', 'rollouts.jsonl'), 'utf8')).split('\n')
        const evaluation = lines.filter((line) => line.includes('"phase":"evaluation"'))
        const measured = evaluation.slice(0, 5).map((line) => ({
          problem: (JSON.parse(line) as RolloutLine).problem.id,
          effects: [{ note: [0, 3] as [number, number], post: [1, 0] as [number, number], change: -1.25 }],
        }))
        await appendInfluence(join(path, 'debate-s18'), 0, measured)
      },
    })
    const played = (await boards('debate-s18')).filter(({ phase }) => phase === 'evaluation')
    const expected = played[4]
    const { page, expectQuiet } = await openPage(browser, url)
    await page.getByRole('searchbox').fill(expected.problem.question.slice(0, 60))
    await page.locator('.table-row a').first().click()
    expect(await page.locator('.column h2').allTextContents()).toHaveLength(4)
    // The latest two chosen: the recipe and the debate.
    await page.locator('.pickers .chip', { hasText: 'debate' }).click()
    await page.locator('.pickers .chip', { hasText: '18' }).click()
    const column = page.locator('.column').nth(3)
    await eventually(() => column.locator('h2').textContent()).toContain('debate-s18')
    await column.locator('.post').first().waitFor()
    expect(await column.locator('h3').allTextContents()).toEqual(['Turn 1', 'Turn 2', 'Turn 3'])
    for (const [r, posts] of expected.rounds.entries()) {
      const round = column.locator(`.round-${r + 1}`)
      expect(await round.locator('.text').allTextContents()).toEqual(posts.map(({ text }) => text))
      if (r === 0) continue
      expect(await round.locator('.reads').first().textContent()).toContain(`read all of turn ${r}`)
      const turns = posts.map((post: Post) => {
        const before = latestBefore(expected.rounds, r, post.seat)
        return post.correct && !before?.correct
          ? 'rescued'
          : !post.correct && before?.correct
            ? 'misled'
            : null
      })
      expect(await round.locator('.badge.rescued').count()).toBe(
        turns.filter((turn) => turn === 'rescued').length,
      )
      expect(await round.locator('.badge.misled').count()).toBe(
        turns.filter((turn) => turn === 'misled').length,
      )
    }
    const matrix = await column
      .locator('.round-2 .sights tbody tr')
      .evaluateAll((rows) =>
        rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent)),
      )
    const dots = expected.rounds[0].map(({ correct }) => (correct ? '●' : '○'))
    expect(matrix).toEqual([[...dots.slice(0, 3), '-1.25'], dots, dots, dots])
    await page.getByText('What only some were told').click()
    expect(await page.locator('.parts dd').allTextContents()).toEqual(
      [0, 1, 2, 0].map((part) => expected.problem.parts?.[part]),
    )
    const address = page.url()
    await page.close()
    const again = await openPage(browser, address)
    await eventually(() => again.page.locator('.column h2').nth(3).textContent()).toContain('debate-s18')
    expectQuiet()
    await again.page.close()
  })

  it('shows sixteen seats as a table of who read whom, and what each post earned', async () => {
    const { url, boards } = await made('ring', ringOf16)
    const expected = (await boards('ring-s17')).filter(({ step }) => step === 2)[1]
    const { page, expectQuiet } = await openPage(browser, url)
    await page.getByText('The boards of a training step').click()
    await page.getByLabel('Job').selectOption('ring-s17')
    await page.getByRole('slider').fill('2')
    await page.locator('.step-boards a').nth(1).click()
    await page.locator('.post').first().waitFor()
    const cells = await page
      .locator('.sights tbody tr')
      .evaluateAll((rows) =>
        rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent !== '')),
      )
    expect(cells).toEqual(
      Array.from({ length: 16 }, (_, reader) =>
        Array.from({ length: 16 }, (_, seat) => seat === reader || seat === (reader + 1) % 16),
      ),
    )
    const earned = await page.locator('.round-1 .earned').allTextContents()
    expect(earned.map((text) => Number(text.replace('earned ', '')))).toEqual(expected.credit?.[0])
    expectQuiet()
    await page.close()
  })
})

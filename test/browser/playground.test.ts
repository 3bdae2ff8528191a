/**
 * The playground in Chromium, as a visitor has it: four copies post and read, a note is edited, a cut-down experiment is
 * trained, broken off by a closed tab and taken up again, and what is taken away is read by the command line.
 */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import axe from 'axe-core'
import { unzipSync } from 'fflate'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { build } from 'vite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { protocolRecord } from '../../src/board/protocol.ts'
import { defineExperiment } from '../../src/experiment/config.ts'
import { mathGrader } from '../../src/grade/grader.ts'
import { choicesOf } from '../../src/playground/experiment.ts'
import { firstSettings, type Settings, settingsLink } from '../../src/playground/settings.ts'
import { parseWiring } from '../../src/playground/wiring.ts'
import type { RunRecord } from '../../src/record/schema.ts'
import { type Site, serveSite } from '../../src/serve/site.ts'
import { chromiumPath, eventually, launch } from './chromium.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The first experiment, cut down to what takes seconds. */
const small: Settings = { ...firstSettings, steps: 2, holdout: 8, seeds: [17] }

/** A busy machine computes a step in half a minute. */
const PATIENCE = 400_000

const run = promisify(execFile)
const cli = (...args: string[]) =>
  run(process.execPath, ['--import', import.meta.resolve('tsx'), join(root, 'src/cli/main.ts'), ...args])

describe.skipIf(!chromiumPath)('the playground, in Chromium', { timeout: PATIENCE }, () => {
  let browser: Browser
  let context: BrowserContext
  let site: Site
  let folder: string
  const complaints: string[] = []
  const asked = new Set<string>()

  beforeAll(async () => {
    await build({ configFile: join(root, 'vite.site.config.ts'), logLevel: 'error' })
    site = await serveSite()
    folder = await mkdtemp(join(tmpdir(), 'playground-'))
    browser = await launch()
    context = await browser.newContext({ reducedMotion: 'reduce', acceptDownloads: true })
  })
  afterAll(async () => {
    await browser?.close()
    await site?.close()
    await rm(folder, { recursive: true, force: true })
  })

  /** A page of the one visitor, whose browser keeps what the pages before left. */
  async function visit(settings: Settings | null, { guide = false } = {}): Promise<Page> {
    const page = await context.newPage()
    page.setDefaultTimeout(100_000)
    page.on('pageerror', (error) => complaints.push(String(error)))
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
    })
    page.on('request', (request) => asked.add(new URL(request.url()).origin))
    await page.goto(`${site.url}${settings ? `#${settingsLink(settings)}` : ''}`)
    if (!guide) {
      const skip = page.getByRole('button', { name: 'Skip' })
      await skip.or(page.locator('.card.whole').nth(7)).first().waitFor()
      if (await skip.isVisible()) await skip.click()
    }
    return page
  }

  /** Waits until all posts are there and shown. */
  const played = (page: Page) => eventually(() => page.locator('.card.whole').count()).toBe(8)
  const texts = (page: Page) => page.locator('.card .card-text bdi').allTextContents()

  it('shows notes and replies, with what the verifier reads in each', async () => {
    const page = await visit(small, { guide: true })
    await played(page)
    const gold = await page.locator('.posed .answer').textContent()
    const posts = await texts(page)
    const right = await page
      .locator('.card')
      .evaluateAll((cards) => cards.map((card) => card.classList.contains('right')))
    expect(right).toEqual(posts.map((text) => mathGrader.grade(text, gold!).correct))
    const read = await page.locator('.card .verdict-line').allTextContents()
    posts.forEach((text, i) => {
      expect(read[i]).toContain(mathGrader.grade(text, gold!).answer ?? 'no answer')
    })
    // Each writer is told its own part, and the guide begins.
    expect(await page.locator('.told').count()).toBe(4)
    expect(await page.locator('.tour h2').textContent()).toContain('1 of 6')
    await page.keyboard.press('Escape')
    expect(await page.locator('.tour').count()).toBe(0)
    await page.close()
  })

  it('lets the readers read an edited note, all else alike, and takes it back', async () => {
    const page = await visit(small)
    await played(page)
    const before = await texts(page)
    const parts = await page.locator('.told').allTextContents()
    // Every note tells what its writer knows.
    for (const [i, part] of parts.entries()) {
      await page.getByRole('button', { name: `Edit Note ${i + 1}` }).click()
      await page.getByLabel(`Text of Note ${i + 1}`).fill(part)
      await page.getByRole('button', { name: 'Read again' }).click()
      await played(page)
    }
    const after = await texts(page)
    expect(after.slice(0, 4)).toEqual(parts)
    expect(after.slice(4)).not.toEqual(before.slice(4))
    // The readers have what they need now: more of them are right than before.
    const gold = (await page.locator('.posed .answer').textContent())!
    const right = (all: string[]) =>
      all.slice(4).filter((text) => mathGrader.grade(text, gold).correct).length
    expect(right(after)).toBeGreaterThan(right(before))
    // How much each note moved each reader, as a matrix.
    await page.locator('.influence summary').click()
    expect(await page.locator('.influence td.effect').count()).toBe(16)
    await page.getByRole('button', { name: 'Take the edits back' }).click()
    await eventually(() => texts(page)).toEqual(before)
    await page.close()
  })

  it('draws arrows by pointer and by keyboard, and plays the board that is drawn', async () => {
    const page = await visit({
      ...small,
      arms: { ...small.arms, recipe: { ...small.arms.recipe, reads: parseWiring('own')! } },
    })
    await played(page)
    const stage = page.locator('#stage')
    const reads = () => stage.locator('.cards').nth(1).locator('.card-head').allTextContents()
    expect(await reads()).toEqual([1, 2, 3, 4].map((seat) => `Reader ${seat}reads ${seat}`))
    const port = (row: 'from' | 'to', seat: number) =>
      stage.locator(`[data-row="${row}"][data-seat="${seat}"]`)
    const at = async (row: 'from' | 'to', seat: number) => {
      const { x, y, width, height } = (await port(row, seat).boundingBox())!
      return [x + width / 2, y + height / 2] as const
    }
    await page.mouse.move(...(await at('from', 3)))
    await page.mouse.down()
    await page.mouse.move(...(await at('to', 0)), { steps: 4 })
    await page.mouse.up()
    await eventually(reads).toContain('Reader 1reads 1, 4')
    await port('from', 2).focus()
    for (const key of ['Enter', 'ArrowDown', 'ArrowLeft', 'Enter']) await page.keyboard.press(key)
    await eventually(reads).toContain('Reader 2reads 2, 3')
    await played(page)
    // The link restores it, and the code says it.
    expect(await page.locator('#take-away code').last().textContent()).toContain("named('14.23.3.4'")
    await page.close()
  })

  it('poses a problem of one’s own, and plays as many rounds as are chosen', async () => {
    const page = await visit(small)
    await played(page)
    await page.getByRole('button', { name: 'Your own' }).click()
    await page.getByRole('textbox', { name: 'Question' }).fill('How many coins do Max and Nina have in all?')
    await page.getByLabel(/^Told to one copy each/).fill('Max has 3 coins.\nNina has 5 coins.')
    await page.getByLabel('Right answer').fill('8')
    await page.getByRole('button', { name: 'Pose it' }).click()
    await eventually(() => page.locator('.posed .question').textContent()).toContain('Max and Nina')
    await played(page)
    expect(await page.locator('.told').allTextContents()).toEqual([
      'Max has 3 coins.',
      'Nina has 5 coins.',
      'Max has 3 coins.',
      'Nina has 5 coins.',
    ])
    await page.getByRole('button', { name: 'Word problems' }).first().click()
    await played(page)
    expect(await page.locator('.told').count()).toBe(0)
    await page.locator('.arm-card').nth(1).getByLabel('Rounds').fill('3')
    await page.locator('.arm-card').nth(1).getByLabel('Rounds').press('Enter')
    await eventually(() => page.locator('.card.whole').count()).toBe(12)
    expect(await page.locator('#stage .round-title').allTextContents()).toHaveLength(3)
    await page.close()
  })

  it('has no fault that axe-core finds, in both schemes and on a phone', async () => {
    for (const [colorScheme, width] of [
      ['light', 1280],
      ['dark', 375],
    ] as const) {
      const page = await visit(small)
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await page.setViewportSize({ width, height: 812 })
      await played(page)
      await page.evaluate(axe.source)
      const found = (await page.evaluate('axe.run()')) as axe.AxeResults
      expect(found.violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)])).toEqual([])
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
      await page.close()
    }
  })

  it('goes on from the last step when a closed tab is opened again, and gives a run that the command line reads', async () => {
    const first = await visit(small)
    await played(first)
    await first.getByRole('button', { name: 'Train', exact: true }).click()
    // There is no GPU here, which the first choice says in a sentence.
    await first.getByText(/^Computing by WebAssembly: .*(no WebGPU|no GPU).*\.$/).waitFor()
    await first.getByText(/^Step 1: written before any training/).waitFor()
    expect(await first.locator('.step-board').count()).toBe(2)
    await first.getByRole('button', { name: 'Pause' }).click()
    await first.getByText(/^Paused at/).waitFor()
    await first.getByRole('button', { name: 'Go on', exact: true }).click()
    await first.getByRole('button', { name: 'Pause' }).waitFor()
    await first.close()

    const page = await visit(null)
    // Nobody presses anything.
    await page.getByText('All is trained and evaluated.').waitFor({ timeout: PATIENCE })
    await page.locator('h1.verdict').waitFor()
    await page.getByRole('button', { name: 'Before training' }).click()
    expect(await page.locator('.step-title').textContent()).toBe('Step 1: written before any training')

    const save = async (name: string) => {
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name }).click(),
      ])
      return { name: download.suggestedFilename(), bytes: await readFile((await download.path())!) }
    }
    const zip = await save('.zip')
    for (const [path, bytes] of Object.entries(unzipSync(zip.bytes))) {
      await mkdir(dirname(join(folder, path)), { recursive: true })
      await writeFile(join(folder, path), bytes)
    }
    const out = join(folder, zip.name.replace('.zip', ''))
    const steps = (await readFile(join(out, 'recipe-s17', 'metrics.jsonl'), 'utf8')).trim().split('\n')
    expect(steps.map((line) => (JSON.parse(line) as { step: number }).step)).toEqual([1, 2])
    // The record is what Node makes of the same settings, whatever the bundler did to names.
    const { identity, devices } = JSON.parse(
      await readFile(join(out, 'experiment.json'), 'utf8'),
    ) as RunRecord
    expect([identity.shared.engine, devices]).toEqual([expect.objectContaining({ device: 'auto' }), ['wasm']])
    const { protocol } = defineExperiment(choicesOf(small)).arms.recipe
    expect(identity.arms.recipe.protocol).toEqual(JSON.parse(JSON.stringify(protocolRecord(protocol))))
    const report = join(folder, 'again.html')
    await cli('report', out, '--out', report)
    const saved = await save('Save the report')
    expect(saved.bytes.toString()).toMatch(/^<!doctype html>[\s\S]*<\/html>\n$/)
    expect(await readFile(report, 'utf8')).toContain('<!doctype html>')
    expect((await cli('power', out)).stdout).toContain('seeds')
    // Every text is graded alike where it was made and here.
    expect(JSON.parse((await cli('regrade', out, '--json')).stdout)).toMatchObject({
      evaluation: { changed: 0 },
      training: { changed: 0 },
    })

    // What was trained can be played.
    await page.getByLabel('Written by').selectOption({ label: 'recipe, seed 17, after 2 steps' })
    await played(page)
    // One more seed pays for itself alone.
    await page.getByRole('button', { name: 'Add a seed' }).click()
    await page.getByRole('button', { name: 'Pause' }).waitFor()
    await page.getByText('All is trained and evaluated.').waitFor({ timeout: PATIENCE })
    expect(await page.getByText(/^What two seeds can show/).count()).toBe(1)
    // The whole report opens here, and leads back.
    await page.getByRole('link', { name: 'Look into it here' }).click()
    await page.getByRole('heading', { name: 'What the verdict rests on' }).waitFor()
    await page.getByRole('link', { name: /Back to the playground/ }).click()
    await page.locator('#stage').waitFor()
    await page.close()
  })

  it('says why a GPU that was asked for does not compute, and trains without it', async () => {
    const page = await visit({ ...small, steps: 1, device: 'webgpu' })
    await played(page)
    const choice = page.getByLabel('Computed by')
    expect(await choice.inputValue()).toBe('webgpu')
    await page.getByRole('button', { name: 'Train', exact: true }).click()
    await page
      .getByText(/^device webgpu does not work here: .*\. Give auto, which takes what does\.$/)
      .waitFor()
    await choice.selectOption('wasm')
    await page.getByRole('button', { name: 'Train', exact: true }).click()
    await page.getByText('Computing by WebAssembly.', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Forget this run' }).click()
    await page.getByText(/^Nothing is trained yet/).waitFor()
    await page.close()
  })

  it('opens and plays without a network, and has asked nobody but its own site', async () => {
    const page = await visit(small)
    await page.evaluate('navigator.serviceWorker.ready')
    await context.setOffline(true)
    await page.reload()
    await played(page)
    await context.setOffline(false)
    await page.close()
    expect([...asked]).toEqual([new URL(site.url).origin])
    expect(complaints).toEqual([])
  })
})

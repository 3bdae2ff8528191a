/**
 * A visitor's minute in the playground: does in headless Chromium what a visitor does, takes the pictures of
 * docs/playground.md on the way, and reads the run that it took away with the command line. Run it after
 * `npm run build && npm run build:site` with `npx tsx scripts/playground-minute.ts [folder of pictures]`.
 */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { unzipSync } from 'fflate'
import type { Locator, Page } from 'playwright-core'
import { firstSettings, settingsLink } from '../src/playground/settings.ts'
import { serveSite } from '../src/serve/site.ts'
import { launch } from '../test/browser/chromium.ts'

const [out = 'docs/images', steps = '40', holdout = '120'] = process.argv.slice(2)
/** How long a busy machine may take for all of the training. */
const PATIENCE = 3 * 3600 * 1000

const site = await serveSite()
const browser = await launch()
const folder = await mkdtemp(join(tmpdir(), 'playground-minute-'))
const started = performance.now()
const say = (what: string) => console.log(`${((performance.now() - started) / 1000).toFixed(1)} s: ${what}`)

/** Takes what is in sight, or a part of the page with some room around it. */
async function take(name: string, page: Page, part?: Locator): Promise<void> {
  const file = join(out, `playground-${name}.jpg`)
  const how = { path: file, type: 'jpeg', quality: 82 } as const
  if (part) {
    const { x, y, width, height } = (await part.boundingBox())!
    const scrolled = (await page.evaluate('scrollY')) as number
    const room = 20
    const clip = { x: x - room, y: y + scrolled - room, width: width + 2 * room, height: height + 2 * room }
    await page.screenshot({ ...how, fullPage: true, clip })
  } else await page.screenshot(how)
  say(`${file}, ${(await stat(file)).size} bytes`)
}

/** Waits until all notes and replies are there and shown. */
const whole = (page: Page) => page.locator('.card.whole').nth(7).waitFor()

try {
  await mkdir(out, { recursive: true })
  const settings = { ...firstSettings, steps: Number(steps), holdout: Number(holdout) }
  const address = `${site.url}#${settingsLink(settings)}`
  const page = await browser.newPage({
    viewport: { width: 1180, height: 1000 },
    deviceScaleFactor: 1.25,
    colorScheme: 'light',
    acceptDownloads: true,
  })
  page.setDefaultTimeout(PATIENCE)
  await page.goto(address)
  await page.locator('.card .card-text bdi:not(:empty)').first().waitFor()
  say('the first note')
  await whole(page)
  say('all notes and replies')
  await page.getByRole('button', { name: 'Skip' }).click()
  await page.mouse.move(0, 0)
  await take('stage', page)

  for (const [i, part] of (await page.locator('.told').allTextContents()).slice(0, 2).entries()) {
    await page.getByRole('button', { name: `Edit Note ${i + 1}` }).click()
    await page.getByLabel(`Text of Note ${i + 1}`).fill(part)
    await page.getByRole('button', { name: 'Read again' }).click()
    await whole(page)
  }
  await page.locator('.influence summary').click()
  await page.locator('.influence td.effect').first().waitFor()
  say('two notes are edited, and read again')
  await take('edit', page, page.locator('#stage'))
  await take('arms', page, page.locator('#arms'))

  await page.getByRole('button', { name: 'Train', exact: true }).click()
  await page.getByText(new RegExp(`^Step ${Math.ceil(settings.steps / 4)}: `)).waitFor()
  say(`a quarter of the first training, both arms`)
  await page
    .getByText('All is trained and evaluated.')
    .or(page.getByText(new RegExp(`^Step ${settings.steps}: `)))
    .first()
    .waitFor()
  say('the first seed is trained')
  await take('training', page, page.locator('#training'))
  await page.getByText('All is trained and evaluated.').waitFor()
  await page.locator('h1.verdict').waitFor()
  await page.locator('#verdict .plot svg').first().waitFor()
  say(`the verdict: ${(await page.locator('h1.verdict').textContent())?.trim()}`)
  await take('verdict', page, page.locator('#verdict'))

  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: '.zip' }).click(),
  ])
  const name = download.suggestedFilename()
  const files = Object.entries(unzipSync(await readFile((await download.path())!)))
  for (const [path, bytes] of files) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), bytes)
  }
  say(`${name} holds ${files.length} files`)
  const run = join(folder, name.replace(/\.zip$/, ''))
  for (const command of ['report', 'power', 'regrade']) {
    const args = ['--import', import.meta.resolve('tsx'), 'src/cli/main.ts', command, run]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    say(`message-board ${command}: ${stdout.replaceAll(folder, '').trim().split('\n')[0]}`)
  }

  const phone = await browser.newPage({
    viewport: { width: 375, height: 812 },
    deviceScaleFactor: 2,
    colorScheme: 'dark',
  })
  phone.setDefaultTimeout(PATIENCE)
  await phone.goto(address)
  await whole(phone)
  await phone.getByRole('button', { name: 'Skip' }).click()
  await take('phone', phone)
} finally {
  await browser.close()
  await site.close()
  await rm(folder, { recursive: true })
}

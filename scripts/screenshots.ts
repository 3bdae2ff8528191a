/**
 * The docs' pictures of a report, taken from a finished run: `npx tsx scripts/screenshots.ts runs/default`. The
 * second opens the problem on which the recipe gained most among those with a rescued reply. With a third argument, only
 * the training curves are taken, to the picture of that name.
 */
import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { writeReport } from '../src/report/html.ts'
import { launch } from '../test/browser/chromium.ts'

const [run = 'runs/default', out = 'docs/images', training] = process.argv.slice(2)
const url = pathToFileURL(await writeReport(run)).href
await mkdir(out, { recursive: true })
const browser = await launch()
try {
  const open = async (colorScheme: 'light' | 'dark', height: number) => {
    const page = await browser.newPage({
      viewport: { width: 1280, height },
      deviceScaleFactor: 1.25,
      colorScheme,
      reducedMotion: 'reduce',
    })
    await page.goto(url)
    await page.locator('.table-row').first().waitFor()
    return page
  }
  const save = async (page: Awaited<ReturnType<typeof open>>, name: string) => {
    // What has the focus is not part of the picture.
    await page.evaluate('document.activeElement?.blur()')
    await page.screenshot({ path: join(out, name), type: 'jpeg', quality: 80 })
    console.log(name, (await stat(join(out, name))).size)
  }
  if (training !== undefined) {
    const page = await open('light', 1240)
    await page.locator('#training').screenshot({ path: join(out, training), type: 'jpeg', quality: 80 })
  } else {
    await save(await open('light', 1240), 'report.jpg')
    const page = await open('dark', 1240)
    await page.locator('.chip', { hasText: 'Rescued' }).click()
    await page.getByLabel('Look in').selectOption({ label: 'recipe' })
    await page.locator('.sort', { hasText: 'Difference' }).click()
    await page.locator('.table-row a').first().click()
    await page.locator('.column').nth(3).locator('.round-2 .post').first().waitFor()
    await save(page, 'problem.jpg')
  }
} finally {
  await browser.close()
}

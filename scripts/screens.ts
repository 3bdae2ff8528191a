/**
 * The pictures of docs/screens.md: a finished report, the list of runs, the comparison of two, and the documentation's first
 * page, each in light, in dark and at a phone's width; and what the command line prints first. Run it after `npm run
 * build:docs`, which makes runs/example and the site, with another run of the same task to compare it with:
 *
 *   npx tsx scripts/screens.ts runs/example runs/other
 */
import { cp, mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { serve as serveDocs } from 'vitepress'
import { readJsonFile } from '../src/files.ts'
import { resultsSchema } from '../src/record/results.ts'
import { writeReport } from '../src/report/html.ts'
import { tableText } from '../src/report/table.ts'
import { serve } from '../src/serve/server.ts'
import { launch, violations } from '../test/browser/chromium.ts'
import { replaceSections } from './markdown.ts'

const runs = process.argv.slice(2)
if (runs.length !== 2) throw new Error('give two run folders of one task')
const at = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url))
const out = at('docs/images/screens')
const DOCS_PORT = 4317

const looks = [
  { name: 'light', colorScheme: 'light', viewport: { width: 1280, height: 860 } },
  { name: 'dark', colorScheme: 'dark', viewport: { width: 1280, height: 860 } },
  { name: 'phone', colorScheme: 'light', viewport: { width: 390, height: 780 } },
] as const

await mkdir(out, { recursive: true })
const folder = await mkdtemp(join(tmpdir(), 'screens-'))
const names = runs.map((run) => basename(run))
for (const [i, run] of runs.entries()) await cp(run, join(folder, names[i]), { recursive: true })
const dashboard = await serve({ folder })
const docs = await serveDocs({ root: at('docs'), port: DOCS_PORT })
const browser = await launch()
try {
  const report = pathToFileURL(await writeReport(join(folder, names[0]))).href
  const pages = [
    { name: 'report', url: report, shown: '.table-row' },
    { name: 'runs', url: dashboard.url, shown: 'table' },
    {
      name: 'compare',
      url: `${dashboard.url}#/compare/${names.map(encodeURIComponent).join('/')}`,
      shown: '.plot svg',
    },
    { name: 'site', url: `http://localhost:${DOCS_PORT}/`, shown: 'h1' },
  ]
  for (const { name, url, shown } of pages) {
    for (const { name: look, ...how } of looks) {
      const page = await browser.newPage({ ...how, deviceScaleFactor: 1, reducedMotion: 'reduce' })
      await page.goto(url)
      await page.locator(shown).first().waitFor()
      await page.waitForLoadState('networkidle')
      const found = await violations(page)
      if (found.length > 0) throw new Error(`${name}, ${look}: ${JSON.stringify(found)}`)
      const path = join(out, `${name}-${look}.jpg`)
      await page.screenshot({ path, type: 'jpeg', quality: 75 })
      console.log(path, (await stat(path)).size)
      await page.close()
    }
  }
} finally {
  await browser.close()
  await dashboard.close()
  docs.server?.close()
  await rm(folder, { recursive: true })
}
const results = await readJsonFile(join(runs[0], 'results.json'), resultsSchema)
await replaceSections(at('docs/screens.md'), { first: `\`\`\`text\n${tableText(results).trim()}\n\`\`\`` })

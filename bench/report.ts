/**
 * How quick the report of a large run is: a made-up run of 200,000 held-out replies, written as a report and opened
 * from disk in Chromium. Run it with `npm run bench:report`; the raw figures go to bench/results/report.json.
 *
 * "first paint" is the browser's own first-contentful-paint, counted from the beginning of the navigation. A filter's
 * time reaches from the event to the frame that shows its result. Memory is the page's JavaScript heap after a
 * collection, and the resident memory of its process.
 */
import { mkdir, mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Page } from 'playwright-core'
import { writeJsonAtomic } from '../src/files.ts'
import { writeReport } from '../src/report/html.ts'
import { writeSyntheticRun } from '../src/view/testing/synthetic-run.ts'
import { launch } from '../test/browser/chromium.ts'

const HOLDOUT = Number(process.argv[2] ?? 6250)
const OPENINGS = 5

const folder = await mkdtemp(join(tmpdir(), 'bench-report-'))
try {
  const run = join(folder, 'large')
  const making = performance.now()
  await writeSyntheticRun(run, { holdout: HOLDOUT, train: 512, sentences: 4 })
  const made = (performance.now() - making) / 1000
  const writing = performance.now()
  const path = await writeReport(run)
  const written = {
    seconds: (performance.now() - writing) / 1000,
    peakMiB: process.resourceUsage().maxRSS / 1024,
    fileMiB: (await stat(path)).size / 2 ** 20,
  }
  console.log(
    `made in ${made.toFixed(1)} s; report ${written.fileMiB.toFixed(1)} MiB in ${written.seconds.toFixed(1)} s`,
  )

  const openings: Awaited<ReturnType<typeof measure>>[] = []
  for (let i = 0; i < OPENINGS; i++) {
    openings.push(await measure(pathToFileURL(path).href))
    console.log(JSON.stringify(openings.at(-1)))
  }
  const names = Object.keys(openings[0]) as (keyof (typeof openings)[number])[]
  const median = Object.fromEntries(
    names.map((name) => [name, openings.map((each) => each[name]).sort((a, b) => a - b)[OPENINGS >> 1]]),
  )
  await mkdir('bench/results', { recursive: true })
  await writeJsonAtomic('bench/results/report.json', {
    machine: { processor: cpus()[0]?.model, cores: cpus().length, load: loadavg()[0] },
    rollouts: { heldOut: 8 * HOLDOUT * 4, problems: HOLDOUT, jobs: 8, training: 4 * 40 * 12 * 4 },
    written,
    median,
    openings,
  })
  console.log(median)
} finally {
  await rm(folder, { recursive: true })
}

/** Opens the report in a browser of its own. Times in milliseconds. */
async function measure(url: string) {
  const browser = await launch()
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
    await page.goto(url, { waitUntil: 'commit' })
    await page.locator('.count', { hasText: `${HOLDOUT.toLocaleString('en')} of` }).waitFor()
    const table = (await page.evaluate('performance.now()')) as number
    await page.waitForLoadState('load')
    const loaded = (await page.evaluate('performance.now()')) as number
    const firstPaint = (await page.evaluate(
      "performance.getEntriesByName('first-contentful-paint')[0].startTime",
    )) as number
    const chip = (n: number) => timed(page, `document.querySelectorAll('.chip')[${n}].click()`)
    const filters = [await chip(0), await chip(1), await chip(2), await chip(0), await chip(1), await chip(2)]
    const type = (text: string) =>
      timed(
        page,
        `(() => {
          const box = document.querySelector('input[type=search]')
          box.value = ${JSON.stringify(text)}
          box.dispatchEvent(new Event('input', { bubbles: true }))
        })()`,
      )
    const searches = []
    for (const text of ['a', 'ap', 'app', 'apple', 'apples ', '']) searches.push(await type(text))
    const sorts = []
    for (const n of [3, 5, 6])
      sorts.push(await timed(page, `document.querySelectorAll('.sort')[${n}].click()`))
    const opening = performance.now()
    await page.locator('.table-row a').nth(3).click()
    await page.locator('.column').nth(3).locator('.post').nth(7).waitFor()
    const opened = performance.now() - opening
    return {
      firstPaint,
      table,
      loaded,
      slowestFilter: Math.max(...filters),
      slowestSearch: Math.max(...searches),
      slowestSort: Math.max(...sorts),
      openProblem: opened,
      ...(await memory(page)),
    }
  } finally {
    await browser.close()
  }
}

async function memory(page: Page) {
  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.collectGarbage')
  const { usedSize } = await session.send('Runtime.getHeapUsage')
  const browser = await page.context().browser()!.newBrowserCDPSession()
  const { processInfo } = await browser.send('SystemInfo.getProcessInfo')
  const resident = await Promise.all(
    processInfo
      .filter(({ type }) => type === 'renderer')
      .map(
        async ({ id }) =>
          Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${id}/status`, 'utf8'))?.[1] ?? 0) / 1024,
      ),
  )
  return { heapMiB: usedSize / 2 ** 20, residentMiB: Math.max(...resident) }
}

/** Milliseconds from an action to the frame that shows what it did. */
function timed(page: Page, action: string): Promise<number> {
  return page.evaluate(`new Promise((resolve) => {
    const started = performance.now()
    ;${action};
    // The frame after the one that was drawn next.
    requestAnimationFrame(() => { const channel = new MessageChannel(); channel.port1.onmessage = () => resolve(performance.now() - started); channel.port2.postMessage(0) })
  })`)
}

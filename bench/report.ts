/**
 * How quick the report of a large run is: a made-up run of 200,000 held-out replies, written as a report and opened
 * from disk in Chromium. Run it with `npm run bench:report`; the raw figures go to bench/results/report.json, and
 * docs/speed.md has a table of them (scripts/speed.ts).
 *
 *     npx tsx bench/report.ts [--replies 2000000] [--seeds 48] [--openings 3] [--out bench/results/report-2m.json]
 *
 * Each of the `--seeds` trains both arms; each training, and each of four evaluations of the untrained model, has the
 * same share of the replies. A process of its own makes the run up, so that the peak of memory is the report's.
 *
 * "first paint" is the browser's own first-contentful-paint, counted from the beginning of the navigation. A filter's
 * time reaches from the event to the frame that shows its result. Memory is the page's JavaScript heap after a
 * collection, and the resident memory of its process.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { cpus, loadavg, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import type { Page } from 'playwright-core'
import { writeJsonAtomic } from '../src/files.ts'
import { writeReport } from '../src/report/html.ts'
import { writeSyntheticRun } from '../src/view/testing/synthetic-run.ts'
import { launch } from '../test/browser/chromium.ts'

const { values } = parseArgs({
  options: {
    replies: { type: 'string', default: '200000' },
    seeds: { type: 'string', default: '2' },
    openings: { type: 'string', default: '5' },
    out: { type: 'string', default: 'bench/results/report.json' },
    /** Where the made-up run is kept, or is from an earlier time; else it is thrown away. */
    run: { type: 'string' },
    /** Of the process that makes the run up: where it writes it. */
    make: { type: 'string' },
  },
})
const seeds = Array.from({ length: Number(values.seeds) }, (_, i) => 17 + i)
const jobs = 4 + 2 * seeds.length
/** Four replies a problem. */
const holdout = Math.round(Number(values.replies) / 4 / jobs)
const steps = 40
const problemsPerStep = 12

if (values.make === undefined) await bench()
else
  await writeSyntheticRun(values.make, { holdout, train: 512, sentences: 4, seeds, steps, problemsPerStep })

async function bench(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'bench-report-'))
  try {
    const run = values.run ?? join(folder, 'large')
    if (!existsSync(join(run, 'results.json'))) console.log(`made up in ${make(run).toFixed(1)} s`)
    const writing = performance.now()
    const path = await writeReport(run)
    const written = {
      seconds: (performance.now() - writing) / 1000,
      peakMiB: process.resourceUsage().maxRSS / 1024,
      fileMiB: (await stat(path)).size / 2 ** 20,
    }
    console.log(JSON.stringify(written))

    const openings: Awaited<ReturnType<typeof measure>>[] = []
    for (let i = 0; i < Number(values.openings); i++) {
      openings.push(await measure(pathToFileURL(path).href))
      console.log(JSON.stringify(openings.at(-1)))
    }
    const names = Object.keys(openings[0]) as (keyof (typeof openings)[number])[]
    const median = Object.fromEntries(
      names.map((name) => [
        name,
        openings.map((each) => each[name]).sort((a, b) => a - b)[openings.length >> 1],
      ]),
    )
    await mkdir(dirname(values.out), { recursive: true })
    await writeJsonAtomic(values.out, {
      machine: { processor: cpus()[0]?.model, cores: cpus().length, load: loadavg()[0] },
      rollouts: {
        heldOut: 4 * jobs * holdout,
        problems: holdout,
        jobs,
        training: 2 * seeds.length * steps * problemsPerStep * 4,
        runMiB: await sizeOf(run, path),
      },
      written,
      median,
      openings,
    })
    console.log(median)
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** Seconds of making the run up, by this script in a process of its own. */
function make(run: string): number {
  const started = performance.now()
  const { status } = spawnSync(
    process.execPath,
    [...process.execArgv, ...process.argv.slice(1), '--make', run],
    { stdio: 'inherit' },
  )
  if (status !== 0) throw new Error(`making the run up ended with ${status}`)
  return (performance.now() - started) / 1000
}

/** MiB of the run's files, the report left out. */
async function sizeOf(run: string, report: string): Promise<number> {
  const names = await readdir(run, { recursive: true, withFileTypes: true })
  const paths = names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const sizes = await Promise.all(paths.filter((path) => path !== report).map((path) => stat(path)))
  return sizes.reduce((sum, { size }) => sum + size, 0) / 2 ** 20
}

/** Opens the report in a browser of its own. Times in milliseconds. */
async function measure(url: string) {
  const browser = await launch()
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
    await page.goto(url, { waitUntil: 'commit' })
    await page.locator('.count', { hasText: `${holdout.toLocaleString('en')} of` }).waitFor()
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

/**
 * What the playground costs a visitor: bytes, seconds to the first paint and to the first note (cold and from a warm cache),
 * frames while it trains by the browser's own tracing, memory of its processes, and seconds of a training step. Run it
 * after `npm run build && npm run build:site` with `npx tsx bench/playground.ts`; the figures go to
 * bench/results/playground.json and into docs/playground.md. A busy machine makes them worse, so its load is told beside.
 */
import { readdir, readFile, stat } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { replaceSections, table } from '../scripts/markdown.ts'
import { writeJsonAtomic } from '../src/files.ts'
import { firstSettings, settingsLink } from '../src/playground/settings.ts'
import { serveSite } from '../src/serve/site.ts'
import { launch } from '../test/browser/chromium.ts'

const path = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url))

/** Training steps that frames and memory are watched for. */
const WATCHED = 4

interface Figures {
  machine: string
  browser: string
  /** Processes that wanted a core, a minute's mean, before and after. */
  load: [number, number]
  bytes: { files: number; raw: number; gzip: number }
  cold: Loading
  warm: Loading
  training: {
    /** Of a step of both arms at a time; the processor's seconds too, of all cores. */
    secondsAStep: number
    processorAStep: number
    /** Frames that the browser drew a second, and the longest time between two, in milliseconds. */
    framesPerSecond: number
    longestFrame: number
    /** The page's own thread: its share of the processor, and its longest task in milliseconds of the processor. */
    pageShare: number
    longestTask: number
  }
  /** MiB of all the browser's processes that hold the page, shared memory divided among those that share it. */
  memory: { loaded: number; training: number }
}

/** Seconds, and those that the processor spent on the page until its first note. */
interface Loading {
  firstPaint: number
  firstNote: number
  processor: number
}

const site = await serveSite()
const browser = await launch()
const load = loadavg()[0]
try {
  const context = await browser.newContext()
  const cold = await loading(context)
  const warm = await loading(context)
  const figures: Figures = {
    machine: `${availableParallelism()} cores of ${cpus()[0].model}`,
    browser: `Chromium ${browser.version()}`,
    load: [load, 0],
    bytes: await bytesOf(path('dist/site')),
    cold,
    warm,
    ...(await trained(context, browser)),
  }
  figures.load[1] = loadavg()[0]
  await writeJsonAtomic(path('bench/results/playground.json'), figures)
  await replaceSections(path('docs/playground.md'), { playground: page(figures) })
  console.log(figures)
} finally {
  await browser.close()
  await site.close()
}

async function visit(context: BrowserContext, hash = ''): Promise<Page> {
  const page = await context.newPage()
  page.setDefaultTimeout(600_000)
  // Timed in the page itself: the first letter of a note that is shown.
  await page.addInitScript(`
    const look = () => {
      const text = document.querySelector('.card .card-text bdi')?.textContent
      if (text) performance.mark('first note')
      else requestAnimationFrame(look)
    }
    document.addEventListener('DOMContentLoaded', look)
  `)
  await page.goto(`${site.url}${hash}`)
  await page.locator('.card .card-text bdi:not(:empty)').first().waitFor()
  return page
}

async function loading(context: BrowserContext): Promise<Loading> {
  const before = await processorSeconds(browser)
  const page = await visit(context)
  const processor = (await processorSeconds(browser)) - before
  const at = (name: string) =>
    page.evaluate(`performance.getEntriesByName('${name}')[0].startTime / 1000`) as Promise<number>
  const found = {
    firstPaint: await at('first-contentful-paint'),
    firstNote: await at('first note'),
    processor,
  }
  // The service worker has all files before the next visit.
  await page.evaluate('navigator.serviceWorker.ready')
  await page.close()
  return found
}

/** Of an event of the browser's trace: times in microseconds, `tdur` by the processor's clock. */
interface TraceEvent {
  name: string
  ts: number
  pid: number
  tid: number
  tdur?: number
  args: { name?: string }
}

async function trained(
  context: BrowserContext,
  browser: Browser,
): Promise<Pick<Figures, 'training' | 'memory'>> {
  const settings = { ...firstSettings, steps: WATCHED + 1, holdout: 8, seeds: [17] }
  const page = await visit(context, `#${settingsLink(settings)}`)
  const loaded = await memoryOf(browser)
  const step = (n: number) => page.getByText(new RegExp(`^Step ${n}: `)).waitFor()
  await page.getByRole('button', { name: 'Skip' }).click()
  await page.getByRole('button', { name: 'Train', exact: true }).click()
  await step(1)
  // A line that fades makes the browser draw whenever it can.
  await page.evaluate(
    `document.querySelector('.progress-row progress').animate([{ opacity: 1 }, { opacity: 0.5 }], { duration: 1000, iterations: Infinity })`,
  )
  await browser.startTracing(page, {
    categories: [
      'devtools.timeline',
      'devtools.timeline.frame',
      'disabled-by-default-devtools.timeline',
      'disabled-by-default-devtools.timeline.frame',
    ],
  })
  const before = { wall: performance.now(), processor: await processorSeconds(browser) }
  await step(1 + WATCHED)
  const processor = (await processorSeconds(browser)) - before.processor
  const seconds = (performance.now() - before.wall) / 1000
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as {
    traceEvents: TraceEvent[]
  }
  const training = await memoryOf(browser)
  await page.close()
  const drawn = traceEvents
    .filter(({ name }) => name === 'DrawFrame')
    .map(({ ts }) => ts)
    .sort((a, b) => a - b)
  const gaps = drawn.slice(1).map((ts, i) => (ts - drawn[i]) / 1000)
  const threads = traceEvents.filter(
    ({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain',
  )
  const tasks = traceEvents
    .filter(
      ({ name, pid, tid }) =>
        name === 'RunTask' && threads.some((each) => each.pid === pid && each.tid === tid),
    )
    .map(({ tdur = 0 }) => tdur / 1000)
  return {
    training: {
      secondsAStep: seconds / WATCHED,
      processorAStep: processor / WATCHED,
      framesPerSecond: (1000 * gaps.length) / gaps.reduce((sum, gap) => sum + gap, 0),
      longestFrame: Math.max(...gaps),
      pageShare: tasks.reduce((sum, task) => sum + task, 0) / (1000 * seconds),
      longestTask: Math.max(...tasks),
    },
    memory: { loaded, training },
  }
}

/** Seconds of the processor that the processes which render pages have taken. */
async function processorSeconds(browser: Browser): Promise<number> {
  const session = await browser.newBrowserCDPSession()
  const { processInfo } = await session.send('SystemInfo.getProcessInfo')
  return processInfo.filter(({ type }) => type === 'renderer').reduce((sum, { cpuTime }) => sum + cpuTime, 0)
}

/** Proportional set sizes of the processes that render pages, in MiB. */
async function memoryOf(browser: Browser): Promise<number> {
  const session = await browser.newBrowserCDPSession()
  const { processInfo } = await session.send('SystemInfo.getProcessInfo')
  const sizes = await Promise.all(
    processInfo
      .filter(({ type }) => type === 'renderer')
      .map(async ({ id }) => {
        const text = await readFile(`/proc/${id}/smaps_rollup`, 'utf8').catch(() => '')
        return Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) / 1024
      }),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

async function bytesOf(folder: string): Promise<Figures['bytes']> {
  const bytes = { files: 0, raw: 0, gzip: 0 }
  for (const name of await readdir(folder, { recursive: true })) {
    // Loaded where a GPU is tried alone (bench/browser-gpu.ts).
    if (name.endsWith('.jspi.wasm')) continue
    const file = join(folder, name)
    if (!(await stat(file)).isFile()) continue
    const content = await readFile(file)
    bytes.files++
    bytes.raw += content.length
    bytes.gzip += (await promisify(gzip)(content)).length
  }
  return bytes
}

function page({ machine, browser, load, bytes, cold, warm, training, memory }: Figures): string {
  const mega = (value: number) => `${(value / 1e6).toFixed(1)} MB`
  const seconds = (value: number) => `${value.toFixed(1)} s`
  const rows = [
    ['all files', `${mega(bytes.raw)}, and ${mega(bytes.gzip)} as a host compresses them`],
    ['first paint', `${seconds(cold.firstPaint)}; from a warm cache ${seconds(warm.firstPaint)}`],
    [
      'first note',
      `${seconds(cold.firstNote)}; from a warm cache ${seconds(warm.firstNote)}, of which the processor worked ${seconds(warm.processor)}`,
    ],
    [
      'a training step of both arms',
      `${seconds(training.secondsAStep)}; the processor worked ${seconds(training.processorAStep)}`,
    ],
    [
      'frames drawn while training',
      `${training.framesPerSecond.toFixed(0)} a second; the longest took ${training.longestFrame.toFixed(0)} ms`,
    ],
    [
      "the page's own thread meanwhile",
      `${(100 * training.pageShare).toFixed(1)}% of a core; its longest task ${training.longestTask.toFixed(0)} ms of work`,
    ],
    [
      'memory',
      `${memory.loaded.toFixed(0)} MiB once loaded, ${memory.training.toFixed(0)} MiB while training`,
    ],
  ]
  return [
    `${browser}, headless, on ${machine} (\`npx tsx bench/playground.ts\`; load of the machine ${load.map((one) => one.toFixed(1)).join(' before and ')} after).`,
    '',
    table(['what', 'costs'], rows),
  ].join('\n')
}

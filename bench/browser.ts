/**
 * What the library costs in Chromium: bytes loaded, seconds to the first token and of the default experiment, the page's
 * frames while it trains, memory and processor time. Run it with `tsx bench/browser.ts [--steps N] [--arms a,b] [--seeds
 * 17,18]`; the raw figures go to bench/results/browser.json, and from there into docs/browser.md, with `--report` without
 * measuring anew. Left out, the flags are the default experiment's.
 */
import { readFile } from 'node:fs/promises'
import { cpus, loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { replaceSections } from '../scripts/markdown.ts'
import { readJsonFile, writeJsonAtomic } from '../src/files.ts'
import { launch } from '../test/browser/chromium.ts'
import { openSite } from '../test/browser/site.ts'

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '40' },
    arms: { type: 'string', default: 'baseline,recipe' },
    seeds: { type: 'string', default: '17,18' },
    report: { type: 'boolean', default: false },
  },
})
const path = fileURLToPath(new URL('./results/browser.json', import.meta.url))

const figuresSchema = z.looseObject({
  settings: z.object({ steps: z.number(), arms: z.array(z.string()), seeds: z.array(z.number()) }),
  machine: z.object({ processor: z.string(), cores: z.number(), load: z.array(z.number()) }),
  chromium: z.string(),
  megabytesInAll: z.number(),
  seconds: z.object({ firstText: z.number(), experiment: z.number() }),
  timing: z.object({ jobs: z.record(z.string(), z.object({ trainMinutes: z.number() })) }),
  processorSeconds: z.number(),
  framesASecond: z.object({ least: z.number() }),
  peakMebibytes: z.array(z.number()),
})

async function writeDocs(): Promise<void> {
  const one = await readJsonFile(path, figuresSchema)
  const { settings, machine, seconds } = one
  const trainings = Object.values(one.timing.jobs).flatMap(({ trainMinutes }) => trainMinutes || [])
  const longest = (60 * Math.max(...trainings)).toFixed(0)
  const text =
    `Chromium ${one.chromium}, headless, on ${machine.cores} cores of an ${machine.processor} (load ${machine.load[0]}): ${one.megabytesInAll.toFixed(1)} MB of page, ` +
    `runtime and policy, each file loaded once; the first text after ${seconds.firstText.toFixed(1)} s; an experiment of ${settings.arms.length} arms, ` +
    `${settings.seeds.length} seeds and ${settings.steps} steps in ${(seconds.experiment / 60).toFixed(1)} minutes, ${one.processorSeconds.toFixed(0)} s of processor time, its longest training ${longest} s; ` +
    `never fewer than ${one.framesASecond.least} frames a second meanwhile; ${Math.max(...one.peakMebibytes)} MiB at most in the process of the page and its workers.`
  await replaceSections(fileURLToPath(new URL('../docs/browser.md', import.meta.url)), { cost: text })
}

if (values.report) {
  await writeDocs()
  process.exit(0)
}
const settings = {
  steps: Number(values.steps),
  arms: values.arms.split(','),
  seeds: values.seeds.split(',').map(Number),
}

interface Told {
  at: number
  what?: string
  timing?: unknown
  error?: string
}
declare const bench: () => { told: Told[]; start(how: typeof settings): void; frames(): number[] }

const site = await openSite(fileURLToPath(new URL('./browser-page', import.meta.url)), 'page.html')
const browser = await launch()
try {
  const page = await browser.newPage()
  await page.goto(site.address)
  const client = await browser.newBrowserCDPSession()
  const processes = async () =>
    (
      (await client.send('SystemInfo.getProcessInfo')) as {
        processInfo: { type: string; id: number; cpuTime: number }[]
      }
    ).processInfo
  const before = (await processes()).reduce((sum, { cpuTime }) => sum + cpuTime, 0)
  await page.evaluate((how) => bench().start(how), settings)
  const last = async () => (await page.evaluate(() => bench().told)).at(-1)
  for (let told = await last(); told?.what !== 'done'; told = await last()) {
    if (told?.error) throw new Error(told.error)
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  const told = await page.evaluate(() => bench().told)
  const seconds = (what: string) => told.find((one) => one.what === what)!.at / 1000
  const frames = (await page.evaluate(() => bench().frames())).slice(Math.ceil(seconds('table')))
  const after = await processes()
  const renderers = after.filter(({ type }) => type === 'renderer')
  const paths = new Map(site.sent.map(({ path, bytes }) => [path, bytes]))
  const figures = {
    settings,
    machine: {
      processor: cpus()[0].model,
      cores: cpus().length,
      load: loadavg().map((each) => Number(each.toFixed(1))),
    },
    chromium: browser.version(),
    // Each file once: lanes find the others' in the browser's cache.
    megabytes: Object.fromEntries([...paths].map(([path, bytes]) => [path, megabytes(bytes)])),
    megabytesInAll: megabytes([...paths.values()].reduce((sum, bytes) => sum + bytes, 0)),
    seconds: {
      policy: seconds('policy'),
      engine: seconds('engine'),
      firstText: seconds('first text'),
      table: seconds('table'),
      experiment: seconds('done') - seconds('table'),
    },
    timing: told.at(-1)!.timing,
    processorSeconds: after.reduce((sum, { cpuTime }) => sum + cpuTime, 0) - before,
    framesASecond: {
      least: Math.min(...frames),
      mean: frames.reduce((sum, each) => sum + each, 0) / frames.length,
    },
    peakMebibytes: await Promise.all(renderers.map(({ id }) => peakOf(id))),
  }
  await writeJsonAtomic(path, figures)
  await writeDocs()
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`)
} finally {
  await browser.close()
  await site.close()
}

function megabytes(bytes: number): number {
  return Number((bytes / 1e6).toFixed(3))
}

/** The most memory that a process has held (Linux). */
async function peakOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024)
}

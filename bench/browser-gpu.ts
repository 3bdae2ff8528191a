/**
 * How far a browser's GPU is from WebAssembly, in Chromium's software GPU: log-probabilities and gradients of the self-test's
 * tiny model, as `auto` and `webgpu` check them before a GPU is used. Run it with `npx tsx bench/browser-gpu.ts`; the figures
 * go to bench/results/browser-gpu.json. Of speed it says nothing: the GPU is a program.
 */
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { writeJsonAtomic } from '../src/files.ts'
import { launch } from '../test/browser/chromium.ts'
import { openSite } from '../test/browser/site.ts'

/** What test/browser/library/page.web.ts gives the page. */
declare const library: () => { call(name: string): Promise<unknown> }

const megabytes = (bytes: number) => Number((bytes / 1e6).toFixed(2))

const runtime = fileURLToPath(
  new URL('../node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.jspi.wasm', import.meta.url),
)
const bytes = await readFile(runtime)
const site = await openSite(fileURLToPath(new URL('../test/browser/library', import.meta.url)), 'page.html')
const browser = await launch({ gpu: true })
try {
  const page = await browser.newPage()
  await page.goto(site.address)
  await page.evaluate(() => library().call('tiny'))
  const figures = {
    chromium: browser.version(),
    ...((await page.evaluate(() => library().call('differences'))) as object),
    runtimeMegabytes: {
      raw: megabytes(bytes.length),
      gzip: megabytes((await promisify(gzip)(bytes)).length),
    },
  }
  await writeJsonAtomic(fileURLToPath(new URL('./results/browser-gpu.json', import.meta.url)), figures)
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`)
} finally {
  await browser.close()
  await site.close()
}

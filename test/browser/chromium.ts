/** Debian's Chromium for the browser tests, and a reason to skip them where it is not installed. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { type Browser, chromium, type Page } from 'playwright-core'
import { expect } from 'vitest'

const paths = [
  process.env.CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]
export const chromiumPath = paths.find((path) => path !== undefined && existsSync(path))

if (!chromiumPath) {
  process.stderr.write(
    'Browser tests are skipped: no Chromium found. Install it (Debian: apt-get install chromium), or set CHROMIUM to its path.\n',
  )
}

const softwareGpu = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader', '--enable-features=Vulkan']

/** `gpu`: with WebGPU on the browser's own software GPU, SwiftShader; else with none, whatever drivers the machine has. */
export const launch = ({ gpu = false }: { gpu?: boolean } = {}): Promise<Browser> =>
  chromium.launch({
    executablePath: chromiumPath,
    env: gpu ? process.env : { ...process.env, VK_DRIVER_FILES: '/nowhere' },
    args: [
      '--headless',
      '--no-sandbox',
      ...(gpu ? softwareGpu : ['--disable-gpu']),
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  })

/** Waits as long as a busy machine may need until a value is what it should be. */
export const eventually = <T>(value: () => Promise<T> | T) => expect.poll(value, { timeout: 30_000 })

export interface Watched {
  page: Page
  /** Fails where the page logged an error, threw, opened a dialogue or broke its content policy. */
  expectQuiet: () => void
}

/** A page whose complaints are kept. */
export async function openPage(
  browser: Browser,
  url: string,
  options: { width?: number; height?: number; dark?: boolean; waitUntil?: 'commit' | 'load' } = {},
): Promise<Watched> {
  const page = await browser.newPage({
    viewport: { width: options.width ?? 1280, height: options.height ?? 900 },
    colorScheme: options.dark ? 'dark' : 'light',
  })
  page.setDefaultTimeout(60_000)
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  page.on('dialog', (dialog) => {
    complaints.push(`dialogue: ${dialog.message()}`)
    void dialog.dismiss()
  })
  await page.goto(url, { waitUntil: options.waitUntil ?? 'load' })
  return { page, expectQuiet: () => expect(complaints).toEqual([]) }
}

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

/**
 * What axe-core finds wrong with a page as it is now, a line for each rule that is broken. Its script is run in the page's
 * context, past the content policy, which is no part of what it looks at.
 */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(await readFile(axe, 'utf8'))
  return page.evaluate(
    `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
      violations.map(({ id, nodes }) => id + ': ' + nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join(' | ')))`,
  )
}

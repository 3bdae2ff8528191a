/**
 * WebGPU in a page: on Chromium's software GPU its numbers are WebAssembly's, it trains, and its loss is found out;
 * where there is none, or one that is wrong or slow, WebAssembly computes, and says why.
 */
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chromiumPath, launch, openPage } from './chromium.ts'
import { openSite, type Site } from './site.ts'

describe.skipIf(!chromiumPath)('the browser’s GPU', { timeout: 200_000 }, () => {
  let site: Site
  let browser: Browser
  let page: Page
  beforeAll(async () => {
    site = await openSite(fileURLToPath(new URL('./library', import.meta.url)), 'page.html')
  })
  afterAll(() => site?.close())

  const open = async (gpu: boolean) => {
    browser = await launch({ gpu })
    ;({ page } = await openPage(browser, site.address))
    await call('tiny')
  }
  const call = <T>(name: string, ...given: unknown[]): Promise<T> =>
    page.evaluate(([its, all]) => library().call(its, ...all), [name, given] as const) as Promise<T>

  describe('where there is none', () => {
    beforeAll(() => open(false))
    afterAll(() => browser?.close())

    it('computes by WebAssembly and says so, and refuses a GPU that is asked for', async () => {
      expect(await call('opens', 'auto')).toEqual({
        device: 'wasm',
        notices: [expect.stringMatching(/^Computing by WebAssembly: .*(no WebGPU|no GPU).*\.$/)],
      })
      await expect(call('opens', 'webgpu')).rejects.toThrow(/device webgpu does not work here: .* Give auto/)
      // Nobody loads what cannot be used.
      expect(site.sent.filter(({ path }) => path.includes('jspi'))).toEqual([])
    })

    it('takes no GPU that is wrong or slower, takes one that is faster, and goes on without it once it is lost', async () => {
      const wasm = { chosen: 'wasm', after: ['wasm', 'wasm'], closed: 2 }
      const gpu = 'webgpu (stand-in)'
      const took = `took [\\d.]+ s on webgpu \\(stand-in\\) and [\\d.]+ s by WebAssembly`
      expect(await call('choice', 'wrong')).toEqual({
        ...wasm,
        notice: expect.stringMatching(/log-probabilities that are off by 1\.0e-3\.$/),
      })
      expect(await call('choice', 'slow')).toEqual({ ...wasm, notice: expect.stringMatching(took) })
      expect(await call('choice', 'fast')).toEqual({
        chosen: gpu,
        after: [gpu, gpu],
        closed: 2,
        notice: expect.stringMatching(`^Computing on the GPU: a first step ${took}\\.$`),
      })
      expect(await call('choice', 'lost')).toMatchObject({ chosen: gpu, after: ['lost', 'wasm'], closed: 3 })
    })
  })

  describe('in software', () => {
    beforeAll(() => open(true))
    afterAll(() => browser?.close())

    it('samples, scores and takes a step of training as WebAssembly does', async () => {
      const { device, scores, gradients } = await call<Record<string, number | string>>('differences')
      expect(device).toMatch(/^webgpu \(.*swiftshader/i)
      expect(scores).toBeLessThan(1e-4)
      expect(gradients).toBeLessThan(1e-4)
      // Sums are taken in another order: it is not WebAssembly that was asked twice.
      expect(scores).toBeGreaterThan(0)
    })

    it('says that it is lost, and does not wait for what never comes', async () => {
      const lost = call('lost')
      const client = await browser.newBrowserCDPSession()
      const { processInfo } = await client.send('SystemInfo.getProcessInfo')
      // The process that speaks to the GPU.
      process.kill(processInfo.find(({ type }) => type === 'GPU')!.id)
      expect(await lost).toEqual({ message: expect.stringMatching(/^the browser lost its GPU/), lost: true })
    })
  })
})

/** What library/page.web.ts gives the page; called there. */
declare const library: () => { call(name: string, ...given: unknown[]): Promise<unknown> }

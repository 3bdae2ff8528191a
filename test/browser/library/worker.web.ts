/** What the page's worker does with the library. */
import { exportFolder, installPolicy, runExperiment } from '../../../src/browser.ts'
import { base64 } from '../../../src/bytes.ts'
import * as files from '../../../src/platform/files.ts'
import { outcomesOf } from '../../../src/platform/testing/outcomes.ts'
import { small } from './experiment.ts'
import { gpuCalls } from './gpu.web.ts'
import { playTable } from './play.ts'

export type Answer =
  | { told: unknown }
  | { number: number; result: unknown }
  | { number: number; error: string }

const tell = (told: unknown) => postMessage({ told } satisfies Answer)

const calls = {
  install: (base: string) => installPolicy(new URL(base, location.href)),
  play: () => playTable(tell),
  async run(steps: number, out: string) {
    await runExperiment(small(steps), { out, onEvent: (event) => event.type === 'step' && tell(event) })
    const files = await exportFolder(out)
    return [...files].map(([path, bytes]) => [path, base64(bytes)])
  },
  files: () => outcomesOf(files, '/made/worker'),
  ...gpuCalls,
}
export type Calls = typeof calls

addEventListener('message', async ({ data: { number, name, given } }) => {
  try {
    const call = calls[name as keyof Calls] as (...given: unknown[]) => Promise<unknown>
    postMessage({ number, result: await call(...given) } satisfies Answer)
  } catch (error) {
    postMessage({ number, error: (error as Error).stack ?? String(error) } satisfies Answer)
  }
})

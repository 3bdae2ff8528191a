/** The page that bench/browser.ts drives: counts its frames while a worker of its own computes. */
import type { Told } from './worker.web.ts'

const frames: number[] = []
const count = (now: number) => {
  frames.push(now)
  requestAnimationFrame(count)
}

const page = {
  /** Milliseconds since the page was asked for, and what was told then. */
  told: [] as (Told & { at: number })[],
  start(settings: { steps: number; arms: string[]; seeds: number[] }) {
    const worker = new Worker(new URL('./worker.web.ts', import.meta.url), { type: 'module' })
    worker.addEventListener('message', ({ data }: MessageEvent<Told>) =>
      page.told.push({ ...data, at: performance.now() }),
    )
    worker.addEventListener('error', ({ message }) =>
      page.told.push({ error: message, at: performance.now() }),
    )
    worker.postMessage(settings)
    requestAnimationFrame(count)
  },
  /** Frames in each whole second. */
  frames(): number[] {
    const seconds: number[] = []
    for (const at of frames) {
      const second = Math.floor((at - frames[0]) / 1000)
      seconds[second] = (seconds[second] ?? 0) + 1
    }
    return Array.from(seconds.slice(0, -1), (each) => each ?? 0)
  },
}

Object.assign(window, { bench: () => page })

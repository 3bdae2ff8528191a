/** The page's side: hands calls to a worker of its own, which it can kill. */
import * as files from '../../../src/platform/files.ts'
import { outcomesOf } from '../../../src/platform/testing/outcomes.ts'
import type { Answer, Calls } from './worker.web.ts'

let worker: Worker | undefined
let asked = 0
const waiting = new Map<number, { resolve(result: unknown): void; reject(error: Error): void }>()

function begun(): Worker {
  const made = new Worker(new URL('./worker.web.ts', import.meta.url), { type: 'module' })
  made.addEventListener('error', ({ message }) => {
    for (const { reject } of waiting.values()) reject(new Error(message))
  })
  made.addEventListener('message', ({ data }: MessageEvent<Answer>) => {
    if ('told' in data) return page.told.push(data.told)
    const call = waiting.get(data.number)
    if ('error' in data) call?.reject(new Error(data.error))
    else call?.resolve(data.result)
  })
  return made
}

const page = {
  /** What the worker told while it worked, in order. */
  told: [] as unknown[],
  call<Name extends keyof Calls>(name: Name, ...given: Parameters<Calls[Name]>): Promise<unknown> {
    worker ??= begun()
    const number = asked++
    worker.postMessage({ number, name, given })
    return new Promise((resolve, reject) => {
      waiting.set(number, { resolve, reject })
    })
  },
  /** In the page's own thread. */
  files: () => outcomesOf(files, '/made/page'),
  kill() {
    worker?.terminate()
    worker = undefined
  },
}

Object.assign(window, { library: () => page })

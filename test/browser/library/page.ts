/** The page's side: hands calls to a worker of its own, which it can kill. */
import type { Answer, Calls } from './worker.ts'

let worker: Worker | undefined
let asked = 0

const page = {
  /** What the worker told while it worked, in order. */
  told: [] as unknown[],
  async call<Name extends keyof Calls>(name: Name, ...given: Parameters<Calls[Name]>): Promise<unknown> {
    worker ??= new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' })
    const its = worker
    const number = asked++
    return new Promise((resolve, reject) => {
      its.addEventListener('error', ({ message }) => reject(new Error(message)))
      its.addEventListener('message', ({ data }: MessageEvent<Answer>) => {
        if ('told' in data) page.told.push(data.told)
        else if (data.number === number) 'error' in data ? reject(new Error(data.error)) : resolve(data.result)
      })
      its.postMessage({ number, name, given })
    })
  },
  kill() {
    worker?.terminate()
    worker = undefined
  },
}

export type Page = typeof page
Object.assign(window, { library: page })

/** Threads that run a file of this folder: worker threads here, web workers in a browser (threads.web.ts). */
import { parentPort, Worker } from 'node:worker_threads'

export interface Thread {
  post(message: unknown, transfer?: ArrayBuffer[]): void
  /** Called with every message of the thread's, in order. */
  onMessage<Message>(take: (message: Message) => void): void
  /** Called when it ends, whatever ended it but `terminate`. */
  onEnd(take: (error: Error) => void): void
  /** Lets the process end while it runs; said after the listeners, since one of messages holds it too. */
  unref(): void
  /** Holds the process again. */
  ref(): void
  terminate(): Promise<void>
}

export type ThreadFile = 'worker' | 'adamWorker'

/** Starts a thread. */
export function startThread(file: ThreadFile): Thread {
  const worker = startWorker(file)
  let isEnding = false
  return {
    post: (message, transfer = []) => worker.postMessage(message, transfer),
    onMessage: (take) => void worker.on('message', take),
    onEnd(take) {
      worker.on('error', take)
      worker.on('exit', (code) => {
        if (!isEnding) take(new Error(`a computing thread ended with code ${code}`))
      })
    },
    unref() {
      if (!isEnding) worker.unref()
    },
    ref: () => worker.ref(),
    async terminate() {
      isEnding = true
      // A process that has nothing else to do would end before the answer.
      worker.ref()
      await worker.terminate()
    },
  }
}

function startWorker(file: ThreadFile): Worker {
  const compiled = import.meta.url.endsWith('.js')
  if (compiled) return new Worker(new URL(`./${file}.js`, import.meta.url))
  // From TypeScript sources, the thread must first learn to load them.
  const loader = import.meta.resolve('tsx/esm/api')
  const entry = new URL(`./${file}.ts`, import.meta.url).href
  const start = `import(${JSON.stringify(loader)}).then(({ register }) => { register(); return import(${JSON.stringify(entry)}) })`
  return new Worker(start, { eval: true })
}

/** What a thread hears from and says to whoever started it. */
export interface Port {
  post(message: unknown, transfer?: ArrayBuffer[]): void
  onMessage<Message>(take: (message: Message) => void): void
}

export function thisThread(): Port {
  const port = parentPort
  if (port === null) throw new Error('this file runs as a thread')
  return {
    post: (message, transfer = []) => port.postMessage(message, transfer),
    onMessage: (take) => void port.on('message', take),
  }
}

/** Lets messages in that wait. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Whether threads can see each other's arrays. */
export const sharesMemory: boolean = true

/** A number that both sides see; null where threads share nothing. */
export const sharedFlag = (): Int32Array | null => new Int32Array(new SharedArrayBuffer(4))

/** Threads in a browser: web workers. Nothing is shared between them, so that a page needs no headers of isolation. */
import type { Port, Thread, ThreadFile } from './threads.ts'

export function startThread(file: ThreadFile): Thread {
  if (file !== 'worker') throw new Error(`${file} is for a GPU's lane alone`)
  // Bundlers find the worker by this very expression.
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' })
  return {
    post: (message, transfer = []) => worker.postMessage(message, transfer),
    onMessage: (take) => worker.addEventListener('message', ({ data }) => take(data)),
    onEnd: (take) =>
      worker.addEventListener('error', ({ message }) =>
        take(new Error(`a computing thread ended: ${message || 'its script could not be loaded'}`)),
      ),
    unref() {},
    ref() {},
    async terminate() {
      worker.terminate()
    },
  }
}

export function thisThread(): Port {
  const scope = globalThis as unknown as Pick<Worker, 'postMessage' | 'addEventListener'>
  return {
    post: (message, transfer = []) => scope.postMessage(message, transfer),
    onMessage: (take) => scope.addEventListener('message', ({ data }) => take(data)),
  }
}

/** A timer would wait for four milliseconds. */
export function nextTurn(): Promise<void> {
  const { port1, port2 } = new MessageChannel()
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close()
      resolve()
    }
    port2.postMessage(null)
  })
}

export const sharesMemory: boolean = false

export const sharedFlag = (): Int32Array | null => null

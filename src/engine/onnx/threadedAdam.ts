/** AdamW over worker threads that change arrays in shared memory, where one thread would keep a GPU waiting. */
import type { AdamOptions } from '../contract.ts'
import type { AdamState } from './adam.ts'
import { startThread } from './threads.ts'

/** Its threads keep the process alive while they work, and not while they wait for work. */
export interface ThreadedAdam {
  /** Hands a trainable's arrays to the threads, all of them on SharedArrayBuffers. */
  hold(
    parameters: readonly Float32Array[],
    gradients: readonly Float32Array[],
    state: AdamState,
  ): Promise<HeldArrays>
  /** Ends the threads; what waits for them is rejected, and so is every later call. */
  close(): Promise<void>
}

export interface HeldArrays {
  /** Global L2 norm of the gradients, in double precision; the same bits for any number of threads. */
  norm(): Promise<number>
  /** As `adamStep`, bit for bit. */
  step(norm: number, options: AdamOptions): Promise<void>
  /** Lets the arrays go. */
  release(): Promise<void>
}

/** The arrays of a trainable that one thread works on. */
export interface Share {
  parameters: Float32Array[]
  gradients: Float32Array[]
  first: Float32Array[]
  second: Float32Array[]
}

export type Task =
  | { kind: 'hold'; id: number; share: Share }
  | { kind: 'norm' | 'release'; id: number }
  /** `taken`: steps before this one. */
  | { kind: 'step'; id: number; taken: number; norm: number; options: AdamOptions }

export type Answer = { norms: number[] } | { error: string }

/** Zeros that all threads see. */
export function sharedZeros(length: number): Float32Array {
  return new Float32Array(new SharedArrayBuffer(4 * length))
}

/** Values that are worth a thread: about as long to update as a task takes to send. */
const VALUES_A_THREAD = 1 << 16

/** At most `most` threads, each opened when the first trainable needs it. */
export function threadedAdam(most: number): ThreadedAdam {
  const threads: Thread[] = []
  let ids = 0
  let closed = false
  return {
    async hold(parameters, gradients, state) {
      if (closed) throw new Error('the engine was closed')
      const { first, second } = state
      for (const { buffer } of [...parameters, ...gradients, ...first, ...second]) {
        if (!(buffer instanceof SharedArrayBuffer)) throw new Error('threads need arrays in shared memory')
      }
      const id = ids++
      const shares = balanced(
        parameters.map(({ length }) => length),
        most,
      )
      while (threads.length < shares.length) threads.push(openThread())
      const all = (task: (share: readonly number[]) => Task) =>
        Promise.all(shares.map((share, t) => threads[t].ask(task(share))))
      await all((share) => {
        const of = (arrays: readonly Float32Array[]) => share.map((index) => arrays[index])
        const held = {
          parameters: of(parameters),
          gradients: of(gradients),
          first: of(first),
          second: of(second),
        }
        return { kind: 'hold', id, share: held }
      })
      return {
        async norm() {
          const parts = await all(() => ({ kind: 'norm', id }))
          const norms: number[] = []
          shares.forEach((share, s) => {
            share.forEach((index, i) => {
              norms[index] = parts[s][i]
            })
          })
          return Math.sqrt(norms.reduce((sum, norm) => sum + norm * norm, 0))
        },
        async step(norm, options) {
          await all(() => ({ kind: 'step', id, taken: state.step, norm, options }))
          state.step++
        },
        async release() {
          await all(() => ({ kind: 'release', id }))
        },
      }
    },
    async close() {
      closed = true
      await Promise.all(threads.map((thread) => thread.close()))
    },
  }
}

/** Indices of arrays for each thread, of about the same length together: the longest first, each to the least laden. */
function balanced(lengths: readonly number[], most: number): number[][] {
  const total = lengths.reduce((sum, length) => sum + length, 0)
  const count = Math.max(1, Math.min(most, lengths.length, Math.ceil(total / VALUES_A_THREAD)))
  const shares = Array.from({ length: count }, () => ({ load: 0, indices: [] as number[] }))
  const order = lengths.map((_, index) => index).sort((a, b) => lengths[b] - lengths[a] || a - b)
  for (const index of order) {
    const least = shares.reduce((best, share) => (share.load < best.load ? share : best))
    least.load += lengths[index]
    least.indices.push(index)
  }
  return shares.map(({ indices }) => indices)
}

interface Thread {
  ask(task: Task): Promise<number[]>
  close(): Promise<void>
}

function openThread(): Thread {
  // Answers come in the order of the tasks.
  const waiting: { resolve(norms: number[]): void; reject(error: Error): void }[] = []
  let ended: Error | null = null
  const end = (error: Error) => {
    ended ??= error
    for (const { reject } of waiting.splice(0)) reject(ended)
    worker.unref()
  }
  const worker = startThread('adamWorker')
  worker.onMessage((answer: Answer) => {
    const call = waiting.shift()
    if (waiting.length === 0) worker.unref()
    if ('error' in answer) call?.reject(new Error(answer.error))
    else call?.resolve(answer.norms)
  })
  worker.onEnd(end)
  return {
    ask: (task) =>
      new Promise((resolve, reject) => {
        if (ended !== null) throw ended
        worker.ref()
        worker.post(task)
        waiting.push({ resolve, reject })
      }),
    async close() {
      end(new Error('the engine was closed'))
      await worker.terminate()
    },
  }
}

/**
 * Lanes as worker threads. ONNX Runtime blocks the thread that calls it, so computing on several cores,
 * and staying responsive meanwhile, takes threads. Small models get a lane a core, each on one thread: that beats
 * splitting their small operators. Which lane gets what is fixed by the work alone, never by timing.
 */
import { LostError, UserError } from '../../errors.ts'
import type { Completion, Drawn } from '../contract.ts'
import type { GenerateJob, LaneOptions, OverlayJob, ScoreJob, TrainJob } from './lane.ts'
import type { Scores, TrainResult } from './sequences.ts'
import { sharedFlag, startThread } from './threads.ts'

/** The last one of a lane. */
interface CloseJob {
  kind: 'close'
}

export type Job = OverlayJob | GenerateJob | ScoreJob | TrainJob | CloseJob
type ResultOf<J extends Job> = J extends GenerateJob
  ? Completion[][]
  : J extends ScoreJob
    ? Scores
    : J extends TrainJob
      ? TrainResult
      : undefined

/** What a lane hears: first how to open, then jobs, and the numbers of those whose result is no longer wanted. */
export type Message = { open: LaneOptions } | Call | { stop: number }

export interface Call {
  call: number
  job: Job
  /** Becomes 1 when the result is no longer wanted; null where threads share nothing, and a message tells. */
  stop: Int32Array | null
}

/** What of an error's class passes between threads. */
export const errorKinds = { lost: LostError, user: UserError, other: Error } as const
export type ErrorKind = keyof typeof errorKinds

export type Answer =
  | { call: number; result: unknown }
  | { call: number; error: string; kind: ErrorKind }
  | { call: number; tokens: number; drawn: readonly Drawn[] }

export interface CallOptions {
  onTokens?: (newTokens: number, drawn: readonly Drawn[]) => void
  signal?: AbortSignal
}

/** Keeps the process alive while it works, and not while it waits for work. */
export interface Pool {
  readonly lanes: number
  run<J extends Job>(lane: number, job: J, options?: CallOptions): Promise<ResultOf<J>>
  close(): Promise<void>
}

/**
 * Milliseconds that a lane is given to come out of what it is in and to close before its thread is ended. Ended while ONNX
 * Runtime calls it back, a GPU's takes the process with it; one on the CPU leaves behind what it has compiled. Sampling stops
 * within some steps, a training batch takes a second.
 */
const PATIENCE = 10_000

/** `givesUp`: the weights move into the last lane instead of being copied, and the caller's arrays become empty. */
export function openPool(lanes: number, options: LaneOptions, givesUp = false): Pool {
  interface Pending {
    resolve(result: unknown): void
    reject(error: Error): void
    onTokens?: CallOptions['onTokens']
  }
  const pending = new Map<number, Pending>()
  /** How each call that a lane has is told to stop. */
  const open = new Set<() => void>()
  let calls = 0
  const busy = new Array<number>(lanes).fill(0)
  /** A lane's thread holds the process while some call of it is open. */
  const hold = (lane: number, change: 1 | -1) => {
    busy[lane] += change
    if (busy[lane] > 0) workers[lane].ref()
    else workers[lane].unref()
  }
  const failAll = (error: Error) => {
    for (const { reject } of pending.values()) reject(error)
    pending.clear()
  }
  /** A lane's thread is gone, and answers nothing. */
  let hasEnded = false
  const workers = Array.from({ length: lanes }, (_, lane) => {
    const moved =
      givesUp && lane === lanes - 1 ? options.weights.map(({ data }) => data.buffer as ArrayBuffer) : []
    const worker = startThread('worker')
    worker.onMessage((message: Answer) => {
      const waiting = pending.get(message.call)
      if (waiting === undefined) return
      if ('tokens' in message) return waiting.onTokens?.(message.tokens, message.drawn)
      pending.delete(message.call)
      if ('error' in message) waiting.reject(new errorKinds[message.kind](message.error))
      else waiting.resolve(message.result)
    })
    worker.onEnd((error) => {
      hasEnded = true
      failAll(error)
    })
    worker.post({ open: options } satisfies Message, moved)
    // After the listeners: one of messages holds the process too.
    worker.unref()
    return worker
  })
  const pool: Pool = {
    lanes,
    run<J extends Job>(lane: number, job: J, { onTokens, signal }: CallOptions = {}) {
      signal?.throwIfAborted()
      const call = calls++
      const stop = sharedFlag()
      const abort = () => {
        if (stop !== null) Atomics.store(stop, 0, 1)
        else workers[lane].post({ stop: call } satisfies Message)
      }
      signal?.addEventListener('abort', abort)
      hold(lane, 1)
      const answered = new Promise<unknown>((resolve, reject) => {
        pending.set(call, { resolve, reject, onTokens })
        workers[lane].post({ call, job, stop } satisfies Message)
      })
      open.add(abort)
      return answered
        .catch((error: unknown) => {
          throw signal?.aborted ? signal.reason : error
        })
        .finally(() => {
          hold(lane, -1)
          open.delete(abort)
          signal?.removeEventListener('abort', abort)
        }) as Promise<ResultOf<J>>
    },
    async close() {
      failAll(new Error('the engine was closed'))
      if (!hasEnded && options.place.device !== 'wasm') {
        for (const stop of open) stop()
        let timer: ReturnType<typeof setTimeout> | undefined
        const patience = new Promise((resolve) => {
          timer = setTimeout(resolve, PATIENCE)
        })
        const closing = workers.map((_, lane) => pool.run(lane, { kind: 'close' }))
        await Promise.race([Promise.allSettled(closing), patience])
        clearTimeout(timer)
      }
      hasEnded = true
      failAll(new Error('the engine was closed'))
      await Promise.all(workers.map((worker) => worker.terminate()))
    },
  }
  return pool
}

/** The thread that a lane lives in: takes jobs one after another, answers each by its number. */
import { parentPort, workerData } from 'node:worker_threads'
import { UserError } from '../../errors.ts'
import { openGpuLane } from './gpu/lane.ts'
import { type Lane, type LaneOptions, openLane } from './lane.ts'
import type { Answer, Call } from './pool.ts'

const port = parentPort
if (port === null) throw new Error('worker.ts runs as a worker thread')
const options = workerData as LaneOptions
const opening = (async (): Promise<Lane> =>
  options.place.device === 'cpu' ? openLane(options) : openGpuLane(options))()
// A lane that cannot be opened says so in answer to the first job.
opening.catch(() => {})
const answer = (message: Answer, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer)

async function perform({ call, job, stop }: Call): Promise<void> {
  const lane = await opening
  switch (job.kind) {
    case 'overlay':
      return answer({ call, result: await lane.overlay(job) })
    case 'score':
      return answer({ call, result: await lane.score(job) })
    case 'train': {
      const result = await lane.train(job)
      return answer(
        { call, result },
        result.gradients.map(({ buffer }) => buffer as ArrayBuffer),
      )
    }
    case 'generate': {
      const check = () => {
        if (Atomics.load(stop, 0) !== 0) throw new Error('stopped')
      }
      const onTokens = (tokens: number) => answer({ call, tokens })
      return answer({ call, result: await lane.generate(job, onTokens, check) })
    }
  }
}

// One at a time: a lane's sessions and buffers belong to the job in hand.
let queue = Promise.resolve()
port.on('message', (message: Call) => {
  queue = queue.then(() =>
    perform(message).catch((error: unknown) => {
      const forUser = error instanceof UserError
      const text = error instanceof Error ? (forUser ? error.message : error.stack) : undefined
      answer({ call: message.call, error: text ?? String(error), forUser })
    }),
  )
})

/** The thread that a lane lives in: takes jobs one after another, answers each by its number. */
import { parentPort, workerData } from 'node:worker_threads'
import { UserError } from '../../errors.ts'
import type { LaneOptions } from './lane.ts'
import { jobRunner } from './perform.ts'
import type { Answer, Call } from './pool.ts'
import type { TrainResult } from './sequences.ts'

const port = parentPort
if (port === null) throw new Error('worker.ts runs as a worker thread')
const runJob = jobRunner(workerData as LaneOptions)
const answer = (message: Answer, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer)

port.on('message', ({ call, job, stop }: Call) => {
  const onTokens = (tokens: number) => answer({ call, tokens })
  runJob(job, { stop, onTokens }).then(
    (result) => {
      const gradients = job.kind === 'train' ? (result as TrainResult).gradients : []
      answer(
        { call, result },
        gradients.map(({ buffer }) => buffer as ArrayBuffer),
      )
    },
    (error: unknown) => {
      const forUser = error instanceof UserError
      const text = error instanceof Error ? (forUser ? error.message : error.stack) : undefined
      answer({ call, error: text ?? String(error), forUser })
    },
  )
})

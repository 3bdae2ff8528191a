/** The thread that a lane lives in: opens it, takes jobs one after another, and answers each by its number. */
import { LostError, UserError } from '../../errors.ts'
import type { Drawn } from '../contract.ts'
import type { Lane } from './lane.ts'
import { openLaneOn } from './lanes.ts'
import type { Answer, Call, Message } from './pool.ts'
import { nextTurn, thisThread } from './threads.ts'

const port = thisThread()
let opening: Promise<Lane> | undefined
/** Calls whose result is no longer wanted. */
const stopped = new Set<number>()
const answer = (message: Answer, transfer: ArrayBuffer[] = []) => port.post(message, transfer)

async function perform({ call, job, stop }: Call): Promise<void> {
  const lane = await opening!
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
      const onTokens = (tokens: number, drawn: readonly Drawn[] = []) => answer({ call, tokens, drawn })
      return answer({ call, result: await lane.generate(job, onTokens, checkOf(call, stop)) })
    }
  }
}

/** Milliseconds between looks at messages: they cost a turn of the event loop. */
const LOOK_EACH = 50

/** What throws where a call's result is no longer wanted. */
function checkOf(call: number, stop: Int32Array | null): () => void | Promise<void> {
  const refuse = () => {
    throw new Error('stopped')
  }
  if (stop !== null) return () => (Atomics.load(stop, 0) === 0 ? undefined : refuse())
  let looked = performance.now()
  return async () => {
    if (performance.now() - looked > LOOK_EACH) {
      await nextTurn()
      looked = performance.now()
    }
    if (stopped.delete(call)) refuse()
  }
}

// One at a time: a lane's sessions and buffers belong to the job in hand.
let queue = Promise.resolve()
port.onMessage((message: Message) => {
  if ('open' in message) {
    opening = openLaneOn(message.open)
    // A lane that cannot be opened says so in answer to the first job.
    opening.catch(() => {})
    return
  }
  if (!('job' in message)) {
    stopped.add(message.stop)
    return
  }
  queue = queue.then(() =>
    perform(message).catch((error: unknown) => {
      const kind = error instanceof LostError ? 'lost' : error instanceof UserError ? 'user' : 'other'
      const text = error instanceof Error ? (kind === 'other' ? error.stack : error.message) : undefined
      answer({ call: message.call, error: text ?? String(error), kind })
    }),
  )
})

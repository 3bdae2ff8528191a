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
    case 'close':
      return answer({ call, result: await lane.close?.() })
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
      const telling = tellOf(call)
      const result = await lane.generate(job, telling.onTokens, checkOf(call, stop))
      telling.rest()
      return answer({ call, result })
    }
  }
}

/** Milliseconds between news of drawn tokens: as often as a person can see. A message a token takes 3% of a small model's time. */
const TELL_EACH = 40

/** Gathers what a call draws, and tells of it now and then: of the first at once, of the rest at its end. */
function tellOf(call: number) {
  let [tokens, drawn]: [number, Drawn[]] = [0, []]
  let told = Number.NEGATIVE_INFINITY
  const rest = () => {
    if (tokens > 0) answer({ call, tokens, drawn })
    ;[tokens, drawn] = [0, []]
    told = performance.now()
  }
  return {
    onTokens(more: number, alsoDrawn: readonly Drawn[] = []) {
      tokens += more
      drawn.push(...alsoDrawn)
      if (performance.now() - told > TELL_EACH) rest()
    },
    rest,
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

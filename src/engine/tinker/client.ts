/**
 * One server of the Tinker API: its session, its calls, and the results that are fetched later. Knows what may be
 * repeated; knows nothing of policies. Touches the network only.
 *
 * A call that changes a model (`unsent` below) is sent again only where it surely did not arrive. Where that cannot be
 * known it throws `Unsure`, and whoever holds the model starts again from a checkpoint in a new model: that way nothing
 * is trained twice, whatever became of the lost call.
 */
import type { z } from 'zod'
import { keyOf } from '../../address.ts'
import { LostError, UserError } from '../../errors.ts'
import {
  type Answer,
  askWithRetries,
  fetchWithRetries,
  isUnsent,
  pause,
  piecesOf,
  type RetryOptions,
  refusalOf,
  retryAfter,
  waitNotices,
  whyUnanswered,
} from '../../http.ts'
import { shown } from '../../printable.ts'
import { random } from '../../random.ts'
import { tinkerAddress } from './address.ts'
import { openSession } from './session.ts'
import { anySchema, failedSchema, promiseSchema, sessionSchema, tryAgainSchema } from './wire.ts'

/** It cannot be known whether the call was carried out. */
export class Unsure extends UserError {}

/** The server does not know the session, model, sampler or request any more: it was started anew, or let them go. */
export class Forgotten extends UserError {}

/** The server understood the call and will not do it. */
export class Refused extends UserError {}

/** What its holder meets by starting again from a checkpoint, and how often one after the other. */
export const isUncertain = (error: unknown): error is Unsure | Forgotten =>
  error instanceof Unsure || error instanceof Forgotten
export const RECOVERIES = 3

export interface ClientOptions {
  url: string
  key?: string
  /** Requests made at most, and milliseconds before the second: by default it is waited some four minutes in all. */
  attempts?: number
  delay?: number
  /** Milliseconds that one request for a result is held open. */
  poll?: number
  /** Milliseconds between two signs of life. */
  heartbeat?: number
  /** Milliseconds that the result of one call is waited for. */
  patience?: number
  /** Sampling requests at a time. */
  concurrency?: number
  onNotice?: (text: string) => void
}

export interface CallOptions {
  /** As in RetryOptions: 'unsent' for what must not be done twice. */
  repeat?: RetryOptions['repeat']
  /** Requests made at most, if not as many as usual. */
  attempts?: number
  /** Milliseconds that the result is waited for, if not as many as usual. */
  patience?: number
  signal?: AbortSignal
}

export interface Client {
  readonly url: string
  /** Asks for what is answered at once. */
  ask<T>(path: string, body: unknown, schema: z.ZodType<T>, options?: CallOptions): Promise<T>
  get<T>(path: string, schema: z.ZodType<T>): Promise<T>
  /** Asks for work, and waits for its result while the server lives, within patience. */
  work<T>(path: string, body: unknown, schema: z.ZodType<T>, options?: CallOptions): Promise<T>
  /** The result of work that was asked for by `path`. */
  result<T>(id: string, schema: z.ZodType<T>, options: CallOptions & { path: string }): Promise<T>
  /** The bytes of a file as they come, which the caller bounds; null where the server does not give it. */
  download(path: string): Promise<AsyncIterable<Uint8Array> | null>
  /** Removes; false where the server has no such call. */
  remove(path: string): Promise<boolean>
  /** The session, which keeps what belongs to it alive; begun when first asked for. */
  session(): Promise<string>
  /** That session is no more: the next call begins another. */
  endSession(id: string): void
  /** Runs `work` when fewer than `concurrency` others run. */
  inTurn<T>(work: () => Promise<T>): Promise<T>
  /** Tells what a person should know though the work goes on. */
  notice(text: string): void
  close(): void
}

/** Answers that are not what they should be, after which it is given up: a server that starts may say odd things. */
const NONSENSE = 3

/** Bytes of an answer: the log-probabilities of some millions of tokens. */
const LARGEST = 128 * 2 ** 20

/** Milliseconds after which it is first told that a result is waited for; then after twice as many, and so on. */
const FIRST_TOLD = 300_000

/** Longest wait before a result is asked for again, whatever a server asks for. */
const LONGEST_PAUSE = 60_000

/** Least milliseconds between two requests for a result that the server does not hold open. */
const SHORTEST_POLL = 100

export function openClient(options: ClientOptions): Client {
  const {
    attempts: usualAttempts = 10,
    delay = 1000,
    poll = 60_000,
    patience: usualPatience = 7_200_000,
    heartbeat = 10_000,
    concurrency = 128,
  } = options
  const url = tinkerAddress(options.url)
  const key = options.key === undefined ? undefined : keyOf(options.key, 'The variable TINKER_API_KEY')
  const secrets = key === undefined ? [] : [key]
  const { onNotice = () => {} } = options
  const onWait = waitNotices(url, onNotice)
  const stream = random('tinker', url)
  const jitter = () => stream.next()
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: 'application/json',
    ...(key === undefined ? {} : { 'x-api-key': key }),
  }

  /** One request and its answer's text, whatever its status. Throws LostError, Unsure or the signal's reason. */
  async function send(method: string, path: string, body: unknown, retries: RetryOptions): Promise<Answer> {
    const { repeat, attempts = usualAttempts, signal } = retries
    const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }
    /** An error for a request that got no whole answer. */
    const unanswered = (error: unknown): Error => {
      signal?.throwIfAborted()
      const why = whyUnanswered(error)
      if (repeat === 'unsent' && !isUnsent(error)) {
        return new Unsure(
          `${url} broke off while it was asked for ${path} (${why}): look at its log, and run the same again to go on.`,
        )
      }
      return new LostError(
        `${url} does not answer (${why}): check that the server runs, and run the same again to go on.`,
      )
    }
    try {
      return await askWithRetries(`${url}/api/v1/${path}`, init, {
        delay,
        jitter,
        onWait,
        limit: LARGEST,
        ...retries,
        attempts,
      })
    } catch (error) {
      if (error instanceof UserError || (attempts === 1 && isTimeout(error))) throw error
      throw unanswered(error)
    }
  }

  /** An error for a status that is none of success. */
  function refusal(path: string, status: number, text: string, repeat: CallOptions['repeat']): Error {
    const said = refusalOf(text, secrets)
    if (status === 401 || status === 403) {
      return new UserError(
        `${url} refuses the key (${status}: ${said}): put a valid one into the variable TINKER_API_KEY, and run the ` +
          'same again to go on.',
      )
    }
    if (status === 402) {
      return new UserError(
        `${url} asks for payment (${said}): see to the account, and run the same again to go on.`,
      )
    }
    if (status === 429) {
      return new UserError(
        `${url} goes on limiting the rate (${said}): wait, or lower --jobs, and run the same again to go on.`,
      )
    }
    if (status === 404 || status === 410 || (status === 400 && /not loaded|not found/i.test(said))) {
      return new Forgotten(
        `${url} does not know what ${path} names (${said}): it was started anew, or is no such server; run the same ` +
          'again to go on from the last checkpoint.',
      )
    }
    if (status >= 500 || status === 408) {
      const text = `${url} fails at ${path} (${status}: ${said}): look at its log, and run the same again to go on.`
      return repeat === 'unsent' ? new Unsure(text) : new LostError(text)
    }
    return new Refused(
      `${url} refuses ${path} (${status}: ${said}): change what it names, and run the same again.`,
    )
  }

  async function request<T>(
    method: string,
    path: string,
    body: unknown,
    schema: z.ZodType<T>,
    options: CallOptions = {},
  ): Promise<T> {
    const { repeat } = options
    for (let attempt = 1; ; attempt++) {
      const { status, text } = await send(method, path, body, { ...options, timeout: poll })
      if (status >= 300) throw refusal(path, status, text, repeat)
      const read = parse(schema, text)
      if (read.ok) return read.value
      const complaint = nonsense(path, read.why, text)
      if (repeat === 'unsent') throw new Unsure(complaint)
      if (attempt === NONSENSE) throw new UserError(complaint)
      await pause(delay * 2 ** (attempt - 1), options.signal)
    }
  }

  const nonsense = (path: string, why: string, text: string) =>
    `${url} answers ${path} with what the Tinker API does not know (${why}, in: ${shown(text, secrets)}): check that the ` +
    'address is that of a Tinker API server, and its version.'

  async function result<T>(
    id: string,
    schema: z.ZodType<T>,
    {
      path: work,
      attempts = usualAttempts,
      patience = usualPatience,
      signal,
    }: CallOptions & { path: string },
  ): Promise<T> {
    const path = 'retrieve_future'
    const body = { request_id: id, allow_metadata_only: false }
    const began = performance.now()
    let told = FIRST_TOLD
    let failures = 0
    let oddities = 0
    for (;;) {
      const asked = performance.now()
      const minutes = Math.round((asked - began) / 60_000)
      if (asked - began > patience) {
        throw new LostError(
          `${url} has not done ${work} in ${minutes} minutes: look at its log, and run the same again to go on.`,
        )
      }
      if (asked - began > told) {
        onNotice(`${url} has been at ${work} for ${minutes} minutes, and is waited for.`)
        told *= 2
      }
      let answer: Answer
      try {
        answer = await send('POST', path, body, { attempts: 1, timeout: poll, signal })
      } catch (error) {
        signal?.throwIfAborted()
        // Held open for longer than we wait is no failure; anything else is one, unless the server is well.
        if (!isTimeout(error) && (!(error instanceof LostError) || ++failures === attempts)) throw error
        await request('GET', 'healthz', undefined, anySchema, { attempts, signal })
        continue
      }
      const { status, text, headers } = answer
      if (status === 429 || status >= 500) {
        if (++failures === attempts) throw refusal(path, status, text, 'always')
        const wanted = Math.max(retryAfter(headers.get('retry-after')) ?? 0, delay * (1 - jitter() / 4))
        const milliseconds = Math.min(wanted, LONGEST_PAUSE)
        onWait({ why: status === 429 ? 'limits the rate (429)' : `fails (${status})`, milliseconds })
        await pause(milliseconds, signal)
        continue
      }
      failures = 0
      if (status === 408 || parse(tryAgainSchema, text).ok) {
        await pause(Math.max(0, SHORTEST_POLL - (performance.now() - asked)), signal)
        continue
      }
      if (status >= 300) throw refusal(work, status, text, 'always')
      const failed = parse(failedSchema, text)
      if (failed.ok) throw refusal(work, failed.value.category === 'server' ? 500 : 400, text, 'unsent')
      const read = parse(schema, text)
      if (read.ok) return read.value
      if (++oddities === NONSENSE) throw new UserError(nonsense(work, read.why, text))
      await pause(SHORTEST_POLL, signal)
    }
  }

  const session = openSession({
    every: heartbeat,
    async begin() {
      const answer = await request(
        'POST',
        'create_session',
        { tags: ['message-board'], user_metadata: null, sdk_version: '0.38.0', type: 'create_session' },
        sessionSchema,
      )
      if (answer.error_message) {
        throw new UserError(`${url} refuses a session: ${shown(answer.error_message, secrets)}`)
      }
      for (const said of [answer.warning_message, answer.info_message]) {
        if (said) onNotice(`${url}: ${shown(said, secrets)}`)
      }
      return answer.session_id
    },
    beat: (id) =>
      request('POST', 'session_heartbeat', { session_id: id, type: 'session_heartbeat' }, anySchema).then(
        () => true,
        // A sign of life that is missed is no matter: whatever needs the server will notice.
        (error: unknown) => !(error instanceof Forgotten),
      ),
  })

  return {
    url,
    ask: (path, body, schema, options) => request('POST', path, body, schema, options),
    get: (path, schema) => request('GET', path, undefined, schema),
    async work(path, body, schema, options) {
      const { request_id } = await request('POST', path, body, promiseSchema, options)
      return result(request_id, schema, { ...options, path })
    },
    result,
    async download(path) {
      const lost = (error: unknown) =>
        error instanceof UserError
          ? error
          : new LostError(`${url} does not answer (${whyUnanswered(error)}): check that the server runs.`)
      const response = await fetchWithRetries(
        `${url}/api/v1/${path}`,
        { headers: { ...headers, accept: '*/*' } },
        { attempts: usualAttempts, delay, jitter, timeout: poll, onWait },
      ).catch((error: unknown) => {
        throw lost(error)
      })
      if (response.ok) return explaining(piecesOf(response, poll), lost)
      await response.body?.cancel()
      return null
    },
    async remove(path) {
      const { status } = await send('DELETE', path, undefined, { timeout: poll })
      return status < 300
    },
    session: session.current,
    endSession: session.end,
    inTurn: turns(concurrency),
    notice: onNotice,
    close: session.close,
  }
}

/** Runs work when fewer than `most` others run, in the order in which it was asked for. */
function turns(most: number): Client['inTurn'] {
  let running = 0
  const waiting: (() => void)[] = []
  return async (work) => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve))
    else running++
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else running--
    }
  }
}

/** Pieces, and what became of the connection where they end early. */
async function* explaining(
  pieces: AsyncIterable<Uint8Array>,
  explained: (error: unknown) => Error,
): AsyncIterable<Uint8Array> {
  try {
    yield* pieces
  } catch (error) {
    throw explained(error)
  }
}

const isTimeout = (error: unknown) => error instanceof DOMException && error.name === 'TimeoutError'

type Read<T> = { ok: true; value: T } | { ok: false; why: string }

/** JSON that fits a schema, or what is wrong with it: where, and how. */
function parse<T>(schema: z.ZodType<T>, text: string): Read<T> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { ok: false, why: 'no JSON' }
  }
  const read = schema.safeParse(value)
  if (read.success) return { ok: true, value: read.data }
  const [issue] = read.error.issues
  return { ok: false, why: `${issue.path.join('.') || 'the whole'}: ${issue.message}` }
}

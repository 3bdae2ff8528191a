/**
 * HTTP requests that outlive a bad moment and trust no server: lost connections, busy servers and rate limits are tried
 * again, each time later than before; no key and no content crosses to another origin; an answer has a largest size and
 * a latest moment. What the hub, the endpoints and the Tinker API are reached through. Touches the network only.
 */
import { setMaxListeners } from 'node:events'
import type { Agent } from 'undici'
import { z } from 'zod'
import { UserError } from './errors.ts'
import { shown } from './printable.ts'

export interface RetryOptions {
  /** Requests made at most. */
  attempts?: number
  /** Milliseconds before the second request; doubled before each one after it. A server may ask for longer. */
  delay?: number
  /** Milliseconds to wait for the answer: the whole of it where it is read here, its head where it is not. */
  timeout?: number
  /**
   * 'unsent' for a request that must not be done twice: it is tried again only where it surely was not done, since no
   * connection was made or the server put it off (429).
   */
  repeat?: 'always' | 'unsent'
  /** Uniform in [0, 1): up to a quarter of each wait of ours is left out, so that many clients do not come back at once. */
  jitter?: () => number
  /** Told of each wait, before it. */
  onWait?: (wait: Wait) => void
  signal?: AbortSignal
}

/** Why a request is made again, in the words after a server's name, and in how many milliseconds. */
export interface Wait {
  why: string
  milliseconds: number
}

export interface Answer {
  status: number
  headers: Headers
  text: string
}

export interface AskOptions extends RetryOptions {
  /** Bytes of an answer at most, unpacked. */
  limit: number
  /** For servers that say in an answer's text what others say by its status: the status that it stands for. */
  statusOf?: (answer: Answer) => number
}

/** Longest wait between two requests, whatever a server asks for. */
const LONGEST_DELAY = 60_000
/** Milliseconds that an answer's head is waited for, unless told. */
const USUAL_TIMEOUT = 60_000
/** Bytes of a body that are to come in as many milliseconds, at least. */
const SLOWEST = 2 ** 16
/** Redirects of one request that are followed. */
const MOST_REDIRECTS = 10

/** Statuses of a server that may answer differently in a moment (408: it gave up waiting for us). */
const isPassing = (status: number) => status === 408 || status === 429 || status >= 500

/** Codes of a connection that was never made. */
const unmade = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

/**
 * `fetch`, with retries, for a body that the caller reads piece by piece and bounds. Returns the last answer whatever
 * its status; rejects as `fetch` does where the last request got no answer, with the signal's reason where it was
 * aborted, and with a UserError for a redirect that must not be followed.
 */
export function fetchWithRetries(
  url: string | URL,
  init: RequestInit = {},
  options: RetryOptions = {},
): Promise<Response> {
  const { timeout = USUAL_TIMEOUT } = options
  return retrying(
    () => within(timeout, options.signal, (signal) => follow(url, init, { mayLeave: true }, signal)),
    ({ status, headers }) => ({ status, headers }),
    (response) => response.body?.cancel(),
    options,
  )
}

/**
 * Asks for a text and reads all of it, with retries: an answer that breaks off is as good as none. Returns the last
 * answer whatever its status; rejects as `fetchWithRetries` does, and with a UserError for an answer above the limit.
 */
export function askWithRetries(url: string | URL, init: RequestInit, options: AskOptions): Promise<Answer> {
  const { timeout = USUAL_TIMEOUT, limit, statusOf = ({ status }) => status } = options
  return retrying(
    () =>
      within(timeout, options.signal, async (signal) => {
        const response = await follow(url, init, { mayLeave: false }, signal)
        const { status, headers } = response
        return { status, headers, text: await textWithin(response, limit, new URL(url).origin) }
      }),
    (answer) => ({ status: statusOf(answer), headers: answer.headers }),
    () => {},
    options,
  )
}

async function retrying<T>(
  request: () => Promise<T>,
  headOf: (answer: T) => { status: number; headers: Headers },
  drop: (answer: T) => unknown,
  { attempts = 5, delay = 1000, repeat = 'always', jitter = () => 0, onWait, signal }: RetryOptions,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    let milliseconds = Math.min(delay * 2 ** (attempt - 1), LONGEST_DELAY) * (1 - jitter() / 4)
    let why: string
    try {
      const answer = await request()
      const { status, headers } = headOf(answer)
      const again = repeat === 'always' ? isPassing(status) : status === 429
      if (!again || attempt === attempts) return answer
      await drop(answer)
      why = status === 429 ? 'limits the rate (429)' : `fails (${status})`
      // However little a server asks for, some time passes before it is given up.
      const asked = retryAfter(headers.get('retry-after'))
      if (asked !== undefined) milliseconds = Math.min(Math.max(asked, delay), LONGEST_DELAY)
    } catch (error) {
      signal?.throwIfAborted()
      if (error instanceof UserError) throw error
      const again = repeat === 'always' || isUnsent(error)
      if (!again || attempt === attempts) throw error
      why = `does not answer (${whyUnanswered(error)})`
    }
    onWait?.({ why, milliseconds })
    await pause(milliseconds, signal)
  }
}

/** Runs a request that is aborted after `timeout` milliseconds. */
async function within<T>(
  timeout: number,
  signal: AbortSignal | undefined,
  request: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController()
  const reason = new DOMException(`no answer within ${timeout / 1000} s`, 'TimeoutError')
  const timer = setTimeout(() => late.abort(reason), timeout)
  try {
    return await request(signal ? AbortSignal.any([signal, late.signal]) : late.signal)
  } finally {
    clearTimeout(timer)
  }
}

/** Headers that say nothing of who asks: all that another origin is told. */
const harmless = ['accept', 'accept-encoding', 'range', 'user-agent']

/**
 * One request, and those that its redirects lead to. Within an origin they are followed; to another one only by what
 * is downloaded, without content, and with harmless headers alone.
 */
async function follow(
  url: string | URL,
  init: RequestInit,
  { mayLeave }: { mayLeave: boolean },
  signal: AbortSignal,
): Promise<Response> {
  const { method = 'GET' } = init
  const isRead = method === 'GET' || method === 'HEAD'
  let headers = [...headersOf(init)]
  let at = new URL(url)
  for (let redirects = 0; ; redirects++) {
    const response = await fetchOnce(at, { ...init, headers, signal })
    if (![301, 302, 303, 307, 308].includes(response.status)) return response
    await response.body?.cancel()
    if (redirects === MOST_REDIRECTS) throw astray(at, 'on and on')
    const to = nextAddress(response, at, { isRead, mayLeave: isRead && mayLeave })
    if (to.origin !== at.origin) headers = headers.filter(([name]) => harmless.includes(name))
    at = to
  }
}

/** Where a redirect leads, without the login that its address may hold. Throws where it is not to be followed. */
function nextAddress(
  { headers, status }: Response,
  from: URL,
  { isRead, mayLeave }: { isRead: boolean; mayLeave: boolean },
): URL {
  const location = headers.get('location')
  if (location === null || !URL.canParse(location, from.href)) throw astray(from, 'to no address')
  const to = new URL(location, from)
  to.username = ''
  to.password = ''
  if (!/^https?:$/.test(to.protocol)) throw astray(from, `to ${to.protocol}, which is no place on the web`)
  if (to.origin === from.origin) {
    if (isRead || status >= 307) return to
    throw astray(from, `to ${to.pathname}, without its content`)
  }
  if (!mayLeave) throw astray(from, `to ${to.origin}, where its key and its content are not to go`)
  if (from.protocol === 'https:' && to.protocol === 'http:') {
    throw astray(from, `to ${to.origin}, where anybody on the way could change what comes`)
  }
  return to
}

const astray = (from: URL, where: string) =>
  new UserError(
    `${from.origin} sends a request on ${where}: give the address that is to be reached in the end.`,
  )

/** The request's headers. Where one cannot be sent, its value, which may be a key, stays unsaid. */
function headersOf({ headers }: RequestInit): Headers {
  try {
    return new Headers(headers)
  } catch {
    throw new UserError('A header holds a character that none can carry: check the key for line breaks.')
  }
}

let undici: Promise<typeof import('undici')> | undefined
let agent: Agent | undefined

/**
 * Node's own `fetch` gives up after 300 s without a word of it. This is the same one, with none but the times that are
 * kept here; loaded when first needed, for most commands reach no network.
 */
async function fetchOnce(url: URL, init: RequestInit): Promise<Response> {
  undici ??= import('undici')
  const { Agent, fetch } = await undici
  agent ??= new Agent({ headersTimeout: 0, bodyTimeout: 0 })
  const options = { ...init, redirect: 'manual', dispatcher: agent } as Parameters<typeof fetch>[1]
  return (await fetch(url, options)) as unknown as Response
}

/**
 * A body piece by piece. Rejects as a body does that breaks off, too where hardly anything comes in within `timeout`
 * milliseconds: a server that sends a byte now and then is not waited for.
 */
export async function* piecesOf(response: Response, timeout = USUAL_TIMEOUT): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader()
  if (!reader) return
  let came = 0
  let isSlow = false
  let isWaiting = false
  const timer = setInterval(() => {
    isSlow = isWaiting && came < SLOWEST
    if (isSlow) void reader.cancel().catch(() => {})
    came = 0
  }, timeout)
  try {
    for (;;) {
      isWaiting = true
      const { value, done } = await reader.read()
      isWaiting = false
      if (isSlow) break
      if (done) return
      came += value.length
      yield value
    }
  } finally {
    clearInterval(timer)
    await reader.cancel().catch(() => {})
  }
  throw new TypeError('terminated', {
    cause: new Error(`less than ${SLOWEST / 2 ** 10} KiB came in ${timeout / 1000} s`),
  })
}

/** A body as text, of `limit` bytes at most. */
async function textWithin(response: Response, limit: number, server: string): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += (chunk as Uint8Array).length
    // Leaving the loop ends the connection.
    if (size > limit) {
      throw new UserError(
        `${server} sends an answer of more than ${Math.round(limit / 2 ** 20)} MiB: check that the address is right.`,
      )
    }
    chunks.push(chunk as Uint8Array)
  }
  return Buffer.concat(chunks).toString()
}

/** Days of the week begin a date in HTTP; what else Date.parse takes, such as 1.5, is none. */
const httpDate = /^(mon|tue|wed|thu|fri|sat|sun)/i

/** Milliseconds that a server asks to wait, by seconds or by date; undefined where it says neither. */
export function retryAfter(text: string | null, now = Date.now()): number | undefined {
  if (text === null) return undefined
  const said = text.trim()
  if (/^\d*\.?\d+$/.test(said)) return Number(said) * 1000
  const date = httpDate.test(said) ? Date.parse(said) : Number.NaN
  return Number.isNaN(date) ? undefined : Math.max(date - now, 0)
}

export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  // Many may wait for one signal, which is no leak of memory.
  if (signal) setMaxListeners(0, signal)
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, milliseconds)
    signal?.addEventListener('abort', stop, { once: true })
  })
}

/** Whether a request that got no answer was never sent, for no connection was made. */
export const isUnsent = (error: unknown): boolean => unmade.has(codeOf(error) ?? '')

const codeOf = (error: unknown) => (error as { cause?: { code?: string } }).cause?.code

/** Codes of a certificate that nobody here vouches for. */
const untrusted =
  /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_.*_CERT.*|UNABLE_TO_VERIFY_LEAF_SIGNATURE|CERT_UNTRUSTED)$/

/** Why a request got no answer, in a few words: the system's code where there is one. */
export function whyUnanswered(error: unknown): string {
  const code = codeOf(error)
  if (code !== undefined && untrusted.test(code)) {
    return `${code}; if it is your own, let NODE_EXTRA_CA_CERTS name the file of its certificate`
  }
  const { cause } = error as { cause?: { message?: string } }
  // Codes of the HTTP client's own say less than its words.
  return (
    (code?.startsWith('UND_ERR_') ? undefined : code) ??
    cause?.message ??
    (error instanceof Error ? error.message : String(error))
  )
}

/** Least milliseconds of a wait that is told, and between two that are. */
const TOLD = { wait: 2000, every: 30_000 }

/** Tells of a server's waits as notices: of those that a person would notice, and not of each. */
export function waitNotices(server: string, onNotice: (text: string) => void): (wait: Wait) => void {
  let last = Number.NEGATIVE_INFINITY
  return ({ why, milliseconds }) => {
    const now = performance.now()
    if (milliseconds < TOLD.wait || now - last < TOLD.every) return
    last = now
    onNotice(`${server} ${why}: it is asked again in ${Math.round(milliseconds / 1000)} s.`)
  }
}

const refusalSchema = z.union([
  z.looseObject({ error: z.looseObject({ message: z.string() }) }).transform(({ error }) => error.message),
  z.looseObject({ error: z.string() }).transform(({ error }) => error),
  z.looseObject({ message: z.string() }).transform(({ message }) => message),
  z.looseObject({ detail: z.string() }).transform(({ detail }) => detail),
  // FastAPI's, of a request that does not fit its schema.
  z
    .looseObject({ detail: z.array(z.looseObject({ msg: z.string(), loc: z.array(z.unknown()) })).min(1) })
    .transform(({ detail: [{ msg, loc }] }) => `${loc.slice(1).join('.')}: ${msg}`),
])

/** What a server that refuses says is wrong, in its words. */
export function refusalOf(text: string, secrets: readonly string[] = []): string {
  try {
    return shown(refusalSchema.parse(JSON.parse(text)), secrets)
  } catch {
    return shown(text, secrets)
  }
}

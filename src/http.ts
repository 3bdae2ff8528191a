/**
 * HTTP requests that outlive a bad moment: lost connections, busy servers and rate limits are tried again, each time
 * later than before. What the hub, the endpoints and the Tinker API are reached through. Touches the network only.
 */
import { z } from 'zod'

export interface RetryOptions {
  /** Requests made at most. */
  attempts?: number
  /** Milliseconds before the second request; doubled before each one after it. A server's Retry-After goes first. */
  delay?: number
  /** Milliseconds to wait for the answer's head; no limit of ours when left out. */
  timeout?: number
  /**
   * 'unsent' for a request that must not be done twice: it is tried again only where it surely was not done, since no
   * connection was made or the server put it off (429).
   */
  repeat?: 'always' | 'unsent'
  /** Uniform in [0, 1): up to a quarter of each wait of ours is left out, so that many clients do not come back at once. */
  jitter?: () => number
  signal?: AbortSignal
}

/** Longest wait between two requests, whatever a server asks for. */
const LONGEST_DELAY = 60_000

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
 * `fetch`, with retries. Returns the last answer whatever its status; rejects as `fetch` does where the last request
 * got no answer, and with the signal's reason where it was aborted.
 */
export async function fetchWithRetries(
  url: string | URL | Request,
  init: RequestInit = {},
  { attempts = 5, delay = 1000, timeout, repeat = 'always', jitter = () => 0, signal }: RetryOptions = {},
): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    const wait = Math.min(delay * 2 ** (attempt - 1), LONGEST_DELAY) * (1 - jitter() / 4)
    try {
      const response = await fetchHead(url, init, timeout, signal)
      const { status } = response
      const again = repeat === 'always' ? isPassing(status) : status === 429
      if (!again || attempt === attempts) return response
      await response.body?.cancel()
      await pause(retryAfter(response) ?? wait, signal)
    } catch (error) {
      signal?.throwIfAborted()
      const again = repeat === 'always' || isUnsent(error)
      if (!again || attempt === attempts) throw error
      await pause(wait, signal)
    }
  }
}

/** A request whose time runs until the answer's head is there: reading a long body may take longer. */
async function fetchHead(
  url: string | URL | Request,
  init: RequestInit,
  timeout: number | undefined,
  signal: AbortSignal | undefined,
): Promise<Response> {
  const late = new AbortController()
  const timer =
    timeout === undefined
      ? undefined
      : setTimeout(
          () => late.abort(new DOMException(`no answer within ${timeout / 1000} s`, 'TimeoutError')),
          timeout,
        )
  try {
    return await fetch(url, {
      ...init,
      signal: signal ? AbortSignal.any([signal, late.signal]) : late.signal,
    })
  } finally {
    clearTimeout(timer)
  }
}

/** Milliseconds that the server asks to wait, by seconds or by date. */
function retryAfter(response: Response): number | undefined {
  const text = response.headers.get('retry-after')
  if (text === null) return undefined
  const wait = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return Number.isNaN(wait) ? undefined : Math.min(Math.max(wait, 0), LONGEST_DELAY)
}

export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
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
export const isUnsent = (error: unknown): boolean => unmade.has(whyUnanswered(error))

/** Why a request got no answer, in a few words: the system's code where there is one. */
export function whyUnanswered(error: unknown): string {
  const { cause } = error as { cause?: { code?: string; message?: string } }
  return cause?.code ?? cause?.message ?? (error instanceof Error ? error.message : String(error))
}

/** Characters of what a server said that an error shows. */
const SHOWN = 200

/** A text of a server's on one line, cut where it is long. */
export function shown(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > SHOWN ? `${line.slice(0, SHOWN)}...` : line
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
export function refusalOf(text: string): string {
  try {
    return shown(refusalSchema.parse(JSON.parse(text)))
  } catch {
    return shown(text)
  }
}

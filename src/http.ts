/**
 * HTTP requests that outlive a bad moment: lost connections, busy servers and rate limits are tried again, each time
 * later than before. What the hub and the endpoints are reached through. Touches the network only.
 */

export interface RetryOptions {
  /** Requests made at most. */
  attempts?: number
  /** Milliseconds before the second request; doubled before each one after it. A server's Retry-After goes first. */
  delay?: number
  /** Milliseconds to wait for the answer's head; no limit of ours when left out. */
  timeout?: number
  signal?: AbortSignal
}

/** Longest wait between two requests, whatever a server asks for. */
const LONGEST_DELAY = 60_000

/** Statuses of a server that may answer differently in a moment (408: it gave up waiting for us). */
const isPassing = (status: number) => status === 408 || status === 429 || status >= 500

/**
 * `fetch`, with retries. Returns the last answer whatever its status; rejects as `fetch` does where the last request
 * got no answer, and with the signal's reason where it was aborted.
 */
export async function fetchWithRetries(
  url: string | URL | Request,
  init: RequestInit = {},
  { attempts = 5, delay = 1000, timeout, signal }: RetryOptions = {},
): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    const wait = Math.min(delay * 2 ** (attempt - 1), LONGEST_DELAY)
    try {
      const response = await fetchHead(url, init, timeout, signal)
      if (!isPassing(response.status) || attempt === attempts) return response
      await response.body?.cancel()
      await pause(retryAfter(response) ?? wait, signal)
    } catch (error) {
      signal?.throwIfAborted()
      if (attempt === attempts) throw error
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
      : setTimeout(() => late.abort(new Error(`no answer within ${timeout / 1000} s`)), timeout)
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

function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
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

/** Why a request got no answer, in a few words: the system's code where there is one. */
export function whyUnanswered(error: unknown): string {
  const { cause } = error as { cause?: { code?: string; message?: string } }
  return cause?.code ?? cause?.message ?? (error instanceof Error ? error.message : String(error))
}

/** What every server here does alike: it listens, answers in one sentence what it refuses, and lets no other page use it. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { UserError } from '../errors.ts'

/** A request that is not answered, with its status and a sentence. */
export class Refusal extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export interface Listening {
  port: number
  close: () => Promise<void>
}

/**
 * Starts a server of short requests.
 *
 * @throws UserError for an address that cannot be listened on.
 */
export async function listen(
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
  { host, port }: { host: string; port: number },
): Promise<Listening> {
  const server: Server = createServer((request, response) => {
    answer(request, response).catch((error) => {
      if (response.headersSent) return void response.destroy()
      const [status, text] =
        error instanceof Refusal
          ? [error.status, error.message]
          : error instanceof UserError
            ? [422, error.message]
            : [500, 'This is a defect of the server, please report it.']
      send(response, status, 'text/plain; charset=utf-8', `${text}\n`)
    })
  })
  server.headersTimeout = 10_000
  server.requestTimeout = 10_000
  server.maxHeadersCount = 100
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  }).catch((error: NodeJS.ErrnoException) => {
    throw new UserError(
      `Cannot listen on ${host}, port ${port} (${error.code}): choose another with --host or --port.`,
    )
  })
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Refuses all but asking. */
export function onlyAsking(request: IncomingMessage, response: ServerResponse): void {
  if (request.method === 'GET' || request.method === 'HEAD') return
  response.setHeader('Allow', 'GET, HEAD')
  throw new Refusal(405, 'This server only shows: GET and HEAD.')
}

/** Lets no page of another site look at, frame or load what is answered. `policy` is the content policy of pages. */
export function secure(response: ServerResponse, policy: string): void {
  response.setHeader('Content-Security-Policy', `${policy}; frame-ancestors 'none'`)
  response.setHeader('X-Content-Type-Options', 'nosniff')
  response.setHeader('Referrer-Policy', 'no-referrer')
  response.setHeader('Cross-Origin-Resource-Policy', 'same-origin')
  response.setHeader('Cross-Origin-Opener-Policy', 'same-origin')
  response.setHeader('Cache-Control', 'no-store')
}

/** The path's parts, decoded, and the query. Throws a Refusal for what is no path. */
export function target(url: string): { path: string[]; query: URLSearchParams } {
  const [before, ...after] = url.split('?')
  try {
    const path = before.split('/').filter(Boolean).map(decodeURIComponent)
    return { path, query: new URLSearchParams(after.join('?')) }
  } catch {
    throw new Refusal(400, 'That is no path.')
  }
}

export function send(
  response: ServerResponse,
  status: number,
  type: string,
  body: string | Uint8Array,
): void {
  response.writeHead(status, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body) })
  response.end(response.req.method === 'HEAD' ? undefined : body)
}

/**
 * A server that stands before a right one and answers oddly: what comes through it is cut off, slow, endless, packed,
 * redirected, refused, changed. Seeded, so that every campaign can be done again. On this machine only.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import type { Random } from '../../src/random.ts'

interface Right {
  status: number
  headers: Record<string, string>
  body: Buffer
}

interface Exchange {
  request: IncomingMessage
  response: ServerResponse
  /** What the right server answers. */
  right: Right
  /** Another server's address, which is to get no key and no content. */
  elsewhere: string
  stream: Random
}

export interface HostileProxy {
  url: string
  /** Requests by the way in which they were answered. */
  done: Map<string, number>
  /** What `elsewhere` was asked. */
  strayed: { method: string; headers: IncomingMessage['headers']; body: string }[]
  close(): Promise<void>
}

/** Texts that a terminal, a path or a parser may stumble over. */
const texts = [
  '',
  ' ',
  '\u001b[2J\u001b]0;owned\u0007',
  'a\r\nmessage-board: all is well',
  '\u202egnirts',
  '../../../outside',
  '__proto__',
  'null',
  '\u0000',
  '\ud800',
  '<html><script>alert(1)</script></html>',
  'x'.repeat(100_000),
] as const
const numbers = [0, -1, -1e9, 0.5, 1e300, 2 ** 53, 2 ** 31, -0.001, Number.MIN_VALUE] as const

const anyValue = (stream: Random): unknown =>
  stream.pick([
    () => null,
    () => stream.pick(texts),
    () => stream.pick(numbers),
    () => stream.next() < 0.5,
    () => [],
    () => ({}),
    () => [null],
    () => ({ error: stream.pick(texts) }),
    () => Array.from({ length: 1000 }, () => stream.pick(numbers)),
  ])()

/** A JSON value with one to three parts changed, taken away, doubled or added. */
export function changed(value: unknown, stream: Random): unknown {
  let root = structuredClone(value)
  for (let times = 1 + stream.int(3); times > 0; times--) {
    const places: [Record<string, unknown>, string][] = []
    const walk = (node: unknown) => {
      if (typeof node !== 'object' || node === null || places.length > 5000) return
      for (const key of Object.keys(node)) {
        places.push([node as Record<string, unknown>, key])
        walk((node as Record<string, unknown>)[key])
      }
    }
    walk(root)
    if (places.length === 0 || stream.next() < 0.05) {
      root = anyValue(stream)
      continue
    }
    const [holder, key] = stream.pick(places)
    const how = stream.int(4)
    if (how === 0) delete holder[key]
    else if (how === 1 && Array.isArray(holder)) holder.push(holder[Number(key)])
    else if (how === 2 && typeof holder[key] === 'number') holder[key] = stream.pick(numbers)
    else holder[key] = anyValue(stream)
  }
  return root
}

const json = { 'content-type': 'application/json' }
/** What a server may say against a request; some repeat its key. */
const errors = ({ stream, request }: Exchange) =>
  stream.pick([
    () => JSON.stringify({ error: { message: `Incorrect key: ${JSON.stringify(request.headers)}` } }),
    () =>
      JSON.stringify({ error: { message: stream.pick(texts), code: stream.pick([429, 500, 'x', null]) } }),
    () => JSON.stringify({ error: stream.pick(texts) }),
    () =>
      JSON.stringify({
        detail: [{ loc: ['body', stream.pick(texts)], msg: 'Extra inputs are not permitted' }],
      }),
    () =>
      JSON.stringify({
        object: 'error',
        message: stream.pick(texts),
        code: stream.pick([400, 503, '429', -1]),
      }),
    () =>
      JSON.stringify({
        error: { message: `Unsupported parameter: ${stream.pick(['seed', 'top_p', 'max_tokens'])}` },
      }),
    () => '<html><title>502 Bad Gateway</title></html>',
    () => '',
  ])()

/** Writes a chunk as often and as fast as it goes, until the other end has had enough. */
function writeOn(response: ServerResponse, chunk: Buffer): void {
  const more = () => {
    while (!response.destroyed && response.write(chunk));
  }
  response.on('drain', more)
  response.on('error', () => {})
  more()
}

/** All ways to answer; the first is the right one. */
export const ways: Record<string, (exchange: Exchange) => void> = {
  right: ({ response, right }) => void response.writeHead(right.status, right.headers).end(right.body),
  'cut before': ({ request }) => void request.socket.destroy(),
  'cut in the head': ({ request }) => {
    request.socket.write('HTTP/1.1 200 OK\r\ncontent-le')
    request.socket.end()
  },
  'cut in the body': ({ request, response, right, stream }) => {
    response.writeHead(right.status, { ...right.headers, 'content-length': String(right.body.length + 10) })
    response.write(right.body.subarray(0, stream.int(right.body.length + 1)), () =>
      setTimeout(() => request.socket.destroy(), 2),
    )
  },
  silence: () => {},
  'silence after the head': ({ response }) => void response.writeHead(200, json).flushHeaders(),
  drip: ({ response }) => {
    response.writeHead(200, json)
    // It may be closed already.
    const timer = setInterval(() => {
      if (response.destroyed) clearInterval(timer)
      else response.write(' ')
    }, 20)
  },
  'no HTTP': ({ request }) => void request.socket.end('SSH-2.0-OpenSSH_9.6\r\n'),
  'a large head': ({ response }) => {
    response.writeHead(200, { ...json, 'x-large': 'x'.repeat(40_000) }).end('{}')
  },
  'without end': ({ response }) => {
    response.writeHead(200, json)
    writeOn(response, Buffer.alloc(2 ** 16, '['))
  },
  'without end, packed': ({ response }) => {
    response.writeHead(200, { ...json, 'content-encoding': 'gzip' })
    writeOn(response, gzipSync(Buffer.alloc(2 ** 22, ' ')))
  },
  packed: ({ response, right, stream }) => {
    const [name, pack] = stream.pick([
      ['gzip', gzipSync],
      ['deflate', deflateSync],
      ['br', brotliCompressSync],
      ['gzip', (bytes: Buffer) => bytes],
      ['x-odd', (bytes: Buffer) => bytes],
    ] as const)
    response.writeHead(right.status, { ...right.headers, 'content-encoding': name }).end(pack(right.body))
  },
  elsewhere: ({ response, stream, elsewhere }) => {
    const status = stream.pick([301, 302, 303, 307, 308])
    const location = stream.pick([
      `${elsewhere}/x`,
      elsewhere.replace('//', '//user:password@'),
      `//${new URL(elsewhere).host}/x`,
      'file:///etc/passwd',
      '/again',
      'http://',
      '',
    ])
    response.writeHead(status, { location }).end()
  },
  refused: (exchange) => {
    const { response, stream } = exchange
    const status = stream.pick([204, 304, 400, 401, 402, 403, 404, 409, 410, 413, 418, 422, 451])
    response.writeHead(status, stream.pick([json, {}, { 'content-type': 'text/html' }])).end(errors(exchange))
  },
  busy: (exchange) => {
    const { response, stream } = exchange
    const after = stream.pick(['0', '0.01', '-1', 'soon', 'Thu, 01 Jan 1970 00:00:00 GMT', '', '1e9', 'NaN'])
    response.writeHead(stream.pick([408, 429, 500, 502, 503, 504, 529]), { ...json, 'retry-after': after })
    response.end(errors(exchange))
  },
  'an error that is none': (exchange) => void exchange.response.writeHead(200, json).end(errors(exchange)),
  'no JSON': ({ response, stream, right }) => {
    const body = stream.pick([
      '',
      'null',
      '[]',
      '7',
      '"text"',
      '{}',
      '{"a":1e999}',
      'NaN',
      '['.repeat(200_000),
      '{"a":'.repeat(50_000),
      '\ufeff{}',
      '<html>Sign in to this network</html>',
      right.body.subarray(0, Math.floor(right.body.length / 2)).toString('latin1'),
      `${right.body.toString('latin1')}}`,
    ])
    response.writeHead(200, stream.pick([json, { 'content-type': 'text/html' }])).end(body)
  },
  changed: ({ response, right, stream }) => {
    let value: unknown = null
    try {
      value = JSON.parse(right.body.toString())
    } catch {
      // Bytes are changed below.
    }
    const body = Buffer.from(right.body)
    if (value === null)
      for (let i = 0; i < 3 && body.length > 0; i++) body[stream.int(body.length)] ^= 1 << stream.int(8)
    const { 'content-length': _, ...headers } = right.headers
    response
      .writeHead(right.status, headers)
      .end(value === null ? body : JSON.stringify(changed(value, stream)))
  },
  'another status': ({ response, right, stream }) =>
    void response.writeHead(stream.pick([200, 201, 202, 206, 299]), right.headers).end(right.body),
}

export interface Asked {
  method: string
  path: string
}

/** `wayOf` names the way in which a request is answered. */
export async function startHostileProxy(
  target: string,
  stream: Random,
  wayOf: (asked: Asked) => string,
): Promise<HostileProxy> {
  const done: HostileProxy['done'] = new Map()
  const strayed: HostileProxy['strayed'] = []
  const bodyOf = async (message: IncomingMessage) => {
    const chunks: Buffer[] = []
    for await (const chunk of message) chunks.push(chunk as Buffer)
    return Buffer.concat(chunks)
  }
  const elsewhere = createServer(async (request, response) => {
    const body = (await bodyOf(request)).toString()
    strayed.push({ method: request.method ?? '', headers: request.headers, body })
    response.end('{}')
  })
  elsewhere.listen(0, '127.0.0.1')
  await once(elsewhere, 'listening')
  const portOf = (server: typeof elsewhere) => (server.address() as AddressInfo).port
  const elsewhereUrl = `http://127.0.0.1:${portOf(elsewhere)}`

  const right = new URL(target)
  let port = 0
  const proxy = createServer(async (request, response) => {
    response.on('error', () => {})
    const { method = 'GET', url = '/', headers } = request
    const asked = send({ hostname: right.hostname, port: right.port, method, path: url, headers })
    asked.on('error', () => response.destroy())
    asked.end(await bodyOf(request))
    const [answer] = (await once(asked, 'response').catch(() => [])) as [IncomingMessage?]
    if (!answer) return
    const kept = Object.entries(answer.headers).filter(
      ([name]) => !/^(connection|keep-alive|transfer-)/.test(name),
    )
    const way = wayOf({ method, path: url })
    done.set(way, (done.get(way) ?? 0) + 1)
    ways[way]({
      request,
      response,
      right: {
        status: answer.statusCode ?? 200,
        // What the right server says of its own address is said of this one.
        headers: Object.fromEntries(
          kept.map(([name, value]) => [name, String(value).replaceAll(`:${right.port}`, `:${port}`)]),
        ),
        body: await bodyOf(answer),
      },
      elsewhere: elsewhereUrl,
      stream,
    })
  })
  proxy.on('connection', (socket) => socket.on('error', () => {}))
  proxy.listen(0)
  await once(proxy, 'listening')
  port = portOf(proxy)
  return {
    url: `http://127.0.0.1:${port}`,
    done,
    strayed,
    async close() {
      for (const server of [proxy, elsewhere]) {
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      }
    },
  }
}

/** How the requests of one round are answered: all in one way, or now and then in any. */
export function wayOfRound(stream: Random, names: readonly string[]): (asked: Asked) => string {
  const rate = stream.pick([0.03, 0.1, 0.3, 1])
  const only = stream.next() < 0.4 ? stream.pick(names) : undefined
  const from = stream.int(12)
  let nth = 0
  return () => (nth++ < from || stream.next() >= rate ? 'right' : (only ?? stream.pick(names)))
}

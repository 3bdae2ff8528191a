import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { UserError } from './errors.ts'
import {
  askWithRetries,
  fetchWithRetries,
  piecesOf,
  refusalOf,
  retryAfter,
  type Wait,
  waitNotices,
  whyUnanswered,
} from './http.ts'
import { shown } from './printable.ts'

let close: (() => void)[] = []
afterEach(() => {
  for (const each of close) each()
  close = []
})

interface Asked {
  path: string
  method: string
  headers: IncomingMessage['headers']
  body: string
}

/** A server on this machine, and what it was asked. */
async function server(listener: (...args: [...Parameters<RequestListener>, nth: number]) => void) {
  const asked: Asked[] = []
  const http = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { url = '', method = '', headers } = request
    asked.push({ path: url, method, headers, body: Buffer.concat(chunks).toString() })
    listener(request, response, asked.length)
  })
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  close.push(() => {
    http.closeAllConnections()
    http.close()
  })
  return { url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`, asked }
}

const secret = 'sk-do-not-tell'
const headers = { authorization: `Bearer ${secret}`, 'x-api-key': secret, cookie: secret, range: 'bytes=5-' }
const quick = { attempts: 3, delay: 1, limit: 1000 }
const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.unreachable('it should be refused'),
    (error: unknown) => {
      expect(error).toBeInstanceOf(UserError)
      return (error as Error).message
    },
  )

describe('a redirect', () => {
  it.each([301, 302, 303, 307, 308])(
    'to another origin takes no key and no content along (%i)',
    async (status) => {
      const other = await server((_, response) => response.end('there'))
      const here = await server((_, response) =>
        response.writeHead(status, { location: `${other.url}/x` }).end(),
      )
      const found = await fetchWithRetries(here.url, { headers })
      expect([found.url, await found.text()]).toEqual([`${other.url}/x`, 'there'])
      expect(other.asked[0].headers).toMatchObject({ range: 'bytes=5-' })
      expect(JSON.stringify(other.asked)).not.toContain(secret)

      const post = { method: 'POST', headers, body: 'private' }
      for (const asked of [
        () => askWithRetries(here.url, post, quick),
        () => askWithRetries(here.url, { headers }, quick),
        () => fetchWithRetries(here.url, post),
      ]) {
        expect(await refusal(asked())).toBe(
          `${here.url} sends a request on to ${other.url}, where its key and its content are not to go: give the ` +
            'address that is to be reached in the end.',
        )
      }
      expect(other.asked).toHaveLength(1)
      // There and back again, the key stays away.
      const back = await server((request, response) =>
        request.url === '/'
          ? response.writeHead(302, { location: `${away.url}/` }).end()
          : response.end('back'),
      )
      const away = await server((_, response) =>
        response.writeHead(302, { location: `${back.url}/back` }).end(),
      )
      await fetchWithRetries(back.url, { headers })
      expect(back.asked.map(({ headers }) => headers['x-api-key'])).toEqual([secret, undefined])
    },
  )

  it('within an origin is followed with all of it where all of it may go', async () => {
    const here = await server((request, response) =>
      request.url === '/a' ? response.writeHead(308, { location: '/b' }).end() : response.end('done'),
    )
    const init = { method: 'POST', headers, body: 'content' }
    expect((await askWithRetries(`${here.url}/a`, init, quick)).text).toBe('done')
    expect(here.asked[1]).toMatchObject({ method: 'POST', body: 'content', path: '/b' })
    expect(here.asked[1].headers['x-api-key']).toBe(secret)
  })

  it.each<[string, string | undefined, RegExp]>([
    ['without end', '/again', /sends a request on on and on/],
    ['to nowhere', undefined, /to no address/],
    ['to what is no address', 'http://', /to no address/],
    ['to a file', 'file:///etc/passwd', /to file:, which is no place on the web/],
  ])('%s is refused', async (_, location, message) => {
    const here = await server((_, response) =>
      response.writeHead(302, location === undefined ? {} : { location }).end(),
    )
    expect(await refusal(askWithRetries(here.url, {}, quick))).toMatch(message)
    expect(here.asked.length).toBeLessThan(20)
  })

  it('that would lose the content is refused', async () => {
    const here = await server((_, response) => response.writeHead(302, { location: '/login' }).end())
    const asked = askWithRetries(here.url, { method: 'POST', body: 'x' }, quick)
    expect(await refusal(asked)).toMatch(/to \/login, without its content/)
  })
})

describe('a secret', () => {
  it('that cannot be sent is not said', async () => {
    const here = await server((_, response) => response.end())
    const sent = askWithRetries(here.url, { headers: { authorization: `${secret}\nx` } }, quick)
    expect(await refusal(sent)).toMatch(/^A header holds a character/)
    expect(here.asked).toEqual([])
  })

  it('that a server repeats is hidden', () => {
    const said = JSON.stringify({ error: { message: `no such key: ${secret}, sent as Bearer ${secret}` } })
    expect(refusalOf(said, [secret])).toBe('no such key: [hidden], sent as Bearer [hidden]')
    expect(shown(`${'x'.repeat(195)}${secret}`, [secret])).not.toContain('sk-')
  })
})

describe('an answer', () => {
  const endless = (chunk: Buffer, headers: Record<string, string> = {}) =>
    server((_, response) => {
      response.writeHead(200, headers)
      const more = () => {
        while (response.write(chunk));
      }
      response.on('drain', more)
      more()
    })

  it('has a largest size, packed or not, and is not asked for again above it', async () => {
    const plain = await endless(Buffer.alloc(2 ** 16, 'x'))
    const limit = 2 ** 20
    const message = /sends an answer of more than 1 MiB: check that the address is right/
    expect(await refusal(askWithRetries(plain.url, {}, { ...quick, limit }))).toMatch(message)
    expect(plain.asked).toHaveLength(1)
    const bomb = gzipSync(Buffer.alloc(2 ** 26))
    const packed = await server((_, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb),
    )
    expect(await refusal(askWithRetries(packed.url, {}, { ...quick, limit }))).toMatch(message)
    expect((await askWithRetries(packed.url, {}, { ...quick, limit: 2 ** 26 })).text).toHaveLength(2 ** 26)
  })

  it('has a latest moment, whatever comes in until then', async () => {
    const drip = await server((_, response) => {
      response.writeHead(200)
      const timer = setInterval(() => response.write('.'), 5)
      response.on('close', () => clearInterval(timer))
    })
    const started = performance.now()
    const asked = askWithRetries(drip.url, {}, { ...quick, attempts: 2, timeout: 100 })
    await expect(asked).rejects.toThrow('no answer within 0.1 s')
    expect(performance.now() - started).toBeLessThan(1000)
    expect(drip.asked).toHaveLength(2)
  })

  it('that is read piece by piece ends where next to nothing comes', async () => {
    const drip = await server((_, response) => {
      response.write('a')
      const timer = setInterval(() => response.write('.'), 5)
      response.on('close', () => clearInterval(timer))
    })
    const read = async (timeout: number) => {
      for await (const _ of piecesOf(await fetchWithRetries(drip.url), timeout));
    }
    await expect(read(60)).rejects.toMatchObject({
      message: 'terminated',
      cause: { message: 'less than 64 KiB came in 0.06 s' },
    })
    // A reader that takes its time is no slow server.
    const large = Buffer.alloc(2 ** 20, 'x')
    const fast = await server((_, response) => response.end(large))
    let size = 0
    for await (const piece of piecesOf(await fetchWithRetries(fast.url), 20)) {
      if (size === 0) await new Promise((resolve) => setTimeout(resolve, 100))
      size += piece.length
    }
    expect(size).toBe(large.length)
  })

  it('that breaks off is asked for again, unless it must not be', async () => {
    const breaks = await server((_, response, nth) => {
      response.writeHead(200, { 'content-length': '9' })
      if (nth % 2 === 0) response.end('whole one')
      else response.write('half', () => response.destroy())
    })
    expect((await askWithRetries(breaks.url, {}, quick)).text).toBe('whole one')
    await expect(askWithRetries(breaks.url, {}, { ...quick, repeat: 'unsent' })).rejects.toThrow()
    expect(breaks.asked).toHaveLength(3)
  })
})

describe('a certificate that nobody here vouches for', () => {
  it.each(['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'])(
    'is said with what to do: %s',
    (code) => {
      const said = whyUnanswered(Object.assign(new TypeError('fetch failed'), { cause: { code } }))
      expect(said).toMatch(new RegExp(`^${code}; .*NODE_EXTRA_CA_CERTS`))
    },
  )

  it('is told from what has another cause', () => {
    const refused = Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNREFUSED' } })
    expect(whyUnanswered(refused)).toBe('ECONNREFUSED')
  })
})

describe('a wait', () => {
  it('is as long as the server asks, in every way that it may say so', () => {
    const now = Date.parse('2026-01-01T00:00:00Z')
    for (const [said, expected] of [
      ['0', 0],
      ['7', 7000],
      ['1.5', 1500],
      ['.5', 500],
      [' 2 ', 2000],
      ['Thu, 01 Jan 2026 00:00:30 GMT', 30_000],
      ['Thursday, 01-Jan-26 00:00:30 GMT', 30_000],
      ['Thu, 01 Jan 2015 00:00:30 GMT', 0],
      ['-5', undefined],
      ['soon', undefined],
      ['1e3', undefined],
      ['2026', 2_026_000],
      ['Thu', undefined],
      ['', undefined],
      [null, undefined],
    ] as const) {
      expect(retryAfter(said, now), String(said)).toBe(expected)
    }
    fc.assert(fc.property(fc.string(), (text) => !Number.isNaN(retryAfter(text))))
  })

  it('is never so short that it is given up at once, nor longer than a minute', async () => {
    const asks = async (after: string, delay: number) => {
      const busy = await server((_, response) => response.writeHead(429, { 'retry-after': after }).end())
      const waits: Wait[] = []
      const controller = new AbortController()
      const onWait = (wait: Wait) => {
        waits.push(wait)
        if (wait.milliseconds > 1000) controller.abort(new Error('enough'))
      }
      const { signal } = controller
      const options = { ...quick, delay, onWait, signal }
      await askWithRetries(busy.url, {}, options).catch(() => {})
      return waits
    }
    const [first, second] = await asks('0', 20)
    expect([first, second].map(({ milliseconds }) => milliseconds)).toEqual([20, 20])
    expect(first.why).toBe('limits the rate (429)')
    expect((await asks('86400', 1))[0].milliseconds).toBe(60_000)
    expect((await asks('1.5', 1))[0].milliseconds).toBe(1500)
  })

  it('may be one of many on a signal, without a warning', async () => {
    const warnings: Error[] = []
    const warned = (warning: Error) => warnings.push(warning)
    process.on('warning', warned)
    const controller = new AbortController()
    const busy = await server((_, response) => response.writeHead(503).end())
    const options = { ...quick, delay: 10_000, signal: controller.signal }
    const asked = Array.from({ length: 40 }, () => askWithRetries(busy.url, {}, options))
    while (busy.asked.length < 40) await new Promise((resolve) => setTimeout(resolve, 5))
    setTimeout(() => controller.abort(new Error('enough')), 50)
    const ends = await Promise.allSettled(asked)
    expect(ends.map((end) => (end as PromiseRejectedResult).reason.message)).toEqual(Array(40).fill('enough'))
    await new Promise((resolve) => setTimeout(resolve, 5))
    process.removeListener('warning', warned)
    expect(warnings).toEqual([])
  })

  it('is told where a person would notice it, and not each time', () => {
    const said: string[] = []
    const tell = waitNotices('http://host', (text) => said.push(text))
    for (const milliseconds of [100, 1999, 4200, 8000]) tell({ why: 'fails (503)', milliseconds })
    expect(said).toEqual(['http://host fails (503): it is asked again in 4 s.'])
  })
})

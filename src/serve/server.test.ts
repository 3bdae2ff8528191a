import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { type IncomingHttpHeaders, request } from 'node:http'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeSyntheticRun } from '../view/testing/synthetic-run.ts'
import type { BoardText, BoardUpdate, RunListing } from '../view/types.ts'
import { cookieName, hasToken, isOwnHost, namesOf } from './access.ts'
import { type Dashboard, serve } from './server.ts'

let folder: string
let dashboard: Dashboard
const secret = 'not for the browser'

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'serve-'))
  const runs = join(folder, 'runs')
  await writeSyntheticRun(join(runs, 'a'), {
    holdout: 12,
    train: 12,
    steps: 2,
    problemsPerStep: 3,
    hostile: ['find Me'],
  })
  await writeFile(join(folder, 'secret.txt'), secret)
  await mkdir(join(folder, 'outside'))
  await writeFile(join(folder, 'outside', 'secret.txt'), secret)
  await symlink(join(folder, 'secret.txt'), join(runs, 'a', 'link.json'))
  await symlink(join(folder, 'outside'), join(runs, 'a', 'linked'))
  await symlink(join(folder, 'outside'), join(runs, 'linked-run'))
  await writeFile(join(runs, 'a', '.hidden'), secret)
  // A run whose very jobs are links out of it.
  await mkdir(join(runs, 'b'))
  await symlink(join(runs, 'a', 'base-baseline-1'), join(runs, 'b', 'base-baseline-1'))
  await writeFile(join(runs, 'b', 'experiment.json'), '{"kind": "something else"}')
  dashboard = await serve({ folder: runs })
})
afterAll(async () => {
  await dashboard.close()
  await rm(folder, { recursive: true })
})

interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: string
}

/** A request as it is, with no client tidying its path. */
function ask(
  path: string,
  options: { method?: string; headers?: Record<string, string>; url?: string } = {},
): Promise<Answer> {
  const { hostname, port } = new URL(options.url ?? dashboard.url)
  return new Promise((resolve, reject) => {
    const sent = request(
      { hostname, port, path, method: options.method ?? 'GET', headers: options.headers ?? {} },
      (response) => {
        let body = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => {
          body += chunk
        })
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
        )
      },
    )
    sent.on('error', reject)
    sent.end()
  })
}

describe('what the server gives', () => {
  it('is the page, the list of runs, a run, its boards and its files', async () => {
    expect((await ask('/')).headers['content-type']).toContain('text/html')
    const listed = JSON.parse((await ask('/api/runs')).body) as RunListing[]
    // The linked folder is not in it, and the broken one says why.
    expect(listed.map(({ name }) => name).sort()).toEqual(['a', 'b'])
    expect(listed.find(({ name }) => name === 'b')?.problem).toMatch(
      /experiment\.json was not written by message-board, or is damaged/,
    )
    expect(JSON.parse((await ask('/api/runs/a')).body)).toMatchObject({
      name: 'a',
      arms: ['baseline', 'recipe'],
      state: 'finished',
    })
    const { epoch, columns } = JSON.parse((await ask('/api/runs/a/boards')).body) as BoardUpdate
    // 8 evaluations of 12 problems, and 4 trainings of 2 steps of 3.
    expect(columns.job).toHaveLength(8 * 12 + 4 * 2 * 3)
    expect(columns.flags).toHaveLength(8 * columns.job.length)
    const board = JSON.parse((await ask(`/api/runs/a/boards/0?epoch=${epoch}`)).body) as BoardText
    expect(board.rounds[0][0].text).toBe('find Me')
    expect(
      JSON.parse((await ask(`/api/runs/a/search?text=FIND%20me&count=4096&epoch=${epoch}`)).body),
    ).toHaveLength(8)
    expect((await ask('/files/a/results.json')).body).toContain('"schemaVersion": 2')
    expect((await ask('/files/a/base-baseline-1/rollouts.jsonl')).body.split('\n')).toHaveLength(13)
  })

  it('is only what is new, for who has the rest', async () => {
    const { epoch, columns } = JSON.parse((await ask('/api/runs/a/boards')).body) as BoardUpdate
    const rest = JSON.parse(
      (await ask(`/api/runs/a/boards?epoch=${epoch}&from=100&fromProblem=12`)).body,
    ) as BoardUpdate
    expect(rest.columns.job).toEqual(columns.job.slice(100))
    expect(rest.columns.problems.id).toEqual(columns.problems.id.slice(12))
    // Another numbering: all of it.
    const other = JSON.parse((await ask('/api/runs/a/boards?epoch=x&from=100')).body) as BoardUpdate
    expect(other.from).toBe(0)
    expect((await ask('/api/runs/a/boards/0?epoch=x')).status).toBe(409)
  })
})

describe('what the server refuses', () => {
  it.each([
    '/files/a/../../secret.txt',
    '/files/a/..%2f..%2fsecret.txt',
    '/files/a/%2e%2e/%2e%2e/secret.txt',
    '/files/a/..%5c..%5csecret.txt',
    '/files/%2e%2e/secret.txt',
    '/files/a/link.json',
    '/files/a/linked/secret.txt',
    '/files/linked-run/secret.txt',
    '/files/a/.hidden',
    '/files/a/base-baseline-1',
    '/files/a/',
    '/files/a/%00',
    '/files/b/base-baseline-1/rollouts.jsonl',
    '/api/runs/..%2f..',
    '/api/runs/linked-run',
    '/../secret.txt',
    '//etc/passwd',
    '/%',
    '/api/runs/a/boards/-1',
    '/api/runs/a/boards?from=1e9',
  ])('%s', async (path) => {
    const { status, body } = await ask(path)
    expect(status).toBeGreaterThanOrEqual(400)
    expect(status).toBeLessThan(500)
    expect(body).not.toContain(secret)
  })

  it('a path longer than any there is', async () => {
    expect((await ask(`/files/${'a/'.repeat(5000)}`)).status).toBe(404)
  })

  it('any path at all that leads out', async () => {
    const part = fc.constantFrom(
      '..',
      '.',
      '%2e%2e',
      '..%2f',
      '%2f',
      'linked',
      'link.json',
      'secret.txt',
      'a',
      '%5c..',
      '%c0%ae%c0%ae',
    )
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 6 }), async (parts) => {
        const { body } = await ask(`/files/a/${parts.join('/')}`)
        expect(body).not.toContain(secret)
      }),
      { numRuns: 60 },
    )
  })

  it('a host that is not its own, as a page elsewhere would name', async () => {
    const { port } = new URL(dashboard.url)
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      `127.0.0.1.evil.example:${port}`,
      `localhost:${port}@evil.example`,
    ]) {
      expect((await ask('/api/runs', { headers: { host } })).status).toBe(421)
    }
    for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`]) {
      expect((await ask('/api/runs', { headers: { host } })).status).toBe(200)
    }
  })

  it('to write', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      expect((await ask('/api/runs', { method })).status).toBe(405)
    }
    const head = await ask('/api/runs', { method: 'HEAD' })
    expect([head.status, head.body]).toEqual([200, ''])
  })

  it('to let anything but its own script run', async () => {
    for (const path of ['/', '/api/runs', '/nothing', '/files/a/results.json']) {
      const { headers } = await ask(path)
      const policy = String(headers['content-security-policy'])
      expect(policy).toMatch(/^default-src 'none'/)
      expect(policy).not.toMatch(/unsafe|\*|http/)
      expect(headers['x-content-type-options']).toBe('nosniff')
    }
    expect((await ask('/')).headers['content-security-policy']).toContain("frame-ancestors 'none'")
    expect((await ask('/files/a/results.json')).headers['content-disposition']).toMatch(/^attachment/)
  })
})

describe('a server open to others', () => {
  it('asks for its token, and keeps it in a cookie that no script reads', async () => {
    const open = await serve({ folder: join(folder, 'runs'), host: '0.0.0.0', token: 'the-token' })
    try {
      const { port } = new URL(open.url)
      expect(open.url).toBe(`http://0.0.0.0:${port}/?token=the-token`)
      const url = `http://127.0.0.1:${port}/`
      for (const path of ['/', '/api/runs', '/?token=the-toke', '/?token=', '/files/a/results.json']) {
        expect((await ask(path, { url })).status).toBe(401)
      }
      const let_in = await ask('/?token=the-token', { url })
      expect(let_in.status).toBe(303)
      const [cookie] = let_in.headers['set-cookie'] ?? []
      expect(cookie).toMatch(/HttpOnly; SameSite=Strict/)
      expect((await ask('/api/runs', { url, headers: { cookie: cookie.split(';')[0] } })).status).toBe(200)
      expect((await ask('/api/runs', { url, headers: { authorization: 'Bearer the-token' } })).status).toBe(
        200,
      )
      // With the token, too, only under its own names.
      const headers = { authorization: 'Bearer the-token', host: `evil.example:${port}` }
      expect((await ask('/api/runs', { url, headers })).status).toBe(421)
    } finally {
      await open.close()
    }
  })

  it('makes up a token of its own that cannot be guessed', async () => {
    const open = await Promise.all([1, 2].map(() => serve({ folder, host: '0.0.0.0' })))
    const tokens = open.map(({ url }) => new URL(url).searchParams.get('token') ?? '')
    await Promise.all(open.map((each) => each.close()))
    expect(new Set(tokens).size).toBe(2)
    for (const token of tokens) expect(token).toMatch(/^[\w-]{24}$/)
  })

  it('goes by its own names and by addresses, at whatever port a request comes in', async () => {
    const names = namesOf('0.0.0.0', 'Box.lan')
    for (const own of ['box.lan:80', 'box', 'BOX.local:1', 'box.lan.', '192.168.1.5:80', '[fe80::1]:80']) {
      expect(isOwnHost(own, names), own).toBe(true)
      expect(isOwnHost(own, null), own).toBe(false)
    }
    for (const here of ['localhost', 'localhost:9000', '127.0.0.1:1', '[::1]:65535']) {
      expect(isOwnHost(here, names), here).toBe(true)
      expect(isOwnHost(here, null), here).toBe(true)
    }
    for (const other of [
      'other.local:80',
      'lan',
      'box.lan.evil',
      'localhost.evil',
      'evil/localhost',
      '',
      undefined,
    ]) {
      expect(isOwnHost(other, names), other).toBe(false)
    }
    // As behind `docker run -p 9000:8642` and `ssh -L 9000:localhost:8642`.
    expect((await ask('/api/runs', { headers: { host: 'localhost:9000' } })).status).toBe(200)
    const open = await serve({ folder: join(folder, 'runs'), host: '0.0.0.0', token: 'the-token' })
    const url = `http://127.0.0.1:${new URL(open.url).port}/`
    const headers = { authorization: 'Bearer the-token', host: `${hostname()}:9000` }
    expect((await ask('/api/runs', { url, headers })).status).toBe(200)
    await open.close()
  })

  it('does not mistake the cookie of another one on this machine for its own', () => {
    const [mine, theirs] = ['mine', 'theirs'].map((token) => `${cookieName(token)}=${token}`)
    expect(hasToken({ cookie: `${theirs}; ${mine}` }, 'mine')).toBe(true)
    expect(hasToken({ cookie: theirs }, 'mine')).toBe(false)
  })
})

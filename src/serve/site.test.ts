import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Site, serveSite } from './site.ts'

let folder: string
let site: Site
const policy = "default-src 'none'; script-src 'self'"

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'site-'))
  await mkdir(join(folder, 'built', 'assets'), { recursive: true })
  await writeFile(
    join(folder, 'built', 'index.html'),
    `<meta http-equiv="Content-Security-Policy" content="${policy}"><p>the page`,
  )
  await writeFile(join(folder, 'built', 'assets', 'engine-1.wasm'), Uint8Array.of(0, 97, 115, 109))
  await writeFile(join(folder, 'secret.txt'), 'not for the browser')
  await symlink(join(folder, 'secret.txt'), join(folder, 'built', 'linked.txt'))
  site = await serveSite({ folder: join(folder, 'built') })
})
afterAll(async () => {
  await site.close()
  await rm(folder, { recursive: true })
})

/** A request as it is, with no client tidying its path. */
function ask(path: string, { method = 'GET', host }: { method?: string; host?: string } = {}) {
  const { hostname, port } = new URL(site.url)
  return new Promise<{ status?: number; headers: Record<string, unknown>; body: string }>(
    (resolve, reject) => {
      const headers = host === undefined ? {} : { host }
      const sent = request({ hostname, port, path, method, headers }, (response) => {
        let body = ''
        response.setEncoding('latin1')
        response.on('data', (part: string) => {
          body += part
        })
        response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body }))
      })
      sent.on('error', reject)
      sent.end()
    },
  )
}

it("gives the page under the page's own policy, and its files by their types", async () => {
  const page = await ask('/')
  expect(page).toMatchObject({ status: 200, body: expect.stringContaining('the page') })
  expect(page.headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': `${policy}; frame-ancestors 'none'`,
    'cache-control': 'no-cache',
    'x-content-type-options': 'nosniff',
  })
  // A type that browsers compile while it comes in; a name that changes with what it holds.
  expect(await ask('/assets/engine-1.wasm?x=1')).toMatchObject({
    status: 200,
    body: '\0asm',
    headers: { 'content-type': 'application/wasm', 'cache-control': 'max-age=31536000, immutable' },
  })
  expect(await ask('/', { method: 'HEAD' })).toMatchObject({ status: 200, body: '' })
})

it.each([
  '/nothing.html',
  '/assets',
  '/linked.txt',
  '/../secret.txt',
  '/%2e%2e/secret.txt',
  '/..%2fsecret.txt',
  '//etc/passwd',
  '/%',
])('refuses %s', async (path) => {
  const { status, body } = await ask(path)
  expect([400, 404]).toContain(status)
  expect(body).not.toContain('not for the browser')
})

it('refuses other hosts, and whatever is no asking', async () => {
  expect((await ask('/', { host: 'evil.example' })).status).toBe(421)
  expect((await ask('/', { method: 'POST' })).status).toBe(405)
})

it('says what to do where nothing was built', async () => {
  await expect(serveSite({ folder: join(folder, 'nowhere') })).rejects.toThrow(
    /The playground is missing from .*nowhere: run npm run build:site\./,
  )
})

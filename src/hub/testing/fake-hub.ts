/**
 * A hub on this machine, for tests: the part of the Hub's HTTP API that downloads use, over files in memory, and the
 * ways in which such a server and its network fail. Small files come from the hub itself; large ones (`.safetensors`,
 * `.parquet`) from another origin that they are redirected to, as the real hub's do.
 */
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What goes wrong: another answer, a connection that ends at once or after so many bytes of body, or other bytes. */
export type Fault =
  | { status: number; headers?: Record<string, string>; body?: string | 'without end' }
  | 'hang up'
  | { after: number }
  | 'other bytes'

type BodyFault = Exclude<Fault, 'hang up' | { status: number }>

export interface Asked {
  method: string
  path: string
  range: string | undefined
  authorization: string | undefined
  /** Which of the two origins was asked. */
  origin: 'hub' | 'storage'
}

export interface FakeHub {
  endpoint: string
  asked: Asked[]
  /** Says what goes wrong with a request; nothing when left out. */
  fault: (asked: Asked) => Fault | undefined
  close(): Promise<void>
}

export interface FakeRepository {
  type: 'model' | 'dataset'
  name: string
  /** Commits by branch or tag. */
  refs: Record<string, string>
  /** Files by path, by commit. */
  commits: Record<string, Record<string, Uint8Array>>
  /** The token without which the repository is not shown. */
  token?: string
}

const isLarge = (path: string) => /\.(safetensors|parquet|bin)$/.test(path)
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const gitId = (bytes: Uint8Array) =>
  createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex')

/** Files of a page of the listing. */
const PAGE = 3

export async function startFakeHub(repositories: readonly FakeRepository[]): Promise<FakeHub> {
  const server = createServer((request, response) => {
    const { host = '', authorization, range } = request.headers
    const url = new URL(request.url ?? '/', `http://${host}`)
    const asked: Asked = {
      method: request.method ?? '',
      path: decodeURIComponent(url.pathname),
      range,
      authorization,
      origin: url.hostname === 'localhost' ? 'storage' : 'hub',
    }
    hub.asked.push(asked)
    const fault = hub.fault(asked)
    if (fault === 'hang up') return request.socket.destroy()
    if (typeof fault === 'object' && 'status' in fault) {
      response.writeHead(fault.status, fault.headers)
      return fault.body === 'without end' ? writeOn(response) : response.end(fault.body ?? 'no')
    }
    answer(request, response, url, fault)
  })
  await new Promise<void>((resolve) => server.listen(0, resolve))
  const { port } = server.address() as AddressInfo
  const hub: FakeHub = {
    endpoint: `http://127.0.0.1:${port}`,
    asked: [],
    fault: () => undefined,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }

  function answer(request: IncomingMessage, response: ServerResponse, url: URL, fault?: BodyFault) {
    const json = (status: number, value: unknown, headers: Record<string, string> = {}) =>
      response
        .writeHead(status, { 'content-type': 'application/json', ...headers })
        .end(JSON.stringify(value))
    if (url.hostname === 'localhost') {
      const bytes = repositories
        .flatMap(({ commits }) => Object.values(commits).flatMap((files) => Object.values(files)))
        .find((candidate) => url.pathname === `/storage/${sha256(candidate)}`)
      if (!bytes) return json(404, { error: 'Not found' })
      return sendBytes(request, response, bytes, {}, fault)
    }
    const path = url.pathname.split('/').filter(Boolean).map(decodeURIComponent)
    const isApi = path[0] === 'api'
    if (isApi) path.shift()
    const isDataset = path[0] === 'datasets'
    if (isDataset || path[0] === 'models') path.shift()
    const [owner, name, verb, revision = '', ...rest] = path
    const repository = repositories.find(
      (one) => one.name === `${owner}/${name}` && (one.type === 'dataset') === isDataset,
    )
    const isShown =
      repository && (!repository.token || request.headers.authorization === `Bearer ${repository.token}`)
    // The hub tells a stranger no more than that.
    if (!isShown) {
      return request.headers.authorization
        ? json(404, { error: 'Repository not found' }, { 'x-error-code': 'RepoNotFound' })
        : json(401, { error: 'Invalid username or password.' }, { 'x-error-code': 'RepoNotFound' })
    }
    const commit = repository.refs[revision] ?? revision
    const files = repository.commits[commit]
    if (!files)
      return json(404, { error: `Invalid rev id: ${revision}` }, { 'x-error-code': 'RevisionNotFound' })
    if (isApi && verb === 'revision') return json(200, { _id: '1', id: repository.name, sha: commit })
    if (isApi && verb === 'tree') {
      const start = Number(url.searchParams.get('cursor') ?? 0)
      const entries = Object.entries(files).map(([file, bytes]) => ({
        type: 'file',
        path: file,
        size: bytes.length,
        oid: gitId(isLarge(file) ? Buffer.from(`pointer to ${sha256(bytes)}`) : bytes),
        ...(isLarge(file) ? { lfs: { oid: sha256(bytes), size: bytes.length, pointerSize: 130 } } : {}),
      }))
      url.searchParams.set('cursor', String(start + PAGE))
      const next = start + PAGE < entries.length ? { link: `<${url.href}>; rel="next"` } : undefined
      return json(200, entries.slice(start, start + PAGE), next)
    }
    const bytes = verb === 'resolve' ? files[rest.join('/')] : undefined
    if (!bytes) return json(404, { error: 'Entry not found' }, { 'x-error-code': 'EntryNotFound' })
    const headers = {
      'x-repo-commit': commit,
      etag: `"${isLarge(rest.at(-1) ?? '') ? sha256(bytes) : gitId(bytes)}"`,
    }
    if (!isLarge(rest.at(-1) ?? '')) return sendBytes(request, response, bytes, headers, fault)
    response
      .writeHead(302, {
        ...headers,
        'x-linked-etag': headers.etag,
        'x-linked-size': String(bytes.length),
        location: `http://localhost:${port}/storage/${sha256(bytes)}`,
      })
      .end()
  }
  return hub
}

function writeOn(response: ServerResponse): void {
  const chunk = Buffer.alloc(2 ** 16, '[')
  const more = () => {
    while (response.write(chunk));
  }
  response.on('drain', more)
  more()
}

function sendBytes(
  request: IncomingMessage,
  response: ServerResponse,
  bytes: Uint8Array,
  headers: Record<string, string>,
  fault?: BodyFault,
): void {
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? []
  const start = Number(from ?? 0)
  const end = to ? Math.min(Number(to) + 1, bytes.length) : bytes.length
  const part = fault === 'other bytes' ? bytes.slice(start, end).fill(0) : bytes.subarray(start, end)
  response.writeHead(from === undefined ? 200 : 206, {
    etag: `"${sha256(bytes)}"`,
    ...headers,
    'content-length': String(part.length),
    ...(from === undefined ? {} : { 'content-range': `bytes ${start}-${end - 1}/${bytes.length}` }),
  })
  const after = typeof fault === 'object' ? fault.after : part.length
  if (part.length <= after) {
    response.end(part)
    return
  }
  // What is written must have left before the connection ends.
  response.write(part.subarray(0, after), () => setTimeout(() => response.destroy(), 20))
}

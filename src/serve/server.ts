/**
 * The dashboard's server: the page, the runs of one folder as data, and a stream of their changes. It reads that
 * folder and nothing else, writes nothing, and answers only requests that name it as their host. What it shows is
 * read from the files each time, so that a restart loses nothing.
 */
import { randomBytes } from 'node:crypto'
import { realpath } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { hostname } from 'node:os'
import { pipeline } from 'node:stream/promises'
import { UserError } from '../errors.ts'
import type { FileHandle } from '../platform/files.ts'
import { contentPolicy, type Page, pageEnd, pageStart, readPage } from '../report/page.ts'
import { boardUpdate } from '../view/follow.ts'
import { openInside } from '../view/inside.ts'
import { listRun, runFolders } from '../view/listing.ts'
import type { RunIndex } from '../view/run-index.ts'
import { cookieName, hasToken, isLoopback, isOwnHost, isSame, namesOf } from './access.ts'
import { listen, onlyAsking, Refusal, secure, send, target } from './listen.ts'
import { type OpenRuns, openRuns } from './runs.ts'

export interface ServeOptions {
  /** A run folder, or a folder of runs. */
  folder: string
  /** Where to listen; 127.0.0.1 unless told. Any other than this machine's own asks for a token. */
  host?: string
  /** 0, or left out: any free one. */
  port?: number
  /** The token to ask for; a random one unless told. Not asked for on loopback. */
  token?: string
}

export interface Dashboard {
  /** What to open, with the token where one is asked for. */
  url: string
  close: () => Promise<void>
}

/** Boards looked through for one search: so that no answer takes long. */
const MOST_SEARCHED = 4096
const LONGEST_SEARCH = 1000

/**
 * Starts the server.
 *
 * @throws UserError for a folder that is not there, and an address that cannot be listened on.
 */
export async function serve(options: ServeOptions): Promise<Dashboard> {
  const { host = '127.0.0.1' } = options
  const root = await realpath(options.folder).catch(() => {
    throw new UserError(`There is no folder ${options.folder}: give the folder of a run, or of several.`)
  })
  const page = await readPage()
  const token = isLoopback(host) ? null : (options.token ?? randomBytes(18).toString('base64url'))
  const names = token === null ? null : namesOf(host, hostname())
  const runs = openRuns()
  const server = await listen(
    (request, response) => answer({ request, response, root, page, runs, names, token }),
    { host, port: options.port ?? 0 },
  )
  const { port } = server
  const name = host.includes(':') ? `[${host}]` : host
  // A folder that is one run is opened at that run.
  const [only, ...others] = (await runFolders(root)).keys()
  const view = only !== undefined && others.length === 0 ? `#/run/${encodeURIComponent(only)}` : ''
  return {
    url: `http://${name}:${port}/${token === null ? '' : `?token=${token}`}${view}`,
    async close() {
      runs.close()
      await server.close()
    },
  }
}

interface Exchange {
  request: IncomingMessage
  response: ServerResponse
  root: string
  page: Page
  runs: OpenRuns
  /** What it goes by beside this machine's own address, where it is open to others. */
  names: readonly string[] | null
  token: string | null
}

async function answer(exchange: Exchange): Promise<void> {
  const { request, response, root, page, names, token } = exchange
  secure(response, contentPolicy(page, "'self'"))
  if (!isOwnHost(request.headers.host, names)) {
    throw new Refusal(421, 'This server does not go by that name.')
  }
  onlyAsking(request, response)
  const { path, query } = target(request.url ?? '/')
  if (token !== null && !hasToken(request.headers, token)) {
    if (path.length === 0 && isSame(query.get('token') ?? '', token)) {
      response.setHeader('Set-Cookie', `${cookieName(token)}=${token}; HttpOnly; SameSite=Strict; Path=/`)
      response.setHeader('Location', './')
      return send(response, 303, 'text/plain; charset=utf-8', '')
    }
    throw new Refusal(401, 'This server asks for a token: open the address that it printed when it started.')
  }
  const [first, ...rest] = path
  if (first === undefined) {
    const html = pageStart(page, 'message-board', { kind: 'server' }) + pageEnd
    return send(response, 200, 'text/html; charset=utf-8', html)
  }
  const folders = await runFolders(root)
  if (first === 'api' && rest[0] === 'runs') {
    const [, name, ...what] = rest
    if (name === undefined) {
      const listed = await Promise.all([...folders].map(([run, folder]) => listRun(run, folder)))
      return json(
        response,
        listed.sort((a, b) => (a.changed < b.changed ? 1 : -1)),
      )
    }
    return answerRun(exchange, folderOf(folders, name), what, query)
  }
  if (first === 'files' && rest[0] !== undefined) {
    return sendFile(exchange, folderOf(folders, rest[0]), rest.slice(1))
  }
  throw new Refusal(404, 'There is nothing here.')
}

/** Only names that were found in the folder lead anywhere: no path is made of what was asked for. */
function folderOf(folders: Map<string, string>, name: string): string {
  const folder = folders.get(name)
  if (folder === undefined) throw new Refusal(404, 'There is no such run.')
  return folder
}

async function answerRun(
  { request, response, runs }: Exchange,
  folder: string,
  what: string[],
  query: URLSearchParams,
): Promise<void> {
  const [part, number] = what
  if (part === 'events' && number === undefined) return stream(request, response, runs, folder)
  const run = await runs.get(folder)
  if (part === undefined) return json(response, run.view())
  if (part === 'boards' && number === undefined) {
    const has = { from: whole(query, 'from'), fromProblem: whole(query, 'fromProblem') }
    return json(response, boardUpdate(run, { epoch: query.get('epoch'), ...has }))
  }
  if (query.get('epoch') !== run.epoch()) {
    throw new Refusal(409, 'The run was started afresh: reload the page.')
  }
  if (part === 'boards') {
    const count = run.columns().job.length
    if (!/^\d{1,9}$/.test(number) || Number(number) >= count)
      throw new Refusal(404, 'There is no such board.')
    return json(response, (await run.texts([Number(number)]))[0])
  }
  if (part === 'search') return json(response, await search(run, query))
  throw new Refusal(404, 'There is nothing here.')
}

/** Boards of a portion with a post that holds the text, in any case. */
async function search(run: RunIndex, query: URLSearchParams): Promise<number[]> {
  const needle = (query.get('text') ?? '').slice(0, LONGEST_SEARCH).toLowerCase()
  const from = whole(query, 'from')
  const count = Math.min(whole(query, 'count'), MOST_SEARCHED, Math.max(0, run.columns().job.length - from))
  const numbers = Array.from({ length: count }, (_, i) => from + i)
  const texts = await run.texts(numbers)
  return numbers.filter((_, i) =>
    texts[i].rounds.flat().some(({ text }) => text.toLowerCase().includes(needle)),
  )
}

function whole(query: URLSearchParams, name: string): number {
  const text = query.get(name) ?? '0'
  if (!/^\d{1,9}$/.test(text)) throw new Refusal(400, `${name} must be a whole number.`)
  return Number(text)
}

/** Server-sent events: the run now, and after each change. */
function stream(request: IncomingMessage, response: ServerResponse, runs: OpenRuns, folder: string): void {
  response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' })
  if (request.method === 'HEAD') return void response.end()
  // A reader that is slow gets the newest state once it has read the last one: nothing piles up here, and the last
  // state is never lost.
  let newest: string | null = null
  const flush = () => {
    if (newest === null || response.writableNeedDrain) return
    response.write(newest)
    newest = null
  }
  response.on('drain', flush)
  const unwatch = runs.watch(folder, (event) => {
    const [name, data] = 'trouble' in event ? ['trouble', event.trouble] : ['run', event]
    newest = `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
    flush()
  })
  // So that a connection that died is noticed, here and by what stands between.
  const beat = setInterval(() => response.write(': still here\n\n'), 15_000)
  response.on('close', () => {
    clearInterval(beat)
    unwatch()
  })
}

const types: Record<string, string> = {
  json: 'application/json; charset=utf-8',
  jsonl: 'text/plain; charset=utf-8',
  md: 'text/plain; charset=utf-8',
}

/** A file of a run, to be saved: never shown as a page of this server. */
async function sendFile({ request, response }: Exchange, folder: string, names: string[]): Promise<void> {
  // Names that begin with a dot are the run's own affairs, such as its lock.
  const file = names.some((name) => name.startsWith('.')) ? null : await openInside(folder, names)
  if (!file) throw new Refusal(404, 'There is no such file in this run.')
  try {
    const name = names.at(-1) ?? ''
    const ending = name.split('.').at(-1) ?? ''
    response.writeHead(200, {
      'Content-Type': types[ending] ?? 'application/octet-stream',
      'Content-Length': (await file.stat()).size,
      'Content-Disposition': `attachment; filename*=UTF-8''${encodeURIComponent(name)}`,
      'Content-Security-Policy': "default-src 'none'; sandbox",
    })
    if (request.method === 'HEAD') return void response.end()
    const { size } = await file.stat()
    if (size === 0) return void response.end()
    // Up to the length that was named: the run may be writing on.
    await pipeline(partsOf(file, size), response)
  } finally {
    await file.close()
  }
}

/** A file's first bytes, a part at a time. */
async function* partsOf(file: FileHandle, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < size; ) {
    const part = new Uint8Array(Math.min(1 << 16, size - at))
    const { bytesRead } = await file.read(part, 0, part.length, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield part.subarray(0, bytesRead)
  }
}

const json = (response: ServerResponse, value: unknown): void =>
  send(response, 200, 'application/json; charset=utf-8', JSON.stringify(value))

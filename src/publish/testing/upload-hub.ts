/**
 * A hub on this machine that records what is sent to it, for tests: the part of the Hub's HTTP API that pushing a model
 * uses. Large files (`.safetensors`) go to another origin, as the real hub's do.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Sent {
  method: string
  path: string
  authorization: string | undefined
  /** Which of the two origins was asked. */
  origin: 'hub' | 'storage'
  body: string
}

export interface UploadHub {
  endpoint: string
  sent: Sent[]
  /** Files by repository and path, as they are now. */
  files: Map<string, Map<string, string>>
  /** Repositories that were made private. */
  isPrivate: Set<string>
  close: () => Promise<void>
}

/** `models`: bases that are there. `fault`: refuses a request with this status and body. */
export async function startUploadHub({
  models,
  fault = () => undefined,
}: {
  models: readonly string[]
  fault?: (sent: Sent) => { status: number; body: string } | undefined
}): Promise<UploadHub> {
  const files: UploadHub['files'] = new Map()
  const [sent, isPrivate, stored] = [[] as Sent[], new Set<string>(), new Map<string, string>()]
  let storage = ''

  const answerHub = ({ method, path, body }: Sent, response: ServerResponse) => {
    const json = (value: unknown, status = 200) => {
      response.writeHead(status, { 'Content-Type': 'application/json' })
      response.end(JSON.stringify(value))
    }
    const [, model] = /^\/api\/models\/([\w.-]+\/[\w.-]+)/.exec(path) ?? []
    if (method === 'GET' && model !== undefined) {
      return models.includes(model)
        ? json({ id: model, _id: '1' })
        : json({ error: 'Repository not found' }, 404)
    }
    if (path === '/api/repos/create') {
      const { name, organization, visibility } = JSON.parse(body)
      const repository = `${organization}/${name}`
      if (files.has(repository)) return json({ error: 'You already created this model repo' }, 409)
      files.set(repository, new Map())
      if (visibility === 'private') isPrivate.add(repository)
      return json({ url: `http://hub/${repository}`, id: '2' })
    }
    if (path.includes('/preupload/')) {
      const asked = JSON.parse(body).files as { path: string }[]
      return json({
        files: asked.map((file) => ({
          path: file.path,
          uploadMode: file.path.endsWith('.safetensors') ? 'lfs' : 'regular',
        })),
      })
    }
    if (path.endsWith('/info/lfs/objects/batch')) {
      const { objects } = JSON.parse(body) as { objects: { oid: string; size: number }[] }
      return json({
        transfer: 'basic',
        objects: objects.map(({ oid, size }) => ({
          oid,
          size,
          actions: { upload: { href: `${storage}/${oid}?signed=yes` } },
        })),
      })
    }
    if (path.includes('/commit/')) {
      const lines = body.split('\n').map((line) => JSON.parse(line))
      const repository = files.get(model ?? '')
      for (const { key, value } of lines) {
        if (key === 'file') repository?.set(value.path, Buffer.from(value.content, value.encoding).toString())
        if (key === 'lfsFile') repository?.set(value.path, stored.get(value.oid) ?? '')
      }
      return json({ commitOid: 'c0ffee', commitUrl: 'http://hub/c0ffee', hookOutput: '' })
    }
    return json({ error: `nothing at ${path}` }, 404)
  }

  const listen = async (origin: Sent['origin']) => {
    const server = createServer(async (request: IncomingMessage, response) => {
      const pieces: Buffer[] = []
      for await (const piece of request) pieces.push(piece as Buffer)
      const { method = '', url: path = '/', headers } = request
      const one: Sent = {
        method,
        path,
        authorization: headers.authorization,
        origin,
        body: Buffer.concat(pieces).toString(),
      }
      sent.push(one)
      const wrong = fault(one)
      if (wrong) {
        const type = wrong.body.startsWith('{') ? 'application/json' : 'text/plain'
        response.writeHead(wrong.status, { 'Content-Type': type })
        return response.end(wrong.body)
      }
      if (origin === 'hub') return answerHub(one, response)
      stored.set(path.slice(1).split('?')[0], one.body)
      response.end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  }
  const [hub, store] = [await listen('hub'), await listen('storage')]
  storage = store.url
  return {
    endpoint: hub.url,
    sent,
    files,
    isPrivate,
    async close() {
      for (const { server } of [hub, store]) {
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      }
    },
  }
}

/**
 * The playground's server: the files of the built site (dist/site) and nothing else, on this machine alone. Any static
 * host does as well; this one is there so that a checkout or an install needs none. What the site has a copy of and an
 * installed package holds already is served from there, so that the package need not hold it twice.
 */
import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { UserError } from '../errors.ts'
import { isOwnHost } from './access.ts'
import { listen, onlyAsking, Refusal, secure, send, target } from './listen.ts'

/** The build's folder, the same from src/serve and from dist/serve. */
const built = fileURLToPath(new URL('../../dist/site/', import.meta.url))

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const policyFiles = ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json']

/** What is there beside the site, by the address that it has in it. */
function beside(): [string, string][] {
  const runtimes = ['ort-wasm-simd-threaded.wasm', 'ort-wasm-simd-threaded.jspi.wasm']
  const packaged = dirname(createRequire(import.meta.url).resolve('onnxruntime-web/wasm'))
  return [
    ...runtimes.map((name): [string, string] => [`runtime/${name}`, join(packaged, name)]),
    ...policyFiles.map((name): [string, string] => [`policy/${name}`, path(`../../policies/small/${name}`)]),
    ...['app.js', 'app.css'].map((name): [string, string] => [
      `report/${name}`,
      path(`../../dist/web/${name}`),
    ]),
  ]
}

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
}

export interface Site {
  url: string
  close: () => Promise<void>
}

/**
 * Serves the playground.
 *
 * @throws UserError where it was not built, and for a port that cannot be listened on.
 */
export async function serveSite({
  port = 0,
  folder = built,
}: {
  port?: number
  folder?: string
} = {}): Promise<Site> {
  const files = new Map([...beside(), ...(await siteFiles(folder))])
  const index = files.get('index.html')
  if (index === undefined) {
    throw new UserError(`The playground is missing from ${folder}: run npm run build:site.`)
  }
  // The page states its own policy, for hosts that set no headers.
  const policy = /http-equiv="Content-Security-Policy"\s+content="([^"]*)"/.exec(
    await readFile(index, 'utf8'),
  )
  if (policy === null) throw new Error(`${index} states no content policy`)
  const host = '127.0.0.1'
  const server = await listen(
    async (request, response) => {
      secure(response, policy[1])
      if (!isOwnHost(request.headers.host, null)) {
        throw new Refusal(421, 'This server does not go by that name.')
      }
      onlyAsking(request, response)
      const name = target(request.url ?? '/').path.join('/') || 'index.html'
      // Only names that were found in the folder lead anywhere: no path is made of what was asked for.
      const file = files.get(name)
      if (file === undefined) throw new Refusal(404, 'There is nothing here.')
      // Names under assets/ change with what they hold.
      response.setHeader(
        'Cache-Control',
        name.startsWith('assets/') ? 'max-age=31536000, immutable' : 'no-cache',
      )
      send(response, 200, types[extname(name)] ?? 'application/octet-stream', await readFile(file))
    },
    { host, port },
  )
  return { url: `http://${host}:${server.port}/`, close: server.close }
}

/** The site's files by their addresses. */
async function siteFiles(folder: string): Promise<Map<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  return new Map(
    entries
      .filter((entry) => entry.isFile())
      .map((entry) => {
        const file = `${entry.parentPath}/${entry.name}`.replaceAll('\\', '/')
        return [
          file.slice(folder.replaceAll('\\', '/').replace(/\/*$/, '/').length).replace(/^\/+/, ''),
          file,
        ]
      }),
  )
}

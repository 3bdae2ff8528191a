/** Builds a page of TypeScript as a site's author would, and serves it with the built-in policy from this machine. */
import { createReadStream, existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'
import { webSiblings } from '../../vite.siblings.ts'

const library = fileURLToPath(new URL('../../src/browser.ts', import.meta.url))
const policy = fileURLToPath(new URL('../../policies/small', import.meta.url))

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
}

export interface Site {
  address: string
  /** Paths that were asked for, and how many bytes each has. */
  sent: { path: string; bytes: number }[]
  close(): Promise<void>
}

/** Serves the page of a folder of TypeScript, and the policy's files under policy/. */
export async function openSite(folder: string, page: string): Promise<Site> {
  const built = await mkdtemp(join(tmpdir(), 'message-board-site-'))
  await build({
    configFile: false,
    root: folder,
    base: './',
    logLevel: 'warn',
    resolve: { alias: { 'message-board/browser': library } },
    plugins: [webSiblings()],
    worker: {
      format: 'es',
      plugins: () => [webSiblings()],
      rolldownOptions: { checks: { pluginTimings: false, ineffectiveDynamicImport: false } },
    },
    build: {
      outDir: built,
      emptyOutDir: true,
      target: 'es2023',
      rolldownOptions: {
        input: join(folder, page),
        checks: { pluginTimings: false, ineffectiveDynamicImport: false },
      },
    },
  })
  const sent: Site['sent'] = []
  const server = createServer((request, response) => {
    const path = new URL(request.url!, 'http://here').pathname
    const file = path.startsWith('/policy/') ? join(policy, path.slice(8)) : join(built, path)
    if (!existsSync(file)) return void response.writeHead(404).end()
    response.writeHead(200, { 'Content-Type': types[extname(file)] ?? 'application/octet-stream' })
    const entry = { path, bytes: 0 }
    sent.push(entry)
    createReadStream(file)
      .on('data', (part) => {
        entry.bytes += part.length
      })
      .pipe(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}/${page}`,
    sent,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await rm(built, { recursive: true })
    },
  }
}

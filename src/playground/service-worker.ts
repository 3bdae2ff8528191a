/**
 * Keeps the site's files in the browser, so that it opens at once and without a network. The build puts in which files
 * there are, and a number that changes with any of them. Knows nothing else of the site.
 */
interface Site {
  /** Changes with any file. */
  version: string
  /** Addresses beside this one, of what every visitor needs. */
  files: string[]
}

/** What the build puts in the place of this name. */
declare const __SITE__: Site

interface LifetimeEvent extends Event {
  waitUntil(done: Promise<unknown>): void
}

interface AskedEvent extends Event {
  readonly request: Request
  respondWith(response: Promise<Response>): void
}

interface WorkerScope {
  registration: { scope: string }
  clients: { claim(): Promise<void> }
  skipWaiting(): Promise<void>
  addEventListener(type: 'install' | 'activate', listener: (event: LifetimeEvent) => void): void
  addEventListener(type: 'fetch', listener: (event: AskedEvent) => void): void
}

const scope = globalThis as unknown as WorkerScope
const prefix = 'message-board '
const { version, files } = __SITE__
const name = `${prefix}${version}`

scope.addEventListener('install', (event) => {
  // Past the browser's own cache, which may hold files of the version before.
  const requests = ['./', ...files].map((file) => new Request(file, { cache: 'reload' }))
  const keep = async () => (await caches.open(name)).addAll(requests)
  event.waitUntil(keep().then(() => scope.skipWaiting()))
})

scope.addEventListener('activate', (event) => {
  const old = (key: string) => key.startsWith(prefix) && key !== name
  const clear = async () => Promise.all((await caches.keys()).filter(old).map((key) => caches.delete(key)))
  event.waitUntil(clear().then(() => scope.clients.claim()))
})

scope.addEventListener('fetch', (event) => {
  const { request } = event
  if (request.method !== 'GET' || !request.url.startsWith(scope.registration.scope)) return
  const answer = async () => {
    const cache = await caches.open(name)
    const found = await cache.match(request, { ignoreSearch: true })
    if (found) return found
    const fetched = await fetch(request)
    // What few need is none of `files`, and is kept once it was asked for.
    if (fetched.ok) await cache.put(request, fetched.clone())
    return fetched
  }
  event.respondWith(answer())
})

/**
 * Repositories of a Hugging Face hub, in the cache that Python's tools share. Touches the network and that cache.
 *
 *   models--Qwen--Qwen2.5-1.5B-Instruct/
 *     blobs/<etag>                 contents, under the hash of what they hold
 *     blobs/<etag>.incomplete      the beginning of a file whose download was cut short
 *     snapshots/<commit>/<path>    links to blobs
 *     refs/<revision>              the commit that a branch or tag meant when it was last looked up
 *
 * The hub's own client resolves, lists and locates files; the cache is written here, since the client's cache neither
 * resumes a file, nor checks it, nor leaves out the files that are not wanted.
 */
import { createHash } from 'node:crypto'
import { createReadStream, constants as fileFlags } from 'node:fs'
import { copyFile, mkdir, open, readdir, readFile, rename, rm, stat, statfs, symlink } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { pipeline } from 'node:stream/promises'
import {
  datasetInfo,
  fileDownloadInfo,
  getRepoFolderName,
  HubApiError,
  listFiles,
  modelInfo,
} from '@huggingface/hub'
import { z } from 'zod'
import { keyOf, plainAddress } from '../address.ts'
import { UserError } from '../errors.ts'
import { writeFileAtomic } from '../files.ts'
import {
  askWithRetries,
  fetchWithRetries,
  piecesOf,
  type RetryOptions,
  waitNotices,
  whyUnanswered,
} from '../http.ts'
import { shown } from '../printable.ts'

export interface HubSettings {
  /** Where the hub is, without a slash at the end. */
  endpoint: string
  /** The cache's folder. */
  cache: string
  token: string | undefined
  /** Nothing is asked of the network. */
  offline: boolean
}

/** Settings as Python's tools read them: HF_ENDPOINT, HF_HUB_CACHE, HF_HOME, HF_TOKEN, HF_HUB_OFFLINE. */
export async function hubSettings(
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<HubSettings> {
  const isOn = (value = '') => /^(1|on|yes|true)$/i.test(value)
  const tilde = (path: string) => path.replace(/^~(?=$|[\\/])/, homedir())
  const home = env.HF_HOME ?? join(env.XDG_CACHE_HOME ?? '~/.cache', 'huggingface')
  // What `hf auth login` left behind.
  const tokenFile = tilde(env.HF_TOKEN_PATH ?? join(home, 'token'))
  const token = env.HF_TOKEN ?? (await readFile(tokenFile, 'utf8').catch(() => ''))
  const tokenName = env.HF_TOKEN === undefined ? tokenFile : 'The variable HF_TOKEN'
  return {
    endpoint: plainAddress(env.HF_ENDPOINT || 'https://huggingface.co', hubAddress),
    cache: tilde(env.HF_HUB_CACHE ?? env.HUGGINGFACE_HUB_CACHE ?? join(home, 'hub')),
    token: token.trim() === '' ? undefined : keyOf(token, tokenName),
    offline: isOn(env.HF_HUB_OFFLINE) || isOn(env.TRANSFORMERS_OFFLINE),
  }
}

const hubAddress = { example: 'one such as https://huggingface.co as HF_ENDPOINT', key: 'HF_TOKEN' }

export interface RepositoryName {
  type: 'model' | 'dataset'
  /** Owner and name. */
  name: string
  /** A branch, a tag, or a commit. */
  revision: string
}

export interface RepositoryFile {
  path: string
  /** Bytes. */
  size: number
}

export interface HubOptions {
  settings: HubSettings
  retries?: RetryOptions
  /** Told what a person should know though the work goes on. */
  onNotice?: (text: string) => void
}

/** One revision of a repository. */
export interface Repository {
  commit: string
  /** The hub was not asked: the files are those that the cache has, perhaps not all. */
  cached: boolean
  /** Where its files lie in the cache, those that were fetched. */
  folder: string
  files: readonly RepositoryFile[]
  /**
   * Makes a file be in the cache, whole and checked, and returns its path. A download that was cut short goes on
   * where it stopped. `onBytes` is told how many of the file's bytes are here, as they come; nothing where all are.
   */
  fetch(path: string, onBytes?: (bytes: number) => void): Promise<string>
}

interface Place {
  blobs: string
  snapshots: string
  refs: string
}

const isCommit = (revision: string) => /^[0-9a-f]{40}$/.test(revision)

/**
 * Looks a revision up and lists its files. Where the hub cannot be reached, or is not to be, what the cache holds of
 * that revision is what there is.
 *
 * @throws UserError for a repository or revision that is not there, may not be read, or cannot be reached.
 */
export async function openRepository(repo: RepositoryName, options: HubOptions): Promise<Repository> {
  const { settings, onNotice = () => {} } = options
  for (const name of [repo.name, repo.revision]) safeSegments(name)
  const root = join(settings.cache, getRepoFolderName(repo))
  const place: Place = {
    blobs: join(root, 'blobs'),
    snapshots: join(root, 'snapshots'),
    refs: join(root, 'refs'),
  }
  const cached = () => openCached(repo, place)
  if (settings.offline) {
    const found = await cached()
    if (found) return found
    throw new UserError(
      `${repo.name} at ${repo.revision} is not in the cache ${settings.cache}, and HF_HUB_OFFLINE is set: ` +
        'unset it, or name a folder that holds it.',
    )
  }
  const client = clientOf(repo, options)
  let commit: string
  try {
    commit = await client.commit()
  } catch (error) {
    // Behind a network's own page the hub is as far away as without a network.
    const found = isUnreachable(error) || error instanceof UserError ? await cached() : undefined
    if (!found) throw explained(error, repo, settings)
    const what = `${repo.name} as it is in the cache.`
    onNotice(
      error instanceof UserError
        ? `${error.message} Until then, this uses ${what}`
        : `${settings.endpoint} cannot be reached: using ${what}`,
    )
    return found
  }
  if (commit !== repo.revision) {
    const ref = join(place.refs, ...safeSegments(repo.revision))
    await makeFolder(dirname(ref))
    await writeFileAtomic(ref, commit)
  }
  let files: HubFile[]
  try {
    files = await client.list(commit)
  } catch (error) {
    throw explained(error, repo, settings)
  }
  const folder = join(place.snapshots, commit)
  return {
    commit,
    cached: false,
    folder,
    files: files.map(({ path, size }) => ({ path, size })),
    async fetch(path, onBytes = () => {}) {
      const file = files.find((entry) => entry.path === path)
      if (!file) throw new Error(`${repo.name} has no file ${path}`)
      const pointer = join(folder, ...safeSegments(path))
      if (await exists(pointer)) return pointer
      const blob = join(place.blobs, etagOf(file))
      try {
        await makeFolder(place.blobs)
        await makeFolder(dirname(pointer))
        if (!(await exists(blob))) await download(client, commit, file, blob, onBytes)
        await link(blob, pointer)
      } catch (error) {
        throw explained(error, repo, settings)
      }
      return pointer
    },
  }
}

/** A revision as the cache has it: its files may be few. */
async function openCached(repo: RepositoryName, place: Place): Promise<Repository | undefined> {
  const commit = isCommit(repo.revision)
    ? repo.revision
    : await readFile(join(place.refs, ...safeSegments(repo.revision)), 'utf8').then(
        (text) => text.trim(),
        () => undefined,
      )
  if (commit === undefined || !isCommit(commit)) return undefined
  const folder = join(place.snapshots, commit)
  const entries = await readdir(folder, { recursive: true }).catch(() => [])
  const files: RepositoryFile[] = []
  for (const entry of entries) {
    const found = await stat(join(folder, entry)).catch(() => undefined)
    if (found?.isFile()) files.push({ path: entry.replaceAll('\\', '/'), size: found.size })
  }
  if (files.length === 0) return undefined
  return {
    commit,
    cached: true,
    folder,
    files,
    async fetch(path) {
      if (!files.some((file) => file.path === path)) {
        throw new Error(`the cache has no file ${path} of ${repo.name}`)
      }
      return join(folder, ...path.split('/'))
    },
  }
}

type Client = ReturnType<typeof clientOf>

/** A file's bytes, all of them or the part that was asked for. */
interface Bytes {
  isPart: boolean
  pieces: AsyncIterable<Uint8Array>
}

/** Bytes of what the hub says about a repository, pages of a listing, and files in it. */
const LIMITS = { answer: 64 * 2 ** 20, pages: 1000, files: 100_000 }

/** What is asked of the hub, for one repository. */
function clientOf(repo: RepositoryName, { settings, retries, onNotice = () => {} }: HubOptions) {
  const hub = new URL(settings.endpoint)
  const options = { onWait: waitNotices(settings.endpoint, onNotice), ...retries }
  /** Signed where it goes to the hub itself. */
  const signed = (url: URL, init: RequestInit = {}): RequestInit => {
    const headers = new Headers(init.headers)
    if (settings.token !== undefined && url.origin === hub.origin) {
      headers.set('authorization', `Bearer ${settings.token}`)
    }
    return { ...init, headers }
  }
  const download = (url: URL, init?: RequestInit) => fetchWithRetries(url, signed(url, init), options)
  let asked = 0
  /** What the hub's client asks by. It reads answers whole, whatever their size, so they are bounded here. */
  const request: typeof fetch = async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input)
    // The first byte of a file is asked for to know where it is: the byte itself is not read.
    if (new Headers(init?.headers).has('range')) {
      const response = await download(url, init)
      await response.body?.cancel()
      const { status, headers } = response
      return Object.defineProperty(new Response(null, { status, headers }), 'url', { value: response.url })
    }
    if (url.origin !== hub.origin) throw new Error(`it names ${url.origin} for the rest of a list`)
    if (++asked > LIMITS.pages) throw new Error(`a list of more than ${LIMITS.pages} pages`)
    const { status, headers, text } = await askWithRetries(url, signed(url, init), {
      ...options,
      limit: LIMITS.answer,
    })
    return new Response(text === '' ? null : text, { status, headers })
  }
  /** What is made of the hub's answers. Where nothing can be made of them, they are no hub's. */
  const understood = async <T>(read: () => Promise<T>): Promise<T> => {
    try {
      return await read()
    } catch (error) {
      retries?.signal?.throwIfAborted()
      if (error instanceof UserError || error instanceof HubApiError || isUnreachable(error)) throw error
      const why = shown(error instanceof Error ? error.message : String(error))
      throw new UserError(
        `${settings.endpoint} does not answer as a hub does (${why}): sign in where the network asks for it, or check ` +
          'HF_ENDPOINT.',
      )
    }
  }
  const common = { hubUrl: settings.endpoint, fetch: request }
  const named = { type: repo.type, name: repo.name } as const
  return {
    commit: () =>
      understood(async () => {
        const { name, revision } = repo
        const asked = { ...common, name, revision, additionalFields: ['sha' as const] }
        const { sha } = await (repo.type === 'model' ? modelInfo(asked) : datasetInfo(asked))
        if (typeof sha !== 'string' || !isCommit(sha)) throw new Error(`the commit '${sha}'`)
        return sha
      }),
    list: (commit: string) =>
      understood(async () => {
        const files = new Map<string, HubFile>()
        for await (const entry of listFiles({ ...common, repo: named, revision: commit, recursive: true })) {
          if (entry.type !== 'file') continue
          const file = fileSchema.parse(entry)
          if (files.has(file.path)) throw new Error(`a list with ${file.path} twice`)
          files.set(file.path, file)
          if (files.size > LIMITS.files) throw new Error(`a list of more than ${LIMITS.files} files`)
        }
        return [...files.values()]
      }),
    /** A file's bytes from `start` on. */
    bytes: (commit: string, path: string, start: number): Promise<Bytes> =>
      understood(async () => {
        const info = await fileDownloadInfo({ ...common, repo: named, path, revision: commit })
        if (!info) throw new Error(`it lists ${path} and does not give it`)
        const response = await download(
          new URL(info.url),
          start > 0 ? { headers: { range: `bytes=${start}-` } } : {},
        )
        if (response.ok) {
          return { isPart: response.status === 206, pieces: piecesOf(response, retries?.timeout) }
        }
        await response.body?.cancel()
        throw new HubApiError(info.url, response.status)
      }),
  }
}

/** Hexadecimal: what a file of the cache is named by. */
const hash = z.string().regex(/^[0-9a-f]{40,64}$/)
const length = z.number().int().nonnegative()
const fileSchema = z.object({
  type: z.literal('file'),
  path: z.string().min(1).max(4096),
  size: length,
  oid: hash,
  lfs: z.object({ oid: hash, size: length }).optional(),
})
type HubFile = z.infer<typeof fileSchema>

/** @throws UserError where the disk has no room for the rest of a file, of which `has` bytes are here. */
async function checkRoom({ path, size }: HubFile, has: number, folder: string): Promise<void> {
  const { bavail, bsize, blocks } = await statfs(folder)
  // Some network file systems do not say.
  if (blocks === 0 || size - has <= bavail * bsize) return
  const gigabytes = (bytes: number) => `${(bytes / 1e9).toPrecision(3)} GB`
  throw new UserError(
    `${path} has ${gigabytes(size)}, and the disk of the cache ${folder} has room for ${gigabytes(bavail * bsize)}: ` +
      'make room, or set HF_HOME to another disk.',
  )
}

/** Downloads in a row that bring less than so many bytes, after which it is given up. */
const FRUITLESS = { downloads: 3, bytes: 2 ** 16 }

/**
 * Downloads a file to `blob`. What came in before a connection was lost is kept and gone on from, now and in a later
 * run; two processes may do so at the same time, since both write the same bytes to the same places.
 */
async function download(
  client: Client,
  commit: string,
  file: HubFile,
  blob: string,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const incomplete = `${blob}.incomplete`
  let fruitless = 0
  let spoiled = false
  for (;;) {
    const start = await sizeOf(incomplete)
    onBytes(Math.min(start, file.size))
    if (start < file.size) {
      await checkRoom(file, start, dirname(blob))
      try {
        await continueDownload(client, commit, file, incomplete, start, onBytes)
      } catch (error) {
        const isNews = (await sizeOf(incomplete)) >= start + FRUITLESS.bytes
        fruitless = isNews ? 0 : fruitless + 1
        if (!isUnreachable(error) || fruitless === FRUITLESS.downloads) throw error
        continue
      }
    }
    if (await holdsFile(incomplete, file)) break
    // Another process may have finished it, or what was there before is not the file's beginning: once more, anew.
    if (await exists(blob)) return
    await rm(incomplete, { force: true })
    if (spoiled) {
      throw new UserError(
        `${file.path} does not arrive whole: its content is not what the hub says. Try again later.`,
      )
    }
    spoiled = true
  }
  await rename(incomplete, blob).catch(async (error: unknown) => {
    if (!(await exists(blob))) throw error
  })
}

async function continueDownload(
  client: Client,
  commit: string,
  file: HubFile,
  path: string,
  start: number,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const { isPart, pieces } = await client.bytes(commit, file.path, start)
  const target = await open(path, fileFlags.O_WRONLY | fileFlags.O_CREAT)
  try {
    // A server that knows no ranges sends the whole file.
    let position = isPart ? start : 0
    for await (const bytes of pieces) {
      for (let done = 0; done < bytes.length; ) {
        done += (await target.write(bytes, done, bytes.length - done, position + done)).bytesWritten
      }
      position += bytes.length
      onBytes(Math.min(position, file.size))
      // What goes on behind its end is not the file, which is found out below.
      if (position > file.size) break
    }
    if (position < file.size) throw new TypeError(endedEarly)
  } finally {
    await target.close()
  }
}

/** The hash that names a file's content: large files' SHA-256, other files' id in Git. */
const etagOf = (file: HubFile): string => file.lfs?.oid ?? file.oid

async function holdsFile(path: string, file: HubFile): Promise<boolean> {
  if ((await sizeOf(path)) !== file.size) return false
  const hash = createHash(file.lfs ? 'sha256' : 'sha1')
  // Git hashes a file's kind and length before its content.
  if (!file.lfs) hash.update(`blob ${file.size}\0`)
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex') === etagOf(file)
}

/** A relative link, so that the cache can be moved; where the system has none, the content itself. */
async function link(blob: string, pointer: string): Promise<void> {
  try {
    await symlink(relative(dirname(pointer), blob), pointer)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await exists(pointer))) return
    if (code === 'EEXIST') await rm(pointer, { force: true })
    await copyFile(blob, pointer)
  }
}

/** A path of the hub as names of folders and a file; never out of the folder that it is put in. */
function safeSegments(path: string): string[] {
  const segments = path.split('/')
  if (segments.some((name) => name === '' || name === '.' || name === '..' || /[\\:\0]/.test(name))) {
    throw new UserError(`'${path}' is no name of a file or revision. Check the name.`)
  }
  return segments
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  )
}

async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new UserError(`Cannot write to the cache ${path} (${code}). Set HF_HOME to a folder of your own.`)
  }
}

const endedEarly = 'the connection ended early'
/** What Node's fetch and its body streams reject with, and what is said here; other TypeErrors are defects. */
const unanswered = new RegExp(`^(fetch failed|terminated|${endedEarly})$`)

/** No answer, an answer cut short, or a server in trouble: another moment may do better. */
function isUnreachable(error: unknown): boolean {
  if (error instanceof HubApiError) return error.statusCode >= 500
  if (error instanceof DOMException) return error.name === 'TimeoutError'
  return error instanceof TypeError && unanswered.test(error.message)
}

/** The one sentence for what went wrong. Anything that is no fault of the network or the names is a defect. */
function explained(error: unknown, repo: RepositoryName, { endpoint, token, cache }: HubSettings): unknown {
  const { name, revision, type } = repo
  if (error instanceof HubApiError) {
    const { statusCode } = error
    if (statusCode === 401 || statusCode === 403) {
      return new UserError(
        `${endpoint} does not show the ${type} ${name} (${statusCode}): ` +
          (token === undefined
            ? 'check its name or, if it is gated or private, set HF_TOKEN to a token that may read it.'
            : 'check its name, and that HF_TOKEN may read it: a gated one asks you to accept its terms first.'),
      )
    }
    if (statusCode === 404) {
      const where = revision === 'main' ? '' : ` at revision ${revision}`
      return new UserError(`There is no ${type} ${name}${where} on ${endpoint}: check the name.`)
    }
    if (statusCode === 429) {
      return new UserError(
        `${endpoint} says that it is asked too much (429): wait some minutes and run the same again` +
          `${token === undefined ? ', or set HF_TOKEN' : ''}. What has come in is kept.`,
      )
    }
    return new UserError(
      `${endpoint} fails (${statusCode}): run the same again later. What has come in is kept.`,
    )
  }
  if (isUnreachable(error)) {
    return new UserError(
      `Cannot get ${name} from ${endpoint} (${whyUnanswered(error)}): check the network and run the same again, ` +
        'or name a folder that holds it. What has come in is kept.',
    )
  }
  if ((error as NodeJS.ErrnoException).code === 'ENOSPC') {
    return new UserError(`The disk of the cache ${cache} is full: make room, or set HF_HOME to another disk.`)
  }
  return error
}

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
import { copyFile, mkdir, open, readdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { pipeline } from 'node:stream/promises'
import {
  datasetInfo,
  fileDownloadInfo,
  getRepoFolderName,
  HubApiError,
  type ListFileEntry,
  listFiles,
  modelInfo,
} from '@huggingface/hub'
import { z } from 'zod'
import { UserError } from '../errors.ts'
import { writeFileAtomic } from '../files.ts'
import { fetchWithRetries, type RetryOptions, shown, whyUnanswered } from '../http.ts'

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
export async function hubSettings(env: NodeJS.ProcessEnv = process.env): Promise<HubSettings> {
  const isOn = (value = '') => /^(1|on|yes|true)$/i.test(value)
  const tilde = (path: string) => path.replace(/^~(?=$|[\\/])/, homedir())
  const home = env.HF_HOME ?? join(env.XDG_CACHE_HOME ?? '~/.cache', 'huggingface')
  // What `hf auth login` left behind.
  const tokenFile = tilde(env.HF_TOKEN_PATH ?? join(home, 'token'))
  const token = env.HF_TOKEN ?? (await readFile(tokenFile, 'utf8').catch(() => ''))
  return {
    endpoint: (env.HF_ENDPOINT || 'https://huggingface.co').replace(/\/+$/, ''),
    cache: tilde(env.HF_HUB_CACHE ?? env.HUGGINGFACE_HUB_CACHE ?? join(home, 'hub')),
    token: token.trim() || undefined,
    offline: isOn(env.HF_HUB_OFFLINE) || isOn(env.TRANSFORMERS_OFFLINE),
  }
}

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
    const found = isUnreachable(error) || error instanceof OddAnswer ? await cached() : undefined
    if (!found) throw explained(error, repo, settings)
    onNotice(`${settings.endpoint} cannot be reached: using ${repo.name} as it is in the cache.`)
    return found
  }
  if (commit !== repo.revision) {
    const ref = join(place.refs, ...safeSegments(repo.revision))
    await makeFolder(dirname(ref))
    await writeFileAtomic(ref, commit)
  }
  let files: ListFileEntry[]
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
      try {
        const blob = join(place.blobs, etagOf(file))
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

/** An answer that no hub gives: a network's sign-in page, or a server that is something else. */
class OddAnswer extends Error {}

/** Bytes of an answer other than a file; files in a repository, and answers that list them. */
const LONGEST_ANSWER = 1 << 26
const MOST_FILES = 100_000
const MOST_PAGES = 1000

const entrySchema = z.looseObject({
  type: z.string(),
  path: z.string(),
  size: z.number().int().nonnegative(),
  oid: z.string().optional(),
  lfs: z.looseObject({ oid: z.string() }).nullish(),
})

/** What is asked of the hub, for one repository. */
function clientOf(repo: RepositoryName, { settings, retries }: HubOptions) {
  const hub = new URL(settings.endpoint)
  /** Every request: tried again where that may help, and signed where it goes to the hub itself. */
  const request: typeof fetch = (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input)
    const headers = new Headers(init?.headers)
    if (settings.token !== undefined && url.origin === hub.origin) {
      headers.set('authorization', `Bearer ${settings.token}`)
    }
    return fetchWithRetries(input, { ...init, headers }, retries)
  }
  const common = { hubUrl: settings.endpoint, fetch: request }
  /** For answers that are read whole, of which there may be so many. */
  const short = () => {
    let left = MOST_PAGES
    const fetch: typeof request = async (input, init) => {
      if (left-- === 0) throw new OddAnswer('a list of files without end')
      return atMost(await request(input, init), LONGEST_ANSWER)
    }
    return { ...common, fetch }
  }
  /** The client's own complaints, and what it stumbles over, are all of one kind: the answer was odd. */
  const asked = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      retries?.signal?.throwIfAborted()
      if (error instanceof HubApiError || error instanceof OddAnswer || isUnreachable(error)) throw error
      throw new OddAnswer(shown((error as Error).message))
    }
  }
  const named = { type: repo.type, name: repo.name } as const
  return {
    async commit(): Promise<string> {
      const { name, revision } = repo
      const wanted = { ...short(), name, revision, additionalFields: ['sha' as const] }
      const { sha } = await asked<{ sha?: unknown }>(
        repo.type === 'model' ? modelInfo(wanted) : datasetInfo(wanted),
      )
      if (typeof sha !== 'string' || !isCommit(sha)) throw new OddAnswer(`the commit ${JSON.stringify(sha)}`)
      return sha
    },
    async list(commit: string): Promise<ListFileEntry[]> {
      const collect = async () => {
        const files: ListFileEntry[] = []
        for await (const entry of listFiles({ ...short(), repo: named, revision: commit, recursive: true })) {
          if (!entrySchema.safeParse(entry).success) throw new OddAnswer('a list of what are no files')
          if (entry.type === 'file') files.push(entry)
          if (files.length > MOST_FILES) throw new OddAnswer(`more than ${MOST_FILES} files`)
        }
        return files
      }
      return asked(collect())
    },
    /** A file's bytes from `start` on. */
    async bytes(commit: string, path: string, start: number): Promise<Response> {
      const info = await asked(fileDownloadInfo({ ...common, repo: named, path, revision: commit }))
      if (!info) throw new OddAnswer(`it lists ${path} and does not give it`)
      const response = await request(info.url, start > 0 ? { headers: { range: `bytes=${start}-` } } : {})
      if (!response.ok) throw new HubApiError(info.url, response.status)
      return response
    },
  }
}

/** The same answer, whose body fails where it is longer. */
function atMost(response: Response, bytes: number): Response {
  if (response.body === null) return response
  let left = bytes
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      left -= chunk.length
      if (left < 0) controller.error(new OddAnswer(`more than ${bytes} bytes`))
      else controller.enqueue(chunk)
    },
  })
  const { status, statusText, headers } = response
  return new Response(response.body.pipeThrough(counted), { status, statusText, headers })
}

/** Downloads in a row that bring nothing, after which it is given up. */
const FRUITLESS = 3

/**
 * Downloads a file to `blob`. What came in before a connection was lost is kept and gone on from, now and in a later
 * run; two processes may do so at the same time, since both write the same bytes to the same places.
 */
async function download(
  client: Client,
  commit: string,
  file: ListFileEntry,
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
      try {
        await continueDownload(client, commit, file, incomplete, start, onBytes)
      } catch (error) {
        const isNews = (await sizeOf(incomplete)) > start
        fruitless = isNews ? 0 : fruitless + 1
        if (!isUnreachable(error) || fruitless === FRUITLESS) throw error
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
  file: ListFileEntry,
  path: string,
  start: number,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const response = await client.bytes(commit, file.path, start)
  const target = await open(path, fileFlags.O_WRONLY | fileFlags.O_CREAT)
  try {
    // A server that knows no ranges sends the whole file.
    let position = response.status === 206 ? start : 0
    if (response.body === null) throw new TypeError(endedEarly)
    for await (const chunk of response.body) {
      const bytes = chunk as Uint8Array
      for (let done = 0; done < bytes.length; ) {
        done += (await target.write(bytes, done, bytes.length - done, position + done)).bytesWritten
      }
      position += bytes.length
      onBytes(position)
      if (position > file.size) {
        throw new OddAnswer(`more of ${file.path} than the ${file.size} bytes that it lists`)
      }
    }
    if (position < file.size) throw new TypeError(endedEarly)
  } finally {
    await target.close()
  }
}

/** The hash that names a file's content: large files' SHA-256, other files' id in Git. */
function etagOf(file: ListFileEntry): string {
  const etag = file.lfs?.oid ?? file.oid
  if (etag === undefined || !/^[0-9a-f]{40,64}$/.test(etag)) {
    throw new OddAnswer(`no hash of ${file.path}`)
  }
  return etag
}

async function holdsFile(path: string, file: ListFileEntry): Promise<boolean> {
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
  if (error instanceof OddAnswer) {
    return new UserError(
      `${endpoint} answers what no hub does (${error.message}): a sign-in page of your network may stand before it. Open it ` +
        'in a browser, or check HF_ENDPOINT. What has come in is kept.',
    )
  }
  if ((error as NodeJS.ErrnoException).code === 'ENOSPC') {
    return new UserError(`The disk of the cache ${cache} is full: make room, or set HF_HOME to another disk.`)
  }
  return error
}

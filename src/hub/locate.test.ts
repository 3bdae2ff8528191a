import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { readModelConfig } from '../engine/checkpoint/config.ts'
import { openCheckpoint } from '../engine/checkpoint/folder.ts'
import { UserError } from '../errors.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'
import { type LocateOptions, locateModel, modelFiles } from './locate.ts'
import { hubSettings } from './repository.ts'
import { type FakeHub, type Fault, startFakeHub } from './testing/fake-hub.ts'

const [first, second] = ['a'.repeat(40), 'b'.repeat(40)]
let scratch: string
let hub: FakeHub
let files: Record<string, Uint8Array>
let cache: string

beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'hub-'))
  const folder = join(scratch, 'tiny')
  await writeTinyModel(folder, 3)
  files = Object.fromEntries(
    await Promise.all(
      (await readdir(folder)).map(async (name) => [name, await readFile(join(folder, name))] as const),
    ),
  )
  const config = JSON.parse(Buffer.from(files['config.json']).toString())
  const strange = { 'config.json': Buffer.from(JSON.stringify({ ...config, model_type: 'gpt_neox' })) }
  const pickle = { 'pytorch_model.bin': Buffer.from('not to be loaded') }
  const rest = { 'README.md': Buffer.from('# Tiny'), 'onnx/model.bin': Buffer.from('x') }
  const { 'model.safetensors': _, ...bare } = files
  hub = await startFakeHub([
    {
      type: 'model',
      name: 'tests/tiny',
      refs: { main: first, 'refs/pr/1': second },
      commits: { [first]: { ...files, ...rest, ...pickle }, [second]: { ...bare, ...pickle } },
    },
    {
      type: 'model',
      name: 'tests/strange',
      refs: { main: first },
      commits: { [first]: { ...files, ...strange } },
    },
    {
      type: 'model',
      name: 'tests/gated',
      refs: { main: first },
      commits: { [first]: files },
      token: 'secret',
    },
  ])
})
afterAll(async () => {
  await hub.close()
  await rm(scratch, { recursive: true })
})
beforeEach(async () => {
  cache = await mkdtemp(join(scratch, 'cache-'))
})
afterEach(() => {
  hub.asked.length = 0
  hub.fault = () => undefined
})

function locate(name: string, over: Partial<LocateOptions & { token: string; offline: boolean }> = {}) {
  const { token, offline = false, ...rest } = over
  const settings = { endpoint: hub.endpoint, cache, token, offline }
  return locateModel(name, { settings, retries: { attempts: 3, delay: 1 }, check: readModelConfig, ...rest })
}
const refusal = (name: string, over?: Parameters<typeof locate>[1]) =>
  locate(name, over).then(
    () => expect.unreachable('it should be refused'),
    (error: unknown) => {
      expect(error).toBeInstanceOf(UserError)
      return (error as Error).message
    },
  )
/** Requests for the weights' bytes, and where each began. */
const weightRequests = () =>
  hub.asked
    .filter(({ origin, range }) => origin === 'storage' && range !== 'bytes=0-0')
    .map(({ range }) => range)
const weights = () => files['model.safetensors']

describe('a model on the hub', () => {
  it('comes into the cache as Python lays it out, and is a checkpoint', async () => {
    const told: number[] = []
    let total = 0
    const model = await locate('tests/tiny', {
      onDownload: (progress) => {
        told.push(progress.done)
        total = progress.total
      },
    })
    const root = join(cache, 'models--tests--tiny')
    expect(model).toEqual({ name: 'tests/tiny', folder: join(root, 'snapshots', first), commit: first })
    expect(await readFile(join(root, 'refs/main'), 'utf8')).toBe(first)
    const names = (await readdir(model.folder)).sort()
    expect(names).toEqual(Object.keys(files).sort())
    for (const name of names) {
      expect(await readlink(join(model.folder, name))).toMatch(/^\.\.\/\.\.\/blobs\/[0-9a-f]{40,64}$/)
      expect(await readFile(join(model.folder, name))).toEqual(files[name])
    }
    await expect(openCheckpoint(model.folder)).resolves.toMatchObject({ folder: model.folder })
    expect(told).toEqual(told.toSorted((a, b) => a - b))
    expect(told.at(-1)).toBe(total)
    expect(total).toBe(Object.values(files).reduce((sum, { length }) => sum + length, 0))
  })

  it('is not downloaded twice', async () => {
    await locate('tests/tiny')
    const before = hub.asked.length
    const bytes: number[] = []
    await locate('tests/tiny', { onDownload: ({ done }) => bytes.push(done) })
    expect(hub.asked.slice(before).every(({ path }) => path.startsWith('/api/'))).toBe(true)
    expect(bytes).toEqual([])
  })

  it('can be named at a revision or a commit', async () => {
    expect(await locate(`tests/tiny@${first}`)).toMatchObject({ commit: first })
    expect(existsSync(join(cache, 'models--tests--tiny/refs'))).toBe(false)
    // That revision has its weights as a pickle alone.
    expect(await refusal('tests/tiny@refs/pr/1')).toMatch(/no model.safetensors; weights in other formats/)
    expect(await refusal('tests/tiny@v9')).toMatch(/no model tests\/tiny at revision v9/)
  })

  it('sends its token to the hub and to nobody else', async () => {
    expect(await refusal('tests/gated')).toMatch(/\(401\): check its name or, if it is gated.* set HF_TOKEN/)
    expect(await refusal('tests/gated', { token: 'wrong' })).toMatch(/no model tests\/gated/)
    await locate('tests/gated', { token: 'secret' })
    const storage = hub.asked.filter(({ origin }) => origin === 'storage')
    expect(storage.length).toBeGreaterThan(0)
    expect(storage.every(({ authorization }) => authorization === undefined)).toBe(true)
    expect(hub.asked.find(({ path }) => path.endsWith('/config.json'))?.authorization).toBe('Bearer secret')
  })

  it('of an architecture that is not supported is refused before its weights come', async () => {
    expect(await refusal('tests/strange')).toMatch(/'gpt_neox' model.*llama, qwen2, qwen3/)
    expect(weightRequests()).toEqual([])
  })

  it('that does not exist is named', async () => {
    expect(await refusal('tests/nothing', { token: 'hf_x' })).toMatch(/no model tests\/nothing on http/)
    expect(await refusal('./nothing')).toMatch(/no checkpoint in \.\/nothing.*name of a model on the hub/)
    expect(await refusal('gpt2')).toMatch(/no checkpoint in gpt2/)
  })
})

describe('a bad moment', () => {
  it('goes on where a cut connection left it', async () => {
    let cuts = 2
    hub.fault = ({ origin, range }) =>
      origin === 'storage' && range !== 'bytes=0-0' && cuts-- > 0 ? { after: 1000 } : undefined
    const { folder } = await locate('tests/tiny')
    expect(await readFile(join(folder, 'model.safetensors'))).toEqual(weights())
    expect(weightRequests()).toEqual([undefined, 'bytes=1000-', 'bytes=2000-'])
  })

  it('goes on where an earlier run stopped, and counts what is here', async () => {
    let sent = 0
    hub.fault = ({ origin, range }) => {
      if (origin !== 'storage' || range === 'bytes=0-0') return undefined
      return sent++ === 0 ? { after: 700 } : 'hang up'
    }
    expect(await refusal('tests/tiny')).toMatch(/Cannot get tests\/tiny from .*What has come in is kept/)
    const [partial] = (await readdir(join(cache, 'models--tests--tiny/blobs'))).filter((name) =>
      name.endsWith('.incomplete'),
    )
    expect((await stat(join(cache, 'models--tests--tiny/blobs', partial))).size).toBe(700)
    hub.fault = () => undefined
    hub.asked.length = 0
    const done: number[] = []
    const { folder } = await locate('tests/tiny', { onDownload: (progress) => done.push(progress.done) })
    expect(weightRequests()).toEqual(['bytes=700-'])
    expect(await readFile(join(folder, 'model.safetensors'))).toEqual(weights())
    expect(done.at(-1)).toBe(Object.values(files).reduce((sum, { length }) => sum + length, 0))
  })

  it('does not trust what a half file holds: content is checked and, where it is wrong, fetched anew', async () => {
    await locate('tests/tiny')
    const { folder } = await locate('tests/tiny')
    const blob = join(folder, await readlink(join(folder, 'model.safetensors')))
    await rm(join(folder, 'model.safetensors'))
    await rm(blob)
    await writeFile(`${blob}.incomplete`, Buffer.alloc(weights().length - 5, 7))
    await locate('tests/tiny')
    expect(await readFile(join(folder, 'model.safetensors'))).toEqual(weights())
  })

  it('refuses content that is not what the hub says', async () => {
    hub.fault = ({ origin }) => (origin === 'storage' ? 'other bytes' : undefined)
    expect(await refusal('tests/tiny')).toMatch(/model.safetensors does not arrive whole/)
    expect(weightRequests()).toEqual([undefined, undefined])
    expect(existsSync(join(cache, 'models--tests--tiny/snapshots', first, 'model.safetensors'))).toBe(false)
  })

  it('waits for a busy hub, and says when it stays busy', async () => {
    let busy = 2
    hub.fault = ({ path }) =>
      path.includes('/revision/') && busy-- > 0 ? { status: 429, headers: { 'retry-after': '0' } } : undefined
    await locate('tests/tiny')
    hub.fault = () => ({ status: 429 })
    expect(await refusal('tests/tiny')).toMatch(/asked too much \(429\): wait.*set HF_TOKEN/)
    hub.fault = () => ({ status: 503 })
    expect(await refusal('tests/other')).toMatch(/fails \(503\).*again later/)
  })

  const portal = { status: 200, headers: { 'content-type': 'text/html' }, body: '<html>Sign in</html>' }
  const json = (value: unknown, headers: Record<string, string> = {}) => ({
    status: 200,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(value),
  })
  const file = { type: 'file', path: 'config.json', size: 3, oid: 'a'.repeat(40) }
  it.each<[string, string, (path: string) => Fault]>([
    ["a network's own page", '/revision/', () => portal],
    ['a page that calls itself JSON', '/revision/', () => ({ ...portal, headers: json(1).headers })],
    ['a page with an error', '/revision/', () => ({ ...portal, status: 404, headers: json(1).headers })],
    ['null', '/revision/', () => json(null)],
    ['no commit', '/revision/', () => json({ sha: ['a'.repeat(40)] })],
    ['a commit that is a path', '/revision/', () => json({ sha: '../../../x' })],
    ['a page for a list', '/tree/', () => portal],
    ['a list that is none', '/tree/', () => json({ files: [] })],
    ['a list of nothing', '/tree/', () => json([null])],
    ['a negative size', '/tree/', () => json([{ ...file, size: -5 }])],
    ['no size', '/tree/', () => json([{ ...file, size: '3' }])],
    ['no hash', '/tree/', () => json([{ ...file, oid: '../../x' }])],
    ['a file twice', '/tree/', () => json([file, file])],
    [
      'a list that links to itself',
      '/tree/',
      (path) => json([file], { link: `<${hub.endpoint}${path}>; rel="next"` }),
    ],
    ['a list that links to others', '/tree/', () => json([], { link: '<http://localhost:1/x>; rel="next"' })],
    ['a page for a file', '/resolve/', () => portal],
  ])('says that it is no hub that answers %s', async (_, part, said) => {
    hub.fault = ({ path }) => (path.includes(part) ? said(path) : undefined)
    expect(await refusal('tests/tiny')).toMatch(
      /^http:.* does not answer as a hub does \(.*\): sign in where the network asks for it, or check HF_ENDPOINT\.$/,
    )
  })

  it('does not read on without end', async () => {
    hub.fault = ({ path }) => (path.includes('/revision/') ? { ...json(1), body: 'without end' } : undefined)
    expect(await refusal('tests/tiny')).toMatch(/sends an answer of more than 64 MiB/)
    // An empty page that leads to itself.
    hub.fault = ({ path }) =>
      path.includes('/tree/') ? json([], { link: `<${hub.endpoint}${path}>; rel="next"` }) : undefined
    expect(await refusal('tests/tiny')).toMatch(
      /does not answer as a hub does \(a list of more than 1000 pages\)/,
    )
    hub.fault = ({ origin, range }) =>
      origin === 'storage' && range !== 'bytes=0-0' ? { status: 200, body: 'without end' } : undefined
    expect(await refusal('tests/tiny')).toMatch(/model.safetensors does not arrive whole/)
    expect(await readdir(join(cache, 'models--tests--tiny/snapshots', first))).not.toContain(
      'model.safetensors',
    )
    // A few bytes at a time.
    hub.asked.length = 0
    hub.fault = ({ origin, range }) =>
      origin === 'storage' && range !== 'bytes=0-0' ? { after: 9 } : undefined
    expect(await refusal('tests/tiny')).toMatch(/Cannot get tests\/tiny from .* What has come in is kept/)
    expect(weightRequests()).toHaveLength(3)
  })

  it('does not begin what the disk has no room for', async () => {
    const huge = ['config.json', 'tokenizer.json', 'model.safetensors'].map((path) => ({
      ...file,
      path,
      size: 9e15,
    }))
    hub.fault = ({ path }) => (path.includes('/tree/') ? json(huge) : undefined)
    expect(await refusal('tests/tiny')).toMatch(
      /config.json has 9\.00e\+6 GB, and the disk .* set HF_HOME to another/,
    )
  })

  it("uses the cache behind a network's own page, and says why", async () => {
    const { folder } = await locate('tests/tiny')
    hub.fault = () => portal
    const notices: string[] = []
    expect(await locate('tests/tiny', { onNotice: (text) => notices.push(text) })).toMatchObject({ folder })
    expect(notices).toEqual([
      expect.stringMatching(
        /sign in where the network asks for it.* Until then, this uses tests\/tiny as it is/,
      ),
    ])
  })

  it('uses the cache without a network, and says so', async () => {
    expect(await refusal('tests/tiny', { offline: true })).toMatch(
      /not in the cache .* HF_HUB_OFFLINE is set/,
    )
    const { folder } = await locate('tests/tiny')
    const gone = { endpoint: 'http://127.0.0.1:9', cache, token: undefined, offline: false }
    const notices: string[] = []
    const retries = { attempts: 2, delay: 1 }
    const onNotice = (text: string) => notices.push(text)
    expect(await locateModel('tests/tiny', { settings: gone, retries, onNotice })).toMatchObject({ folder })
    expect(notices).toEqual([
      expect.stringMatching(/cannot be reached: using tests\/tiny as it is in the cache/),
    ])
    await expect(locateModel('tests/other', { settings: gone, retries })).rejects.toThrow(
      /Cannot get tests\/other from http:\/\/127.0.0.1:9 \(.+\): check the network/,
    )
    hub.asked.length = 0
    expect(await locate('tests/tiny', { offline: true })).toMatchObject({ folder, commit: first })
    expect(hub.asked).toEqual([])
    await rm(join(folder, 'model.safetensors'))
    expect(await refusal('tests/tiny', { offline: true })).toMatch(
      /holds tests\/tiny in part .*run again with a network/,
    )
  })
})

describe('a name', () => {
  it.each([
    'tests/tiny@../../..',
    'tests/tiny@..',
    'tests/tiny@a/../../b',
    'tests/tiny@/x',
    'tests/..',
    '../x@main',
  ])('that leads out of the cache is refused: %s', async (name) => {
    expect(await refusal(name)).toMatch(/is no name of a file or revision|no checkpoint in/)
    expect(await refusal(name, { offline: true })).toMatch(
      /is no name of a file or revision|no checkpoint in/,
    )
    expect(hub.asked).toEqual([])
    expect(await readdir(cache)).toEqual([])
  })

  it('whose commit in the cache is none is not followed', async () => {
    const { folder } = await locate('tests/tiny')
    await writeFile(join(cache, 'models--tests--tiny/refs/main'), `../snapshots/${first}`)
    expect(await refusal('tests/tiny', { offline: true })).toMatch(/is not in the cache/)
    expect(existsSync(folder)).toBe(true)
  })
})

describe('modelFiles', () => {
  const base = ['config.json', 'tokenizer.json', 'README.md', 'model.safetensors.index.json']
  const shard = (n: number) => `model-0000${n}-of-00003.safetensors`
  it('takes a single file of weights, or all shards', () => {
    expect(modelFiles([...base, 'model.safetensors', shard(1)])).toEqual([
      'config.json',
      'tokenizer.json',
      'model.safetensors.index.json',
      'model.safetensors',
    ])
    expect(modelFiles([...base, shard(3), shard(1), shard(2)])).toEqual([
      'config.json',
      'tokenizer.json',
      'model.safetensors.index.json',
      shard(1),
      shard(2),
      shard(3),
    ])
    expect(modelFiles([...base, shard(3), shard(1)])).toBe('it has 2 of 3 files of weights')
    expect(modelFiles(['config.json', 'model.safetensors'])).toBe('it has no tokenizer.json')
  })
})

describe('hubSettings', () => {
  it("reads Python's variables", async () => {
    expect(
      await hubSettings({
        HF_HOME: '/h',
        HF_ENDPOINT: 'http://mirror/',
        HF_TOKEN: ' t ',
        HF_HUB_OFFLINE: '1',
      }),
    ).toEqual({ endpoint: 'http://mirror', cache: '/h/hub', token: 't', offline: true })
    expect(await hubSettings({ HF_HUB_CACHE: '/c', HF_TOKEN: '', HF_HUB_OFFLINE: '0' })).toEqual({
      endpoint: 'https://huggingface.co',
      cache: '/c',
      token: undefined,
      offline: false,
    })
    const home = await mkdtemp(join(scratch, 'home-'))
    await writeFile(join(home, 'token'), 'from-file\n')
    expect(await hubSettings({ HF_HOME: home })).toMatchObject({ token: 'from-file' })
  })
})

const python = process.env.PEERS_PYTHON
describe.skipIf(!python)('huggingface_hub, in Python', () => {
  it('finds in this cache what it looks for, offline', async () => {
    await locate('tests/tiny')
    const script = `
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download
print(snapshot_download("tests/tiny"))
print(hf_hub_download("tests/tiny", "model.safetensors"))
info = scan_cache_dir()
assert not info.warnings, info.warnings
(repo,) = info.repos
print(repo.repo_id, repo.nb_files, [sorted(r.refs) for r in repo.revisions])
`
    const env = { ...process.env, HF_HUB_CACHE: cache, HF_HUB_OFFLINE: '1' }
    const { stdout, stderr } = spawnSync(python as string, ['-c', script], { env, encoding: 'utf8' })
    const folder = join(cache, 'models--tests--tiny/snapshots', first)
    const count = Object.keys(files).length
    expect(stdout, stderr).toBe(
      `${folder}\n${join(folder, 'model.safetensors')}\ntests/tiny ${count} [['main']]\n`,
    )
  })
})

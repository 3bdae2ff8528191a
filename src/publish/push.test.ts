import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { progressText, readProgress } from '../record/job-log.ts'
import type { Results } from '../record/results.ts'
import { changeSentence, said, trainingSentence } from '../report/sentences.ts'
import { threeArms, writeSyntheticRun } from '../view/testing/synthetic-run.ts'
import { type PushOptions, push } from './push.ts'
import { startUploadHub, type UploadHub } from './testing/upload-hub.ts'

const token = 'hf_secret_of_mine'
const weights = 'the weights, made up'
const base = 'owner/base-model'

let folder: string
let run: string
let hub: UploadHub
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'push-'))
  run = join(folder, 'run')
  await writeSyntheticRun(run, { holdout: 20, train: 12, steps: 3, problemsPerStep: 2, arms: threeArms })
  for (const job of ['recipe-s17', 'debate-s18']) await giveCheckpoint(job)
})
afterEach(() => hub?.close())
afterAll(() => rm(folder, { recursive: true }))

/** Puts an adapter where a training leaves one, its base named by a path of this machine. */
async function giveCheckpoint(job: string) {
  const path = join(run, job, 'checkpoint-3')
  await mkdir(path)
  const files: Record<string, string> = {
    'adapter_config.json': JSON.stringify({
      peft_type: 'LORA',
      r: 8,
      base_model_name_or_path: '/home/me/secret-folder/base',
    }),
    'adapter_model.safetensors': weights,
  }
  const checkpoint: Record<string, { bytes: number; sha256: string }> = {}
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(path, name), text)
    const sha256 = createHash('sha256').update(text).digest('hex')
    checkpoint[name] = { bytes: Buffer.byteLength(text), sha256 }
  }
  const progress = (await readProgress(join(run, job)))!
  await writeFile(join(run, job, 'progress.json'), progressText(job, { ...progress, checkpoint }))
}

async function started(how: Partial<Parameters<typeof startUploadHub>[0]> = {}) {
  hub = await startUploadHub({ models: [base], ...how })
  return hub
}

const ask = (options: Partial<PushOptions> = {}, where = run) =>
  push(where, {
    repository: 'me/my-adapter',
    job: 'recipe-s17',
    baseModel: base,
    settings: { endpoint: hub.endpoint, cache: folder, token, offline: false },
    ...options,
  })

describe('push', () => {
  it('puts the adapter there with a card of what was found, its base by its name on the hub', async () => {
    const { files, sent } = await started()
    const pushed = await ask({ isPrivate: true })
    expect(pushed).toEqual({
      url: `${hub.endpoint}/me/my-adapter`,
      commit: 'c0ffee',
      files: ['README.md', 'adapter_config.json', 'adapter_model.safetensors'],
    })
    expect(hub.isPrivate.has('me/my-adapter')).toBe(true)
    const there = files.get('me/my-adapter')!
    expect(there.get('adapter_model.safetensors')).toBe(weights)
    expect(JSON.parse(there.get('adapter_config.json')!)).toEqual({
      peft_type: 'LORA',
      r: 8,
      base_model_name_or_path: base,
    })
    const card = there.get('README.md')!
    const results = JSON.parse(await readFile(join(run, 'results.json'), 'utf8')) as Results
    expect(card).toMatch(/^---\nbase_model: "owner\/base-model"\n/)
    expect(card).toContain(`${said(trainingSentence(results))} ${said(changeSentence(results))}`)
    expect(card).toContain(`right ${results.arms.recipe!.perSeed[0].toFixed(3)} [`)
    expect(card).toContain('PeftModel.from_pretrained(base, "me/my-adapter")')
    expect(card).toContain('    Notes, maybe wrong or cut off:')
    expect(card).toContain('| recipe, all |')
    // Each sentence once.
    expect(card.split(trainingSentence(results).headline.slice(0, -1))).toHaveLength(2)
    // Nothing of this machine's folders leaves it.
    expect(sent.map(({ body }) => body).join()).not.toMatch(/secret-folder|\/home\/me/)
  })

  it('sends the token to the hub alone', async () => {
    const { sent } = await started()
    await ask()
    const kinds = sent.map(({ origin, authorization }) => `${origin} ${authorization}`)
    expect(new Set(kinds)).toEqual(new Set([`hub Bearer ${token}`, 'storage undefined']))
    expect(sent.filter(({ origin }) => origin === 'storage').map(({ body }) => body)).toEqual([weights])
  })

  it('adds to a repository that is there', async () => {
    const { files } = await started()
    await ask()
    await ask({ job: 'debate-s18' })
    expect(files.get('me/my-adapter')?.get('README.md')).toContain('seed 18 of the arm debate')
  })

  it.each([
    [401, '{"error":"Invalid token hf_secret_of_mine"}', 'set HF_TOKEN to one that may write there'],
    [403, '{"error":"Forbidden"}', 'set HF_TOKEN to one that may write there'],
    [500, 'oops', 'try again later'],
  ])('says what the hub said where it answers %d, without the token', async (status, body, advice) => {
    await started({ fault: ({ path }) => (path.includes('/commit/') ? { status, body } : undefined) })
    const said = await ask().then(
      () => '',
      (error: Error) => `${error.name}: ${error.message}`,
    )
    expect(said).toMatch(/^UserError: .* refused me\/my-adapter \(\d+/)
    expect(said).toContain(advice)
    expect(said).not.toContain(token)
  })

  it('says so where something else answers in the place of a hub', async () => {
    await started({
      fault: ({ path }) => (path.includes('/commit/') ? { status: 502, body: '{' } : undefined),
    })
    await expect(ask()).rejects.toThrow("gave no answer of a hub's API: check HF_ENDPOINT")
  })

  it('says what is missing before it writes anything', async () => {
    const { sent } = await started()
    const settings = { endpoint: hub.endpoint, cache: folder, token, offline: false }
    await expect(ask({ job: undefined })).rejects.toThrow(/6 trainings: say which with --job \(baseline-s17/)
    await expect(ask({ job: 'recipe-s99' })).rejects.toThrow('There is no training recipe-s99')
    await expect(ask({ policy: 'other' })).rejects.toThrow('trains no policy other: it trains policy')
    await expect(ask({ repository: 'no owner' })).rejects.toThrow('give --to as owner/name')
    await expect(ask({ settings: { ...settings, token: undefined } })).rejects.toThrow('set HF_TOKEN')
    await expect(ask({ settings: { ...settings, offline: true } })).rejects.toThrow('HF_HUB_OFFLINE')
    await expect(ask({ baseModel: undefined })).rejects.toThrow(
      'base model is "word-problems (made up)", which is no name on the hub: give --base-model',
    )
    // A folder may be called as a repository is.
    await expect(ask({ baseModel: 'models/mine' })).rejects.toThrow('The hub has no model models/mine')
    const stopped = join(folder, 'stopped')
    await writeSyntheticRun(stopped, { holdout: 4, train: 12, steps: 2, problemsPerStep: 2, stopAfter: 3 })
    await expect(ask({}, stopped)).rejects.toThrow('is not finished, and the card says what was found')
    await writeFile(join(run, 'debate-s18', 'checkpoint-3', 'adapter_model.safetensors'), 'changed weights')
    await expect(ask({ job: 'debate-s18' })).rejects.toThrow('is damaged')
    expect(sent.filter(({ method }) => method !== 'GET')).toEqual([])
  })

  it('says that a hub cannot be reached', async () => {
    await started()
    const { endpoint } = hub
    await hub.close()
    const settings = { endpoint, cache: folder, token, offline: false }
    await expect(ask({ settings })).rejects.toThrow(`${endpoint} cannot be reached`)
    await started()
  })
})

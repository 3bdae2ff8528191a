import { spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { completion, startChatServer } from '../endpoint/testing/chat-server.ts'
import { type FakeHub, startFakeHub } from '../hub/testing/fake-hub.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'

// A model and a problem set by name, and an endpoint, as a person meets them.
const main = fileURLToPath(new URL('./main.ts', import.meta.url))
const sets = fileURLToPath(new URL('../tasks/fixtures/hub', import.meta.url))
const commit = 'd'.repeat(40)

const tiny = fileURLToPath(new URL('../experiment/testing/tiny-experiment.ts', import.meta.url))

let folder: string
/** An experiment file of few tokens. */
let short: string
let hub: FakeHub
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'models-'))
  const model = join(folder, 'tiny')
  short = join(folder, 'short.ts')
  await writeFile(
    short,
    `import { tinyExperiment } from ${JSON.stringify(tiny)}\nexport default tinyExperiment(${JSON.stringify(model)})\n`,
  )
  await writeTinyModel(model, 2)
  const files: Record<string, Uint8Array> = {}
  for (const name of await readdir(model)) files[name] = await readFile(join(model, name))
  // Room for the reference's limits.
  const config = JSON.parse(Buffer.from(files['config.json']).toString())
  files['config.json'] = Buffer.from(JSON.stringify({ ...config, max_position_embeddings: 2048 }))
  const parquet = (split: string) => `main/${split}-00000-of-00001.parquet`
  const gsm8k = await Promise.all(
    ['train', 'test'].map(
      async (split) => [parquet(split), await readFile(join(sets, 'gsm8k', parquet(split)))] as const,
    ),
  )
  hub = await startFakeHub([
    { type: 'model', name: 'tests/tiny', refs: { main: commit }, commits: { [commit]: files } },
    {
      type: 'dataset',
      name: 'openai/gsm8k',
      refs: { main: commit },
      commits: { [commit]: Object.fromEntries(gsm8k) },
    },
  ])
})
afterAll(async () => {
  await hub.close()
  await rm(folder, { recursive: true })
})

function start(args: string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), main, ...args], {
    cwd: folder,
    env: { ...process.env, HF_ENDPOINT: hub.endpoint, HF_HOME: join(folder, 'home'), ...env },
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (data) => {
    stdout += data
  })
  child.stderr.on('data', (data) => {
    stderr += data
  })
  const ended = new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) => {
    child.on('close', (code) => resolve({ code, stdout, stderr }))
  })
  return { child, ended }
}
const cli = (...args: Parameters<typeof start>) => start(...args).ended

describe('eval', () => {
  it('takes a model and a problem set by their names, from the hub once and then from the cache', async () => {
    const command = ['eval', '--model', 'tests/tiny', '--task', 'gsm8k', '--holdout', '2', '--threads', '1']
    const first = await cli([...command, '--reads', 'both'])
    expect(first.stdout, first.stderr).toMatch(/^board +own +shared$/m)
    expect(first.stdout).toMatch(/^pass@1 +[01]\.\d{3} \[.*\] +[01]\.\d{3} \[.*\]$/m)
    expect(first.stdout).toMatch(/^shared - own +[+-]\d\.\d{3} \[.*\], paired by problem$/m)
    expect(first.stderr).toMatch(/^tests\/tiny: 100% of \d+ MB$/m)
    expect(first.stderr).toMatch(/^2\/4 problems +\d+ tok\/s +ETA \d+s$/m)
    expect(first.stderr).toMatch(/^4\/4 problems +\d+ tok\/s$/m)
    expect(first.code).toBe(0)
    const again = await cli([...command, '--json'], {
      HF_HUB_OFFLINE: '1',
      HF_ENDPOINT: 'http://127.0.0.1:9',
    })
    expect(JSON.parse(again.stdout)).toMatchObject({
      models: [{ model: 'tests/tiny' }],
      task: { name: 'gsm8k', from: 'openai/gsm8k@main', holdout: 2 },
      problems: 2,
      protocols: [{ protocol: 'own', k: 4 }],
    })
  })

  it('says what it does without a chat template', async () => {
    const plain = join(folder, 'plain')
    await writeTinyModel(plain, 2)
    const path = join(plain, 'tokenizer_config.json')
    const { chat_template: _, ...settings } = JSON.parse(await readFile(path, 'utf8'))
    await writeFile(path, JSON.stringify(settings))
    const found = await cli(['eval', short, '--model', plain, '--holdout', '2'])
    expect(found.stderr).toMatch(/plain has no chat template: its prompts are written as plain text/)
    expect(found.code).toBe(0)
  })

  it('goes on after a kill or Ctrl-C to the same result', async () => {
    const long = join(folder, 'long.ts')
    await writeFile(
      long,
      `import { tinyExperiment } from ${JSON.stringify(tiny)}
      export default tinyExperiment(${JSON.stringify(join(folder, 'tiny'))}, {
        board: { copies: 4, noteTokens: 60, replyTokens: 60, readTokens: null },
        evaluation: { baseRuns: 2, problemsAtOnce: 1 },
      })\n`,
    )
    const command = ['eval', long, '--reads', 'both', '--json']
    const whole = await cli(command)
    expect(whole.code, whole.stderr).toBe(0)
    const texts = join(folder, 'kept/texts.jsonl')
    const lines = async () => (await readFile(texts, 'utf8').catch(() => '')).split('\n').length - 1
    const stoppedAfter = async (count: number, signal: 'SIGKILL' | 'SIGINT') => {
      const { child, ended } = start([...command, '--out', 'kept'])
      while ((await lines()) < count) await new Promise((resolve) => setTimeout(resolve, 2))
      child.kill(signal)
      return ended
    }
    await stoppedAfter(1, 'SIGKILL')
    const first = await lines()
    const { code, stderr } = await stoppedAfter(first + 1, 'SIGINT')
    expect([code, stderr]).toEqual([130, expect.stringContaining('goes on from here: every answer is kept')])
    // Six problems: the notes, which both boards share, and the replies of each board.
    expect(await lines()).toBeLessThan(18)
    const last = await cli([...command, '--out', 'kept'])
    expect(last).toMatchObject({ code: 0, stdout: whole.stdout })
    expect(await lines()).toBe(18)
    // Finished, it is free to repeat; another seed is another evaluation.
    expect((await cli([...command, '--out', 'kept'])).stdout).toBe(whole.stdout)
    expect(await lines()).toBe(18)
    const other = await cli([...command, '--out', 'kept', '--seed', '2'])
    expect(other.stdout).not.toBe(whole.stdout)
    expect(await lines()).toBe(36)
  }, 60_000)

  it('plays at an endpoint, and pays once', async () => {
    const server = await startChatServer(() => completion('It is \\boxed{1001}.'))
    const command = [
      'eval',
      '--endpoint',
      server.url,
      '--model',
      'served',
      '--task',
      'gsm8k',
      '--holdout',
      '6',
    ]
    const first = await cli([...command, '--reads', 'both', '--key-env', 'SERVED_KEY'], { SERVED_KEY: 'k' })
    // One of the six has that answer, whatever is read.
    expect(first.stdout, first.stderr).toMatch(/^pass@1 +0\.167 .* +0\.167 /m)
    expect(first.stdout).toMatch(/^shared - own +\+0\.000 \[\+0\.000, \+0\.000\]/m)
    // Notes are written once for both boards.
    expect(first.stdout).toMatch(/^paid +\d+ tokens in 72 answers; 24 were in runs\/eval-127.0.0.1/m)
    expect(server.asked[0].authorization).toBe('Bearer k')
    const again = await cli([...command, '--json'])
    expect(JSON.parse(again.stdout)).toMatchObject({ endpoints: [{ requests: 0, kept: 48 }] })
    expect(server.asked.length).toBe(72)
    await server.close()
  })

  it('shows no key and no login, and says which texts are not there', async () => {
    const server = await startChatServer((_, nth) =>
      nth === 3 ? completion(null, 5, 'length') : completion('It is \\boxed{1001}.'),
    )
    const url = server.url.replace('//', '//user:pass-word@')
    const command = ['eval', '--endpoint', url, '--model', 'm\u001b[2J', '--task', 'gsm8k', '--holdout', '6']
    const first = await cli(command)
    expect(server.asked[0].authorization).toMatch(/^Basic /)
    expect(first.stdout, first.stderr).toMatch(
      /^no answer +1 texts \(1 thought until the limit, 0 filtered, 0 empty\) count as they are and are not kept/m,
    )
    expect(first.stdout).toMatch(/^model +m\\u001b\[2J$/m)
    const again = await cli([...command, '--json'])
    expect(JSON.parse(again.stdout)).toMatchObject({
      endpoints: [{ url: server.url, requests: 2, flawed: { limit: 0, filter: 0, nothing: 0 } }],
    })
    const bad = await cli([...command, '--key-env', 'BAD'], { BAD: 'sk-one\nsk-two' })
    const broken = await cli(['eval', '--endpoint', `${url.replace('/v1', '')}:x`, '--model', 'm'])
    expect([bad.code, broken.code]).toEqual([2, 2])
    await server.close()
    const names = await readdir(folder, { recursive: true })
    const told = [first, again, bad, broken].map(({ stdout, stderr }) => stdout + stderr).join('\n')
    for (const secret of ['pass-word', 'sk-one', Buffer.from('user:pass-word').toString('base64')]) {
      expect(told).not.toContain(secret)
      expect(names.filter((name) => name.includes(secret))).toEqual([])
    }
  })

  it.each([
    [['--model', 'tests/none'], /does not show the model tests\/none \(401\)/],
    [['--endpoint', 'http://127.0.0.1:9/v1'], /needs --model/],
    [['--endpoint', 'x', '--model', 'm', '--key-env', 'NO_SUCH_KEY'], /variable NO_SUCH_KEY is not set/],
    [['--endpoint', 'http://h/v1', '--model', 'm', '--adapter', 'a'], /leave --adapter or --endpoint out/],
    [['--endpoint', 'localhost', '--model', 'm'], /"localhost" is no address of a server/],
    [['--task', 'gsm9k'], /no task "gsm9k": give word-problems, clues, insight, gsm8k, svamp, math/],
  ])('refuses %j with one sentence', async (args, message) => {
    const { code, stdout, stderr } = await cli(['eval', ...args])
    expect(stderr).toMatch(message)
    expect(stderr).not.toMatch(/\n\s+at /)
    expect([code, stdout]).toEqual([2, ''])
  })
})

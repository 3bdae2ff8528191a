import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type PlayOptions, play as playWith } from '../board/play.ts'
import { playPolicy } from '../board/policy-writer.ts'
import { resolveProtocol } from '../board/protocol.ts'
import { board } from '../board/protocols.ts'
import { own, type Sight, shared } from '../board/sights.ts'
import { openOnnxEngine } from '../engine/onnx/index.ts'
import { UserError } from '../errors.ts'
import { mathGrader } from '../grade/grader.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'
import { type ChatAnswer, openEndpoint } from './chat.ts'
import {
  type ChatServer,
  completion,
  type Said,
  serveEngine,
  startChatServer,
} from './testing/chat-server.ts'
import { type EndpointWriterOptions, openEndpointWriter } from './writer.ts'

let scratch: string
let answers: string
let server: ChatServer | undefined
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'endpoint-'))
})
afterAll(() => rm(scratch, { recursive: true }))
beforeEach(async () => {
  answers = join(await mkdtemp(join(scratch, 'answers-')), 'deep/answers.jsonl')
})
afterEach(async () => {
  await server?.close()
  server = undefined
})

const problems = [1, 2, 3].map((i) => ({ id: `p${i}`, question: `What is ${i} + ${i}?`, gold: `${2 * i}` }))
const sampling = { maxTokens: 30, temperature: 0.9, topP: 0.95 }
const boardOf = (reads: Sight) =>
  resolveProtocol(board({ reads }), { copies: 4, noteTokens: 30, replyTokens: 40 })
const rounds: PlayOptions = {
  protocol: boardOf(shared),
  sampling: [sampling, { ...sampling, maxTokens: 40 }],
  grader: mathGrader,
  seed: ['evaluation', 1],
}
const retries = { attempts: 3, delay: 1 }
const none = { limit: 0, filter: 0, nothing: 0 }

/** Right answers to the problems above. */
const right = (body: { messages: { content: string }[] }) => {
  const [, n] = /What is (\d+)/.exec(body.messages[0].content) ?? []
  return completion(`It is \\boxed{${2 * Number(n)}}.`)
}

async function play(
  say: (body: never, nth: number) => Said,
  over: Partial<EndpointWriterOptions & PlayOptions & { key: string }> = {},
) {
  server ??= await startChatServer((body, nth) => say(body as never, nth))
  const endpoint = openEndpoint({ url: server.url, model: 'm', key: over.key, retries })
  const writer = await openEndpointWriter({
    endpoint,
    identity: ['there', 'm'],
    concurrency: 4,
    answers,
    ...over,
  })
  try {
    const { played } = await playWith(
      writer.write,
      problems.map((problem) => ({ problem })),
      { ...rounds, ...over },
    )
    return { played, spent: writer.spent() }
  } finally {
    await writer.close()
  }
}
const refusal = (...args: Parameters<typeof play>) =>
  play(...args).then(
    () => expect.unreachable('it should be refused'),
    (error: unknown) => {
      expect(error).toBeInstanceOf(UserError)
      return (error as Error).message
    },
  )
const kept = async () => (await readFile(answers, 'utf8')).trim().split('\n').length

describe('the two rounds at an endpoint', () => {
  it('write and read a board, a few requests at a time', async () => {
    server = await startChatServer(async (body) => {
      await new Promise((resolve) => setTimeout(resolve, 10))
      return right(body)
    })
    const { played, spent } = await play(right, { key: 'secret' })
    expect(played.map(({ episode }) => episode.problemId)).toEqual(['p1', 'p2', 'p3'])
    for (const { episode } of played) {
      expect(episode.rounds.flat().every((post) => post.correct && !post.cut)).toBe(true)
      for (const { reads } of episode.rounds[1]) expect(reads.map(([, seat]) => seat)).toEqual([0, 1, 2, 3])
    }
    expect(spent).toEqual({ tokens: 24 * 25, requests: 24, kept: 0, flawed: none })
    const { asked, busiest } = server
    expect(busiest).toBeGreaterThan(1)
    expect(busiest).toBeLessThanOrEqual(4)
    expect(asked.every(({ authorization }) => authorization === 'Bearer secret')).toBe(true)
    expect(asked[0].body).toMatchObject({ model: 'm', max_tokens: 30, temperature: 0.9, top_p: 0.95 })
    expect(asked.at(-1)!.body.messages[0].content).toContain('Note 4: It is \\boxed{')
    // Copies are drawn apart.
    expect(new Set(asked.map(({ body }) => body.seed)).size).toBe(24)
  })

  it('are those of the model itself: a real one gives the same boards here and there', async () => {
    const folder = join(scratch, 'model')
    await writeTinyModel(folder, 5)
    const engine = await openOnnxEngine({ model: folder, threads: 1 })
    server = await serveEngine(engine)
    // A nucleus of one token, so that no draw differs.
    const greedy = { maxTokens: 12, temperature: 1, topP: 1e-9 }
    const settings = { ...rounds, sampling: [greedy, greedy] }
    const { played } = await play(() => null, settings)
    const policy = await engine.createPolicy()
    const local = await playPolicy({ ...engine, policy }, problems, settings)
    expect(played.map(({ episode }) => episode)).toEqual(local.played.map(({ episode }) => episode))
    expect(new Set(played.map(({ episode }) => episode.rounds[0][0].text)).size).toBeGreaterThan(1)
    await engine.close()
  })

  it('share their notes between boards, whatever the board', async () => {
    const said = (_: never, nth: number) => completion(`note ${nth}`)
    const alone = await play(said, { protocol: boardOf(own) })
    const together = await play(said, { protocol: boardOf(shared) })
    const notes = ({ played }: typeof alone) => played.map(({ episode }) => episode.rounds[0])
    expect(notes(together)).toEqual(notes(alone))
    expect(together.spent).toMatchObject({ requests: 12, kept: 12 })
  })
})

describe('a failure', () => {
  it('in passing is waited out', async () => {
    const failures: Said[] = [
      { status: 429, headers: { 'retry-after': '0' }, body: { error: { message: 'slow' } } },
      { status: 503, body: 'loading' },
      null,
      { body: '<html>starting</html>' },
    ]
    // Of four requests each the first time: one that met several would be given up.
    const asked = new Set<string>()
    const { spent } = await play((body) => {
      const request = JSON.stringify(body)
      const isFirst = !asked.has(request)
      asked.add(request)
      return isFirst && asked.size <= failures.length ? failures[asked.size - 1] : right(body)
    })
    expect(spent.requests).toBe(24)
    expect(server!.asked.length).toBe(28)
  })

  it.each<[string, Said, RegExp]>([
    [
      'a rate limit',
      { status: 429, body: { error: { message: 'slow down' } } },
      /limiting the rate \(429: slow down\)/,
    ],
    [
      'a wrong key',
      { status: 401, body: { error: { message: 'bad key' } } },
      /refuses the key \(401: bad key\).*--key-env/,
    ],
    [
      'no such model',
      { status: 404, body: { message: 'no model m' } },
      /does not have the model m.*no model m/,
    ],
    ['a long prompt', { status: 400, body: { detail: 'context is 10' } }, /refuses \(400: context is 10\)/],
    ['nonsense', { body: 'hello' }, /no chat completion \(hello\).*ends in \/v1/],
    ['an empty list', { body: { choices: [] } }, /no chat completion/],
    ['silence', null, /does not answer \(.+\): check that the server runs/],
  ])('for good (%s) is one sentence, and loses no answer', async (_, said, message) => {
    expect(await refusal((body, nth) => (nth > 10 ? said : right(body)))).toMatch(message)
    const done = await kept()
    expect(done).toBeGreaterThan(5)
    const asked = server!.asked.length
    await server!.close()
    server = undefined
    const { spent } = await play(right)
    expect(spent).toMatchObject({ requests: 24 - done, kept: done })
    expect(server!.asked.length).toBe(24 - done)
    expect(asked).toBeGreaterThan(10)
  })

  it('to answer in time is one', async () => {
    server = await startChatServer(() => new Promise((resolve) => setTimeout(() => resolve(null), 300)))
    const endpoint = openEndpoint({ url: server.url, model: 'm', retries: { ...retries, timeout: 30 } })
    const request = { messages: [], maxTokens: 1, temperature: 1, topP: 1, seed: 1 }
    await expect(endpoint.complete(request)).rejects.toThrow(/does not answer \(no answer within 0.03 s\)/)
  })

  it('of the file of answers is named; a line that was cut short is forgotten', async () => {
    await play(right)
    await appendFile(answers, '{"key":"ab')
    const { spent } = await play(right)
    expect(spent).toEqual({ tokens: 0, requests: 0, kept: 24, flawed: none })
    expect(await kept()).toBe(24)
    await writeFile(answers, '{"other":1}\n')
    expect(await refusal(right)).toMatch(/Line 1 of .*answers.jsonl is no answer/)
    await rm(answers)
    expect(await refusal(right, { answers: join(scratch, 'answers-\0/x') })).toMatch(/choose another --out/)
  })
})

describe('a text that is not there', () => {
  const silence = (finish: string, content: string | null = null) => completion(content, 3, finish)

  it('is counted by its reason, is the same on every board, is not kept, and is asked for again', async () => {
    let reasons = ['length', 'content_filter', 'stop']
    const odd = (body: never, nth: number) => (reasons[nth - 1] ? silence(reasons[nth - 1]) : right(body))
    const { played, spent } = await play(odd)
    expect(spent).toMatchObject({ requests: 24, flawed: { limit: 1, filter: 1, nothing: 1 } })
    expect(played.flatMap(({ episode }) => episode.rounds[0]).filter(({ text }) => text === '')).toHaveLength(
      3,
    )
    expect(played.flatMap(({ episode }) => episode.rounds[0]).filter(({ cut }) => cut)).toHaveLength(1)
    expect(await kept()).toBe(21)
    reasons = []
    await server!.close()
    server = undefined
    const again = await play(odd)
    // The notes that were missing, all of one problem, and the replies that had read its board without them.
    expect(again.spent).toMatchObject({ requests: 3 + 4, kept: 17, flawed: none })
  })

  it.each([
    ['length', /thought until its limit of tokens: raise board.noteTokens/],
    ['content_filter', /the server's filter took them/],
    ['stop', /the server sends no content/],
  ])('fails where there is no other (%s)', async (finish, message) => {
    const said = await refusal(() => silence(finish))
    expect(said).toMatch(/^Every text that the model was asked for is empty \(12 of 12\)/)
    expect(said).toMatch(message)
    expect(await readFile(answers, 'utf8')).toBe('')
  })
})

describe('a budget', () => {
  it('is never passed, whatever is under way, and what it bought is kept', async () => {
    // Answers take all that they may: 30 or 40 new tokens.
    const costly = (body: { max_tokens?: number }) =>
      completion('It is \\boxed{1}', body.max_tokens, 'length')
    const message = await refusal(costly as never, { budget: 400 })
    expect(message).toMatch(
      /budget of 400 tokens is spent \(\d+ in \d+ answers.*new budget. Every answer is kept/,
    )
    const [, tokens, count] = /\((\d+) in (\d+) answers/.exec(message) ?? []
    expect(Number(tokens)).toBeLessThanOrEqual(400)
    expect(await kept()).toBe(Number(count))
    const { played } = await play(costly as never, { budget: 100_000 })
    expect(played[0].episode.rounds[1].every(({ cut, tokens }) => cut && tokens === 40)).toBe(true)
  })
})

describe('openEndpoint', () => {
  const request = {
    messages: [{ role: 'user', content: 'hi there' }] as const,
    maxTokens: 7,
    temperature: 1,
    topP: 1,
    seed: 1,
  }

  it('speaks to models that know the limit by its newer name alone', async () => {
    const message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    server = await startChatServer((body) =>
      body.max_tokens === undefined ? completion('ok') : { status: 400, body: { error: { message } } },
    )
    const endpoint = openEndpoint({ url: `${server.url}/`, model: 'm', retries })
    expect(await endpoint.complete(request)).toMatchObject({ text: 'ok' })
    await endpoint.complete(request)
    expect(server.asked.map(({ body }) => body.max_completion_tokens)).toEqual([undefined, 7, 7])
  })

  const refusing = (message: string, field: string) => (body: object) =>
    field in body ? { status: 400, body: { error: { message } } } : completion('ok')

  it('asks in the other way for each of many requests that were refused at once', async () => {
    const message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    server = await startChatServer(async (body) => {
      await new Promise((resolve) => setTimeout(resolve, 20))
      return refusing(message, 'max_tokens')(body)
    })
    const endpoint = openEndpoint({ url: server.url, model: 'm', retries })
    const found = await Promise.all(Array.from({ length: 8 }, () => endpoint.complete(request)))
    expect(found.map(({ text }) => text)).toEqual(Array(8).fill('ok'))
    expect(server.asked).toHaveLength(16)
  })

  it.each([
    ['seed', 'Unrecognized request argument supplied: seed'],
    ['top_p', 'top_p: Extra inputs are not permitted'],
    ['temperature', "Unsupported value: 'temperature' does not support 0.9 with this model."],
  ])('does without %s where the server does, and says so once', async (field, message) => {
    server = await startChatServer(refusing(message, field))
    const notices: string[] = []
    const onNotice = (text: string) => notices.push(text)
    const endpoint = openEndpoint({ url: server.url, model: 'm', retries, onNotice })
    await Promise.all([endpoint.complete(request), endpoint.complete(request)])
    await endpoint.complete(request)
    expect(server.asked.slice(-1).map(({ body }) => Object.keys(body))).toEqual([
      ['model', 'messages', 'max_tokens', 'temperature', 'top_p', 'seed'].filter((name) => name !== field),
    ])
    expect(notices).toEqual([expect.stringContaining(`does not take ${field} (${message}): it is left out`)])
  })

  it('does not do without what has a wrong value, or is not named', async () => {
    for (const message of [
      'temperature must be in [0, 1]',
      'Unsupported parameter: n',
      'seed is too large',
    ]) {
      server = await startChatServer(() => ({ status: 400, body: { error: { message } } }))
      const endpoint = openEndpoint({ url: server.url, model: 'm', retries })
      await expect(endpoint.complete(request)).rejects.toThrow(`refuses (400: ${message})`)
      expect(server.asked).toHaveLength(1)
      await server.close()
    }
    server = undefined
  })

  it('keeps the query of an address, and its path', async () => {
    let path = ''
    const http = createServer((asked, response) => {
      path = asked.url ?? ''
      response.end(JSON.stringify(completion('ok')?.body))
    })
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
    const { port } = http.address() as AddressInfo
    const url = `http://127.0.0.1:${port}/openai/v1/?api-version=2024-10-21`
    const endpoint = openEndpoint({ url, model: 'm', retries })
    expect(endpoint.address).toBe(`http://127.0.0.1:${port}/openai/v1`)
    await endpoint.complete(request)
    expect(path).toBe('/openai/v1/chat/completions?api-version=2024-10-21')
    http.closeAllConnections()
    http.close()
  })

  it.each<[string, unknown, Partial<ChatAnswer>]>([
    ['no usage', { usage: undefined }, { promptTokens: 2, completionTokens: 1 }],
    ['null usage', { usage: null }, { promptTokens: 2, completionTokens: 1 }],
    ['usage in words', { usage: 'some' }, { promptTokens: 2, completionTokens: 1 }],
    [
      'negative usage',
      { usage: { prompt_tokens: -1e9, completion_tokens: -5 } },
      { promptTokens: 2, completionTokens: 1 },
    ],
    [
      'half a usage',
      { usage: { prompt_tokens: 3, completion_tokens: 1.5 } },
      { promptTokens: 3, completionTokens: 1 },
    ],
    [
      'absurd usage',
      { usage: { prompt_tokens: 1e300, completion_tokens: '7' } },
      { promptTokens: 2, completionTokens: 1 },
    ],
    [
      'an odd reason',
      { choices: [{ message: { content: 'ok' }, finish_reason: 7 }] },
      { text: 'ok', finish: 'stop' },
    ],
    [
      'a text in parts',
      { choices: [{ message: { content: [{ type: 'text', text: 'a' }, { type: 'x' }, { text: 'b' }] } }] },
      { text: 'ab', flaw: null },
    ],
    [
      'a thought that took the limit',
      { choices: [{ message: { content: null, reasoning_content: 'hm' }, finish_reason: 'length' }] },
      { text: '', flaw: 'limit', finish: 'length' },
    ],
    [
      'half a text, filtered',
      { choices: [{ message: { content: 'The' }, finish_reason: 'content_filter' }] },
      { text: 'The', flaw: 'filter' },
    ],
    ['blanks', { choices: [{ message: { content: ' \n' }, finish_reason: 'stop' }] }, { flaw: 'nothing' }],
  ])('takes a good answer with %s', async (_, over, expected) => {
    server = await startChatServer(() => {
      const { body } = completion('ok') as { body: object }
      return { body: { ...body, ...(over as object) } }
    })
    const endpoint = openEndpoint({ url: server.url, model: 'm', retries })
    expect(await endpoint.complete(request)).toMatchObject(expected)
    expect(server.asked).toHaveLength(1)
  })

  it.each<[string, unknown, RegExp]>([
    ['a rate limit', { error: { message: 'slow', code: 429 } }, /limiting the rate \(429: slow\)/],
    [
      'a failure',
      { error: { message: 'upstream', code: 'provider_error' } },
      /goes on failing \(500: upstream\)/,
    ],
    ['an older failure', { object: 'error', message: 'no', code: 503 }, /goes on failing \(503: no\)/],
    [
      'an end in the middle',
      { choices: [{ message: { content: 'Th' }, finish_reason: 'error' }] },
      /goes on failing/,
    ],
  ])('waits before it asks again after %s under status 200', async (_, body, message) => {
    server = await startChatServer(() => ({ body }))
    const waits: number[] = []
    const onWait = ({ milliseconds }: { milliseconds: number }) => waits.push(milliseconds)
    const endpoint = openEndpoint({ url: server.url, model: 'm', retries: { ...retries, delay: 10, onWait } })
    await expect(endpoint.complete(request)).rejects.toThrow(message)
    expect(waits).toEqual([10, 20])
    expect(server.asked).toHaveLength(3)
  })

  it('tells of a wait that a person would notice', async () => {
    server = await startChatServer((_, nth) =>
      nth === 1 ? { status: 429, headers: { 'retry-after': '2.0' }, body: {} } : completion('ok'),
    )
    const notices: string[] = []
    const onNotice = (text: string) => notices.push(text)
    const endpoint = openEndpoint({ url: server.url, model: 'm', onNotice })
    await endpoint.complete(request)
    expect(notices).toEqual([`${server.url} limits the rate (429): it is asked again in 2 s.`])
  })

  it('ends an answer without end', async () => {
    const http = createServer((_, response) => {
      const more = () => {
        while (response.write('x'.repeat(2 ** 16)));
      }
      response.on('drain', more)
      more()
    })
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
    const endpoint = openEndpoint({ url, model: 'm', retries })
    await expect(endpoint.complete(request)).rejects.toThrow(`${url} sends an answer of more than 16 MiB`)
    http.closeAllConnections()
    http.close()
  })

  it('counts tokens itself where the server does not, and takes an empty message for an empty text', async () => {
    server = await startChatServer(() => ({ body: { choices: [{ message: { content: null } }] } }))
    const endpoint = openEndpoint({ url: server.url, model: 'm', retries })
    expect(await endpoint.complete(request)).toEqual({
      text: '',
      finish: 'stop',
      flaw: 'nothing',
      promptTokens: 2,
      completionTokens: 0,
    })
  })

  it('sends the login of its address and shows it to nobody', async () => {
    const said = { status: 400, body: { error: { message: 'user:pass-word is not to have this' } } }
    server = await startChatServer(() => said)
    const url = server.url.replace('//', '//user:pass-word@')
    const endpoint = openEndpoint({ url, model: 'm', retries })
    expect(endpoint.address).toBe(server.url)
    const failed = await endpoint.complete(request).catch((error: Error) => error.message)
    expect(failed).toContain(`${server.url}/chat/completions refuses (400: user:[hidden] is not`)
    expect(server.asked[0].authorization).toBe(`Basic ${Buffer.from('user:pass-word').toString('base64')}`)
    expect(() => openEndpoint({ url, model: 'm', key: 'k' })).toThrow(/a login in its address and a key/)
    expect(() => openEndpoint({ url: server!.url, model: 'm', key: 'sk-1\nsk-2' })).toThrow(
      /^The variable of --key-env holds a space, a line break or another character that no key has/,
    )
  })

  it('refuses an address that is none', () => {
    for (const url of ['localhost:8000/v1', 'nothing', 'file:///v1']) {
      expect(() => openEndpoint({ url, model: 'm' })).toThrow(
        /no address of a server.*http:\/\/localhost:8000\/v1/,
      )
    }
  })
})

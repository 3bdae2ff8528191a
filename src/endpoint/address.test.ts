import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { whyUnanswered } from '../http.ts'
import { type EndpointOptions, openEndpoint } from './chat.ts'

/** The path and body of the one request that an endpoint with these options sends. */
async function sent(path: string, options: Partial<EndpointOptions>) {
  const asked: { path?: string; body: Record<string, unknown> }[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    asked.push({ path: request.url, body: JSON.parse(Buffer.concat(chunks).toString()) })
    response.end(JSON.stringify({ choices: [{ message: { content: 'ok' }, finish_reason: 'stop' }] }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`
  const endpoint = openEndpoint({ url, model: 'm', retries: { attempts: 1 }, ...options })
  await endpoint.complete({ messages: [], maxTokens: 1, temperature: 1, topP: 1, seed: 1 })
  server.close()
  server.closeAllConnections()
  return asked[0]
}

test('the query of an address stays where it is', async () => {
  expect((await sent('/v1', {})).path).toBe('/v1/chat/completions')
  expect((await sent('/v1/', {})).path).toBe('/v1/chat/completions')
  expect((await sent('/openai?api-version=2024-10-21', {})).path).toBe(
    '/openai/chat/completions?api-version=2024-10-21',
  )
})

test("arguments of the model's chat template go to the server, where there are any", async () => {
  const template = { enable_thinking: false }
  expect((await sent('/v1', { template })).body.chat_template_kwargs).toEqual(template)
  expect('chat_template_kwargs' in (await sent('/v1', {})).body).toBe(false)
})

test('of a certificate that is not trusted it is said what to do', () => {
  for (const code of ['DEPTH_ZERO_SELF_SIGNED_CERT', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE']) {
    const error = new TypeError('fetch failed', { cause: { code } })
    expect(whyUnanswered(error)).toMatch(new RegExp(`^${code}: .*NODE_EXTRA_CA_CERTS$`))
  }
  expect(whyUnanswered(new TypeError('fetch failed', { cause: { code: 'CERT_HAS_EXPIRED' } }))).toBe(
    'CERT_HAS_EXPIRED',
  )
})

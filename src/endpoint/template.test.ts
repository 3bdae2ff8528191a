import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openEndpoint } from './chat.ts'

const bodies: Record<string, unknown>[] = []
const server = createServer(async (request, response) => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  bodies.push(JSON.parse(Buffer.concat(chunks).toString()))
  response.end(JSON.stringify({ choices: [{ message: { content: 'ok' }, finish_reason: 'stop' }] }))
})
beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
afterAll(() => server.closeAllConnections())
afterAll(() => new Promise((resolve) => server.close(resolve)))

test("arguments of the model's chat template go to the server, where there are any", async () => {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const request = { messages: [], maxTokens: 1, temperature: 1, topP: 1, seed: 1 }
  await openEndpoint({ url, model: 'm', template: { enable_thinking: false } }).complete(request)
  await openEndpoint({ url, model: 'm', template: {} }).complete(request)
  expect(bodies.map(({ chat_template_kwargs }) => chat_template_kwargs)).toEqual([
    { enable_thinking: false },
    undefined,
  ])
})

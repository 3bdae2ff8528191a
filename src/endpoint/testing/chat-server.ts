/** An OpenAI-compatible server on this machine, for tests: what it says and how it fails is up to the test. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ChatMessage, Engine } from '../../engine/contract.ts'

export interface ChatBody {
  model: string
  messages: ChatMessage[]
  max_tokens?: number
  max_completion_tokens?: number
  temperature: number
  top_p: number
  seed: number
}

/** An answer: a status with a JSON body or a plain text; null ends the connection without one. */
export type Said = { status?: number; headers?: Record<string, string>; body: unknown } | null

export interface ChatServer {
  /** Up to `/v1`. */
  url: string
  asked: { body: ChatBody; authorization: string | undefined }[]
  /** Most requests that were under way at one time. */
  busiest: number
  close(): Promise<void>
}

export async function startChatServer(
  say: (body: ChatBody, nth: number) => Said | Promise<Said>,
): Promise<ChatServer> {
  let under = 0
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    if (request.url !== '/v1/chat/completions' || request.method !== 'POST') {
      response.writeHead(404).end('Not Found')
      return
    }
    const body = JSON.parse(Buffer.concat(chunks).toString()) as ChatBody
    chat.asked.push({ body, authorization: request.headers.authorization })
    chat.busiest = Math.max(chat.busiest, ++under)
    const said = await say(body, chat.asked.length)
    under--
    if (said === null) {
      request.socket.destroy()
      return
    }
    const text = typeof said.body === 'string' ? said.body : JSON.stringify(said.body)
    response.writeHead(said.status ?? 200, { 'content-type': 'application/json', ...said.headers }).end(text)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const chat: ChatServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    asked: [],
    busiest: 0,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return chat
}

/** A chat completion as servers write it. */
export function completion(text: string | null, tokens = 5, finish = 'stop'): Said {
  return {
    body: {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: finish }],
      usage: { prompt_tokens: 20, completion_tokens: tokens, total_tokens: 20 + tokens },
    },
  }
}

/** Serves an engine's base model: a real one behind the protocol. */
export async function serveEngine(engine: Engine): Promise<ChatServer> {
  const policy = await engine.createPolicy()
  const { tokenizer } = engine
  return startChatServer(async ({ messages, max_tokens = 16, temperature, top_p, seed }) => {
    const [[{ tokens, finish }]] = await policy.sample(
      [{ prompt: tokenizer.chat(messages), seeds: [seed] }],
      {
        maxTokens: max_tokens,
        temperature,
        topP: top_p,
        stop: tokenizer.stop,
      },
    )
    const spoken = finish === 'stop' ? tokens.slice(0, -1) : tokens
    return completion(tokenizer.decode(spoken), tokens.length, finish)
  })
}

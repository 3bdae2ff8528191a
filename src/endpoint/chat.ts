/**
 * Chat completions of an OpenAI-compatible server (vLLM, SGLang, llama.cpp, Ollama, hosted models). Touches the network
 * only.
 */
import { z } from 'zod'
import type { ChatMessage } from '../engine/contract.ts'
import { UserError } from '../errors.ts'
import { fetchWithRetries, type RetryOptions, refusalOf, shown, whyUnanswered } from '../http.ts'
import type { TemplateArguments } from '../tokens/template.ts'

export interface EndpointOptions {
  /** The server's address up to `/v1`. */
  url: string
  /** The model's name there. */
  model: string
  /** Sent as a bearer token. */
  key?: string
  /**
   * What the model's chat template is given beside the chat, such as `{ enable_thinking: false }`: sent as
   * `chat_template_kwargs`, which vLLM, SGLang and llama.cpp pass on. They decide the answers, so they belong to the
   * writer's identity.
   */
  template?: TemplateArguments
  retries?: RetryOptions
}

export interface ChatRequest {
  messages: readonly ChatMessage[]
  /** At most this many new tokens. */
  maxTokens: number
  temperature: number
  topP: number
  /** For servers that draw by a seed. */
  seed: number
}

export interface ChatAnswer {
  text: string
  /** 'length': cut at maxTokens; 'stop': ended by the model, or by the server for reasons of its own. */
  finish: 'stop' | 'length'
  /** As the server counts; estimated from the text's length where it does not. */
  promptTokens: number
  completionTokens: number
}

export interface Endpoint {
  /**
   * @throws UserError where the server refuses, does not answer after several tries, or answers what is no chat
   * completion; with the signal's reason where it was aborted.
   */
  complete(request: ChatRequest, signal?: AbortSignal): Promise<ChatAnswer>
}

const completionSchema = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        message: z.looseObject({ content: z.string().nullish() }),
        finish_reason: z.string().nullish(),
      }),
    )
    .min(1),
  usage: z.looseObject({ prompt_tokens: z.number(), completion_tokens: z.number() }).nullish(),
})

/** Answers that are no chat completion, after which it is given up: a server that starts may say odd things. */
const NONSENSE = 3

/** Rough, for servers that do not count: four characters a token. */
export const estimateTokens = (text: string): number => Math.ceil(text.length / 4)

export function openEndpoint({ url, model, key, template = {}, retries }: EndpointOptions): Endpoint {
  const address = addressOf(url)
  /** What the limit of new tokens is called: newer models of OpenAI refuse the name that all others know. */
  let limitName: 'max_tokens' | 'max_completion_tokens' = 'max_tokens'

  const send = async (request: ChatRequest, signal?: AbortSignal): Promise<Response> => {
    const body = {
      model,
      messages: request.messages,
      [limitName]: request.maxTokens,
      temperature: request.temperature,
      top_p: request.topP,
      seed: request.seed,
      ...(Object.keys(template).length > 0 && { chat_template_kwargs: template }),
    }
    const headers = {
      'content-type': 'application/json',
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    }
    try {
      return await fetchWithRetries(
        address,
        { method: 'POST', headers, body: JSON.stringify(body) },
        { attempts: 6, timeout: 600_000, ...retries, signal },
      )
    } catch (error) {
      signal?.throwIfAborted()
      throw new UserError(
        `${address} does not answer (${whyUnanswered(error)}): check that the server runs and the address is right.`,
      )
    }
  }

  return {
    async complete(request, signal) {
      for (let attempt = 1; ; attempt++) {
        const response = await send(request, signal)
        const text = await response.text().catch((error: unknown) => {
          signal?.throwIfAborted()
          return `broken off: ${whyUnanswered(error)}`
        })
        if (!response.ok) {
          const said = refusalOf(text)
          if (
            response.status === 400 &&
            limitName === 'max_tokens' &&
            said.includes('max_completion_tokens')
          ) {
            limitName = 'max_completion_tokens'
            continue
          }
          throw refused(address, model, response.status, said)
        }
        const answer = parse(text)
        if (answer) {
          const asked = request.messages.map(({ content }) => content).join('')
          const [choice] = answer.choices
          const content = choice.message.content ?? ''
          return {
            text: content,
            finish: choice.finish_reason === 'length' ? 'length' : 'stop',
            promptTokens: answer.usage?.prompt_tokens ?? estimateTokens(asked),
            completionTokens: answer.usage?.completion_tokens ?? estimateTokens(content),
          }
        }
        if (attempt === NONSENSE) {
          throw new UserError(
            `${address} answers what is no chat completion (${shown(text)}): give the address of an ` +
              'OpenAI-compatible server, which most often ends in /v1.',
          )
        }
      }
    },
  }
}

function addressOf(url: string): string {
  const trimmed = url.replace(/\/+$/, '')
  if (!URL.canParse(trimmed) || !/^https?:$/.test(new URL(trimmed).protocol)) {
    throw new UserError(`"${url}" is no address of a server: give one such as http://localhost:8000/v1.`)
  }
  return `${trimmed}/chat/completions`
}

function parse(text: string): z.infer<typeof completionSchema> | undefined {
  try {
    return completionSchema.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

function refused(address: string, model: string, status: number, said: string): UserError {
  if (status === 401 || status === 403) {
    return new UserError(
      `${address} refuses the key (${status}: ${said}): name the variable that holds it with --key-env.`,
    )
  }
  if (status === 404) {
    return new UserError(
      `${address} does not have the model ${model}, or is no such server (404: ${said}): check --model and --endpoint.`,
    )
  }
  if (status === 429) {
    return new UserError(
      `${address} goes on limiting the rate (429: ${said}): wait, or lower --concurrency, and run the same again.`,
    )
  }
  return new UserError(
    `${address} refuses (${status}: ${said}): change what it names, and run the same again.`,
  )
}

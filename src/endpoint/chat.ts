/**
 * Chat completions of an OpenAI-compatible server (vLLM, SGLang, llama.cpp, Ollama, hosted models). Touches the network
 * only.
 */
import { z } from 'zod'
import { addressOf, keyOf, shownAddress } from '../address.ts'
import type { ChatMessage } from '../engine/contract.ts'
import { UserError } from '../errors.ts'
import {
  type Answer,
  askWithRetries,
  pause,
  type RetryOptions,
  refusalOf,
  waitNotices,
  whyUnanswered,
} from '../http.ts'
import { shown } from '../printable.ts'
import type { TemplateArguments } from '../tokens/template.ts'

export interface EndpointOptions {
  /** The server's address up to `/v1`; a login in it is sent, and a query goes with every request. */
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
  /** Told what a person should know though the work goes on. */
  onNotice?: (text: string) => void
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

/**
 * Why a text is not what the model had to say: its limit was spent on what is not shown (its thoughts); the server's
 * filter took it, or the rest of it; or it holds nothing, for no reason given.
 */
export const flaws = ['limit', 'filter', 'nothing'] as const
export type Flaw = (typeof flaws)[number]

export interface ChatAnswer {
  text: string
  /** 'length': cut at maxTokens; 'stop': ended by the model, or by the server for reasons of its own. */
  finish: 'stop' | 'length'
  flaw: Flaw | null
  /** As the server counts; estimated from the text's length where it does not. */
  promptTokens: number
  completionTokens: number
}

export interface Endpoint {
  /** The server's address without what may be secret in it: a login, a query. */
  address: string
  /**
   * @throws UserError where the server refuses, does not answer after several tries, or answers what is no chat
   * completion; with the signal's reason where it was aborted.
   */
  complete(request: ChatRequest, signal?: AbortSignal): Promise<ChatAnswer>
}

/** What a server may leave out or get wrong without its answer being any worse. */
const lax = <T extends z.ZodType>(schema: T) => schema.nullish().catch(undefined)

const count = lax(z.number().int().nonnegative().max(1e9))
const part = z.looseObject({ text: lax(z.string()) })

const completionSchema = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        message: z.looseObject({
          content: z
            .union([
              z.string(),
              z.array(part).transform((parts) => parts.map(({ text }) => text ?? '').join('')),
            ])
            .nullish(),
        }),
        finish_reason: lax(z.string()),
      }),
    )
    .min(1),
  usage: lax(z.looseObject({ prompt_tokens: count, completion_tokens: count })),
})

/** What some servers and most routers say with status 200: that it went wrong. */
const failureSchema = z.union([
  z
    .looseObject({ error: z.looseObject({ code: lax(z.coerce.number()) }) })
    .transform(({ error }) => error.code),
  z.looseObject({ error: z.string().min(1) }).transform(() => undefined),
  z.looseObject({ object: z.literal('error'), code: lax(z.coerce.number()) }).transform(({ code }) => code),
])

/** Answers that are no chat completion, after which it is given up: a server that starts may say odd things. */
const NONSENSE = 3

/** Bytes of an answer: far above any text that a request asks for. */
const LARGEST = 16 * 2 ** 20

/** Rough, for servers that do not count: four characters a token. */
export const estimateTokens = (text: string): number => Math.ceil(text.length / 4)

/** How requests are put: servers differ in the fields that they take. */
interface Form {
  /** What the limit of new tokens is called: newer models of OpenAI refuse the name that all others know. */
  limit: 'max_tokens' | 'max_completion_tokens'
  without: ReadonlySet<Droppable>
}

/** Fields without which a server draws as it likes, and no worse. */
const droppable = ['seed', 'top_p', 'temperature'] as const
type Droppable = (typeof droppable)[number]

export function openEndpoint({
  url,
  model,
  key: given,
  template = {},
  retries,
  onNotice = () => {},
}: EndpointOptions): Endpoint {
  const server = addressOf(url)
  if (!server) {
    throw new UserError(
      `"${shownAddress(url)}" is no address of a server: give one such as http://localhost:8000/v1.`,
    )
  }
  if (given !== undefined && server.authorization !== undefined) {
    throw new UserError(`${server.shown} gets a login in its address and a key: give one of them.`)
  }
  const key = given === undefined ? undefined : keyOf(given, 'The variable of --key-env')
  const authorization = key === undefined ? server.authorization : `Bearer ${key}`
  const secrets = [...server.secrets, ...(key === undefined ? [] : [key])]
  const path = 'chat/completions'
  const address = `${server.shown}/${path}`
  const onWait = waitNotices(server.shown, onNotice)
  /** How the next request is put: whatever the server has refused so far is left out. */
  let known: Form = { limit: 'max_tokens', without: new Set() }

  const send = async (request: ChatRequest, form: Form, signal?: AbortSignal): Promise<Answer> => {
    const fields = { temperature: request.temperature, top_p: request.topP, seed: request.seed }
    const body = {
      model,
      messages: request.messages,
      [form.limit]: request.maxTokens,
      ...Object.fromEntries(Object.entries(fields).filter(([name]) => !form.without.has(name as Droppable))),
      ...(Object.keys(template).length > 0 && { chat_template_kwargs: template }),
    }
    const headers = {
      'content-type': 'application/json',
      ...(authorization === undefined ? {} : { authorization }),
    }
    try {
      return await askWithRetries(
        server.to(path),
        { method: 'POST', headers, body: JSON.stringify(body) },
        { attempts: 6, timeout: 600_000, limit: LARGEST, statusOf, onWait, ...retries, signal },
      )
    } catch (error) {
      signal?.throwIfAborted()
      if (error instanceof UserError) throw error
      throw new UserError(
        `${address} does not answer (${whyUnanswered(error)}): check that the server runs and the address is right.`,
      )
    }
  }

  return {
    address: server.shown,
    async complete(request, signal) {
      let oddities = 0
      for (;;) {
        // Others are under way in older forms: what a refusal means depends on what it was sent in reply to.
        const form = known
        const answer = await send(request, form, signal)
        const status = statusOf(answer)
        if (status < 200 || status >= 300) {
          const said = refusalOf(answer.text, secrets)
          const change = status === 400 || status === 422 ? changeFor(answer.text, form) : undefined
          if (change === undefined) throw refused(address, model, status, said)
          if (change === 'limit') known = { ...known, limit: 'max_completion_tokens' }
          else if (!known.without.has(change)) {
            known = { ...known, without: new Set([...known.without, change]) }
            onNotice(
              `${server.shown} does not take ${change} (${said}): it is left out, and the server's own holds.`,
            )
          }
          continue
        }
        const read = parse(answer.text)
        if (read) return answerOf(read, request)
        if (++oddities === NONSENSE) {
          throw new UserError(
            `${address} answers what is no chat completion (${shown(answer.text, secrets)}): give the address of an ` +
              'OpenAI-compatible server, which most often ends in /v1.',
          )
        }
        await pause((retries?.delay ?? 1000) * 2 ** (oddities - 1), signal)
      }
    },
  }
}

function answerOf(
  { choices: [{ message, finish_reason }], usage }: z.infer<typeof completionSchema>,
  request: ChatRequest,
): ChatAnswer {
  const asked = request.messages.map(({ content }) => content).join('')
  const text = message.content ?? ''
  const finish = finish_reason === 'length' ? 'length' : 'stop'
  const isEmpty = text.trim() === ''
  const flaw =
    finish_reason === 'content_filter'
      ? 'filter'
      : !isEmpty
        ? null
        : finish === 'length'
          ? 'limit'
          : 'nothing'
  return {
    text,
    finish,
    flaw,
    // A count of 0 for what is there is no count.
    promptTokens: usage?.prompt_tokens || estimateTokens(asked),
    completionTokens: usage?.completion_tokens || estimateTokens(text),
  }
}

function parse(text: string): z.infer<typeof completionSchema> | undefined {
  return completionSchema.safeParse(jsonOf(text)).data
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Ends of a text that the server could not finish. */
const brokenOff = ['error', 'abort']

/** An answer's status, or the one that its text speaks of. */
function statusOf({ status, text }: Answer): number {
  if (status < 200 || status >= 300) return status
  const read = parse(text)
  if (read) return brokenOff.includes(read.choices[0].finish_reason ?? '') ? 500 : status
  const failure = failureSchema.safeParse(jsonOf(text))
  if (!failure.success) return status
  const code = failure.data ?? 500
  return Number.isInteger(code) && code >= 400 && code < 600 ? code : 500
}

const namedSchema = z
  .looseObject({ error: z.looseObject({ param: z.string() }) })
  .transform(({ error }) => error.param)

/** Words of a refusal of a field itself, and not of its value. */
const unwanted =
  /support|unrecogni|unknown|unexpected|extra|permitted|allowed|additional|deprecated|not (a )?(valid|known)|invalid (param|arg|field)/i

/** What to do without, by what a server says against a request in this form; undefined where it is something else. */
function changeFor(text: string, { limit, without }: Form): Droppable | 'limit' | undefined {
  const said = refusalOf(text)
  if (limit === 'max_tokens' && said.includes('max_completion_tokens')) return 'limit'
  if (!unwanted.test(said)) return undefined
  const param = namedSchema.safeParse(jsonOf(text)).data
  return droppable.find(
    (name) =>
      !without.has(name) && (param === undefined ? new RegExp(`\\b${name}\\b`).test(said) : param === name),
  )
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
  if (status >= 500) {
    return new UserError(
      `${address} goes on failing (${status}: ${said}): look at its log, and run the same again.`,
    )
  }
  return new UserError(
    `${address} refuses (${status}: ${said}): change what it names, and run the same again.`,
  )
}

/**
 * Writes a board's texts at an endpoint: some requests at a time, within a budget of tokens, and each answer kept in a
 * file at once, so that the same command after any failure pays only for what is missing. Touches that file and, by
 * the endpoint, the network.
 */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { Writer } from '../board/play.ts'
import { UserError } from '../errors.ts'
import { openKeyedLines } from '../keyed-lines.ts'
import { type ChatRequest, type Endpoint, estimateTokens, type Flaw, flaws } from './chat.ts'

export interface EndpointWriterOptions {
  endpoint: Endpoint
  /** What decides an answer beside the request: the server's address and the model's name. */
  identity: readonly string[]
  /** Requests at a time. */
  concurrency: number
  /** Tokens, of prompts and completions together, that may be paid for; without limit when left out. */
  budget?: number
  /** The file of answers, one a line; its folder is made. */
  answers: string
  onTokens?: (newTokens: number) => void
  signal?: AbortSignal
}

export interface EndpointWriter {
  write: Writer<null>
  /**
   * What was paid for so far, the answers that an earlier run had paid for, and those that are not kept, by what they
   * lack: another run asks for these again.
   */
  spent(): { tokens: number; requests: number; kept: number; flawed: Record<Flaw, number> }
  close(): Promise<void>
}

/** One answer, under a hash of everything that decides it. */
const lineSchema = z.object({
  key: z.string(),
  text: z.string(),
  finish: z.enum(['stop', 'length']),
  tokens: z.number().int().nonnegative(),
})
type Line = z.infer<typeof lineSchema>

/** Seeds that every server takes: 31 bits. */
const SEEDS = 0x7fffffff

/** @throws UserError for a file of answers that cannot be used. */
export async function openEndpointWriter(options: EndpointWriterOptions): Promise<EndpointWriter> {
  const { endpoint, identity, concurrency, budget = Number.POSITIVE_INFINITY, onTokens = () => {} } = options
  const answers = await openKeyedLines(options.answers, lineSchema)
  const spent = { tokens: 0, requests: 0, kept: 0 }
  const flawed = Object.fromEntries(flaws.map((flaw) => [flaw, 0])) as Record<Flaw, number>
  /** Answers that the file is not to hold, for the other boards of this run. */
  const unkept = new Map<string, Line>()
  /** Tokens that requests under way may still come to cost. */
  let reserved = 0

  /** One answer; what it may cost is set aside before it is asked for, so that the budget holds at any moment. */
  const answer = async (request: ChatRequest, key: string, most: number): Promise<Line> => {
    reserved += most
    try {
      const { text, finish, flaw, promptTokens, completionTokens } = await endpoint.complete(
        request,
        options.signal,
      )
      spent.tokens += promptTokens + completionTokens
      spent.requests++
      const line: Line = { key, text, finish, tokens: completionTokens }
      if (flaw === null) await answers.add(line)
      else {
        unkept.set(key, line)
        flawed[flaw]++
      }
      onTokens(completionTokens)
      return line
    } finally {
      reserved -= most
    }
  }

  const write: Writer<null> = async (asks, sampling) => {
    const jobs = asks.flatMap(({ prompt, seen, seeds }) => {
      const messages = prompt(seen)
      return seeds.map((seed) => {
        const request = { messages, ...sampling, seed: seed & SEEDS }
        return { request, key: keyOf(identity, request) }
      })
    })
    const lines: Line[] = []
    const missing: number[] = []
    jobs.forEach(({ key }, i) => {
      const line = unkept.get(key) ?? answers.get(key)
      if (line === undefined || (line.text.trim() === '' && !unkept.has(key))) missing.push(i)
      else {
        lines[i] = line
        if (!unkept.has(key)) spent.kept++
      }
    })

    let next = 0
    /** What the request that the budget refused might have taken. */
    let refused: number | null = null
    const work = async () => {
      while (next < missing.length) {
        options.signal?.throwIfAborted()
        const i = missing[next++]
        const { request, key } = jobs[i]
        const most =
          request.maxTokens + estimateTokens(request.messages.map(({ content }) => content).join(''))
        if (spent.tokens + reserved + most > budget) {
          refused = most
          next = missing.length
          return
        }
        lines[i] = await answer(request, key, most)
      }
    }
    const workers = Array.from({ length: Math.min(concurrency, missing.length) }, () =>
      work().catch((error: unknown) => {
        // The others need not go on asking; what is under way is finished and kept unless it was stopped.
        next = missing.length
        throw error
      }),
    )
    const ends = await Promise.allSettled(workers)
    const failure = ends.find((end) => end.status === 'rejected')
    if (failure) throw failure.reason
    // Said once nothing is under way any more, so that the figures are the last.
    if (refused !== null) {
      throw new UserError(
        `The budget of ${budget} tokens is spent (${spent.tokens} in ${spent.requests} answers; the next may take ` +
          `${refused}): run the same again with a new budget. Every answer is kept${unkept.size > 0 ? ' that has a text' : ''}.`,
      )
    }
    if (lines.length > 0 && lines.every(({ text }) => text.trim() === '')) throw silent(flawed, lines.length)

    const texts = lines.map(({ text, finish, tokens }) => ({
      text: text.trim(),
      tokens,
      cut: finish === 'length',
      trace: null,
    }))
    return asks.map(({ seeds }) => texts.splice(0, seeds.length))
  }
  return { write, spent: () => ({ ...spent, flawed: { ...flawed } }), close: () => answers.close() }
}

/** What to do where a model says nothing at all, by its most frequent reason. */
const advice: Record<Flaw, string> = {
  limit:
    'it thought until its limit of tokens: raise board.noteTokens and board.replyTokens, or ask it not to think',
  filter: "the server's filter took them: choose another task or model",
  nothing: 'the server sends no content: check its log, and that the model is one for chats',
}

function silent(flawed: Record<Flaw, number>, count: number): UserError {
  const [worst] = flaws.toSorted((a, b) => flawed[b] - flawed[a])
  return new UserError(
    `Every text that the model was asked for is empty (${count} of ${count}); ${advice[worst]}. None is kept.`,
  )
}

function keyOf(identity: readonly string[], request: ChatRequest): string {
  return createHash('sha256')
    .update(JSON.stringify([identity, request]))
    .digest('hex')
    .slice(0, 32)
}

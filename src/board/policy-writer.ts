/** Texts by policies, with the tokens that training needs: a `Writer` over the engine contract. */
import type { Drawn, Policy } from '../engine/contract.ts'
import { UserError } from '../errors.ts'
import type { Problem } from '../tasks/types.ts'
import type { ChatTokenizer } from '../tokens/chat.ts'
import { thoughtOpens } from '../tokens/thought.ts'
import { type Ask, type PlayedRounds, type PlayOptions, play, type Writer } from './play.ts'

/** A sampled text as training needs it. */
export interface Rollout {
  prompt: number[]
  completion: number[]
  /** Log-probability of each completion token under the loss's distribution. */
  logprobs: number[]
}

/** Who writes for seats: a policy, with its checkpoint's tokenizer and context in tokens. */
export interface Author {
  policy: Policy
  tokenizer: ChatTokenizer
  contextLength: number
}

export interface PolicyWriterOptions {
  /** Longest prompt with posts to read, in tokens: above it the longest posts shown are shortened from their end. Null: what the context leaves. */
  readTokens: number | null
  onTokens?: (newTokens: number) => void
  signal?: AbortSignal
}

/** Writes with the authors that the seats name. Those of one policy are sampled together. */
export function policyWriter(
  authors: ReadonlyMap<string, Author>,
  { readTokens, onTokens, signal }: PolicyWriterOptions,
): Writer<Rollout> {
  return async (asks, sampling, onText) => {
    const texts: Awaited<ReturnType<Writer<Rollout>>> = []
    for (const [name, { policy, tokenizer, contextLength }] of authors) {
      const its = asks.flatMap((ask, a) => (ask.policy === name ? [a] : []))
      if (its.length === 0) continue
      const limit = readTokens ?? contextLength - sampling.maxTokens
      const prompts = its.map((a) => promptTokens(tokenizer, asks[a], limit))
      const begun = tokenizer.opensThought ? thoughtOpens : ''
      const textOf = (tokens: readonly number[]) => begun + tokenizer.decode(tokens).trim()
      const completions = await policy.sample(
        its.map((a, i) => ({ prompt: prompts[i], seeds: asks[a].seeds })),
        {
          ...sampling,
          stop: tokenizer.stop,
          onTokens,
          onDrawn:
            onText &&
            growing(tokenizer.stop, (i, text, tokens) =>
              onText(its[i], text, { text: textOf(tokens), tokens: tokens.length }),
            ),
          signal,
        },
      )
      its.forEach((a, i) => {
        texts[a] = completions[i].map(({ tokens, logprobs, finish }) => ({
          text: textOf(finish === 'stop' ? tokens.slice(0, -1) : tokens),
          tokens: tokens.length,
          cut: finish === 'length',
          trace: { prompt: prompts[i], completion: tokens, logprobs },
        }))
      })
    }
    return texts
  }
}

/** Puts drawn tokens behind those drawn before, and tells each completion that grew; a stop token is no text. */
function growing(
  stop: readonly number[],
  tell: (request: number, sample: number, tokens: readonly number[]) => void,
): (drawn: readonly Drawn[]) => void {
  const completions = new Map<string, number[]>()
  return (drawn) => {
    for (const { request, sample, token } of drawn) {
      if (stop.includes(token)) continue
      const key = `${request} ${sample}`
      const tokens = completions.get(key) ?? []
      completions.set(key, tokens)
      tokens.push(token)
      tell(request, sample, tokens)
    }
  }
}

/** Plays a protocol on each problem with one author for every seat, whatever policies the seats name. */
export function playPolicy(
  author: Author,
  problems: readonly Problem[],
  { readTokens = null, onTokens, signal, ...options }: PlayOptions & Partial<PolicyWriterOptions>,
): Promise<PlayedRounds<Rollout>> {
  const named = new Map(options.protocol.seats.map(({ policy }) => [policy, author]))
  const writer = policyWriter(named, { readTokens, onTokens, signal })
  return play(
    writer,
    problems.map((problem) => ({ problem })),
    options,
  )
}

/**
 * An ask's prompt; one with posts to read, in at most `limit` tokens. Text that a model wrote can take more tokens to
 * read than it took to write (bytes that are no characters), so the limits of earlier rounds do not bound it.
 */
export function promptTokens(
  tokenizer: ChatTokenizer,
  { problem, seen, prompt }: Omit<Ask, 'seeds'>,
  limit: number,
): number[] {
  if (seen === null) return tokenizer.chat(prompt(null))
  let shown = seen
  for (;;) {
    const tokens = tokenizer.chat(prompt(shown))
    if (tokens.length <= limit) return tokens
    const longest = shown.reduce((best, text, i) => (text.length > shown[best].length ? i : best), 0)
    if (shown.length === 0 || shown[longest] === '') {
      throw new UserError(
        `Problem ${problem.id} takes ${tokens.length} tokens to read before any note, above the limit of ` +
          `${limit}: raise board.readTokens or leave this problem out.`,
      )
    }
    const kept = Math.floor(shown[longest].length * 0.8)
    shown = shown.map((text, i) => (i === longest ? text.slice(0, kept) : text))
  }
}

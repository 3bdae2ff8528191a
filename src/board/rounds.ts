/**
 * The two rounds: every copy posts a note, then every copy reads its board and answers again. Asks a writer (a policy,
 * or whatever else writes texts) and the verifier for grades; touches nothing else.
 *
 * Draws are keyed by (seed, problem, round, reader) and not by the board, so two arms that share a seed pose the
 * same problems and draw their notes from the same streams. Readers with the same prompt are one request with
 * n = their number: an engine computes that prompt once.
 */
import type { ChatTokenizer, Policy } from '../engine/contract.ts'
import { UserError } from '../errors.ts'
import type { Grader } from '../grade/types.ts'
import { type SeedPart, seedOf } from '../random.ts'
import type { Problem } from '../tasks/types.ts'
import { afterThought, thoughtOpens } from '../tokens/thought.ts'
import { notePrompt, readPrompt } from './prompts.ts'
import { layout } from './reads.ts'
import type { Board, Post, Reads } from './types.ts'

/** How a round draws its texts. */
export interface RoundSampling {
  /** At most this many new tokens for each text. */
  maxTokens: number
  temperature: number
  topP: number
}

export interface PlayOptions {
  copies: number
  reads: Reads
  notes: RoundSampling
  replies: RoundSampling
  grader: Grader
  /** Keys every draw of these rounds, e.g. [17, 'train', 3]. */
  seed: readonly SeedPart[]
}

export interface RoundsOptions extends PlayOptions {
  /** Longest prompt of round two, in tokens: above it the longest notes shown are shortened from their end. */
  readTokens: number
  onTokens?: (newTokens: number) => void
  signal?: AbortSignal
}

/** A sampled text as training needs it. */
export interface Rollout {
  prompt: number[]
  completion: number[]
  /** Log-probability of each completion token under the loss's distribution. */
  logprobs: number[]
}

/** What one prompt asks for: texts by `n` copies. */
export interface Ask {
  problem: Problem
  /** The notes to read, in the order shown; null in round one. */
  notes: readonly string[] | null
  n: number
  /** Keys the draws: text i is drawn from (seed, i). */
  seed: number
}

/** A text that was written, and what its writer keeps of it beside the text. */
export interface Text<Trace> {
  text: string
  /** Tokens it took, the stop token included. */
  tokens: number
  /** Ended by the token limit, not by the model. */
  cut: boolean
  trace: Trace
}

/** Writes the texts of a round, in the order asked. */
export type Writer<Trace> = (asks: readonly Ask[], sampling: RoundSampling) => Promise<Text<Trace>[][]>

/** One problem played: the board a person reads, and its texts' traces (`notes[i]`, `replies[i]`: copy i's). */
export interface Played<Trace = Rollout> {
  board: Board
  notes: Trace[]
  replies: Trace[]
}

/** Both rounds, in the order of the problems asked, and the wall-clock seconds that each round took. */
export interface Rounds<Trace = Rollout> {
  played: Played<Trace>[]
  seconds: { notes: number; replies: number }
}

/** Plays both rounds on each problem with a policy, whose texts become data to train on. */
export function playRounds(
  policy: Policy,
  tokenizer: ChatTokenizer,
  problems: readonly Problem[],
  options: RoundsOptions,
): Promise<Rounds> {
  return playWith(policyWriter(policy, tokenizer, options), problems, options)
}

/** Plays both rounds on each problem. Problems must differ: equal ids would draw equal texts. */
export async function playWith<Trace>(
  writer: Writer<Trace>,
  problems: readonly Problem[],
  options: PlayOptions,
): Promise<Rounds<Trace>> {
  const { copies, seed, grader } = options
  const started = performance.now()
  const everyone = Array.from({ length: copies }, (_, copy) => copy)
  const readers = layout(options.reads, copies)

  const notes_PC = await write(
    writer,
    problems.map((problem) => [
      { problem, copies: everyone, notes: null, seed: seedOf(...seed, problem.id, 'note', 0) },
    ]),
    options.notes,
    grader,
  )
  const between = performance.now()

  const replies_PC = await write(
    writer,
    problems.map((problem, p) =>
      groupBySight(readers).map((group) => ({
        problem,
        copies: group,
        notes: readers[group[0]].map((note) => notes_PC[p][note].post.text),
        seed: seedOf(...seed, problem.id, 'reply', group[0]),
      })),
    ),
    options.replies,
    grader,
  )

  const played = problems.map((problem, p) => ({
    board: {
      problemId: problem.id,
      notes: notes_PC[p].map((note) => note.post),
      replies: replies_PC[p].map((reply, reader) => ({ ...reply.post, reads: readers[reader] })),
    },
    notes: notes_PC[p].map((note) => note.trace),
    replies: replies_PC[p].map((reply) => reply.trace),
  }))
  const ended = performance.now()
  return {
    played,
    seconds: { notes: (between - started) / 1000, replies: (ended - between) / 1000 },
  }
}

/** Readers grouped by the notes they see, in reader order: [[0, 1, 2, 3]] for `shared`, [[0], [1], ...] for `own`. */
function groupBySight(readers: readonly number[][]): number[][] {
  const groups = new Map<string, number[]>()
  readers.forEach((notes, reader) => {
    const sight = notes.join(' ')
    groups.set(sight, [...(groups.get(sight) ?? []), reader])
  })
  return [...groups.values()]
}

interface Written<Trace> {
  trace: Trace
  post: Post
}

/** An ask, and the copies that its texts are by. */
type CopiesAsk = Omit<Ask, 'n'> & { copies: number[] }

/** Writes one round and grades it: `[problem][copy]`. */
async function write<Trace>(
  writer: Writer<Trace>,
  asks_P: readonly CopiesAsk[][],
  sampling: RoundSampling,
  grader: Grader,
): Promise<Written<Trace>[][]> {
  const asks = asks_P.flat().map(({ copies, ...ask }): Ask => ({ ...ask, n: copies.length }))
  const texts = await writer(asks, sampling)
  let next = 0
  return asks_P.map((asks) => {
    const written_C: Written<Trace>[] = []
    for (const { copies, problem } of asks) {
      const samples = texts[next++]
      copies.forEach((copy, i) => {
        const { tokens, cut, trace } = samples[i]
        const { text } = afterThought(samples[i].text)
        written_C[copy] = { trace, post: { text, tokens, ...grader.grade(text, problem.gold), cut } }
      })
    }
    return written_C
  })
}

/** A policy's texts, with the tokens that training needs. */
export function policyWriter(
  policy: Policy,
  tokenizer: ChatTokenizer,
  { readTokens, onTokens, signal }: Pick<RoundsOptions, 'readTokens' | 'onTokens' | 'signal'>,
): Writer<Rollout> {
  return async (asks, sampling) => {
    const prompts = asks.map(({ problem, notes }) =>
      notes === null
        ? tokenizer.chat(notePrompt(problem.question))
        : fitPrompt(tokenizer, problem, notes, readTokens),
    )
    const completions = await policy.sample(
      asks.map(({ n, seed }, i) => ({ prompt: prompts[i], n, seed })),
      { ...sampling, stop: tokenizer.stop, onTokens, signal },
    )
    const begun = tokenizer.opensThought ? thoughtOpens : ''
    return completions.map((samples, i) =>
      samples.map(({ tokens, logprobs, finish }) => ({
        text: begun + tokenizer.decode(finish === 'stop' ? tokens.slice(0, -1) : tokens).trim(),
        tokens: tokens.length,
        cut: finish === 'length',
        trace: { prompt: prompts[i], completion: tokens, logprobs },
      })),
    )
  }
}

/**
 * The reader's prompt in at most `limit` tokens. Text that a model wrote can take more tokens to read than it took
 * to write (bytes that are no characters), so the limits of round one do not bound this prompt by themselves.
 */
function fitPrompt(
  tokenizer: ChatTokenizer,
  problem: Problem,
  notes: readonly string[],
  limit: number,
): number[] {
  let shown = notes
  for (;;) {
    const prompt = tokenizer.chat(readPrompt(problem.question, shown))
    if (prompt.length <= limit) return prompt
    const longest = shown.reduce((best, note, i) => (note.length > shown[best].length ? i : best), 0)
    if (shown[longest] === '') {
      throw new UserError(
        `Problem ${problem.id} takes ${prompt.length} tokens to read before any note, above the limit of ` +
          `${limit}: raise board.readTokens or leave this problem out.`,
      )
    }
    const kept = Math.floor(shown[longest].length * 0.8)
    shown = shown.map((note, i) => (i === longest ? note.slice(0, kept) : note))
  }
}

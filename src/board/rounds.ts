/**
 * The two rounds: every copy posts a note, then every copy reads its board and answers again. Asks a policy for
 * samples and the verifier for grades; touches nothing else.
 *
 * Draws are keyed by (seed, problem, round, reader) and not by the board, so two arms that share a seed pose the
 * same problems and draw their notes from the same streams. Readers with the same prompt are one request with
 * n = their number: an engine computes that prompt once.
 */
import type { ChatTokenizer, Completion, Policy, SampleRequest } from '../engine/contract.ts'
import { UserError } from '../errors.ts'
import type { Grader } from '../grade/types.ts'
import { type SeedPart, seedOf } from '../random.ts'
import type { Problem } from '../tasks/types.ts'
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

export interface RoundsOptions {
  copies: number
  reads: Reads
  notes: RoundSampling
  replies: RoundSampling
  /** Longest prompt of round two, in tokens: above it the longest notes shown are shortened from their end. */
  readTokens: number
  grader: Grader
  /** Keys every draw of these rounds, e.g. [17, 'train', 3]. */
  seed: readonly SeedPart[]
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

/** One problem played: the board a person reads, and its texts as tokens (`notes[i]`, `replies[i]`: copy i's). */
export interface Played {
  board: Board
  notes: Rollout[]
  replies: Rollout[]
}

interface Written {
  rollout: Rollout
  post: Post
}

/** Both rounds, in the order of the problems asked, and the wall-clock seconds that each round took. */
export interface Rounds {
  played: Played[]
  seconds: { notes: number; replies: number }
}

/** Plays both rounds on each problem. Problems must differ: equal ids would draw equal texts. */
export async function playRounds(
  policy: Policy,
  tokenizer: ChatTokenizer,
  problems: readonly Problem[],
  options: RoundsOptions,
): Promise<Rounds> {
  const { copies, seed } = options
  const started = performance.now()
  const everyone = Array.from({ length: copies }, (_, copy) => copy)
  const readers = layout(options.reads, copies)

  const notes_PC = await write(
    policy,
    tokenizer,
    problems.map((problem) => [
      {
        problem,
        copies: everyone,
        prompt: tokenizer.chat(notePrompt(problem.question)),
        seed: seedOf(...seed, problem.id, 'note', 0),
      },
    ]),
    options.notes,
    options,
  )
  const between = performance.now()

  const replies_PC = await write(
    policy,
    tokenizer,
    problems.map((problem, p) =>
      groupBySight(readers).map((group) => ({
        problem,
        copies: group,
        prompt: fitPrompt(
          tokenizer,
          problem,
          readers[group[0]].map((note) => notes_PC[p][note].post.text),
          options.readTokens,
        ),
        seed: seedOf(...seed, problem.id, 'reply', group[0]),
      })),
    ),
    options.replies,
    options,
  )

  const played = problems.map((problem, p) => ({
    board: {
      problemId: problem.id,
      notes: notes_PC[p].map((note) => note.post),
      replies: replies_PC[p].map((reply, reader) => ({ ...reply.post, reads: readers[reader] })),
    },
    notes: notes_PC[p].map((note) => note.rollout),
    replies: replies_PC[p].map((reply) => reply.rollout),
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

/** One prompt, and the copies that continue it. */
interface Ask {
  problem: Problem
  copies: number[]
  prompt: number[]
  seed: number
}

/** Samples one round and grades it: `[problem][copy]`. */
async function write(
  policy: Policy,
  tokenizer: ChatTokenizer,
  asks_P: readonly Ask[][],
  sampling: RoundSampling,
  options: RoundsOptions,
): Promise<Written[][]> {
  const requests: SampleRequest[] = asks_P
    .flat()
    .map((ask) => ({ prompt: ask.prompt, n: ask.copies.length, seed: ask.seed }))
  const completions = await policy.sample(requests, {
    ...sampling,
    stop: tokenizer.stop,
    onTokens: options.onTokens,
    signal: options.signal,
  })
  let request = 0
  return asks_P.map((asks) => {
    const written_C: Written[] = []
    for (const ask of asks) {
      const samples = completions[request++]
      ask.copies.forEach((copy, i) => {
        written_C[copy] = grade(tokenizer, ask, samples[i], options.grader)
      })
    }
    return written_C
  })
}

function grade(tokenizer: ChatTokenizer, ask: Ask, sample: Completion, grader: Grader): Written {
  const spoken = sample.finish === 'stop' ? sample.tokens.slice(0, -1) : sample.tokens
  const text = tokenizer.decode(spoken).trim()
  return {
    rollout: { prompt: ask.prompt, completion: sample.tokens, logprobs: sample.logprobs },
    post: {
      text,
      tokens: sample.tokens.length,
      ...grader.grade(text, ask.problem.gold),
      cut: sample.finish === 'length',
    },
  }
}

/**
 * The reader's prompt in at most `limit` tokens. Text that a model wrote can take more tokens to read than it took
 * to write (bytes that are no characters), so the limits of round one do not bound this prompt by themselves.
 */
function fitPrompt(tokenizer: ChatTokenizer, problem: Problem, notes: string[], limit: number): number[] {
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

/**
 * Plays a protocol: round after round, each speaker writes a post from what it sees. Asks a writer (a policy, or whatever
 * else writes texts) and the verifier for grades; touches nothing else.
 *
 * A text's draws are keyed by (seed, problem, board, round, seat) and by nothing else: two arms that share a seed draw
 * alike wherever they ask alike, and a board replayed without one note uses the same numbers. Speakers with the same
 * prompt are one request with a seed each, so that an engine computes that prompt once.
 */

import type { Grader } from '../grade/types.ts'
import { random, type SeedPart, seedOf } from '../random.ts'
import type { Problem } from '../tasks/types.ts'
import type { ChatMessage } from '../tokens/chat.ts'
import { afterThought } from '../tokens/thought.ts'
import { type Protocol, type Sampling, seatView, sightOf } from './protocol.ts'
import type { Episode, Post, Ref } from './types.ts'

/** How a round draws its texts. */
export interface RoundSampling extends Sampling {
  /** At most this many new tokens for each text. */
  maxTokens: number
}

export interface PlayOptions {
  protocol: Protocol
  /** One for each round. */
  sampling: readonly RoundSampling[]
  grader: Grader
  /** Keys every draw, e.g. [17, 'train', 3]. */
  seed: readonly SeedPart[]
  /** Told of texts as they grow, where the writer tells; nothing that is drawn depends on it. */
  onText?: (text: GrowingText) => void
}

/** A post on its way: what its author wrote so far. */
export interface GrowingText {
  problem: Problem
  board: number
  round: number
  seat: number
  text: string
  tokens: number
}

/** One board to play. Those of one call must differ in problem or `board`: equal ones would draw equal texts. */
export interface Table<Trace> {
  problem: Problem
  /** Which of several boards of this problem it is; 0 unless told. */
  board?: number
  /** A board that was played before, kept up to round `from`: the rounds after it are played again. */
  given?: { played: Played<Trace>; from: number }
  /** Posts that nobody is shown. */
  without?: readonly Ref[]
}

/** What one prompt asks for: a text for each seed. */
export interface Ask {
  problem: Problem
  /** Who writes. */
  policy: string
  /** The texts to read, in the order shown; null where the problem alone is seen. */
  seen: readonly string[] | null
  /** The chat with those texts, or with shorter ones in their place. */
  prompt: (seen: readonly string[] | null) => ChatMessage[]
  /** Text i is drawn from seed i. */
  seeds: readonly number[]
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

/** Text `text` of ask `ask`, both counted from 0, as far as it is. */
export type TextListener = (ask: number, text: number, soFar: Pick<Text<unknown>, 'text' | 'tokens'>) => void

/** Writes the texts of a round, in the order asked. One that can tells a listener of them as they grow. */
export type Writer<Trace> = (
  asks: readonly Ask[],
  sampling: RoundSampling,
  onText?: TextListener,
) => Promise<Text<Trace>[][]>

/** A problem played: the episode that a person reads, and its texts' traces: `traces[r][i]` is of `rounds[r][i]`. */
export interface Played<Trace> {
  problem: Problem
  /** Which of several boards of this problem. */
  board: number
  episode: Episode
  traces: readonly (readonly Trace[])[]
}

/** Boards in the order asked, and the wall-clock seconds that each round took. */
export interface PlayedRounds<Trace> {
  played: Played<Trace>[]
  seconds: number[]
}

/** Plays all rounds on each table. */
export async function play<Trace>(
  writer: Writer<Trace>,
  tables: readonly Table<Trace>[],
  options: PlayOptions,
): Promise<PlayedRounds<Trace>> {
  const { protocol } = options
  const rounds = tables.map(({ given }): Post[][] =>
    given ? given.played.episode.rounds.slice(0, given.from + 1).map((posts) => [...posts]) : [],
  )
  const traces = tables.map(({ given }): Trace[][] =>
    given ? given.played.traces.slice(0, given.from + 1).map((each) => [...each]) : [],
  )
  const seconds: number[] = []
  for (const [r] of protocol.rounds.entries()) {
    const started = performance.now()
    const open = tables.flatMap((_, t) => (rounds[t].length === r ? [t] : []))
    const written = await playRound(
      writer,
      open.map((t) => ({ table: tables[t], before: rounds[t] })),
      r,
      options,
    )
    open.forEach((t, i) => {
      rounds[t].push(written[i].posts)
      traces[t].push(written[i].traces)
    })
    seconds.push((performance.now() - started) / 1000)
  }
  return {
    played: tables.map(({ problem, board = 0 }, t) => ({
      problem,
      board,
      episode: { problemId: problem.id, rounds: rounds[t] },
      traces: traces[t],
    })),
    seconds,
  }
}

async function playRound<Trace>(
  writer: Writer<Trace>,
  tables: readonly { table: Table<Trace>; before: readonly (readonly Post[])[] }[],
  round: number,
  { protocol, sampling, grader, seed, onText }: PlayOptions,
): Promise<{ posts: Post[]; traces: Trace[] }[]> {
  const { speakers } = protocol.rounds[round]
  const asks: (Ask & { seeds: number[] })[] = []
  /** Which text of which ask each speaker's is: [table][speaker]. */
  const places = tables.map(({ table, before }) => {
    const { problem, board = 0, without = [] } = table
    const key = [...seed, problem.id, ...(board === 0 ? [] : ['board', board]), round]
    const asked = new Map<string, number>()
    return speakers.map((seat) => {
      const sight = sightOf(protocol, round, seat, random('sight', ...key, seat))
      const reads = sight && removed(sight, without)
      const one = askOf(protocol, problem, before, round, seat, reads)
      const same = JSON.stringify([one.policy, one.prompt(one.seen)])
      const ask = asked.get(same) ?? asks.push({ ...one, seeds: [] }) - 1
      asked.set(same, ask)
      const text = asks[ask].seeds.push(seedOf(...key, seat)) - 1
      return { seat, reads: reads ?? [], ask, text }
    })
  })
  const texts = await writer(asks, sampling[round], onText && listener(onText))
  return tables.map(({ table }, t) => {
    const written = places[t].map(({ seat, reads, ask, text: i }) => {
      const { tokens, cut, trace } = texts[ask][i]
      const { text } = afterThought(texts[ask][i].text)
      const post: Post = { seat, reads, text, tokens, ...grader.grade(text, table.problem.gold), cut }
      return { post, trace }
    })
    return { posts: written.map(({ post }) => post), traces: written.map(({ trace }) => trace) }
  })

  /** Tells whose a growing text is. */
  function listener(tell: NonNullable<PlayOptions['onText']>): TextListener {
    const whose = new Map(
      tables.flatMap(({ table: { problem, board = 0 } }, t) =>
        places[t].map(({ seat, ask, text }) => [`${ask} ${text}`, { problem, board, round, seat }] as const),
      ),
    )
    return (ask, text, soFar) => tell({ ...whose.get(`${ask} ${text}`)!, ...soFar })
  }
}

/** References without some of them. */
export function removed(refs: readonly Ref[], without: readonly Ref[]): Ref[] {
  return refs.filter((ref) => !without.some(([r, s]) => r === ref[0] && s === ref[1]))
}

/** What a seat is asked in a round that shows it `reads` of the posts before; null: the problem alone. */
export function askOf(
  protocol: Protocol,
  problem: Problem,
  before: readonly (readonly Post[])[],
  round: number,
  seat: number,
  reads: readonly Ref[] | null,
): Omit<Ask, 'seeds'> {
  const view = seatView(protocol, problem, seat)
  return {
    problem,
    policy: protocol.seats[seat].policy,
    seen: reads?.map(([r, s]) => before[r].find((post) => post.seat === s)!.text) ?? null,
    prompt: (shown) => protocol.rounds[round].prompt(problem, view, shown),
  }
}

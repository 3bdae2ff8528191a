/** What a credit rule may ask (see credit/types.ts), answered by the policies that play. */
import { askOf, type PlayOptions, play, removed, type Writer } from '../board/play.ts'
import { type Author, promptTokens, type Rollout } from '../board/policy-writer.ts'
import type { Sequence } from '../engine/contract.ts'
import type { Tools } from './credit/types.ts'

export interface ToolOptions extends PlayOptions {
  writer: Writer<Rollout>
  authors: ReadonlyMap<string, Author>
  readTokens: number | null
}

/** Completion tokens that credit alone took. */
export interface Spent {
  sampled: number
  scored: number
}

/** Tools over boards played with these options, and a count of what they cost. */
export function creditTools({ writer, authors, readTokens, ...options }: ToolOptions): {
  tools: Tools
  spent: Spent
} {
  const { protocol, sampling } = options
  const spent = { sampled: 0, scored: 0 }
  const tools: Tools = {
    protocol,
    async replay(asks) {
      const tables = asks.map(({ played, without }) => ({
        problem: played.problem,
        board: played.board,
        given: { played, from: Math.min(...without.map(([round]) => round)) },
        without,
      }))
      const again = await play(writer, tables, options)
      again.played.forEach(({ episode }, i) => {
        for (const posts of episode.rounds.slice(tables[i].given.from + 1)) {
          for (const { tokens } of posts) spent.sampled += tokens
        }
      })
      return again.played.map(({ episode }) => episode)
    },
    rescore(asks) {
      return scoreWithout(asks, { authors, protocol, sampling, readTokens }, (tokens) => {
        spent.scored += tokens
      })
    },
  }
  return { tools, spent }
}

/** Natural log of posts' probabilities had their authors not been shown some posts, in the order asked. */
export async function scoreWithout(
  asks: Parameters<Tools['rescore']>[0],
  {
    authors,
    protocol,
    sampling,
    readTokens,
  }: Pick<ToolOptions, 'authors' | 'protocol' | 'sampling' | 'readTokens'>,
  onScored: (tokens: number) => void = () => {},
): Promise<number[]> {
  const scores: number[] = []
  const sequences = asks.map(({ played, post: [round, seat], without }): Sequence & { group: string } => {
    const { episode, traces, problem } = played
    const i = episode.rounds[round].findIndex((post) => post.seat === seat)
    const { policy } = protocol.seats[seat]
    const author = authors.get(policy)!
    const reads = removed(episode.rounds[round][i].reads, without)
    const ask = askOf(protocol, problem, episode.rounds, round, seat, reads)
    const limit = readTokens ?? author.contextLength - sampling[round].maxTokens
    const { completion } = traces[round][i]
    onScored(completion.length)
    return {
      prompt: promptTokens(author.tokenizer, ask, limit),
      completion,
      group: JSON.stringify([policy, sampling[round].temperature]),
    }
  })
  for (const group of new Set(sequences.map(({ group }) => group))) {
    const [policy, temperature] = JSON.parse(group) as [string, number]
    const its = sequences.flatMap((sequence, i) => (sequence.group === group ? [i] : []))
    const logprobs = await authors.get(policy)!.policy.logprobs(
      its.map((i) => sequences[i]),
      { temperature },
    )
    its.forEach((i, k) => {
      scores[i] = logprobs[k].reduce((sum, logprob) => sum + logprob, 0)
    })
  }
  return scores
}

/** Measures influence on boards that were played: asks the policies that played them, and touches nothing else. */
import type { Effect } from '../board/influence.ts'
import type { Played } from '../board/play.ts'
import type { Author, Rollout } from '../board/policy-writer.ts'
import type { Ref } from '../board/types.ts'
import { scoreWithout, type ToolOptions } from './tools.ts'

/**
 * A text as its author would have written it: tokenised anew, with the stop token where it was not cut. Of the same
 * policy's text nearly always the same tokens, and the same in both scores that an effect is the difference of.
 */
export function traceOf({ tokenizer }: Pick<Author, 'tokenizer'>, text: string, cut: boolean): Rollout {
  const tokens = tokenizer.encode(text)
  const completion = cut || tokenizer.stop.length === 0 ? tokens : [...tokens, tokenizer.stop[0]]
  return { prompt: [], completion, logprobs: [] }
}

/** How much each post moved each one that read it, board by board. Of traces, the completions alone are looked at. */
export async function effectsOf(
  played: readonly Played<Rollout>[],
  options: Pick<ToolOptions, 'authors' | 'protocol' | 'sampling' | 'readTokens'>,
): Promise<Effect[][]> {
  const asks = played.flatMap((one) =>
    one.episode.rounds.flatMap((posts, round) =>
      posts
        // An empty text has no probability to change.
        .filter((_, i) => one.traces[round][i].completion.length > 0)
        .flatMap(({ seat, reads }) => {
          const post: Ref = [round, seat]
          return [[], ...reads.map((note) => [note])].map((without) => ({ played: one, post, without }))
        }),
    ),
  )
  const scores = await scoreWithout(asks, options)
  const effects = new Map(played.map((one): [Played<Rollout>, Effect[]] => [one, []]))
  let whole = 0
  asks.forEach(({ played: one, post, without: [note] }, i) => {
    if (note === undefined) whole = scores[i]
    else effects.get(one)!.push({ note, post, change: whole - scores[i] })
  })
  return [...effects.values()]
}

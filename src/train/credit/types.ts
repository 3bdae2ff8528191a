/**
 * Credit: what each post of a played board earns. A rule is one small file: a function from boards to a number for each
 * post, pure but for what the rule itself must ask a policy (`Tools`). Whoever trains turns these numbers into advantages
 * (train/grpo.ts).
 *
 *   final post    one of the last round: it earns its own correctness under every rule here
 *   note          one of an earlier round: what it earns is what the rules differ in
 */
import type { Played } from '../../board/play.ts'
import type { Rollout } from '../../board/policy-writer.ts'
import type { Protocol } from '../../board/protocol.ts'
import type { Episode, Ref } from '../../board/types.ts'

/** What each post earned, `[round][post]` as in the episode; null: nothing is paid for it, and it is not trained. */
export type EpisodeCredit = readonly (readonly (number | null)[])[]

/** The credit of boards, in their order, and what the rule has to tell of how it came about. */
export interface Assigned {
  credits: EpisodeCredit[]
  /** Effective sample size of each reweighted estimate, where the rule makes such. */
  effective?: number[]
  /** Texts sampled, and tokens scored, for the credit alone. */
  spent?: { sampled: number; scored: number }
}

/** What a rule may ask. Each call is answered in the order asked. */
export interface Tools {
  protocol: Protocol
  /** The rounds after the first of `without`, played again with the same random numbers while nobody is shown these posts. */
  replay(asks: readonly { played: Played<Rollout>; without: readonly Ref[] }[]): Promise<Episode[]>
  /** Natural log of a post's probability, had its author not been shown `without`. */
  rescore(asks: readonly { played: Played<Rollout>; post: Ref; without: readonly Ref[] }[]): Promise<number[]>
}

export interface Credit {
  name: string
  /** All that decides what it pays, as plain data: for the record. */
  config: Readonly<Record<string, unknown>>
  /** Whether notes are paid and so trained; if not, they are context. */
  paysNotes: boolean
  /** Fewest boards a problem that it needs in a step. */
  boards: number
  /** The protocol as played in training, where the rule must play otherwise. */
  inTraining?: (protocol: Protocol) => Protocol
  assign(played: readonly Played<Rollout>[], tools: Tools): Promise<Assigned>
}

/** Ready protocols, each a value of a few lines. Pure. */
import {
  defaultPrompt,
  type Final,
  type Prompt,
  type ProtocolChoices,
  type RoundChoices,
} from './protocol.ts'
import { named, type Sight, shared } from './sights.ts'

/** Everyone posts a note, seeing the problem alone. */
export const notes = (tokens: RoundChoices['tokens'] = 'note'): RoundChoices => ({ name: 'note', tokens })

/** Everyone reads posts and answers. */
export const replies = (sees: Sight, name = 'reply'): RoundChoices => ({ name, sees, tokens: 'reply' })

/** The reference's two rounds: everyone posts a note, everyone reads their board and answers. */
export function board({
  reads = shared,
  seats,
  final,
}: {
  reads?: Sight
  seats?: ProtocolChoices['seats']
  final?: Final
} = {}): ProtocolChoices {
  return { name: reads.name, seats, rounds: [notes(), replies(reads)], final }
}

/** Debate (MAPoRL's has three turns): everyone answers, then reads all answers of the turn before, and answers again. */
export function debate({
  turns = 3,
  sees = shared,
  seats,
}: {
  turns?: number
  sees?: Sight
  seats?: ProtocolChoices['seats']
} = {}): ProtocolChoices {
  const again = Array.from({ length: turns - 1 }, (_, turn) => replies(sees, `turn ${turn + 2}`))
  return { name: `debate ${turns}`, seats, rounds: [{ ...notes('reply'), name: 'turn 1' }, ...again] }
}

/** Reviser after reviser: one seat drafts, and each next one reads the draft before and writes a better one. */
export function revisers({ seats = 3 }: { seats?: number } = {}): ProtocolChoices {
  const before: Sight = named('before', (seat) => [seat - 1])
  return {
    name: `revisers ${seats}`,
    seats,
    rounds: Array.from({ length: seats }, (_, seat) => ({
      name: seat === 0 ? 'draft' : `revision ${seat}`,
      speakers: [seat],
      sees: seat === 0 ? undefined : before,
      tokens: 'reply',
    })),
    final: { seat: seats - 1 },
  }
}

/** Mixture of agents: all seats but the last propose, the last one reads all proposals and answers for all. */
export function proposers({
  seats = 4,
  prompt = defaultPrompt,
}: {
  seats?: number
  prompt?: Prompt
} = {}): ProtocolChoices {
  const proposing = Array.from({ length: seats - 1 }, (_, seat) => seat)
  return {
    name: `proposers ${seats - 1}`,
    seats: [...proposing.map((seat) => ({ name: `proposer ${seat + 1}` })), { name: 'aggregator' }],
    rounds: [
      { name: 'proposal', speakers: proposing, tokens: 'note', prompt },
      { name: 'answer', speakers: [seats - 1], sees: shared, tokens: 'reply', prompt },
    ],
    final: { seat: seats - 1 },
  }
}

/** No board: each copy answers alone. What a second try brings is measured by `board({ reads: own })`. */
export function alone({ seats }: { seats?: number } = {}): ProtocolChoices {
  return { name: 'alone', seats, rounds: [{ name: 'reply', tokens: 'reply' }] }
}

/**
 * A protocol: who speaks in which round, seeing what, asked how, and whose answer counts. `ProtocolChoices` is what a
 * person writes; `resolveProtocol` completes and checks it. Functions of it are pure, so that a protocol can be
 * recorded by what they give (`protocolRecord`). board/protocols.ts has ready ones.
 */

import { UserError } from '../errors.ts'
import { type Random, random, seedOf } from '../random.ts'
import { partsOf } from '../tasks/parts.ts'
import type { Problem } from '../tasks/types.ts'
import type { ChatMessage } from '../tokens/chat.ts'
import { notePrompt, readPrompt } from './prompts.ts'
import type { Sight } from './sights.ts'
import type { Ref } from './types.ts'

/** A place at the board. */
export interface Seat {
  name: string
  /** Which of the arm's policies writes for it. */
  policy: string
}

/** A seat as a prompt sees it. */
export interface SeatView {
  /** From 0. */
  index: number
  name: string
  /** What this seat alone was told of the problem; empty in most worlds. */
  parts: readonly string[]
}

/** What a seat is asked: the chat of a problem and the texts that it sees, in the order shown; null in a round without sight. */
export type Prompt = (problem: Problem, seat: SeatView, seen: readonly string[] | null) => ChatMessage[]

/** Temperature and nucleus. */
export interface Sampling {
  temperature: number
  topP: number
}

/** Whose answer a problem's score is: each last speaker's own, the most common one of them, or one seat's. */
export type Final = 'each' | 'vote' | { seat: number }

export interface Round {
  name: string
  /** Seats that speak, ascending. */
  speakers: readonly number[]
  /** What each of them is shown; null: the problem alone. */
  sees: Sight | null
  prompt: Prompt
  /** At most this many new tokens for each text. */
  maxTokens: number
  /** What this round draws otherwise than the experiment says. */
  sampling: { train: Partial<Sampling>; evaluation: Partial<Sampling> }
}

export interface Protocol {
  name: string
  seats: readonly Seat[]
  rounds: readonly Round[]
  final: Final
}

export interface RoundChoices {
  name: string
  /** Everyone unless told. */
  speakers?: readonly number[]
  /** The problem alone where left out. */
  sees?: Sight
  /** `defaultPrompt` unless told. */
  prompt?: Prompt
  /** The experiment's limit of notes or of replies, or one of its own. */
  tokens: 'note' | 'reply' | number
  sampling?: Partial<Round['sampling']>
}

export interface ProtocolChoices {
  name: string
  /** Their number, or each of them; the experiment's `copies` where left out. */
  seats?: number | readonly Partial<Seat>[]
  rounds: readonly RoundChoices[]
  /** `each` unless told. */
  final?: Final
}

/** The sizes that an experiment sets for all its protocols. */
export interface BoardSizes {
  copies: number
  noteTokens: number
  replyTokens: number
}

/** The policy of a seat that names none. */
export const sharedPolicy = 'policy'

/** Bounds of what a protocol may be: far above what anybody has tried, and below what takes a machine down. */
const MOST = { seats: 256, rounds: 64 }

/** Asks for a note in a round without sight, and for a reply to what is seen in any other. */
export const defaultPrompt: Prompt = ({ question }, { parts }, seen) =>
  seen === null ? notePrompt(question, parts) : readPrompt(question, seen)

/**
 * Completes a protocol and checks it.
 *
 * @throws UserError for one that cannot be played, naming the protocol, the round and the seat.
 */
export function resolveProtocol(choices: ProtocolChoices, sizes: BoardSizes): Protocol {
  const { name, seats: given = sizes.copies, final = 'each' } = choices
  const refuse = (what: string): never => {
    throw new UserError(`The protocol "${name}" ${what}.`)
  }
  const count = typeof given === 'number' ? given : given.length
  if (!(Number.isInteger(count) && count >= 1 && count <= MOST.seats)) {
    refuse(`has ${count} seats: give 1 to ${MOST.seats}`)
  }
  if (choices.rounds.length < 1 || choices.rounds.length > MOST.rounds) {
    refuse(`has ${choices.rounds.length} rounds: give 1 to ${MOST.rounds}`)
  }
  const everyone = Array.from({ length: count }, (_, seat) => seat)
  const seats = everyone.map((seat): Seat => {
    const { name = `copy ${seat + 1}`, policy = sharedPolicy } = typeof given === 'number' ? {} : given[seat]
    return { name, policy }
  })
  const rounds = choices.rounds.map((round, r): Round => {
    const { speakers = everyone, sees = null, prompt = defaultPrompt, tokens, sampling = {} } = round
    const valid = speakers.every((seat, i) => everyone.includes(seat) && (i === 0 || seat > speakers[i - 1]))
    if (speakers.length === 0 || !valid) {
      refuse(
        `lets the seats [${speakers.join(', ')}] speak in round ${r + 1}: give different ones, ascending, from 0 to ` +
          `${count - 1}`,
      )
    }
    if (r === 0 && sees !== null) {
      refuse('shows posts in its first round, before any is written: leave `sees` out there')
    }
    const maxTokens = tokens === 'note' ? sizes.noteTokens : tokens === 'reply' ? sizes.replyTokens : tokens
    if (!(Number.isInteger(maxTokens) && maxTokens >= 1)) {
      refuse(`gives round ${r + 1} ${maxTokens} tokens: give at least 1`)
    }
    const { train = {}, evaluation = {} } = sampling
    return { name: round.name, speakers, sees, prompt, maxTokens, sampling: { train, evaluation } }
  })
  const last = rounds[rounds.length - 1]
  if (typeof final === 'object' && !last.speakers.includes(final.seat)) {
    refuse(`takes the answer of seat ${final.seat}, who does not speak last: let it speak in the last round`)
  }
  const protocol = { name, seats, rounds, final }
  for (const [r, { speakers }] of rounds.entries()) {
    for (const seat of speakers) sightOf(protocol, r, seat, probe(r, seat))
  }
  return protocol
}

/**
 * The posts that a seat is shown in a round.
 *
 * @throws UserError for a sight that shows what is not there, or the same twice.
 */
export function sightOf(protocol: Protocol, round: number, seat: number, draw: Random): Ref[] | null {
  const { name, rounds, seats } = protocol
  const { sees } = rounds[round]
  if (sees === null) return null
  const where = `The sight "${sees.name}" of the protocol "${name}", asked for seat ${seat} of ${seats.length} in round ${round + 1},`
  let seen: readonly (number | Ref)[]
  try {
    seen = sees(seat, seats.length, { round, before: rounds[round - 1].speakers, draw })
  } catch (error) {
    throw new UserError(`${where} failed: ${error instanceof Error ? error.message : String(error)}.`)
  }
  if (!Array.isArray(seen) || !seen.every((one) => typeof one === 'number' || Array.isArray(one))) {
    throw new UserError(`${where} gave no list of posts: return seat numbers, or [round, seat] pairs.`)
  }
  const refs = seen.map((one): Ref => (typeof one === 'number' ? [round - 1, one] : [one[0], one[1]]))
  const valid = refs.every(([r, s]) => r < round && rounds[r]?.speakers.includes(s))
  const different = new Set(refs.map((ref) => ref.join())).size === refs.length
  if (!valid || !different) {
    throw new UserError(
      `${where} gave [${seen.map((one) => (typeof one === 'number' ? one : `[${one.join(', ')}]`)).join(', ')}]: return ` +
        'different posts of earlier rounds, as seats that spoke in the round before or as [round, seat].',
    )
  }
  return refs
}

/** A seat as its prompt sees it. */
export function seatView(
  { seats }: { seats: readonly Pick<Seat, 'name'>[] },
  problem: Problem,
  seat: number,
): SeatView {
  return { index: seat, name: seats[seat].name, parts: partsOf(problem, seat, seats.length) }
}

/** The streams by which a sight is recorded and checked. */
const probe = (round: number, seat: number) => random('sight', round, seat)

const probed: Problem = { id: '?', question: '?', gold: '?', parts: ['a', 'b'] }

/**
 * A protocol as plain data: two that play alike are equal. Functions stand by name and by what they give: `sees` by
 * the posts that each speaker is shown (of a sight that draws, for one fixed draw), `prompt` by a hash of chats.
 */
export function protocolRecord(protocol: Protocol) {
  const { name, seats, rounds, final } = protocol
  return {
    name,
    seats: seats.map((seat) => ({ ...seat })),
    rounds: rounds.map(({ name, speakers, sees, prompt, maxTokens, sampling }, r) => {
      const sights = speakers.map((seat) => sightOf(protocol, r, seat, probe(r, seat)))
      return {
        name,
        speakers: [...speakers],
        sees: sees?.name ?? null,
        sights,
        prompt: promptRecord(prompt, { seats, speakers, sights }),
        maxTokens,
        sampling,
      }
    }),
    final,
  }
}

/** Names a prompt by the chats that it gives for a made-up problem: `sights` are the posts that each speaker is shown. */
export function promptRecord(
  prompt: Prompt,
  {
    seats,
    speakers,
    sights,
  }: {
    seats: readonly Pick<Seat, 'name'>[]
    speakers: readonly number[]
    sights: readonly (readonly unknown[] | null)[]
  },
): string {
  const chats = speakers.map((seat, i) =>
    prompt(probed, seatView({ seats }, probed, seat), sights[i]?.map((_, n) => `${n}`) ?? null),
  )
  return seedOf(JSON.stringify(chats)).toString(16)
}

export type ProtocolRecord = ReturnType<typeof protocolRecord>

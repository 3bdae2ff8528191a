/** What the built-in policy's corpus is made of: chats of three worlds, and how styles are drawn. Pure. */
import type { ChatMessage } from '../../../src/engine/contract.ts'
import type { Random } from '../../../src/random.ts'

export interface Chat {
  messages: ChatMessage[]
  /** One reply or two, each without the token that ends it. */
  replies: readonly string[]
  /** Which of the experiment's limits cuts these replies, as it cuts an untrained policy's; null for none. */
  limit: keyof Cut | null
}

/** Shortens texts to the experiment's limits, in tokens of the policy's own tokenizer. */
export interface Cut {
  note(text: string): string
  reply(text: string): string
}

/** The posts of a reader's chat, in order: notes, or replies of an earlier round. */
export type Posts = readonly ('note' | 'reply')[]

/** What a part of training is made of. */
export interface Lesson {
  /** Where chats come from. */
  worlds: Shares<'words' | 'clues' | 'insight' | 'sums' | 'checks'>
  /** Of the worlds' chats, those that are a reader's. */
  readers: number
  words: {
    /** A reader's styles with more finished posts before it than broken off. */
    readers: Shares<'continued' | 'told' | 'direct' | 'ramble'>
    /** Before posts of which half break off, or more: some then say everything again, and run out of room. */
    lost: Shares<'continued' | 'told' | 'direct' | 'ramble'>
  }
  insight: {
    /** Whether a reader repeats the total before it says whether a note's sum makes it: `78, 73? no.` and not `78, no.` */
    asks: boolean
  }
}

/** A world's chats: pure functions of the stream they draw from. */
export interface World {
  writer(rng: Random): Chat
  reader(rng: Random, kinds: Posts, cut: Cut, lesson: Lesson): Chat
}

/** Names with their shares, which sum to 1. */
export type Shares<Name extends string> = readonly (readonly [Name, number])[]

export function pickShare<Name extends string>(shares: Shares<Name>, rng: Random): Name {
  let left = rng.next() * shares.reduce((sum, [, share]) => sum + share, 0)
  for (const [name, share] of shares) {
    left -= share
    if (left < 0) return name
  }
  return shares[shares.length - 1][0]
}

/** Two of what `draw` draws that differ, drawn again until they do. */
export function twoDifferent(draw: () => string): [string, string] {
  const first = draw()
  for (;;) {
    const second = draw()
    if (second !== first) return [first, second]
  }
}

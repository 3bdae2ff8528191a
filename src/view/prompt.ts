/**
 * What a seat was asked, built from the record by the functions that built it. The record names a round's prompt by a
 * hash of what it gives (board/protocol.ts): where that is the hash of this version's own prompt, the chat is known to
 * the last character; a prompt of the experiment's own cannot be run from a record, and is not shown. Pure.
 */
import { defaultPrompt, promptRecord, seatView } from '../board/protocol.ts'
import type { Post } from '../board/types.ts'
import type { ProtocolLine } from '../record/schema.ts'
import type { Problem } from '../tasks/types.ts'
import type { ChatMessage } from '../tokens/chat.ts'

/** Whether a round's prompt is this version's own. */
export function isKnownPrompt(
  { seats, rounds }: Pick<ProtocolLine, 'seats' | 'rounds'>,
  round: number,
): boolean {
  return promptRecord(defaultPrompt, { seats, ...rounds[round] }) === rounds[round].prompt
}

/**
 * The chat that a post was written to, before the model's chat template is laid around it; null where its prompt is not
 * known. Where the chat took more tokens than the run allows, its longest texts were shortened from their end.
 */
export function promptOf(
  protocol: Pick<ProtocolLine, 'seats' | 'rounds'>,
  problem: Problem,
  rounds: readonly (readonly Post[])[],
  [round, seat]: readonly [round: number, seat: number],
): ChatMessage[] | null {
  if (!isKnownPrompt(protocol, round)) return null
  const post = rounds[round].find((one) => one.seat === seat)
  const seen =
    protocol.rounds[round].sees === null || !post
      ? null
      : post.reads.map(([r, s]) => rounds[r].find((one) => one.seat === s)?.text ?? '')
  return defaultPrompt(problem, seatView(protocol, problem, seat), seen)
}

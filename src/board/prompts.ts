/**
 * The two prompts of a board, as chats: what a copy is told when it writes a note, and when it reads and replies.
 * One wording for every arm and every model: arms differ in which notes are shown, never in what is said about
 * them. Short on purpose: a small policy pays for each token in time and in attention.
 */
import type { ChatMessage } from '../tokens/chat.ts'

/**
 * Round one: solve the problem and post a note of key steps that ends in a boxed answer. A writer that was dealt
 * `parts` of the problem is told them after the question, and to post what it knows.
 */
export function notePrompt(question: string, parts: readonly string[] = []): ChatMessage[] {
  const content =
    parts.length === 0
      ? `${question}\n\nPost a short note: the key steps, then the answer in \\boxed{}.`
      : `${question}\n\nYou know: ${parts.join(' ')}\n\nPost a short note: what you know, the key steps, then the answer in \\boxed{}.`
  return [{ role: 'user', content }]
}

/**
 * Round two: read the board and solve the problem. `notes` are numbered from 1 in the order given; a note that was
 * cut off is shown as far as it goes. The problem comes first, so that all readers' prompts share that prefix.
 */
export function readPrompt(question: string, notes: readonly string[]): ChatMessage[] {
  // An empty board is shown as one empty note.
  const board = (notes.length > 0 ? notes : ['']).map((note, i) => `Note ${i + 1}: ${note.trim()}`).join('\n')
  const content = `${question}\n\nNotes, maybe wrong or cut off:\n${board}\n\nCheck them, solve the problem, and end with the answer in \\boxed{}.`
  return [{ role: 'user', content }]
}

/** Chats and what turns them into tokens, as every engine and endpoint speaks of them. Types alone. */

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant'
  content: string
}

/** A checkpoint's own tokenizer and chat template. */
export interface ChatTokenizer {
  encode(text: string): number[]
  decode(tokens: readonly number[]): string
  /** Token ids of a chat, rendered by the checkpoint's template, up to where the assistant's reply begins. */
  chat(messages: readonly ChatMessage[]): number[]
  /** Token ids that end a reply. */
  readonly stop: readonly number[]
  /** The template opens the reply's thought itself, so that what is sampled begins inside it (`thought.ts`). */
  readonly opensThought?: boolean
}

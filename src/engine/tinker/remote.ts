/** A LoRA model on a server: its id, and its calls in their order. Talks to one server only. */
import type { z } from 'zod'
import type { CallOptions, Client } from './client.ts'

export interface RemoteModel {
  readonly url: string
  readonly id: string
  /** What the server scales the update by: alpha / rank. */
  readonly alpha: number
  /**
   * Asks for work on this model and waits for it. Calls that change the model are sent once (see client.ts); each has
   * its number, by which the hosted service knows a repeated one.
   */
  work<T>(path: string, body: object, schema: z.ZodType<T>, options?: CallOptions): Promise<T>
}

/** The API's documented value, for servers that do not say which they use. */
export const usualAlpha = 32

export function remoteModel(client: Client, id: string, alpha: number): RemoteModel {
  let calls = 0
  return {
    url: client.url,
    id,
    alpha,
    work(path, body, schema, options) {
      calls++
      const repeat = path === 'forward' ? 'always' : 'unsent'
      return client.work(path, { model_id: id, seq_id: calls, ...body }, schema, { repeat, ...options })
    },
  }
}

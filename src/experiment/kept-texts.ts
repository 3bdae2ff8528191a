/**
 * A writer whose texts are kept: each round that was written is a line of a file, and is read instead of written when
 * the same is asked for again, by another board or by another process. Touches that file only.
 */
import { z } from 'zod'
import type { Writer } from '../board/play.ts'
import { openKeyedLines } from '../keyed-lines.ts'
import { sha256 } from './engine.ts'

/** One round of some problems: texts by ask, then by seed. */
const lineSchema = z.object({
  key: z.string(),
  texts: z.array(z.array(z.object({ text: z.string(), tokens: z.number(), cut: z.boolean() }))),
})

export interface KeptTexts {
  /** What `writer` writes, kept. `identity` is all that decides a text beside what is asked. */
  writer(writer: Writer<unknown>, identity: readonly unknown[]): Writer<null>
  close(): Promise<void>
}

/**
 * Keeps texts in the file at `path` (null: in memory), a whole round at a time: texts that an engine computes together may
 * differ in their last bits from the same computed apart.
 *
 * @throws UserError for a file that cannot be used.
 */
export async function openKeptTexts(path: string | null): Promise<KeptTexts> {
  const rounds = await openKeyedLines(path, lineSchema)
  return {
    writer: (writer, identity) => async (asks, sampling) => {
      const asked = asks.map(({ policy, prompt, seen, seeds }) => [policy, prompt(seen), seeds])
      const key = sha256(JSON.stringify([identity, asked, sampling])).slice(0, 32)
      let line = rounds.get(key)
      if (line === undefined) {
        const written = await writer(asks, sampling)
        const texts = written.map((copies) => copies.map(({ text, tokens, cut }) => ({ text, tokens, cut })))
        line = { key, texts }
        await rounds.add(line)
      }
      return line.texts.map((copies) => copies.map((text) => ({ ...text, trace: null })))
    },
    close: () => rounds.close(),
  }
}

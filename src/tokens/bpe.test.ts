import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Tokenizer } from '@huggingface/tokenizers'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { writeJsonAtomic } from '../files.ts'
import { preTokenize, tokenizerFiles, trainBpe } from './bpe.ts'
import { loadTokenizer } from './tokenizer.ts'

/** Made by test/golden/bpe.py with Hugging Face's trainer. */
interface Golden {
  texts: string[]
  vocabSize: number
  specials: string[]
  vocab: string[]
  merges: [string, string][]
  samples: { text: string; ids: number[] }[]
}
const golden: Golden = JSON.parse(readFileSync(new URL('./fixtures/bpe.json', import.meta.url), 'utf8'))
const bpe = trainBpe(golden.texts, golden.vocabSize, golden.specials)
const chat = {
  startOfTurn: '<|im_start|>',
  endOfTurn: '<|im_end|>',
  pad: '<|endoftext|>',
  contextLength: 512,
}
const files = tokenizerFiles(bpe, chat)
const tokenizer = new Tokenizer(
  files['tokenizer.json'] as ConstructorParameters<typeof Tokenizer>[0],
  files['tokenizer_config.json'] as ConstructorParameters<typeof Tokenizer>[1],
)

describe('trainBpe', () => {
  it("learns what Hugging Face's trainer learns", () => {
    expect(bpe.merges).toEqual(golden.merges)
    expect(bpe.vocab).toEqual(golden.vocab)
  })

  it('stops where no pair occurs twice, or at the size asked for', () => {
    expect(trainBpe(['abc'], 1000, []).merges).toEqual([])
    expect(trainBpe(golden.texts, 300, golden.specials).merges).toEqual(golden.merges.slice(0, 41))
  })

  it('never merges digits, whatever they stand next to', () => {
    const texts = ['12 12 12 x12 x12 =12= =12=']
    for (const token of trainBpe(texts, 1000, []).vocab) expect(token).not.toMatch(/\d.|.\d/)
  })
})

describe('tokenizerFiles', () => {
  it("give the ids that Hugging Face's tokenizers give", () => {
    for (const { text, ids } of golden.samples) expect(tokenizer.encode(text).ids, text).toEqual(ids)
  })

  it('give back any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1 }), (text) => {
        fc.pre(!golden.specials.some((special) => text.includes(special)))
        expect(tokenizer.decode(tokenizer.encode(text).ids)).toBe(text)
      }),
    )
  })

  it('describe a chat model that the engine can load', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'bpe-'))
    try {
      for (const [name, value] of Object.entries(files)) await writeJsonAtomic(join(folder, name), value)
      const loaded = await loadTokenizer(folder)
      const [pad, start, end] = [0, 1, 2]
      expect([pad, start, end].map((id) => bpe.vocab[id])).toEqual(golden.specials)
      expect(loaded.stop).toEqual([end])
      const tokens = loaded.chat([{ role: 'user', content: 'Mia has 12' }])
      expect(tokens.filter((id) => id < 3)).toEqual([start, end, start])
      expect(loaded.decode(tokens)).toBe('user\nMia has 12\nassistant\n')
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})

describe('preTokenize', () => {
  it('cuts between words, keeping every byte', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const characters = preTokenize(text).join('')
        expect(characters.length).toBe(new TextEncoder().encode(text).length)
      }),
    )
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { UserError } from '../errors.ts'
import { checkPatterns, slowness } from './patterns.ts'

/** What the tokenizers of known models split by, and replace. */
const known = [
  // GPT-2, and with it SmolLM2.
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  // Llama 3.
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  // Qwen2 and Qwen3.
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  // cl100k, with possessive repetitions.
  "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
  // o200k.
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  // DeepSeek.
  '\\p{N}{1,3}',
  '[一-龥぀-ゟ゠-ヿ]+',
  '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+',
  // BLOOM.
  ' ?[^(\\s|[.,!?…。，、।۔،])]+',
  '\\p{N}+',
  ' {2,}',
  '(?:ab)+',
]

/** Each takes more than its square of a text's length, the first ones exponentially long. */
const slow = [
  '(a+)+$',
  '(a*)*b',
  '(?:a|a)*b',
  '(?:a|ab|b)+c',
  '((a?)+)+b',
  '(?:a{1,9}){9,}',
  '(?:\\p{L}+\\s?)+$',
  '([a-z]+[0-9]*)*!',
  '(?<word>\\w+\\s*)+x',
  '(?=(a+)+b)a',
  '.*.*x',
  'a*a*a*b',
  '\\s*\\s*\\S',
  '(a)\\1+',
]

describe('a pattern', () => {
  it.each(known)('of a known model passes: %s', (pattern) => {
    expect(slowness(pattern)).toBeNull()
  })

  it.each(slow)('that may take without end is refused: %s', (pattern) => {
    expect(slowness(pattern)).not.toBeNull()
    const json = {
      pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'Split', pattern: { Regex: pattern } }] },
    }
    expect(() => checkPatterns('tokenizer.json', json)).toThrow(UserError)
    expect(() => checkPatterns('tokenizer.json', json)).toThrow(/its pattern ".*" may take without end/)
  })

  it('of any text is judged, and what passes is quick on a text of its own letters', () => {
    const piece = fc.constantFrom(
      'a',
      'b',
      '[ab]',
      '\\w',
      '.',
      '(',
      '(?:',
      ')',
      '|',
      '*',
      '+',
      '?',
      '{2,}',
      '{1,3}',
      '$',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const pattern = pieces.join('')
        if (slowness(pattern) !== null) return
        let compiled: RegExp
        try {
          compiled = new RegExp(pattern, 'gu')
        } catch {
          return
        }
        const start = process.cpuUsage()
        for (const text of ['a'.repeat(1000), 'ab'.repeat(500), `${'a'.repeat(1000)}c`])
          text.replace(compiled, '')
        const { user } = process.cpuUsage(start)
        expect(user / 1000, pattern).toBeLessThan(2000)
      }),
      { numRuns: 3000 },
    )
  })
})

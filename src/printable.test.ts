import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { HIDDEN, printable, printableLine } from './printable.ts'

const odd = fc.string({
  unit: fc.oneof(
    fc.constantFrom(...'a|\\"\n\t', '\u001b', '\u009b', '\r', '\u202e', '\u{e0041}', '\ufeff', '\u0000'),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  ),
})

describe('printable', () => {
  it('leaves nothing that acts on a terminal, and all the rest', () => {
    expect(printable('\u001b[2Ja\u009b1m\r\u202eb\n\tc\u007f')).toBe(
      '\\u001b[2Ja\\u009b1m\\u000d\\u202eb\n\tc\\u007f',
    )
    expect(printableLine('a\nb')).toBe('a\\nb')
    expect(printable('Größe 3√2 😀 日本')).toBe('Größe 3√2 😀 日本')
    fc.assert(
      fc.property(odd, (text) => {
        expect(printable(text)).not.toMatch(HIDDEN)
        expect(printableLine(text)).not.toContain('\n')
        expect(printable(printable(text))).toBe(printable(text))
      }),
    )
  })

  it('keeps the value of JSON', () => {
    fc.assert(
      fc.property(odd, (text) => {
        expect(JSON.parse(printable(JSON.stringify({ text, [text]: 1 }, null, 2)))).toEqual({
          text,
          [text]: 1,
        })
      }),
    )
  })
})

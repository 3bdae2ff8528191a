import { describe, expect, it } from 'vitest'
import { decodeText } from './text-file.ts'

const utf16 = (text: string) => Buffer.from(text, 'utf16le')

describe('decodeText', () => {
  it('reads UTF-8, with a byte-order mark or without', () => {
    expect(decodeText(Buffer.from('\ufeff{"é": 1}'), 'a.json')).toBe('{"é": 1}')
    expect(decodeText(Buffer.from('xy\u0000€'), 'a.json')).toBe('xy\u0000€')
    expect(decodeText(Buffer.alloc(0), 'a.json')).toBe('')
  })

  it.each([
    ['little-endian, with its mark', utf16('\ufeff{"a": 1}')],
    ['little-endian, without', utf16('{"a": 1}')],
    ['big-endian, with its mark', utf16('\ufeff{"a": 1}').swap16()],
    ['big-endian, without', utf16('{"a": 1}').swap16()],
  ])('names UTF-16: %s', (_, bytes) => {
    expect(() => decodeText(bytes, 'a.json')).toThrow('a.json is saved as UTF-16. Save it as UTF-8.')
  })

  it('refuses what is no text', () => {
    expect(() => decodeText(Buffer.from([0x7b, 0xff, 0x7d]), 'a.json')).toThrow('a.json is not UTF-8 text.')
  })
})

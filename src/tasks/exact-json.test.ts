import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { integerValue, numberText, parseExactJson } from './exact-json.ts'

describe('parseExactJson', () => {
  it.each<[string, unknown]>([
    ['{"gold": 9007199254740993}', { gold: '9007199254740993' }],
    ['[-9007199254740993, 9007199254740992]', ['-9007199254740993', 9007199254740992]],
    ['0.1234567890123456789', '0.1234567890123456789'],
    ['1e400', '1e400'],
    ['1E-400', '1E-400'],
    ['[1.50, 145.0, 0.1, 1e3, -0, 12300000000000000000000]', [1.5, 145, 0.1, 1000, -0, 1.23e22]],
    // Digits in text are text.
    ['{"9007199254740993": "\\"9007199254740993"}', { '9007199254740993': '"9007199254740993' }],
  ])('%s', (text, value) => expect(parseExactJson(text)).toEqual(value))

  it.each(['', '{', '01', '9007199254740993.', '[9007199254740993 1]', '09007199254740993'])(
    'refuses what JSON.parse refuses, in its words: %j',
    (text) => {
      let message = ''
      try {
        JSON.parse(text)
      } catch (error) {
        message = (error as Error).message
      }
      expect(() => parseExactJson(text)).toThrow(message)
      expect(message).not.toBe('')
    },
  )

  it('gives any value back, and any integer with its digits', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(parseExactJson(JSON.stringify(value))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
    fc.assert(
      fc.property(fc.bigInt(), (n) => {
        expect(numberText(String(parseExactJson(n.toString())))).toBe(n.toString())
        expect(numberText(`${n}.0`)).toBe(n.toString())
        expect(numberText(String(integerValue(n)))).toBe(n.toString())
      }),
    )
  })
})

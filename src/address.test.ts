import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { addressOf, keyOf, plainAddress, shownAddress } from './address.ts'

const secret = 'sk-do-not-tell'

describe('a secret', () => {
  it('in an address is sent and not shown', () => {
    const address = addressOf('http://user:p%40ss-word@host:8000/v1/?api-version=2024&key=very-secret')
    expect(address?.shown).toBe('http://host:8000/v1')
    expect(address?.to('chat')).toBe('http://host:8000/v1/chat?api-version=2024&key=very-secret')
    expect(address?.authorization).toBe(`Basic ${Buffer.from('user:p@ss-word').toString('base64')}`)
    expect(address?.secrets).toEqual(expect.arrayContaining(['p@ss-word', 'very-secret']))
    expect(addressOf('http://host/v1')).toMatchObject({ shown: 'http://host/v1', secrets: [] })
    for (const none of ['host:8000', 'file:///x', 'nothing', '']) expect(addressOf(none)).toBeUndefined()
  })

  it('is in no message, whatever address was given', () => {
    const part = fc.string({ unit: fc.constantFrom(...'ab:/@?# %&\\[].'), maxLength: 8 })
    fc.assert(
      fc.property(
        part,
        part,
        fc.constantFrom('http://', 'https://', 'ftp://', '', 'HTTP:/'),
        (a, b, scheme) => {
          expect(shownAddress(`${scheme}user:${a}hunter2${b}@host:80/v1`)).not.toContain('hunter2')
        },
      ),
      { numRuns: 2000, examples: [['', '/x', 'http://']] },
    )
    const how = { example: 'one', key: 'KEY' }
    expect(() => plainAddress('http://user:hunter2@host/', how)).toThrow(
      'The address of http://host has a login or a query in it: give it without, and a key in the variable KEY.',
    )
    expect(() => plainAddress('user:hunter2@host', how)).toThrow(
      '"host" is no address of a server: give one.',
    )
    expect(plainAddress('http://host:8000/', how)).toBe('http://host:8000')
  })

  it('that cannot be sent is not said', () => {
    for (const bad of [
      `${secret}\nmore`,
      `${secret}\r\nx-injected: 1`,
      `${secret}\0`,
      `${secret}é\u2026`,
      ' ',
    ]) {
      const read = () => keyOf(bad, 'The variable KEY')
      expect(read).toThrow(/^The variable KEY holds [^-]*: put the key into it once more\.$/)
    }
    expect(keyOf(`${secret}\r\n`, 'KEY')).toBe(secret)
  })
})

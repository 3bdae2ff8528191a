import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { random } from '../random.ts'
import {
  arrowsText,
  isAlike,
  parseWiring,
  presetOf,
  presets,
  readerSentence,
  SEATS,
  sightOf,
  toggled,
  type Wiring,
  wiringName,
  wiringOf,
} from './wiring.ts'

const seat = fc.integer({ min: 0, max: SEATS - 1 })
const wirings: fc.Arbitrary<Wiring> = fc.array(fc.subarray([0, 1, 2, 3]), {
  minLength: SEATS,
  maxLength: SEATS,
})

describe('a wiring', () => {
  it('is read back from its text, whatever is drawn', () => {
    fc.assert(
      fc.property(wirings, (wiring) => {
        expect(parseWiring(arrowsText(wiring))).toEqual(wiring)
        expect(parseWiring(wiringName(wiring))).toEqual(wiring)
      }),
    )
  })

  it('becomes the sight that shows what is drawn', () => {
    fc.assert(
      fc.property(wirings, (wiring) => {
        expect(wiringOf(sightOf(wiring))).toEqual(wiring)
      }),
    )
  })

  it('is a ready sight, in its own order, where it is drawn like one', () => {
    const view = { round: 1, before: [0, 1, 2, 3], draw: random('x') }
    // The last of a ring sees its own note first, as the record of every ring says.
    expect(sightOf(presets.ring)(3, SEATS, view)).toEqual([3, 0])
    expect(sightOf(toggled(presets.own, 1, 0)).name).toBe('12.2.3.4')
    expect(Object.keys(presets).map((name) => presetOf(presets[name]))).toEqual(Object.keys(presets))
  })

  it('has an arrow more or less after each toggle, and is as before after two', () => {
    fc.assert(
      fc.property(wirings, seat, seat, (wiring, note, reader) => {
        const once = toggled(wiring, note, reader)
        expect(once.flat().length - wiring.flat().length).toBe(wiring[reader].includes(note) ? -1 : 1)
        expect(isAlike(toggled(once, note, reader), wiring)).toBe(true)
      }),
    )
  })

  it.each(['', '1.2.3', '1.2.3.5', '11.2.3.4', '1.2.3.4.1', '1..3.4', 'everything', '__proto__'])(
    'is nothing that %j stands for',
    (text) => expect(parseWiring(text)).toBeNull(),
  )

  it('is said in words', () => {
    const wiring = parseWiring('12.2.-.1234')!
    expect([0, 1, 2, 3].map((reader) => readerSentence(wiring, reader))).toEqual([
      'Reader 1 reads notes 1 (its own) and 2.',
      'Reader 2 reads its own note alone.',
      'Reader 3 reads nothing.',
      'Reader 4 reads all notes.',
    ])
  })
})

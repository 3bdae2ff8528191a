import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  choicesText,
  namesChoice,
  parseChoices,
  someOf,
  spanChoice,
  textChoice,
  type Wording,
  wholeChoice,
  yesChoice,
} from './choices.ts'
import { conditions } from './rows.ts'
import { sortWording, whereWording } from './table-state.ts'

const names = ['base-recipe', 'recipe', 'rescued', 'difference']

/** Each setting of the page, with values that it can have. */
const settings = [
  ['whole numbers', wholeChoice(5), fc.nat({ max: 1e6 })],
  ['a text', textChoice, fc.string({ unit: 'binary' })],
  ['yes or no', yesChoice, fc.boolean()],
  ['conditions', someOf(conditions), fc.subarray([...conditions]).map((some) => new Set(some))],
  ['names', namesChoice, fc.uniqueArray(fc.string({ minLength: 1 })).map((some) => new Set(some))],
  [
    'steps',
    spanChoice,
    fc.option(fc.tuple(fc.nat({ max: 500 }), fc.integer({ min: 1, max: 500 })).map(([a, n]) => [a, a + n])),
  ],
  ['where to look', whereWording(() => names), fc.constantFrom('trained', 0, 1, 2, 3)],
  [
    'an order',
    sortWording(() => names),
    fc.record({
      key: fc.constantFrom('order', 'difference', 'rescued', 'misled', 'cut', 0, 1, 2, 3),
      descending: fc.boolean(),
    }),
  ],
] as unknown as [string, Wording<never>, fc.Arbitrary<unknown>][]

describe('a setting in the address', () => {
  it.each(settings)('comes back from it: %s', (_, wording, values) => {
    fc.assert(
      fc.property(values, (value) => {
        const text = wording.write(value as never)
        const address = choicesText(text === null ? {} : { it: text })
        expect(wording.read(parseChoices(address).it ?? '')).toEqual(value)
      }),
    )
  })

  it.each(settings)('has a value whatever the address says: %s', (_, wording) => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const value = wording.read(text)
        // What was made of it is a value that can stand in an address.
        expect(() => wording.write(value)).not.toThrow()
      }),
    )
  })

  it('is readable', () => {
    expect(choicesText({ show: 'rescued,cut', q: 'two trains', sort: 'of:recipe,most' })).toBe(
      'show=rescued,cut&q=two+trains&sort=of:recipe,most',
    )
  })
})

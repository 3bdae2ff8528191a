import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { carriesPart, partsOf, sentencesOf, splitSentences } from './parts.ts'

describe('partsOf', () => {
  const dealt = (parts: string[], seats: number) =>
    Array.from({ length: seats }, (_, seat) => partsOf({ parts }, seat, seats))

  it('deals in order, and again from the first where seats are more than parts', () => {
    expect(dealt(['a', 'b', 'c', 'd'], 4)).toEqual([['a'], ['b'], ['c'], ['d']])
    expect(dealt(['a', 'b', 'c', 'd', 'e'], 2)).toEqual([
      ['a', 'c', 'e'],
      ['b', 'd'],
    ])
    expect(dealt(['a', 'b'], 4)).toEqual([['a'], ['b'], ['a'], ['b']])
    expect(dealt([], 2)).toEqual([[], []])
    expect(partsOf({}, 0, 4)).toEqual([])
  })

  it('leaves no seat empty and no part out where there are as many seats, and deals none twice', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 12 }), (m, n) => {
        const parts = Array.from({ length: m }, (_, i) => `part ${i}`)
        const all = dealt(parts, n)
        for (const one of all) expect(one.length).toBeGreaterThan(0)
        expect(new Set(all.flat()).size).toBe(m)
        if (m >= n) expect(all.flat().length).toBe(m)
        else for (const one of all) expect(one.length).toBe(1)
      }),
    )
  })
})

describe('carriesPart', () => {
  it.each([
    ['Mia has 7 shells.', 'Mia has 7 shells.', true],
    ['I know 7 of them', 'Mia has 7 shells.', true],
    ['7+12=19\nSo \\boxed{19}', 'Mia has 7 shells. Tom has 12 shells.', true],
    ['So \\boxed{7}', 'Mia has 7 shells.', false],
    ['So \\boxed{7', 'Mia has 7 shells.', false],
    ['There are 17.', 'Mia has 7 shells.', false],
    ['Mia has 7.', 'Mia has 7 shells. Tom has 12 shells.', false],
    ['It is 1250 dollars', 'It costs $1,250.', true],
    ['', 'Mia has 7 shells.', false],
    ['anything', 'Mia has some shells.', null],
  ])('%j of %j: %s', (note, part, carried) => {
    expect(carriesPart(note, part)).toBe(carried)
  })
})

describe('sentencesOf', () => {
  it.each([
    ['Tom has 3. He eats 1. How many?', ['Tom has 3.', 'He eats 1.', 'How many?']],
    ['Mr. Fox has $1.50. "Is it 5?" She asks. Why', ['Mr. Fox has $1.50.', '"Is it 5?"', 'She asks.', 'Why']],
    ['At 5 p.m. Ann left. 3 stay. $4 is left!', ['At 5 p.m. Ann left.', '3 stay.', '$4 is left!']],
    ['One sentence only', ['One sentence only']],
  ])('%s', (text, sentences) => {
    expect(sentencesOf(text)).toEqual(sentences)
  })

  it('loses nothing but white space', () => {
    const bare = (text: string) => text.replace(/\s/g, '')
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('A', 'b. ', '? ', '! ', '1', '"', ' ', 'Mr. ', '3.5')),
        (pieces) => {
          const text = pieces.join('')
          expect(bare(sentencesOf(text).join(''))).toBe(bare(text))
        },
      ),
    )
  })
})

describe('splitSentences', () => {
  const problem = (question: string) => ({ id: 'a', question, gold: '2' })
  it('leaves the last sentence as the question', () => {
    expect(splitSentences(problem('Tom has 3. He eats 1. How many are left?'))).toEqual({
      id: 'a',
      question: 'How many are left?',
      parts: ['Tom has 3.', 'He eats 1.'],
      gold: '2',
    })
    expect(splitSentences(problem('How many are 1 and 1?'))).toBeNull()
  })
})

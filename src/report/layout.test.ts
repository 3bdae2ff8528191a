import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fittedRows, line, textOf, wrapped } from './layout.ts'

const tones = fc.constantFrom(undefined, 'moved' as const, 'faint' as const)
const word = fc.stringMatching(/^[a-z0-9.,:]{1,9}$/)
const pieces = fc.array(
  fc.record({ text: fc.array(word, { minLength: 1 }).map((words) => `${words.join(' ')} `), tone: tones }),
  { minLength: 1 },
)

describe('wrapped', () => {
  it('breaks between words alone, keeps all of them and their colours, and fits', () => {
    fc.assert(
      fc.property(
        pieces,
        fc.integer({ min: 20, max: 60 }),
        fc.integer({ min: 0, max: 8 }),
        (given, width, indent) => {
          const lines = wrapped(given, width, { indent })
          const words = (text: string) => text.split(/\s+/).filter((part) => part !== '')
          expect(words(textOf(lines))).toEqual(given.flatMap(({ text }) => words(text)))
          expect(
            Math.max(
              ...textOf(lines)
                .split('\n')
                .map(({ length }) => length),
            ),
          ).toBeLessThanOrEqual(width)
          for (const tone of ['moved', 'faint']) {
            const of = (all: readonly { text: string; tone?: string }[]) =>
              words(all.flatMap((piece) => (piece.tone === tone ? piece.text : [])).join(' '))
            expect(of(lines.flat())).toEqual(of(given))
          }
        },
      ),
    )
  })

  it('keeps a difference with its interval and a minus with what follows', () => {
    const text =
      'One of 2: recipe - baseline +0.141 [-0.096, +0.378], debate - baseline +0.209 [+0.064, +0.355].'
    for (let width = 40; width < 120; width++) {
      const said = textOf(wrapped([{ text }], width, { indent: 2 }))
      expect(said).toMatch(/recipe\s+- baseline\s+\+0\.141 \[-0\.096, \+0\.378\]/)
      expect(said).toContain('+0.209 [+0.064, +0.355]')
      expect(said).toContain('- baseline')
    }
  })

  it('lets a word that is too long stand out, and puts a head before the first line', () => {
    const head = line('why  ')
    expect(textOf(wrapped([{ text: `${'x'.repeat(30)} and more` }], 20, { indent: 5, head }))).toBe(
      `why  ${'x'.repeat(30)}\n     and more\n`,
    )
  })
})

describe('fitted rows', () => {
  const cells = [
    ['arm', 'a', 'bb', 'c'],
    ['one', '1', '2', '3'],
  ]
  it('go without columns in the order told, as few as it takes, and name them in the order shown', () => {
    expect(fittedRows(cells, 80, [1, 3])).toEqual({ rows: ['arm  a  bb  c', 'one  1   2  3'], left: [] })
    expect(fittedRows(cells, 12, [3, 1])).toEqual({ rows: ['arm  a  bb', 'one  1   2'], left: ['c'] })
    expect(fittedRows(cells, 9, [3, 1]).left).toEqual(['a', 'c'])
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decontaminate } from './decontaminate.ts'
import fixture from './fixtures/whileai-decontaminate.json' with { type: 'json' }
import type { Problem } from './types.ts'

const problem = (question: string, id = question): Problem => ({ id, question, gold: '1' })
const words = (n: number, from = 0) => Array.from({ length: n }, (_, i) => `w${from + i}`).join(' ')
const kept = (train: string[], holdout: string[]) =>
  decontaminate(
    train.map((q) => problem(q)),
    holdout.map((q) => problem(q)),
  ).train.map(({ question }) => question)

describe('decontaminate', () => {
  it('drops a problem that one held-out problem covers to 80%, and not below', () => {
    const held = words(20)
    expect(kept([`${words(16)} ${words(4, 100)}`], [held])).toEqual([])
    expect(kept([`${words(15)} ${words(5, 100)}`], [held])).toHaveLength(1)
  })

  it('compares the parts with the question', () => {
    const dealt = (part: string) => ({ ...problem('How many in all?', part), parts: [part] })
    const { train } = decontaminate([dealt('Mia has 3.'), dealt('Mia has 4.')], [dealt('Mia has 4.')])
    expect(train).toEqual([dealt('Mia has 3.')])
  })

  it('does not add up what different held-out problems cover', () => {
    const text = words(20)
    expect(kept([text], [words(10), words(10, 10)])).toEqual([text])
    expect(kept([text], [`${words(10)} x ${words(10, 10)}`])).toEqual([])
  })

  it('compares short problems whole, whatever their case and punctuation', () => {
    expect(kept(['What is 2 plus 3?', 'What is 2 plus 4?'], ['what is 2, plus 3'])).toEqual([
      'What is 2 plus 4?',
    ])
  })

  it('drops every copy of a held-out problem, keeps the rest in order and counts', () => {
    const text = fc
      .array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 24 })
      .map((w) => w.join(' '))
    fc.assert(
      fc.property(fc.array(text), fc.array(text), (train, holdout) => {
        const split = decontaminate(
          train.map((q, i) => problem(q, String(i))),
          holdout.map((q) => problem(q)),
        )
        expect(split.train.length + split.dropped).toBe(train.length)
        expect(split.holdout.map(({ question }) => question)).toEqual(holdout)
        const ids = split.train.map(({ id }) => Number(id))
        expect(ids).toEqual(ids.toSorted((x, y) => x - y))
        for (const { question } of split.train) expect(holdout).not.toContain(question)
      }),
    )
  })

  it('drops exactly what the plain definition drops', () => {
    /** Coverage by marking each word that a shared 8-word run touches, one held-out problem at a time. */
    const plainly = (text: string, held: string) => {
      const [a, b] = [text.split(' '), held.split(' ')]
      if (a.join(' ') === b.join(' ')) return true
      const marked = new Set<number>()
      for (let i = 0; i + 8 <= a.length; i++) {
        for (let j = 0; j + 8 <= b.length; j++) {
          if (a.slice(i, i + 8).join(' ') === b.slice(j, j + 8).join(' '))
            for (let k = 0; k < 8; k++) marked.add(i + k)
        }
      }
      return marked.size > 0 && marked.size >= 0.8 * a.length
    }
    const base = words(40).split(' ')
    const piece = fc.tuple(fc.nat(30), fc.nat(20)).map(([from, n]) => base.slice(from, from + n))
    const text = fc.array(piece, { minLength: 1, maxLength: 3 }).map((p) => ['x', ...p.flat()].join(' '))
    fc.assert(
      fc.property(fc.array(text, { maxLength: 5 }), fc.array(text, { maxLength: 5 }), (train, holdout) => {
        expect(kept(train, holdout)).toEqual(train.filter((t) => !holdout.some((h) => plainly(t, h))))
      }),
      { numRuns: 500 },
    )
  })
})

describe('against whileai', () => {
  it('keeps and drops the same rows', () => {
    const { heldout, train, kept: expected } = fixture
    expect(kept(train, heldout)).toEqual(expected)
  })
})

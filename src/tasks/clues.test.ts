import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type CluesDials, clues, cluesProblem, cluesReach } from './clues.ts'
import { carriesPart } from './parts.ts'

const dialsArb = fc
  .record({
    parts: fc.integer({ min: 2, max: 8 }),
    overlap: fc.boolean(),
    most: fc.integer({ min: 2, max: 30 }),
  })
  .filter(({ parts, overlap }) => !overlap || parts > 2)

describe('cluesProblem', () => {
  it('asks for the sum of what its parts tell, and tells it nowhere else', () => {
    fc.assert(
      fc.property(dialsArb, fc.nat(), (dials, index) => {
        const { question, parts, gold, facts, thing } = cluesProblem(dials, 0, index)
        expect(parts).toHaveLength(dials.parts)
        expect(question).not.toMatch(/\d/)
        const told = new Map<string, number>()
        for (const part of parts) {
          const facts = [...part.matchAll(/(\w+) has (\d+) (\w+)\./g)]
          expect(facts).toHaveLength(dials.overlap ? 2 : 1)
          for (const [, name, count, what] of facts) {
            told.set(name, Number(count))
            expect(question).toContain(name)
            expect(what).toBe(count === '1' ? thing.slice(0, -1) : thing)
          }
        }
        expect(told.size).toBe(dials.parts)
        expect([...told.values()].reduce((a, b) => a + b)).toBe(Number(gold))
        for (const { count } of facts) {
          expect(count).toBeGreaterThanOrEqual(1)
          expect(count).toBeLessThanOrEqual(dials.most)
        }
        parts.forEach((part) => {
          expect(carriesPart(part, part)).toBe(true)
        })
      }),
    )
  })
})

/** Tries every way the untold numbers can be, and guesses each sum in turn. */
function byTrying(dials: CluesDials, seen: number[]): number {
  const told = new Set(seen.flatMap((part) => (dials.overlap ? [part, (part + 1) % dials.parts] : [part])))
  const sums = new Map<number, number>()
  const untold = dials.parts - told.size
  const total = dials.most ** untold
  for (let way = 0; way < total; way++) {
    let [sum, left] = [0, way]
    for (let fact = 0; fact < untold; fact++) {
      sum += 1 + (left % dials.most)
      left = Math.floor(left / dials.most)
    }
    sums.set(sum, (sums.get(sum) ?? 0) + 1)
  }
  return Math.max(...sums.values()) / total
}

describe('cluesReach', () => {
  it('is what trying every case gives', () => {
    const few = fc
      .record({
        parts: fc.integer({ min: 2, max: 4 }),
        overlap: fc.boolean(),
        most: fc.integer({ min: 2, max: 7 }),
      })
      .chain((dials) => fc.tuple(fc.constant(dials), fc.subarray([...Array(dials.parts).keys()])))
    fc.assert(
      fc.property(few, ([dials, seen]) => {
        expect(cluesReach(dials, seen)).toBeCloseTo(byTrying(dials, seen), 12)
      }),
    )
  })

  it('is 1 with all parts, and grows with each', () => {
    const dials = { parts: 4, overlap: false, most: 20 }
    expect(cluesReach(dials, [0, 1, 2, 3])).toBe(1)
    expect(cluesReach(dials, [0, 1, 2])).toBe(1 / 20)
    expect(cluesReach({ ...dials, parts: 2 }, [1])).toBe(1 / 20)
    // The likeliest sum of three numbers of 1 to 20 is made in 300 of 8,000 ways.
    expect(cluesReach(dials, [3])).toBe(300 / 8000)
    expect(cluesReach({ ...dials, overlap: true }, [0, 2])).toBe(1)
  })
})

describe('clues', () => {
  it('gives sets that share no problem, and the same for a seed', async () => {
    const { train, holdout, dropped } = await clues({ train: 300, holdout: 200, parts: 3 }).load()
    expect([train.length, holdout.length, dropped]).toEqual([300, 200, 0])
    const texts = [...train, ...holdout].map(({ parts = [] }) => parts.join(' '))
    expect(new Set(texts).size).toBe(500)
    expect(new Set([...train, ...holdout].map(({ id }) => id)).size).toBe(500)
    expect((await clues({ train: 300, holdout: 200, parts: 3 }).load()).train).toEqual(train)
    expect((await clues({ train: 300, holdout: 200, parts: 3, seed: 1 }).load()).train).not.toEqual(train)
  })

  it('records its dials, the sizes of the reference unless told, and refuses what cannot be', () => {
    const config = { train: 512, holdout: 120, parts: 4, overlap: true, most: 20, seed: 0 }
    expect(clues({ parts: 4, overlap: true })).toMatchObject({ name: 'clues', config })
    expect(() => clues({ parts: 1 })).toThrow(/parts is 1/)
    expect(() => clues({ parts: 9 })).toThrow(/parts is 9/)
    expect(() => clues({ overlap: true })).toThrow(/at least 3 parts/)
    expect(() => clues({ most: 1.5 })).toThrow(/most is 1.5/)
    expect(() => clues({ train: -1 })).toThrow(/train is -1/)
  })
})

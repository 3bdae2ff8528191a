import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { stories } from './stories.ts'
import { arithmetic, levels, sliceOf, wordProblem, wordProblems, wordProblemsOf } from './word-problems.ts'

const level = fc.constantFrom(...Object.keys(levels).map(Number))
const index = fc.nat({ max: 1_000_000 })
const numbersIn = (text: string) => (text.match(/\d+/g) ?? []).map(Number)

/** Evaluates `12*3` and the like, independently of the generator. */
function evaluate(expression: string): number {
  const [, a, op, b] = /^(\d+)([-+*/])(\d+)$/.exec(expression)!
  const [x, y] = [Number(a), Number(b)]
  return op === '+' ? x + y : op === '-' ? x - y : op === '*' ? x * y : x / y
}

describe('wordProblem', () => {
  it('works every step out rightly, from numbers told or found, down to the gold', () => {
    fc.assert(
      fc.property(level, index, (l, i) => {
        const { question, answer, gold } = wordProblem(l, 0, i)
        const lines = answer.split('\n')
        const known = new Set([...numbersIn(question), 2, 3, 4])
        for (const word of ['half', 'twice']) if (question.includes(word)) known.add(2)
        let last = Number.NaN
        for (const line of lines.slice(0, -1)) {
          const [, left, right] = /(\d+[-+*/]\d+)=(\d+)/.exec(line)!
          expect(evaluate(left)).toBe(Number(right))
          for (const operand of numbersIn(left)) expect(known, `${question} | ${line}`).toContain(operand)
          last = Number(right)
          known.add(last)
        }
        expect(lines.at(-1)).toBe(`#### ${gold}`)
        expect(String(last)).toBe(gold)
      }),
      { numRuns: 2000 },
    )
  })

  it('keeps to the level: steps, values, and answers that are positive integers', () => {
    fc.assert(
      fc.property(level, index, (l, i) => {
        const { equations, question } = wordProblem(l, 0, i)
        const { steps, most } = levels[l]
        expect(equations.length).toBeGreaterThanOrEqual(steps[0])
        expect(equations.length).toBeLessThanOrEqual(steps[1])
        for (const { value } of equations) {
          expect(Number.isInteger(value)).toBe(true)
          expect(value).toBeGreaterThanOrEqual(1)
          expect(value).toBeLessThanOrEqual(most)
        }
        expect(question).not.toMatch(/NaN|undefined|\.\.| {2}/)
        expect(question).toMatch(/^[A-Z0-9].*\?$/)
      }),
      { numRuns: 2000 },
    )
  })

  it('tells many stories, and tens of thousands of distinct problems', () => {
    const drawn = Array.from({ length: 20_000 }, (_, i) => wordProblem(2, 0, i))
    expect(new Set(drawn.map(({ story }) => story)).size).toBe(stories.length)
    expect(stories.length).toBeGreaterThanOrEqual(40)
    expect(new Set(drawn.map(({ question }) => question)).size).toBeGreaterThan(19_500)
    expect(new Set(drawn.map(({ equations }) => arithmetic(equations))).size).toBeGreaterThan(17_000)
  })

  it('gives the same problem for the same key', () => {
    expect(wordProblem(2, 7, 11)).toEqual(wordProblem(2, 7, 11))
    expect(wordProblem(2, 8, 11)).not.toEqual(wordProblem(2, 7, 11))
  })
})

describe('slices', () => {
  it('do not depend on the order of operands that commute', () => {
    const equation = (a: number, b: number) => [{ a, op: '+' as const, b, value: a + b, says: '#' }]
    expect(arithmetic(equation(3, 8))).toBe(arithmetic(equation(8, 3)))
    const less = (a: number, b: number) => [{ a, op: '-' as const, b, value: a - b, says: '#' }]
    expect(arithmetic(less(8, 3))).not.toBe(arithmetic(less(3, 8)))
  })

  it('take about 10, 20 and 70 in 100', () => {
    const counts = { holdout: 0, train: 0, corpus: 0 }
    for (let i = 0; i < 5000; i++) counts[sliceOf(wordProblem(2, 0, i).equations)]++
    expect(counts.holdout / 5000).toBeCloseTo(0.1, 1)
    expect(counts.train / 5000).toBeCloseTo(0.2, 1)
  })

  it('share no arithmetic, whatever seeds they are drawn with', () => {
    const keys = (slice: 'train' | 'holdout', seed: number) =>
      new Set(wordProblemsOf(slice, 2, seed, 400).map(({ equations }) => arithmetic(equations)))
    const train = keys('train', 1)
    expect(train.size).toBe(400)
    for (const key of keys('holdout', 2)) expect(train.has(key)).toBe(false)
  })
})

describe('wordProblems', () => {
  it('fills the reference sizes, and almost nothing overlaps', async () => {
    const { train, holdout, dropped } = await wordProblems({ train: 512, holdout: 120 }).load()
    expect(holdout.length).toBe(120)
    expect(train.length + dropped).toBe(512)
    expect(dropped).toBeLessThan(0.03 * 512)
    expect(new Set([...train, ...holdout].map(({ id }) => id)).size).toBe(train.length + 120)
  })

  it('refuses what it cannot give', async () => {
    expect(() => wordProblems({ train: 8, holdout: 8, level: 4 })).toThrow(/level is 4/)
    expect(() => wordProblems({ train: -1, holdout: 8 })).toThrow(/train is -1/)
    await expect(wordProblems({ train: 8, holdout: 5000, level: 1 }).load()).rejects.toThrow(/too few/)
  })
})

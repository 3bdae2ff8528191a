/** The corpus of the built-in policy: right replies, problems of its own slice, both boards equally often. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { corpusChat, solution, styles, withSlips } from '../policies/make/corpus.ts'
import { random } from '../src/random.ts'
import { type Equation, sliceOf, wordProblem } from '../src/tasks/word-problems.ts'

const whole = (note: string) => note
const index = fc.nat({ max: 10_000_000 })

function equationsIn(text: string): Equation[] {
  return Array.from(text.matchAll(/(\d+)([-+*/])(\d+)=(\d+)/g), ([, a, op, b, value]) => ({
    a: Number(a),
    op: op as Equation['op'],
    b: Number(b),
    value: Number(value),
    says: '#',
  }))
}

function evaluate({ a, op, b }: Equation): number {
  return op === '+' ? a + b : op === '-' ? a - b : op === '*' ? a * b : a / b
}

describe('corpusChat', () => {
  it('has two right replies in different styles, of a problem that no experiment uses', () => {
    fc.assert(
      fc.property(index, fc.boolean(), (i, writersOnly) => {
        const { messages, replies } = corpusChat(i, writersOnly, whole)
        expect(messages.at(-1)!.role).toBe('user')
        expect(replies[0]).not.toBe(replies[1])
        // The answer alone has no working to check; its twin, in another style, has.
        expect(replies.filter((reply) => equationsIn(reply).length === 0).length).toBeLessThanOrEqual(1)
        const [boxed] = replies.map((reply) => /\\boxed\{\d+\}$/.exec(reply)?.[0])
        for (const reply of replies) {
          expect(reply.endsWith(String(boxed))).toBe(true)
          const equations = equationsIn(reply)
          if (equations.length === 0) {
            expect(reply).toBe(boxed)
            continue
          }
          for (const equation of equations) expect(evaluate(equation)).toBe(equation.value)
          expect(reply.endsWith(`\\boxed{${equations.at(-1)!.value}}`)).toBe(true)
          expect(sliceOf(equations)).toBe('corpus')
        }
      }),
      { numRuns: 1000 },
    )
  })

  it('is half writers, and readers of one note as often as of four', () => {
    const kinds = { writers: 0, one: 0, four: 0 }
    for (let i = 0; i < 4000; i++) {
      const { content } = corpusChat(i, false, whole).messages[0]
      kinds[content.includes('Note 4:') ? 'four' : content.includes('Note 1:') ? 'one' : 'writers']++
    }
    expect(kinds.writers / 4000).toBeCloseTo(0.5, 1)
    expect(kinds.one / 4000).toBeCloseTo(0.25, 1)
    expect(kinds.four / 4000).toBeCloseTo(0.25, 1)
  })

  it('shows notes as cut, about half of the whole ones right', () => {
    let [notes, right] = [0, 0]
    for (let i = 0; i < 3000; i++) {
      const { messages, replies } = corpusChat(i, false, whole)
      const gold = /\\boxed\{(\d+)\}/.exec(replies[0])![1]
      for (const [, answer] of messages[0].content.matchAll(/\\boxed\{(\d+)\}/g)) {
        notes++
        if (answer === gold) right++
      }
      const short = corpusChat(i, false, (note) => note.slice(0, 5)).messages[0].content
      for (const [, note] of short.matchAll(/^Note \d: (.*)$/gm)) expect(note.length).toBeLessThanOrEqual(5)
    }
    expect(right / notes).toBeGreaterThan(0.4)
    expect(right / notes).toBeLessThan(0.65)
  })
})

describe('withSlips', () => {
  it('changes nothing at rate 0, and at rate 1 keeps every value a non-negative integer where it can', () => {
    fc.assert(
      fc.property(index, (i) => {
        const { equations } = wordProblem(2, 0, i)
        expect(withSlips(equations, 0, random(i))).toEqual(equations)
        for (const { op, a, b, value } of withSlips(equations, 1, random(i))) {
          const divisible = op !== '/' || (b > 0 && Number.isFinite(a))
          expect(!divisible || (Number.isInteger(value) && value >= 0)).toBe(true)
        }
      }),
      // Here slips leave nothing to divide by.
      { examples: [[2_193_539]] },
    )
  })

  it('carries a slip through the steps that use it', () => {
    const says = '#'
    const equations: Equation[] = [
      { a: 4, op: '*', b: 5, value: 20, says },
      { a: 20, op: '+', b: 7, value: 27, says },
    ]
    let carried = 0
    for (let i = 0; i < 300; i++) {
      const [first, second] = withSlips(equations, 0.3, random('carry', i))
      if (first.value !== 20 && second.op === '+' && second.b === 7 && second.a === first.value) carried++
    }
    expect(carried).toBeGreaterThan(30)
  })
})

describe('solution', () => {
  it('is longer from each style to the next', () => {
    const { question, equations } = wordProblem(2, 0, 1)
    const lengths = styles.map(([style]) => solution(question, equations, style).length)
    expect(lengths).toEqual(lengths.toSorted((a, b) => a - b))
    expect(styles.reduce((sum, [, share]) => sum + share, 0)).toBeCloseTo(1)
  })
})

/** The corpus of the built-in policy: problems of its own slices, both boards equally often, replies as its page says. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import * as clues from '../policies/make/corpus/clues.ts'
import { checks, sums } from '../policies/make/corpus/drills.ts'
import { corpusChat, postShares } from '../policies/make/corpus/index.ts'
import * as insight from '../policies/make/corpus/insight.ts'
import type { Chat, Cut, Posts } from '../policies/make/corpus/types.ts'
import * as words from '../policies/make/corpus/words.ts'
import { recipe } from '../policies/make/recipe.ts'
import { random } from '../src/random.ts'
import { type Equation, sliceOf, wordProblem } from '../src/tasks/word-problems.ts'

const whole: Cut = { note: (text) => text, reply: (text) => text }
const [lesson] = recipe.parts
const key = fc.nat({ max: 10_000_000 })
const kinds = fc.array(fc.constantFrom('note' as const, 'reply' as const), { minLength: 1, maxLength: 8 })
const asked = ({ messages }: Chat) => messages[0].content
const boxIn = (text: string) => /\\boxed\{(\d+)\}/.exec(text)?.[1]

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

describe('word problems', () => {
  it('are solved rightly by writers, from the corpus slice', () => {
    fc.assert(
      fc.property(key, (k) => {
        const [reply] = words.words.writer(random(k)).replies
        const equations = equationsIn(reply)
        for (const equation of equations) expect(evaluate(equation)).toBe(equation.value)
        if (equations.length === 0) {
          expect(reply).toMatch(/^So \\boxed\{\d+\}$/)
        } else {
          expect(reply.endsWith(`So \\boxed{${equations.at(-1)!.value}}`)).toBe(true)
          expect(sliceOf(equations)).toBe('corpus')
        }
      }),
      { numRuns: 500 },
    )
  })

  it('are answered alike by both replies of a reader, who goes on from a post that is right so far', () => {
    let went = 0
    fc.assert(
      fc.property(key, kinds, (k, posts) => {
        const chat = words.words.reader(random(k), posts, whole, lesson)
        const [first, second] = chat.replies
        expect(first).not.toBe(second)
        expect(boxIn(first)).toBe(boxIn(second))
        expect(asked(chat)).toContain(`Note ${posts.length}:`)
        for (const reply of chat.replies) {
          for (const equation of equationsIn(reply)) expect(evaluate(equation)).toBe(equation.value)
          const [, told, note] = /^(From note|Note) (\d+)/.exec(reply) ?? []
          if (told === undefined) continue
          went++
          const shown = asked(chat).split(/^Note \d+: /m)[Number(note)]
          // The answer stands in the note, or the reply's first step uses what the note found last.
          if (told === 'Note') expect(boxIn(shown)).toBe(boxIn(reply))
          else expect(equationsIn(shown).length).toBeGreaterThan(0)
        }
      }),
      { numRuns: 500 },
    )
    expect(went).toBeGreaterThan(50)
  })

  it('have posts whose finished ones are mostly right, not always', () => {
    let [boxes, right] = [0, 0]
    for (let i = 0; i < 1500; i++) {
      const chat = words.words.reader(random('posts', i), ['note', 'note', 'note', 'note'], whole, lesson)
      for (const [, answer] of asked(chat).matchAll(/\\boxed\{(\d+)\}/g)) {
        boxes++
        if (answer === boxIn(chat.replies[0])) right++
      }
    }
    expect(right / boxes).toBeGreaterThan(0.55)
    expect(right / boxes).toBeLessThan(0.85)
  })
})

describe('withSlips', () => {
  it('changes nothing at rate 0, and at rate 1 keeps every value a non-negative integer', () => {
    fc.assert(
      fc.property(key, (k) => {
        const { equations } = wordProblem(2, 0, k)
        expect(words.withSlips(equations, 0, random(k))).toEqual(equations)
        for (const { value } of words.withSlips(equations, 1, random(k))) {
          expect(Number.isInteger(value) && value >= 0).toBe(true)
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
      const [first, second] = words.withSlips(equations, 0.3, random('carry', i))
      if (first.value !== 20 && second.op === '+' && second.b === 7 && second.a === first.value) carried++
    }
    expect(carried).toBeGreaterThan(30)
  })
})

describe('clues', () => {
  it('are added up rightly from what the posts tell, and never told by the question', () => {
    let full = 0
    fc.assert(
      fc.property(key, kinds, (k, posts) => {
        const chat = clues.clues.reader(random(k), posts, whole, lesson)
        const [question, board] = asked(chat).split('\n\nNotes')
        expect(question).not.toMatch(/\d/)
        const people = question.match(/do (.*) have/)![1].split(/, | and /)
        const told = new Map([...board.matchAll(/(\w+) has (\d+) /g)].map(([, name, n]) => [name, Number(n)]))
        for (const reply of chat.replies) {
          for (const equation of equationsIn(reply)) expect(evaluate(equation)).toBe(equation.value)
          if (!people.every((name) => told.has(name)) || posts.includes('reply')) continue
          full++
          expect(Number(boxIn(reply))).toBe(people.reduce((sum, name) => sum + told.get(name)!, 0))
        }
      }),
      { numRuns: 500 },
    )
    expect(full).toBeGreaterThan(15)
  })

  it('are posted by writers who know no more than their part', () => {
    fc.assert(
      fc.property(key, (k) => {
        const chat = clues.clues.writer(random(k))
        const known = asked(chat).split('\n\n')[1]
        const [reply] = chat.replies
        for (const [fact] of reply.matchAll(/\w+ has \d+ \w+\./g)) expect(known).toContain(fact)
      }),
      { numRuns: 300 },
    )
  })
})

describe('insight', () => {
  /** The sums of a question by their number, and the total asked for. */
  function askedIn(question: string): { sums: Map<number, number>; total: number } {
    const listed = [...question.matchAll(/(\d+)\) (\d+)\+(\d+)/g)].map((found) => found.slice(1).map(Number))
    const total = Number(question.replace(/\d+\) \d+\+\d+/g, '').match(/\d+/)![0])
    return { sums: new Map(listed.map(([number, a, b]) => [number, a + b])), total }
  }

  it('is judged honestly: a post that shows the sum is taken, and what nobody showed is tried when none does', () => {
    let [taken, fresh] = [0, 0]
    fc.assert(
      fc.property(key, kinds, (k, posts) => {
        const chat = insight.insight.reader(random(k), posts, whole, lesson)
        const [question, board] = asked(chat).split('\n\nNotes')
        const { sums, total } = askedIn(question)
        const shown = board.split(/^Note \d+: /m).filter((post) => /=\d+|yes/.test(post))
        const numbers = shown.map((post) => Number(boxIn(post)))
        const found = numbers.some((number) => sums.get(number) === total)
        for (const reply of chat.replies) {
          const answer = Number(boxIn(reply))
          if (found) {
            taken++
            expect(sums.get(answer)).toBe(total)
          } else {
            fresh++
            expect(numbers).not.toContain(answer)
          }
          for (const [, value, says] of reply.matchAll(/^Note \d+: (\d+), (yes|no)\.$/gm)) {
            expect(says).toBe(Number(value) === total ? 'yes' : 'no')
          }
          for (const equation of equationsIn(reply)) expect(evaluate(equation)).toBe(equation.value)
        }
      }),
      { numRuns: 500 },
    )
    expect(Math.min(taken, fresh)).toBeGreaterThan(50)
  })

  it('is tried blindly by writers: right about as often as chance has it', () => {
    let [tries, right] = [0, 0]
    for (let i = 0; i < 4000; i++) {
      const chat = insight.insight.writer(random('blind', i))
      const { sums, total } = askedIn(asked(chat).split('\n\n')[0])
      if (sums.size !== 12) continue
      for (const reply of chat.replies) {
        tries++
        if (sums.get(Number(boxIn(reply))) === total) right++
      }
    }
    expect(Math.abs(right / tries - 1 / 12)).toBeLessThan(0.02)
  })
})

describe('drills', () => {
  it('are right', () => {
    fc.assert(
      fc.property(key, (k) => {
        const equations = sums(random(k)).replies[0].split('\n').flatMap(equationsIn)
        expect(equations).toHaveLength(16)
        for (const equation of equations) expect(evaluate(equation)).toBe(equation.value)
        const compared = checks(random(k)).replies[0].split('\n')
        expect(compared).toHaveLength(16)
        for (const line of compared) {
          const [, a, b, made, total, says] = /^(\d+)\+(\d+)=(\d+), (\d+)\? (yes|no)\.$/.exec(line)!
          expect(Number(made)).toBe(Number(a) + Number(b))
          expect(says).toBe(made === total ? 'yes' : 'no')
        }
      }),
      { numRuns: 100 },
    )
  })
})

describe('corpusChat', () => {
  it.each(recipe.parts.map((part, i) => ({ part, name: i + 1 })))(
    'is of the worlds and the boards as often as part $name says, and the same for an index',
    ({ part }) => {
      const counts = { drills: 0, clues: 0, insight: 0, one: 0, four: 0, readers: 0 }
      const total = 6000
      for (let i = 0; i < total; i++) {
        const content = asked(corpusChat(i, part, false, whole))
        if (content === 'Sums' || content === 'Checks') counts.drills++
        if (/^How many \w+ do .* have in all\?/.test(content)) counts.clues++
        if (/1\) \d+\+\d+/.test(content)) counts.insight++
        if (!content.includes('\n\nNotes')) continue
        counts.readers++
        if (!content.includes('Note 2:')) counts.one++
        if (content.includes('Note 4:') && !content.includes('Note 5:')) counts.four++
      }
      const { words: _, clues, insight, ...drills } = Object.fromEntries(part.worlds)
      const share = { clues, insight, drills: Object.values(drills).reduce((sum, one) => sum + one, 0) }
      expect(counts.drills / total).toBeCloseTo(share.drills, 1)
      expect(counts.clues / total).toBeCloseTo(share.clues, 1)
      expect(counts.insight / total).toBeCloseTo(share.insight, 1)
      expect(counts.readers / total).toBeCloseTo((1 - share.drills) * part.readers, 1)
      // Boards of any number are sometimes of one or of four too.
      expect(Math.abs(counts.one - counts.four)).toBeLessThan(0.06 * counts.readers)
      expect(counts.one / counts.readers).toBeCloseTo(Object.fromEntries(postShares).one, 1)
      expect(corpusChat(7, part, false, whole)).toEqual(corpusChat(7, part, false, whole))
    },
  )

  it('leaves readers out where asked', () => {
    for (let i = 0; i < 500; i++) expect(asked(corpusChat(i, lesson, true, whole))).not.toContain('\n\nNotes')
  })
})

describe('styles', () => {
  it('have shares that sum to 1', () => {
    const tables = [
      words.writerStyles,
      clues.writerStyles,
      clues.readerStyles,
      insight.writerStyles,
      insight.readerStyles,
      postShares,
      ...recipe.parts.flatMap((part) => [part.worlds, part.words.readers, part.words.lost]),
    ]
    for (const table of tables) {
      expect(table.reduce((sum: number, [, share]) => sum + share, 0)).toBeCloseTo(1, 12)
    }
  })

  it('are cut to the limits in posts', () => {
    const cut: Cut = { note: (text) => text.slice(0, 5), reply: (text) => text.slice(0, 9) }
    const posts: Posts = ['note', 'reply']
    for (const { reader } of [words.words, clues.clues, insight.insight]) {
      for (let i = 0; i < 50; i++) {
        const [, note, reply] = /^Note 1: ([\s\S]*)\nNote 2: ([\s\S]*)\n\nCheck/m.exec(
          asked(reader(random('cut', i), posts, cut, lesson)),
        )!
        expect(note.length).toBeLessThanOrEqual(5)
        expect(reply.length).toBeLessThanOrEqual(9)
      }
    }
  })
})

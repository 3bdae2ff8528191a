import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readAnswer, readBoxed } from './answer.ts'

describe('boxes', () => {
  test.each<[string, string | null]>([
    ['so \\boxed{42}.', '42'],
    ['\\boxed{\\frac{1}{\\sqrt{2}}}', '\\frac{1}{\\sqrt{2}}'],
    ['\\boxed{\\left\\{1, \\frac{2}{3}\\right\\}}', '\\left\\{1, \\frac{2}{3}\\right\\}'],
    ['\\text{The answer is \\boxed{42} apples}', '42'],
    ['\\boxed{\\text{even}}', '\\text{even}'],
    ['\\boxed{\\boxed{42}}', '\\boxed{42}'.replace('\\boxed', '')],
    ['\\fbox{42} and \\boxed {7} apart from this', '42, 7'],
    ['first \\boxed{17}, but then I saw the mistake: \\boxed{18}', '18'],
    ['\\boxed{A}, \\boxed{B} and \\boxed{C}', 'A, B, C'],
    ['\\boxed{18}\n\n\\boxed{18}', '18'],
    ['\\boxed{18}. Put the answer in \\boxed{}.', '18'],
    ['\\boxed{18} and then \\boxed{1', '18'],
    ['\\boxed{1', null],
    ['\\boxed{\\frac{1}{2}', null],
    ['\\boxed{}', null],
    ['boxed{42}', null],
    ['}}} \\boxed{5} {{{', '5'],
    ['no box, 42', null],
  ])('%j', (reply, boxed) => expect(readBoxed(reply)).toBe(boxed))
})

describe('statements', () => {
  test.each<[string, string | null]>([
    ['48 / 2 = 24\n48 + 24 = 72\n#### 72', '72'],
    ['#### $1,234', '$1,234'],
    ['The answer is 42.', '42'],
    ['The answer is -3.50', '-3.50'],
    ['So the final answer is: **42**', '42'],
    ['**Answer:** $18 per day', '$18'],
    ['### Answer\n\n42 apples', '42'],
    ['The answer is $\\frac{3}{4}$. I hope it is correct.', '\\frac{3}{4}'],
    ['The answers are $3$ and $-2$.', '3, -2'],
    ['The answer is 17 or 18.', '17 or 18'],
    ['The answer is 6 * 7 = 42.', '42'],
    ['The answer is 42, because 6 * 7 = 42.', '42'],
    ['The answer is (1, 2].', '(1, 2]'],
    ['The answer is x^2 + 1.', 'x^2 + 1'],
    ['The answer is even.', 'even'],
    ['The answer is that she has 42 apples.', '42'],
    ['The answer is 41. No: the answer is 42.', '42'],
    // Not stated, or cut before it was.
    ['To answer this, we know that she has 18 apples.', null],
    ['Answer: let us see. She has 3 * 6 = 18 apples. Then', null],
    ['The answer is', null],
    ['The answer is 48 + 24', null],
    ['The final answer is \\boxed{4', null],
    ['The final answer is $\\boxed{4', null],
  ])('%j', (reply, answer) => expect(readAnswer(reply)).toBe(answer))
})

describe('whole replies and conclusions', () => {
  test.each<[string, string | null]>([
    ['42', '42'],
    ['**$1,200**', '$1,200'],
    ['42 red apples.', '42'],
    ['$\\frac12$', '\\frac12'],
    ['48 / 2 = 24\nSo she has 24 clips left.', '24'],
    ['Therefore, Mr. Lee earns $18 every day.', '$18'],
    ['Thus, the total is \\(9 \\times 2 = 18\\) dollars.', '9 \\times 2 = 18'],
    ['She makes **18 dollars** at the market every day.', '18'],
    // A cut, a question, working.
    ['So she has 24 clips', null],
    ['So how many clips are left if 24 were sold?', null],
    ['48 / 2 = 24', null],
    ['\\[ 48 + 24 = 72 \\]', null],
    ['1.', '1'],
    ['She has 24 clips.', null],
    ['', null],
  ])('%j', (reply, answer) => expect(readAnswer(reply)).toBe(answer))
})

test('the question echoed states nothing', () => {
  expect(readAnswer('Tom has 3 bags of 14 apples. He eats 2. How many apples are left?')).toBeNull()
})

const lines = fc.array(
  fc
    .tuple(
      fc.integer({ min: 1, max: 999 }),
      fc.constantFrom('+', '-', '*', '/'),
      fc.integer({ min: 1, max: 999 }),
    )
    .map(([a, o, b]) => `She has ${a} ${o} ${b} = ${a + b} apples.`),
  { minLength: 1, maxLength: 5 },
)

test('a reply reads null at whichever character it is cut before its box closes', () => {
  fc.assert(
    fc.property(lines, fc.integer(), fc.nat(), (working, n, cut) => {
      const reply = `${working.join('\n')}\n\nThe final answer is $\\boxed{${n}`
      expect(readAnswer(reply.slice(0, cut % (reply.length + 1)))).toBeNull()
      expect(readAnswer(`${reply}}$.`)).toBe(String(n))
    }),
  )
})

test('the last closed box is read whatever stands before it', () => {
  fc.assert(
    fc.property(fc.string(), fc.integer(), (before, n) => {
      expect(readBoxed(`${before.replaceAll('\\', '')} so I say \\boxed{${n}} `)).toBe(String(n))
    }),
  )
})

describe('hostile replies are read in bounded time', () => {
  const million = 1_000_000
  test.each<[string, string, string | null]>([
    ['a megabyte of digits', '9'.repeat(million), null],
    ['a box around a megabyte of digits', `\\boxed{${'9'.repeat(million)}}`, null],
    ['a statement of a megabyte of digits', `The answer is ${'9'.repeat(million)}.`, null],
    ['a megabyte of digits after the box', `\\boxed{42} ${'9'.repeat(million)}`, '42'],
    ['nested boxes, closed', '\\boxed{'.repeat(100_000) + '}'.repeat(100_000), null],
    ['nested boxes around an answer', `${'\\boxed{'.repeat(50_000)}7${'}'.repeat(50_000)}`, null],
    ['nested boxes, open', '\\boxed{'.repeat(100_000), null],
    ['a megabyte of braces', '{'.repeat(million), null],
    ['a megabyte of backslashes', `\\boxed{1}${'\\'.repeat(million)}`, '1'],
    ['a thousand boxes that alternate', '\\boxed{1}, \\boxed{2}, '.repeat(1000), '1, 2'],
    ['statements without end', 'the answer is '.repeat(20_000), null],
    ['headings without end', '#### '.repeat(100_000), null],
    ['dollars without end', `So ${'$1 '.repeat(2000)}.`, '$1'],
    ['stars and stops', `So ${'.* '.repeat(3000)}**.`, null],
  ])('%s', (_, reply, answer) => {
    const start = process.cpuUsage()
    expect(readAnswer(reply)).toBe(answer)
    expect(process.cpuUsage(start).user / 1000).toBeLessThan(500)
  })
})

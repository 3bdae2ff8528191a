import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { answersEqual, mathEqual } from './math-equal.ts'

describe('equal', () => {
  test.each([
    // Integers, decimals, separators, signs
    ['42', '42'],
    ['42.00', '42'],
    ['042', '42'],
    ['1,234,567', '1234567'],
    ['1{,}234', '1234'],
    ['1\\,234', '1234'],
    ['1 234', '1234'],
    ['.5', '0.5'],
    ['\u22125', '-5'],
    ['-0', '0'],
    ['18.', '18'],
    // Currency, units, percent, scales
    ['\\$18.90', '18.9'],
    ['$1,250', '1250'],
    ['42 apples', '42'],
    ['42 \\text{ cm}^2', '42'],
    ['72\\ \\text{km/h}', '72'],
    ['36 square feet', '36'],
    ['90^\\circ', '90'],
    ['20^\\circ C', '20'],
    ['50\\%', '50'],
    ['50\\%', '0.5'],
    ['12.5 percent', '\\frac{1}{8}'],
    ['3 million', '3000000'],
    ['5th', '5'],
    // Fractions and mixed numbers
    ['\\dfrac{3}{4}', '3/4'],
    ['\\frac34', '0.75'],
    ['\\frac{-3}{4}', '-\\frac{3}{4}'],
    ['3\\frac{1}{2}', '3.5'],
    ['3 1/2', '\\frac{7}{2}'],
    ['2½', '2.5'],
    ['0.\\overline{3}', '\\frac13'],
    ['0.333333', '\\frac13'],
    // Roots, powers, scientific notation, constants
    ['2\\sqrt{3}', '\\sqrt{12}'],
    ['\\sqrt2', '2^{1/2}'],
    ['\\sqrt[3]{8}', '2'],
    ['\\frac{\\sqrt3}{3}', '\\frac{1}{\\sqrt{3}}'],
    ['1.5 \\times 10^{-4}', '0.00015'],
    ['1.5e-4', '0.00015'],
    ['1.5 x 10^-4', '0.00015'],
    ['2^{100}', '1267650600228229401496703205376'],
    ['3.141593', '\\pi'],
    ['\\log_2 8', '3'],
    ['\\sin 30^\\circ', '\\frac12'],
    ['5!', '120'],
    ['\\binom{5}{2}', '10'],
    ['2i+3', '3+2i'],
    ['\\lfloor 3.7 \\rfloor', '3'],
    // Expressions and equations
    ['(x+1)^2', 'x^2+2x+1'],
    ['y = 2x+3', '2x+3'],
    ['5', 'x=5'],
    ['9 \\times 2 = 18', '18'],
    ['2\\pi \\approx 6.28', '2\\pi'],
    ['2x+4y=6', 'x+2y=3'],
    ['|x-3|', '|3-x|'],
    ['x_{1}+x_2', 'x_2+x_1'],
    ['\\sin^2 x', '1-\\cos^2 x'],
    // Tuples, sets, intervals, matrices
    ['2, 1', '1,2'],
    ['1, 2, 2', '1,2'],
    ['1 \\text{ and } 2', '\\{1,2\\}'],
    ['\\{1,2\\}', '2,1'],
    ['3\\pm\\sqrt2', '3-\\sqrt{2}, 3+\\sqrt{2}'],
    ['(1.0, 2)', '(1,2)'],
    ['x = 1, y = 2', '(1,2)'],
    ['\\left[0,\\infty\\right)', '[0,\\infty)'],
    ['(1,\\infty)\\cup(-\\infty,-1)', '(-\\infty,-1)\\cup(1,\\infty)'],
    ['x<-1 \\text{ or } x>1', '(-\\infty,-1)\\cup(1,\\infty)'],
    ['1 \\le x \\le 2', '[1,2]'],
    ['\\begin{bmatrix}1\\\\2\\end{bmatrix}', '\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}'],
    ['4:6', '2:3'],
    // Words
    ['Tuesday', '\\text{Tuesday}'],
    ['\\text{ no solution }', '\\text{No solution}'],
    ['(B)', '\\text{B}'],
    ['1101_{2}', '1101_2'],
    // What the grammar does not know is compared as text.
    ['x \\equiv 3 \\pmod{7}', 'x\\equiv 3\\pmod 7'],
    ['\\boxed{42}', '42'],
  ])('%s is %s', (answer, gold) => expect(answersEqual(answer, gold)).toBe(true))
})

describe('not equal', () => {
  test.each([
    ['42', '-42'],
    ['42', '420'],
    ['1,234', '1243'],
    ['0.33', '\\frac13'],
    ['3.14', '\\pi'],
    ['0.00000001', '0.00000002'],
    ['1267650600228229401496703205377', '2^{100}'],
    ['17 or 18', '18'],
    ['17, 18', '18'],
    ['1, 2, 3, 4, 5', '3'],
    ['2 \\text{ to } 18', '18'],
    ['3 hours 20 minutes', '3'],
    ['2xyz', '2'],
    ['(2,1)', '(1,2)'],
    ['\\{1,2\\}', '(1,2)'],
    ['[1,2]', '(1,2)'],
    ['[1,2)', '[1,2]'],
    ['1,2,2', '1,3'],
    ['1,2', '1,2,3'],
    ['y=5', 'x=5'],
    ['x^2+1', 'x^2-1'],
    ['2x', 'x^2'],
    ['x > 3', 'x < 3'],
    ['x \\le 3', 'x < 3'],
    ['x^2+y^2=5', 'x^2+y^2=25'],
    ['1101_3', '1101_2'],
    ['\\text{Thursday}', '\\text{Tuesday}'],
    ['\\infty', '9^{9^{9^9}}'],
    ['\\frac{1}{0}', '\\infty'],
    ['', '42'],
    ['42', ''],
    ['constructor', '42'],
    ['NaN', '0'],
  ])('%s is not %s', (answer, gold) => expect(answersEqual(answer, gold)).toBe(false))
})

const integers = fc.bigInt(-(10n ** 20n), 10n ** 20n)
const withCommas = (n: bigint) => n.toString().replace(/\B(?=(\d{3})+(?!\d))/g, ',')

test('an integer equals itself in every form, and no other integer', () => {
  fc.assert(
    fc.property(integers, integers, (n, m) => {
      const gold = n.toString()
      for (const form of [
        gold,
        withCommas(n),
        `${gold}.0`,
        `\\text{${gold}}`,
        `x = ${gold}`,
        `${gold} apples`,
        `{${gold}}`,
      ])
        expect(answersEqual(form, gold)).toBe(true)
      expect(answersEqual(m.toString(), gold)).toBe(n === m)
      expect(answersEqual((n + 1n).toString(), gold)).toBe(false)
      expect(answersEqual(`-${gold}`.replace('--', ''), gold)).toBe(n === 0n)
    }),
  )
})

test('a fraction equals its other forms, and another fraction only where it is the same number', () => {
  const part = fc.integer({ min: 1, max: 2000 })
  fc.assert(
    fc.property(part, part, part, part, (a, b, c, d) => {
      const gold = `\\frac{${a}}{${b}}`
      const mixed = `${Math.floor(a / b)}\\frac{${a % b}}{${b}}`
      for (const form of [
        `${a}/${b}`,
        `\\dfrac{${2 * a}}{${2 * b}}`,
        `${a} \\div ${b}`,
        mixed,
        `-\\frac{-${a}}{${b}}`,
      ])
        expect(answersEqual(form, gold)).toBe(true)
      expect(answersEqual(`\\frac{${c}}{${d}}`, gold)).toBe(a * d === b * c)
    }),
  )
})

test('a polynomial equals its factors, and not with another root', () => {
  const rootOf = fc.integer({ min: -30, max: 30 })
  fc.assert(
    fc.property(rootOf, rootOf, rootOf, (p, q, r) => {
      const expanded = `x^2+${-(p + q)}x+${p * q}`.replaceAll('+-', '-')
      const factor = (n: number) => `(x${n > 0 ? `-${n}` : `+${-n}`})`
      expect(answersEqual(`${factor(p)}${factor(q)}`, expanded)).toBe(true)
      if (r !== p) expect(answersEqual(`${factor(r)}${factor(q)}`, expanded)).toBe(false)
    }),
  )
})

test('a set is equal in any order, a tuple in its own', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.integer({ min: -99, max: 99 }), { minLength: 2, maxLength: 6 }),
      (items) => {
        const turned = [...items].reverse()
        expect(answersEqual(`\\{${turned.join(', ')}\\}`, items.join(','))).toBe(true)
        expect(answersEqual(`(${items.join(', ')})`, `(${items.join(',')})`)).toBe(true)
        expect(answersEqual(`(${turned.join(', ')})`, `(${items.join(',')})`)).toBe(false)
        expect(answersEqual(items.slice(1).join(', '), items.join(','))).toBe(false)
      },
    ),
  )
})

/** Text made of what LaTeX answers are made of, in no order. */
const soup = fc
  .array(
    fc.constantFrom(
      ...[
        '\\frac',
        '\\sqrt',
        '{',
        '}',
        '(',
        ')',
        '[',
        ']',
        '|',
        '^',
        '_',
        '+',
        '-',
        '*',
        '/',
        '=',
        '<',
        ',',
        '!',
        '%',
        ' ',
      ],
      ...[
        '\\{',
        '\\}',
        '\\pm',
        '\\cup',
        '\\in',
        '\\infty',
        '\\pi',
        '\\text{a}',
        '\\left',
        '\\boxed{',
        '\\log',
        '\\begin{pmatrix}',
      ],
      ...[
        '\\\\',
        '&',
        '1',
        '23',
        '0',
        '4.5',
        'x',
        'i',
        'cm',
        'apples',
        'or',
        '\\overline{3}',
        '$',
        '.',
        ':',
        "'",
        '°',
        '½',
        '−',
        '\\binom',
      ],
    ),
    { maxLength: 40 },
  )
  .map((parts) => parts.join(''))

test('never throws, equals itself, and is quick on any text', () => {
  fc.assert(
    fc.property(fc.oneof(soup, fc.string(), fc.string({ unit: 'binary' })), soup, (a, b) => {
      const start = process.cpuUsage()
      expect(answersEqual(a, b)).toBeTypeOf('boolean')
      expect(answersEqual(a, a)).toBe(a.trim() !== '')
      expect(mathEqual(a, b)).toBeTypeOf('boolean')
      expect(process.cpuUsage(start).user / 1000).toBeLessThan(500)
    }),
    { numRuns: 2000 },
  )
})

test('a reply that states no answer is never right', () => {
  fc.assert(
    fc.property(integers, (n) => {
      for (const reply of [
        '',
        ' ',
        '\\boxed{}',
        `\\boxed{${n}`,
        `She has ${n} and then`,
        `How many are ${n}?`,
        'The answer is',
      ])
        expect(mathEqual(reply, n.toString())).toBe(false)
    }),
  )
})

describe('hostile replies', () => {
  test.each<[string, string, string, boolean]>([
    [
      'ten boxes: the last',
      `${[...'123456789'].map((d) => `Then \\boxed{${d}}, so we go on with that.`).join(' ')} \\boxed{10}`,
      '10',
      true,
    ],
    [
      'ten boxes: not an earlier one',
      `${[...'123456789'].map((d) => `Then \\boxed{${d}}, so we go on with that.`).join(' ')} \\boxed{10}`,
      '5',
      false,
    ],
    [
      'every option boxed side by side',
      [...'123456789'].map((d) => `\\boxed{${d}}`).join(' or '),
      '9',
      false,
    ],
    ['every option in one box', '\\boxed{A, B, C, D}', 'D', false],
    ['every option listed', 'The answer is 1, 2, 3, 4 or 5.', '5', false],
    ['nested braces', '\\boxed{\\frac{{1}}{{{2}}}}', '\\frac12', true],
    ['a box in text', '\\text{The answer is \\boxed{42}}', '42', true],
    ['text in a box', '\\boxed{\\text{42}}', '42', true],
    ['unicode minus', '\\boxed{\u221242}', '-42', true],
    ['en dash as minus', 'The answer is \u201342.', '-42', true],
    ['the question echoed', 'Tom has 42 apples. He eats 2. How many apples are left?', '42', false],
    ['the instruction echoed', 'Put the answer in \\boxed{}. It is \\boxed{42}.', '42', true],
    ['a megabyte of digits', `\\boxed{${'4'.repeat(1_000_000)}}`, '4', false],
    ['digits to the limit', `\\boxed{${'4'.repeat(1000)}}`, '4'.repeat(1000), true],
    ['digits to the limit, one off', `\\boxed{${'4'.repeat(999)}5}`, '4'.repeat(1000), false],
    ['a tower of powers', '\\boxed{9^{9^{9^{9^9}}}}', '9', false],
    ['a tower of factorials', '\\boxed{9!!!!!!!!}', '9', false],
    ['roots of powers', `\\boxed{${'\\sqrt{9^{4000}}+'.repeat(50)}1}`, '1', false],
    ['deep groups', `\\boxed{${'('.repeat(400)}1${')'.repeat(400)}}`, '1', false],
    ['deep fractions', `\\boxed{${'1\\frac{1}{'.repeat(80)}1${'}'.repeat(80)}}`, '1', false],
    [
      'a list of variables',
      `\\boxed{${[...'abcdefghijklmnopqrstuvwxyz'].join(',')}}`,
      [...'zyxwvutsrqponmlkjihgfedcba'].join(','),
      true,
    ],
    ['minus signs', `\\boxed{${'-'.repeat(900)}1}`, '1', false],
  ])('%s', (_, reply, gold, right) => {
    const start = process.cpuUsage()
    expect(mathEqual(reply, gold)).toBe(right)
    expect(process.cpuUsage(start).user / 1000).toBeLessThan(500)
  })
})

/**
 * A fuzz campaign on the verifier: seeded answers in many faces, replies around them, and text made of what replies
 * are made of. Each input is checked for what must hold of any: nothing is thrown, no verdict takes long or depends
 * on how a text is set or on one more space, an answer equals itself, and two values are equal both ways or neither.
 */
import { mathGrader } from '../../src/grade/grader.ts'
import { answersEqual } from '../../src/grade/math-equal.ts'
import { type Random, random } from '../../src/random.ts'
import { type Campaign, type Extent, fuzz, isProgram, main } from './rounds.ts'

/** Longer than this is too long for one verdict, in milliseconds. */
const SLOW = 250

/** An answer as the smallest parts between which a space may stand. */
type Parts = string[]

const number = (r: Random): string =>
  r.pick([() => `${r.int(100)}`, () => `${r.int(10)}.${r.int(100)}`, () => `${1000 + r.int(9000)}`])()
const group = (parts: Parts): Parts => ['{', ...parts, '}']

/** A value: numbers, constants and variables under operations. */
function value(r: Random, depth = 3): Parts {
  const inner = () => value(r, depth - 1)
  if (depth === 0 || r.next() < 0.25) return [r.pick([number(r), number(r), 'x', 'y', '\\pi', 'n'])]
  return r.pick<() => Parts>([
    () => ['\\frac', ...group(inner()), ...group(inner())],
    () => ['\\sqrt', ...group(inner())],
    () => ['\\sqrt', '[', '3', ']', ...group(inner())],
    () => ['(', ...inner(), ')', '^', ...group([`${r.int(5)}`])],
    () => [...inner(), '+', ...inner()],
    () => [...inner(), '-', '(', ...inner(), ')'],
    () => ['(', ...inner(), ')', '\\cdot', '(', ...inner(), ')'],
    () => ['-', '(', ...inner(), ')'],
    () => ['|', ...inner(), '|'],
    () => ['\\sin', '(', ...inner(), ')'],
    () => ['\\binom', ...group([`${2 + r.int(9)}`]), ...group([`${r.int(3)}`])],
    () => [`${r.pick([3, 5, 2004])}`, '!'],
    () => ['\\log', '_', ...group(['2']), '(', ...inner(), ')'],
  ])()
}

/** An answer of any kind that golds are of. */
function answer(r: Random): Parts {
  const v = () => value(r, 2)
  const n = () => `${r.int(60)}`
  return r.pick<() => Parts>([
    () => value(r),
    () => value(r),
    () => [number(r), '\\%'],
    () => [n(), r.pick(['\\text{ million}', '\\text{ billion}', 'thousand'])],
    () => [number(r), r.pick(['\\text{ cm}', 'km', '\\text{ apples}', '^\\circ', 'm'])],
    () => [...v(), ',', ...v()],
    () => ['(', ...v(), ',', ...v(), ')'],
    () => ['\\{', n(), ',', n(), ',', n(), '\\}'],
    () => [r.pick(['(', '[']), n(), ',', '\\infty', ')'],
    () => ['(', '-', '\\infty', ',', n(), ']', '\\cup', '(', '70', ',', '\\infty', ')'],
    () => ['x', r.pick(['=', '<', '\\geq', '\\neq']), ...v()],
    () => ['\\begin{pmatrix}', n(), '&', n(), '\\\\', n(), '&', n(), '\\end{pmatrix}'],
    () => [r.pick(['no', 'yes', 'even', 'no solution', 'Tuesday', 'B', '(C)'])],
    () =>
      [`${1 + r.int(12)}`, ':', `${10 + r.int(50)}`, r.pick(['', 'PM', 'a.m.'])].filter(
        (part) => part !== '',
      ),
    () => [n(), ':', `${1 + r.int(9)}`],
    () => ['\\mathbb{R}', '\\setminus', '\\{', n(), '\\}'],
    () => [`${r.int(2) + 1}01`, '_', ...group(['3'])],
    () => ['\\sum', '_', ...group(['k', '=', '1']), '^', ...group(['n']), 'k', '^', ...group(['2'])],
    () => ['x', '\\equiv', n(), '\\pmod', ...group(['7'])],
    () => [...v(), '\\pm', ...v()],
    () => ['\\textbf{(B)}', n()],
    () => ['f', '(', 'x', ')', '=', ...v()],
  ])()
}

/** One way to set the parts of an answer. */
function set(r: Random, parts: Parts): string {
  const roomy = r.next() < 0.5
  const wide = r.next() < 0.5
  let text = ''
  for (const part of parts) {
    const set =
      part === '\\frac'
        ? r.pick(['\\frac', '\\dfrac', '\\tfrac'])
        : wide && part === '('
          ? '\\left('
          : wide && part === ')'
            ? '\\right)'
            : part
    const apart = /\\[a-z]+$/i.test(text) && /^[a-z]/i.test(set)
    text += (apart ? ' ' : '') + (roomy ? r.pick(['', ' ', '  ', '\t', '\u00a0']) : '') + set
  }
  return text
}

/** What may stand around an answer and changes nothing. */
function face(r: Random, parts: Parts): string {
  // `\left(` needs its `\right)` and an interval has mixed brackets: those are set as they are.
  const text = set(r, parts)
  return r.pick([
    () => text,
    () => ` ${text} `,
    () => `$${text}$`,
    () => `\\(${text}\\)`,
    () => `\\[ ${text} \\]`,
    () => `\\boxed{${text}}`,
    () => `$\\boxed{${text}}$`,
    () => `${text}.`,
    () => `{${text}}`,
    () => `\\displaystyle ${text}`,
    () => `\u200b${text}`,
  ])()
}

const FRAGMENTS = [
  ...[
    'The answer is ',
    'the final answer is: ',
    'Answer: ',
    '#### ',
    'So she has ',
    ' apples',
    '. ',
    '\n',
    '\n\n',
  ],
  ...[
    '\\boxed{',
    '}',
    '$',
    '$$',
    '\\(',
    '\\)',
    '\\[',
    '\\]',
    '**',
    '`',
    '<answer>',
    '</answer>',
    'A: ',
    'not ',
  ],
  ...[
    '42',
    '-13',
    '3.5',
    '1,234',
    '0.5',
    '10:30',
    '3/4',
    '2x',
    'x > 5',
    '\\frac{1}{2}',
    '\\sqrt{2}',
    '\\$40',
    '50\\%',
  ],
  ...[
    ' = ',
    ' + ',
    ' or ',
    ' and ',
    ', ',
    ' ',
    '!',
    '?',
    '½',
    '√',
    'π',
    '²',
    '−',
    '–',
    '\u200b',
    '\ud800',
    '\u{1d465}',
  ],
  ...[
    '{',
    '(',
    ')',
    '[',
    '|',
    '\\',
    '\\{',
    '&',
    '\\\\',
    '_',
    '^',
    'e',
    'i',
    '1e9',
    ' million',
    ' percent',
    ' PM',
    '<<1+1=2>>',
  ],
]

const soup = (r: Random, most: number): string =>
  Array.from({ length: 1 + r.int(most) }, () => r.pick(FRAGMENTS)).join('')

/** One more space at some of the places where there is one. */
const spaced = (r: Random, text: string): string => text.replace(/ /g, () => (r.next() < 0.5 ? '  ' : ' '))

const isValue = (text: string): boolean =>
  !/[,:=<>]|\\(?:pm|geq|neq|cup|text|sum|equiv|begin|math)/.test(text)

/** Checks one input, drawn from `r`; calls `fail` for each thing that does not hold. Returns what was checked. */
function checkOne(r: Random, fail: (what: string) => void): string {
  const kind = r.int(4)
  if (kind < 2) {
    const parts = answer(r)
    const [a, b] = [face(r, parts), face(r, parts)]
    if (!answersEqual(a, b)) fail(`one answer in two faces differs: ${JSON.stringify([a, b])}`)
    if (kind === 0) return 'faces'
    const text = set(r, parts)
    const reply = r.pick([
      `So \\boxed{${text}}.`,
      `The answer is $${text}$.`,
      `Work.\n\n**Answer:** \\(${text}\\)`,
    ])
    if (!mathGrader.grade(reply, b).correct)
      fail(`an answer is wrong by itself: ${JSON.stringify([reply, b])}`)
    return 'an answer to itself'
  }
  if (kind === 2) {
    const [p, q] = [answer(r), answer(r)]
    const [a, b] = [p.join(' '), q.join(' ')]
    const verdict = answersEqual(a, b)
    const [u, v] = [face(r, p), face(r, q)]
    if (answersEqual(u, v) !== verdict) fail(`a verdict depends on a face: ${JSON.stringify([a, b, u, v])}`)
    if (isValue(a) && isValue(b) && answersEqual(b, a) !== verdict)
      fail(`unequal one way: ${JSON.stringify([a, b])}`)
    return 'two answers'
  }
  const reply = soup(r, r.next() < 0.02 ? 4000 : 30)
  const gold = r.next() < 0.5 ? answer(r).join('') : soup(r, 4)
  const grade = mathGrader.grade(reply, gold)
  if (grade.correct && grade.answer === null) fail(`right without an answer: ${JSON.stringify(reply)}`)
  const other = mathGrader.grade(spaced(r, reply), spaced(r, gold))
  if (other.correct !== grade.correct) fail(`a verdict depends on a space: ${JSON.stringify([reply, gold])}`)
  return 'soup'
}

/** Checks that many inputs of a seed. Touches nothing. */
export const fuzzGrading = (extent: Extent): Promise<Campaign> =>
  fuzz(extent, SLOW, (number, fail) => checkOne(random('grading campaign', extent.seed, number), fail))

if (isProgram(import.meta.url)) await main(import.meta.url, 20_000, fuzzGrading)

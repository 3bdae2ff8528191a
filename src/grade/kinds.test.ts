import { existsSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { fuzzGrading } from '../../test/campaigns/grading.ts'
import { mathGrader } from './grader.ts'
import { answersEqual } from './math-equal.ts'

/** A reply, its gold and the right verdict; `kind` says what it is an example of. */
interface Case {
  kind: string
  gold: string
  reply: string
  expected: boolean | string
}

const readCases = (url: URL): Case[] =>
  readFileSync(url, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

/** Whether `act` takes less than so many milliseconds of this process, once in three times: others run here too. */
function isQuick(limit: number, act: () => unknown): boolean {
  for (let i = 0; i < 3; i++) {
    const start = process.cpuUsage()
    act()
    const { user, system } = process.cpuUsage(start)
    if (user + system < limit * 1000) return true
  }
  return false
}

function check(cases: readonly Case[]): void {
  const wrong = cases.filter(({ reply, gold, expected }) =>
    typeof expected === 'boolean'
      ? mathGrader.grade(reply, gold).correct !== expected
      : !isQuick(10, () => mathGrader.grade(reply, gold)),
  )
  expect(wrong.map((c) => ({ ...c, read: mathGrader.grade(c.reply, c.gold).answer }))).toEqual([])
}

describe('what was once wrong, by kind', () => {
  const cases = readCases(new URL('fixtures/kinds.jsonl', import.meta.url))
  const kinds = [...new Set(cases.map(({ kind }) => kind))]
  test.each(kinds)('%s', (kind) => check(cases.filter((c) => c.kind === kind)))
})

const reported = new URL('../../../shared/cases/grading.jsonl', import.meta.url)
test.skipIf(!existsSync(reported))('the reported cases (../shared/cases)', () => check(readCases(reported)))

test('one answer in two faces is equal, a verdict hangs on no space, values are equal both ways or neither', async () => {
  expect((await fuzzGrading({ rounds: 1000, seed: 1 })).failures).toEqual([])
})

test('a number is not read out of what goes on after it', () => {
  const number = fc.integer({ min: 2, max: 9999 })
  const tail = fc.constantFrom(
    ...[
      'x',
      'x + 1',
      '√2',
      'π',
      ':4',
      '/7',
      '^2',
      '²',
      '½',
      '\\sqrt{2}',
      ' \\cdot 3',
      ' × 10^4',
      ' > x',
      'e5',
    ],
    ...[
      '! + 1',
      '(x+1)',
      ' + 3i',
      '‰',
      '°C - 3',
      ' or 1',
      ', 1',
      ' hours 20 minutes',
      ':30 PM',
      ' \\pi',
      ' mod 7',
    ],
  )
  const lead = fc.constantFrom('The answer is ', 'Answer: ', 'Therefore, the total is ', 'So it is ', '#### ')
  fc.assert(
    fc.property(lead, number, tail, fc.constantFrom('', '.'), (before, n, after, end) => {
      expect(mathGrader.grade(`${before}${n}${after}${end}`, String(n)).correct).toBe(false)
    }),
  )
})

test('a sign is not lost, whichever way it is written', () => {
  const signed = fc.constantFrom(
    ...['-N', '−N', '–N', '- N', '-$N', '-\\$N', '$-N$', '$-\\$N$', 'minus N', 'negative N', 'negative $N$'],
  )
  const reply = fc.constantFrom(
    'The answer is ANSWER.',
    'So the change is ANSWER.',
    '**Answer:** ANSWER',
    '#### ANSWER',
  )
  fc.assert(
    fc.property(reply, signed, fc.integer({ min: 1, max: 99_999 }), (sentence, form, n) => {
      const said = sentence.replace('ANSWER', () => form.replace('N', String(n)))
      expect(mathGrader.grade(said, String(-n)).correct).toBe(true)
      expect(mathGrader.grade(said, String(n)).correct).toBe(false)
    }),
  )
})

describe('time grows with the length of a text, whatever is repeated in it', () => {
  const fragments = [
    ...[
      'a',
      '1',
      '1 ',
      '1,',
      '1,234,',
      '(',
      '[',
      '{',
      '\\{',
      '|',
      '$',
      '$1 ',
      '\\(',
      '\\[',
      '**',
      '*',
      ' ',
      '\t',
      '.',
      '! ',
    ],
    ...[
      '?',
      '- ',
      '-',
      '=',
      ':',
      '1:',
      '<',
      '<<',
      '<answer>',
      'answer is ',
      'answer:\n',
      '#### ',
      'A: ',
      'not ',
      'if ',
    ],
    ...[
      '\\boxed{',
      '\\boxed{1} and ',
      '\\frac{',
      '\\text{',
      '√',
      '½',
      '²',
      '^',
      '_',
      'a/',
      'a^',
      '5 m/s',
      '1 a',
      'x = ',
    ],
    ...[
      '1e',
      '\\\\',
      '\\',
      '%',
      '1 or ',
      'and ',
      '`',
      '"',
      'minus ',
      'all real numbers ',
      '\\{x|',
      'hours ',
      '1!',
      '\n',
    ],
  ]
  test.each([
    ['', ''],
    ['The answer is ', '!'],
    ['So 1', '.'],
    ['<answer>', '</answer>'],
    ['Answer:\n', '?'],
  ])('%j ... %j', (before, after) => {
    for (const fragment of fragments) {
      const reply = before + fragment.repeat(8000 / fragment.length) + after
      expect([fragment, isQuick(100, () => mathGrader.grade(reply, '42'))]).toEqual([fragment, true])
      const text = fragment.repeat(1000 / fragment.length)
      expect([fragment, isQuick(100, () => answersEqual(text, `${text}1`))]).toEqual([fragment, true])
    }
  })
})

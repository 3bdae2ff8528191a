import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { random } from '../random.ts'
import { mathGrader } from './grader.ts'

/** One reply of the fixture (test/golden/grading.py): the right verdict by construction, and Math-Verify's. */
interface Row {
  set: 'gsm8k' | 'svamp' | 'math' | 'math2'
  shape: string
  reply: string
  gold: string
  truth: boolean
  mathVerify: boolean
  /** Math-Verify's where it may not take a number from anywhere in the text. */
  anchored: boolean
}

const [, ...lines] = gunzipSync(readFileSync(new URL('fixtures/math-verify.jsonl.gz', import.meta.url)))
  .toString()
  .trim()
  .split('\n')
const rows = lines.map((line): Row => {
  const [set, shape, reply, gold, truth, mathVerify, anchored] = JSON.parse(line)
  return {
    set,
    shape,
    reply,
    gold,
    truth: truth === 1,
    mathVerify: mathVerify === 1,
    anchored: anchored === 1,
  }
})
const graded = rows.map((row) => ({ ...row, ...mathGrader.grade(row.reply, row.gold) }))
type Graded = (typeof graded)[number]

const isCut = (row: Row): boolean => row.shape.startsWith('cut')
const share = (some: Graded[], holds: (row: Graded) => boolean): number =>
  some.filter(holds).length / some.length

describe('agreement with Math-Verify', () => {
  const stated = graded.filter((row) => !isCut(row))
  const words = stated.filter((row) => row.set === 'gsm8k' || row.set === 'svamp')
  const maths = stated.filter((row) => row.set === 'math')
  const held = stated.filter((row) => row.set === 'math2')
  const cut = graded.filter(isCut)

  test('at least 3,000 replies that state an answer', () =>
    expect(stated.length).toBeGreaterThanOrEqual(3000))

  test('at least 99.5% on GSM8K-like answers', () =>
    expect(share(words, (row) => row.correct === row.mathVerify)).toBeGreaterThanOrEqual(0.995))

  test('at least 98% on MATH-like answers', () =>
    expect(share(maths, (row) => row.correct === row.mathVerify)).toBeGreaterThanOrEqual(0.98))

  test('at least 97.5% on the second list of MATH-like answers, and where they differ ours is right', () => {
    const differ = held.filter((row) => row.correct !== row.mathVerify)
    expect(differ.length / held.length).toBeLessThanOrEqual(0.025)
    expect(differ.filter((row) => row.correct !== row.truth)).toEqual([])
  })

  test('a cut reply is never right, as in its anchored mode', () => {
    expect(cut.length).toBeGreaterThan(100)
    expect(cut.filter((row) => row.correct || row.answer !== null)).toEqual([])
    expect(cut.filter((row) => row.anchored)).toEqual([])
  })

  test('each disagreement is judged in docs/grading-disagreements.md', async () => {
    await expect(disagreements()).toMatchFileSnapshot('../../docs/grading-disagreements.md')
  })
})

/** Why the two differ, by what the reply holds; the judgement itself is the row's `truth`. */
const REASONS: [reason: string, holds: (row: Row) => boolean][] = [
  ['cut before its answer: a number of its working is no answer', isCut],
  [
    'a unit in plain words is a unit, not a product of letters',
    (row) => row.shape === 'box, unit in plain words',
  ],
  ['spaces between thousands', (row) => row.reply.includes('1\\,000\\,000')],
  [
    'i is the imaginary unit',
    (row) => /(?:^|[^a-z])i(?:$|[^a-z])/.test(row.gold.replace(/\\[a-z]+/g, '')) || row.reply.includes('i^2'),
  ],
  ['two exact numbers, one in another power of ten', (row) => row.gold.includes('10^{23}')],
  ['an angle in degrees under a sine or cosine', (row) => /(?:sin|cos) \d+\^/.test(row.gold + row.reply)],
  ['two ways to write the empty set', (row) => row.gold === '\\emptyset'],
  ['both signs of a plus-minus under a fraction', (row) => /\\frac\{-?\d\\pm/.test(row.gold)],
  ['-2ab + b is b - 2ab, and h in a volume is no unit', (row) => /^-2ab|r\^2h/.test(row.gold)],
  ['a chain of inequalities read from the right', (row) => row.reply.includes('4 > x > 1')],
  ['letters listed in another order, or without \\text', (row) => row.gold === '\\text{A, C}'],
  ['a repeating decimal is a fraction', (row) => row.gold.includes('\\overline')],
]

function disagreements(): string {
  const counts = (name: string, some: Graded[]): string => {
    const differ = some.filter((row) => row.correct !== row.mathVerify)
    const ours = differ.filter((row) => row.correct === row.truth).length
    const percent = ((1 - differ.length / some.length) * 100).toFixed(2)
    return `| ${name} | ${some.length} | ${percent}% | ${differ.length} | ${ours} | ${differ.length - ours} |`
  }
  const of = (set: Row['set'], cut: boolean) => graded.filter((row) => row.set === set && isCut(row) === cut)
  const code = (text: string): string =>
    `\`${text.replaceAll('\n', ' ').replaceAll('|', '\\|').replaceAll('`', "'")}\``
  const list = graded.flatMap((row, i) => {
    if (row.correct === row.mathVerify) return []
    const reason = REASONS.find(([, holds]) => holds(row))?.[0]
    if (reason === undefined) throw new Error(`row ${i} is not judged: ${row.reply} against ${row.gold}`)
    const judged = row.correct === row.truth ? 'ours' : 'theirs'
    const verdicts = row.correct ? 'right | wrong' : 'wrong | right'
    return [
      `| ${i} | ${code(row.reply.slice(-48))} | ${code(row.gold)} | ${verdicts} | ${judged} | ${reason} |`,
    ]
  })
  return [
    '# Where the verifier and Math-Verify differ',
    '',
    'Written by `npx vitest run src/grade/grader.test.ts -u` from the fixture of `test/golden/grading.py`; see [grading.md](grading.md). "Judged" is by the answer that the reply was made to give.',
    '',
    '| replies | rows | agreement | differ | judged ours | judged theirs |',
    '| --- | --- | --- | --- | --- | --- |',
    counts('GSM8K, answer stated', of('gsm8k', false)),
    counts('SVAMP, answer stated', of('svamp', false)),
    counts('MATH-like, answer stated', of('math', false)),
    counts('MATH-like, second list', of('math2', false)),
    counts('GSM8K, cut', of('gsm8k', true)),
    counts('SVAMP, cut', of('svamp', true)),
    '',
    '| row | end of the reply | gold | ours | Math-Verify | judged | why |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    ...list,
    '',
  ].join('\n')
}

test('the version changes with the rules', () => {
  const hash = createHash('sha256')
  for (const row of graded) hash.update(`${row.answer}\u0000${row.correct}\n`)
  // A change of the second without a change of the first would compare grades that do not compare.
  expect([mathGrader.version, hash.digest('hex').slice(0, 12)]).toEqual(['4', '88a9489b485a'])
})

const gsm8k = new URL('../../../shared/data/gsm8k/test.jsonl', import.meta.url)
describe.skipIf(!existsSync(gsm8k))('GSM8K worked answers (../shared/data)', () => {
  const problems = existsSync(gsm8k)
    ? readFileSync(gsm8k, 'utf8')
        .trim()
        .split('\n')
        .map((line): { question: string; answer: string } => JSON.parse(line))
    : []
  const goldOf = (answer: string): string => answer.split('####')[1].trim().replaceAll(',', '')

  test('each is right by its own gold, and its question states no answer', () => {
    for (const { question, answer } of problems) {
      expect(mathGrader.grade(answer, goldOf(answer)).correct).toBe(true)
      expect(mathGrader.grade(question, goldOf(answer)).correct).toBe(false)
    }
  })

  test('cut anywhere in its working, less than 1% read an answer', () => {
    const read = problems.filter(({ answer }, i) => {
      const working = answer.split('\n####')[0].replace(/<<[^>]*>>/g, '')
      return (
        mathGrader.grade(working.slice(0, random('cut', i).int(working.length)), goldOf(answer)).answer !==
        null
      )
    })
    expect(read.length / problems.length).toBeLessThan(0.01)
  })
})

/**
 * Grades the pairs of Math-Verify's own tests and lists where the two differ, with a judgement of each, between the markers
 * of docs/grading.md:
 *
 *   python3 test/golden/math_verify_tests.py TESTS > pairs.json && npx tsx scripts/math-verify-tests.ts pairs.json
 */
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { readJsonFile } from '../src/files.ts'
import { readBoxed } from '../src/grade/answer.ts'
import { mathGrader } from '../src/grade/grader.ts'
import { replaceSections, table } from './markdown.ts'

const pairSchema = z.tuple([z.string(), z.string(), z.string(), z.boolean()])
interface Row {
  gold: string
  reply: string
  answer: string | null
}

/** Why they differ and who is right, by what a pair holds; the first that holds. */
const JUDGED: [why: string, judged: string, holds: (row: Row) => boolean][] = [
  [
    'text escaped twice in the test itself',
    'neither: no model writes it',
    ({ gold, reply }) => /\\\\(?:boxed|left|le|text)/.test(gold + reply),
  ],
  ['`\\quadx`, which is no command of LaTeX', 'neither', ({ gold }) => gold.includes('\\quadx')],
  [
    '`1 + 1/e` for `1 - 1/e`',
    'ours: the test records a fault',
    ({ gold }) => gold.includes('1 - \\frac{1}{\\mathrm{e}}'),
  ],
  [
    'fewer digits than six, by an option of the test',
    'ours: 0.33 is not a third',
    ({ reply }) => /0\.33\\|2\.6667/.test(reply),
  ],
  [
    'a comma as decimal point',
    'theirs in some countries; here a comma groups thousands',
    ({ gold, reply }) => /(?<!\d)\d{1,4},\d{2,3}(?![\d.,])/.test(`${gold} ${reply}`) && !/\$|\\/.test(gold),
  ],
  [
    'a number anywhere in a text',
    'ours: no answer is stated',
    ({ gold, answer }) => answer === null && !gold.includes('$'),
  ],
  [
    'boxes with words between them, or a box before a statement',
    'ours: the last box is the answer',
    ({ gold, reply }) => /boxed\{/.test(reply) || /boxed\{.*boxed\{/s.test(gold),
  ],
  [
    'a gold of another form: a size as a union, names as pairs, an unknown command',
    'not supported',
    ({ answer }) => answer !== null,
  ],
  [
    'a reply that is one equation or inequality and no statement',
    'ours: it may be the working of a reply that was cut',
    ({ reply }) => /^\$[^$]*\$$|^\$\$[^$]*\$\$$|^[^$ ]*$/.test(reply.trim()),
  ],
  ['a reply that names a value without stating an answer', 'ours, as above', () => true],
]

const pairs = await readJsonFile(process.argv[2], z.array(pairSchema))
const differ: (Row & { expected: boolean })[] = []
for (const [, written, reply, expected] of pairs) {
  // The gold stands in the box or between the dollar signs of its row.
  const gold = readBoxed(written) ?? /^\$\$?([\s\S]*?)\$\$?$/.exec(written.trim())?.[1] ?? written.trim()
  const { answer, correct } = mathGrader.grade(reply, gold)
  if (correct !== expected) differ.push({ gold: written, reply, answer, expected })
}
const code = (text: string) => `\`${text.replace(/\s+/g, ' ').replaceAll('|', '\\|').replaceAll('`', "'")}\``
const cut = (text: string) => code(text.length > 70 ? `...${text.slice(-67)}` : text)
const reasonOf = (row: Row) => JUDGED.find(([, , holds]) => holds(row))!
const counts = JUDGED.map(([why, judged]) => [
  `${differ.filter((row) => reasonOf(row)[0] === why).length}`,
  why,
  judged,
])
await replaceSections(fileURLToPath(new URL('../docs/grading.md', import.meta.url)), {
  'math-verify-tests': [
    `Version ${mathGrader.version} of the verifier: of ${pairs.length} pairs ${pairs.length - differ.length} come out as Math-Verify expects, and ${differ.length} do not.`,
    table(['pairs', 'what they are', 'judged'], counts),
    table(
      ['gold', 'end of the reply', 'read', 'Math-Verify expects', 'why'],
      differ.map((row) => [
        cut(row.gold),
        cut(row.reply),
        row.answer === null ? 'nothing' : cut(row.answer),
        row.expected ? 'right' : 'wrong',
        reasonOf(row)[0],
      ]),
    ),
  ].join('\n\n'),
})

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { taskNamed } from '../experiment/tasks.ts'
import { fromFile, parseJsonLines } from './from-file.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tasks-'))
})
afterAll(() => rm(folder, { recursive: true }))

const row = (i: number) =>
  JSON.stringify({ question: `Question number ${i}?`, answer: `So ${i}.\n#### ${i}` })
async function file(name: string, lines: string[]): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, `${lines.join('\n')}\n`)
  return path
}

describe('parseJsonLines', () => {
  it('reads a gold after #### without commas, or a gold of its own', () => {
    const lines = [
      { question: 'A?', answer: 'x #### y\n#### 1,234' },
      { question: 'B?', gold: ' 5 ' },
      { question: 'C?', gold: 6, answer: 'not used' },
      { question: 'D?', answer: 7 },
      { question: 'E?', answer: '$1,250.50', gold: null },
      { question: 'F?', gold: 8, parts: ['Mia has 3.', ' Tom has 5. '] },
    ]
    expect(parseJsonLines(lines.map((l) => JSON.stringify(l)).join('\n\n'), 'data/t.jsonl')).toEqual([
      { id: 't.jsonl:1', question: 'A?', gold: '1234' },
      { id: 't.jsonl:3', question: 'B?', gold: '5' },
      { id: 't.jsonl:5', question: 'C?', gold: '6' },
      { id: 't.jsonl:7', question: 'D?', gold: '7' },
      { id: 't.jsonl:9', question: 'E?', gold: '$1250.50' },
      { id: 't.jsonl:11', question: 'F?', gold: '8', parts: ['Mia has 3.', 'Tom has 5.'] },
    ])
  })

  it.each([
    ['{"question": "A?"', /line 2: it is not valid JSON/],
    ['{"question": "A?"}', /line 2: it needs a "question" and a "gold"/],
    ['{"question": "", "gold": "1"}', /line 2: it needs/],
    ['{"question": "A?", "answer": "no mark"}', /line 2: its "answer" does not end in "#### gold"/],
    ['{"question": "A?", "answer": "#### "}', /line 2: its "answer"/],
    ['[1]', /line 2: it needs/],
    ['{"question": "A?", "gold": 1, "parts": []}', /line 2: its "parts" must be a list of one or more texts/],
    ['{"question": "A?", "gold": 1, "parts": "Mia has 3."}', /line 2: its "parts"/],
  ])('says which line is bad and why: %s', (line, message) => {
    expect(() => parseJsonLines(`${row(1)}\n${line}`, 't.jsonl')).toThrow(message)
  })

  it('keeps the digits of a number that a double does not hold', () => {
    const lines = [
      '{"question": "A?", "gold": 9007199254740993}',
      '{"question": "B?", "answer": 12345678901234567890}',
    ]
    expect(parseJsonLines(lines.join('\n'), 't.jsonl').map(({ gold }) => gold)).toEqual([
      '9007199254740993',
      '12345678901234567890',
    ])
  })

  it('gives back any question and gold', () => {
    const text = fc.string({ minLength: 1 }).filter((s) => s.trim() !== '')
    fc.assert(
      fc.property(fc.array(fc.record({ question: text, gold: text })), (rows) => {
        const parsed = parseJsonLines(rows.map((r) => JSON.stringify(r)).join('\n'), 't.jsonl')
        expect(parsed.map(({ question, gold }) => ({ question, gold }))).toEqual(
          rows.map(({ question, gold }) => ({ question: question.trim(), gold: gold.trim() })),
        )
      }),
    )
  })
})

describe('fromFile', () => {
  it('splits one file into disjoint sets, the same for a seed', async () => {
    const path = await file(
      'one.jsonl',
      Array.from({ length: 50 }, (_, i) => row(i)),
    )
    const load = (seed: number) => fromFile(path, { train: 30, holdout: 20, seed }).load()
    const { train, holdout } = await load(0)
    expect(new Set([...train, ...holdout].map(({ id }) => id)).size).toBe(50)
    expect(await load(0)).toEqual({ train, holdout, dropped: 0 })
    expect((await load(1)).holdout).not.toEqual(holdout)
  })

  it('keeps the held-out set whatever the number of training problems', async () => {
    const path = await file(
      'grow.jsonl',
      Array.from({ length: 50 }, (_, i) => row(i)),
    )
    const [few, many] = await Promise.all(
      [5, 30].map((train) => fromFile(path, { train, holdout: 9 }).load()),
    )
    expect(many.holdout).toEqual(few.holdout)
    expect(many.train.slice(0, 5)).toEqual(few.train)
  })

  it('takes held-out problems from a file of their own and drops copies of them from training', async () => {
    const path = await file('a.jsonl', [row(1), row(2), row(3)])
    const holdoutPath = await file('b.jsonl', [row(3), row(4)])
    const split = await fromFile(path, { train: 3, holdout: 2, holdoutPath }).load()
    expect(split.dropped).toBe(1)
    expect(split.train.map(({ gold }) => gold).toSorted()).toEqual(['1', '2'])
  })

  it('says that an empty file is empty, and that one JSON value is no file of rows', async () => {
    const path = await file('empty.jsonl', [])
    await expect(fromFile(path, { train: 1, holdout: 1 }).load()).rejects.toThrow(/empty.jsonl is empty/)
    expect(() => taskNamed('./rows.json', {})).toThrow(/rows.json is one JSON value: give .* as .jsonl/)
  })

  it('reads past a byte-order mark, and names UTF-16', async () => {
    const marked = await file('marked.jsonl', [`\ufeff${row(1)}`])
    expect((await fromFile(marked, { train: 0, holdout: 1 }).load()).holdout[0].gold).toBe('1')
    const wide = join(folder, 'wide.jsonl')
    await writeFile(wide, Buffer.from(`\ufeff${row(1)}`, 'utf16le'))
    await expect(fromFile(wide, { train: 0, holdout: 1 }).load()).rejects.toThrow(/is saved as UTF-16/)
  })

  it.each(['question', 'gold'])('refuses half of a character in a %s', async (field) => {
    const broken = JSON.stringify({ question: 'A?', gold: '1', [field]: 'x\ud800' })
    const path = await file('half.jsonl', [broken, row(2)])
    await expect(fromFile(path, { train: 0, holdout: 1 }).load()).rejects.toThrow(
      new RegExp(`the ${field} of problem "half.jsonl:1" has half of a character`),
    )
  })

  it('refuses a missing file, and more problems than there are', async () => {
    await expect(fromFile(join(folder, 'none.jsonl'), { train: 1, holdout: 1 }).load()).rejects.toThrow(
      /ENOENT/,
    )
    const path = await file('few.jsonl', [row(1), row(2)])
    await expect(fromFile(path, { train: 2, holdout: 1 }).load()).rejects.toThrow(
      /has 2 problems, and 3 are asked/,
    )
  })
})

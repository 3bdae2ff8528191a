import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { HubOptions } from '../hub/repository.ts'
import { type FakeHub, type FakeRepository, startFakeHub } from '../hub/testing/fake-hub.ts'
import { fromFile } from './from-file.ts'
import { gsm8k, math, svamp } from './named.ts'
import type { Problem } from './types.ts'

const fixtures = join(import.meta.dirname, 'fixtures/hub')
const commit = 'c'.repeat(40)

async function dataset(name: string, folder: string, ref: string): Promise<FakeRepository> {
  const paths = (await readdir(join(fixtures, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
  const files = await Promise.all(
    paths.map(async (path) => [path.slice(join(fixtures, folder).length + 1), await readFile(path)] as const),
  )
  return {
    type: 'dataset',
    name,
    refs: { [ref]: commit },
    commits: { [commit]: Object.fromEntries(files) },
  }
}

let server: FakeHub
let scratch: string
let hub: HubOptions
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'named-'))
  server = await startFakeHub([
    await dataset('openai/gsm8k', 'gsm8k', 'main'),
    await dataset('ChilleD/SVAMP', 'svamp', 'refs/convert/parquet'),
    await dataset('EleutherAI/hendrycks_math', 'math', 'main'),
    await dataset('HuggingFaceH4/MATH-500', 'math500', 'main'),
  ])
  hub = { settings: { endpoint: server.endpoint, cache: scratch, token: undefined, offline: false } }
})
afterAll(async () => {
  await server.close()
  await rm(scratch, { recursive: true })
})

const byId = (problems: readonly Problem[]) => problems.toSorted((a, b) => a.id.localeCompare(b.id))

describe('gsm8k', () => {
  it('has its problems from the hub, and the same ones from files', async () => {
    const sizes = { train: 5, holdout: 4 }
    const split = await gsm8k({ ...sizes, hub }).load()
    expect(await gsm8k({ ...sizes, folder: join(fixtures, 'gsm8k') }).load()).toEqual(split)
    expect(split.holdout.length).toBe(4)
    expect(split.holdout.every(({ id }) => /^gsm8k-test-[1-6]$/.test(id))).toBe(true)
    const all = await gsm8k({ train: 0, holdout: 6, hub }).load()
    expect(byId(all.holdout)[1]).toEqual({
      id: 'gsm8k-test-2',
      question: 'In test story 2, Ana has 2 pens and buys 2000 more. How many pens has she got?',
      gold: '2002',
    })
    expect(all.holdout.slice(0, 4)).toEqual(split.holdout)
    expect((await gsm8k({ train: 0, holdout: 6, seed: 1, hub }).load()).holdout).not.toEqual(all.holdout)
  })

  it('deals its sentences to the seats where asked', async () => {
    const whole = await gsm8k({ train: 0, holdout: 6, hub }).load()
    const task = gsm8k({ train: 0, holdout: 6, split: 'sentences', hub })
    expect(task.config.split).toBe('sentences')
    const { holdout } = await task.load()
    expect(byId(holdout)[1]).toEqual({
      id: 'gsm8k-test-2',
      question: 'How many pens has she got?',
      parts: ['In test story 2, Ana has 2 pens and buys 2000 more.'],
      gold: '2002',
    })
    expect(holdout.map(({ question, parts = [] }) => [...parts, question].join(' '))).toEqual(
      whole.holdout.map(({ question }) => question),
    )
    expect(() => gsm8k({ train: 0, holdout: 6, split: 'words' as 'sentences', hub })).toThrow(
      /split is "words"/,
    )
  })

  it('comes from the cache without a network', async () => {
    await gsm8k({ train: 1, holdout: 1, hub }).load()
    const offline = { settings: { ...hub.settings, endpoint: 'http://127.0.0.1:9', offline: true } }
    const split = await gsm8k({ train: 1, holdout: 1, hub: offline }).load()
    expect(split).toEqual(await gsm8k({ train: 1, holdout: 1, hub }).load())
    const empty = { settings: { ...offline.settings, cache: join(scratch, 'empty') } }
    await expect(gsm8k({ train: 1, holdout: 1, hub: empty }).load()).rejects.toThrow(
      /openai\/gsm8k at main is not in the cache/,
    )
  })

  it('says where it comes from', () => {
    expect(gsm8k({ train: 1, holdout: 2 })).toMatchObject({
      name: 'gsm8k',
      config: { from: 'openai/gsm8k@main', train: 1, holdout: 2, seed: 0 },
    })
  })
})

describe('svamp', () => {
  it('joins body and question, and is the same from the hub and from its file', async () => {
    const sizes = { train: 6, holdout: 6 }
    const split = await svamp({ ...sizes, hub }).load()
    expect(await svamp({ ...sizes, path: join(fixtures, 'svamp/SVAMP.json') }).load()).toEqual(split)
    const whole = await svamp({ train: 0, holdout: 12, hub }).load()
    const problems = new Map(whole.holdout.map((problem) => [problem.id, problem]))
    expect(problems.get('chal-1')).toMatchObject({
      question: 'Tom picked 10 plums. How many are left when he eats 1?',
      gold: '9',
    })
    const dealt = await svamp({ train: 0, holdout: 12, split: 'sentences', hub }).load()
    expect(dealt.holdout.find(({ id }) => id === 'chal-1')).toEqual({
      id: 'chal-1',
      question: 'How many are left when he eats 1?',
      parts: ['Tom picked 10 plums.'],
      gold: '9',
    })
    // A body that does not end its sentence gets a full stop.
    expect(problems.get('chal-2')?.question).toBe('Tom picked 20 plums. How many are left when he eats 2?')
  })
})

describe('a SVAMP file that lies here', () => {
  const problem = { ID: 'chal-1', Body: 'A has 1.', Question: 'How many?', Answer: 1 }
  const load = async (text: string | Buffer) => {
    const path = join(scratch, 'svamp.json')
    await writeFile(path, text)
    return svamp({ train: 0, holdout: 1, path }).load()
  }

  it('keeps the digits of large answers, past a byte-order mark', async () => {
    const text = JSON.stringify([problem]).replace('"Answer":1', '"Answer":9007199254740993.0')
    expect((await load(`\ufeff${text}`)).holdout[0].gold).toBe('9007199254740993')
    expect((await load(JSON.stringify([problem]).replace(':1}', ':145.0}'))).holdout[0].gold).toBe('145')
  })

  it('is refused in a sentence: half of a character in an id, no list, no JSON, UTF-16', async () => {
    await expect(load(JSON.stringify([{ ...problem, ID: 'chal-\ud800' }]))).rejects.toThrow(
      /svamp.json: the id of problem "chal-\\ud800" has half of a character/,
    )
    await expect(load('{}')).rejects.toThrow(/svamp.json is no list of problems/)
    await expect(load('[')).rejects.toThrow(/svamp.json is not valid JSON/)
    await expect(load(Buffer.from('[]', 'utf16le'))).rejects.toThrow(/svamp.json is saved as UTF-16/)
    await expect(load(JSON.stringify([{ ...problem, Answer: 'two' }]))).rejects.toThrow(
      /Row 1 of .*svamp.json is not as it was \(Answer/,
    )
  })
})

describe('math', () => {
  it('trains on boxed answers of the levels asked for, and holds MATH-500 out', async () => {
    const split = await math({ train: 3, holdout: 4, levels: [3, 4], hub }).load()
    // Levels 3 and 4 of two subjects; level 4's solutions box their last step alone.
    const golds = { 'math-train-3': '9', 'math-train-4': '4', 'math-train-9': '9', 'math-train-10': '4' }
    for (const { id, gold } of split.train) expect(golds[id as keyof typeof golds]).toBe(gold)
    expect(split.train.length + split.dropped).toBe(3)
    expect(byId(split.holdout).map(({ id }) => id)).toEqual([2, 3, 7, 8].map((i) => `test/algebra/${i}.json`))
    // Two problems of level 5 have no answer, and two are of no level.
    await expect(math({ train: 9, holdout: 1, hub }).load()).rejects.toThrow(
      /has 8 problems, and 9 are asked/,
    )
    expect(() => math({ train: 1, holdout: 1, levels: [6] })).toThrow(/levels is \[6\]: give some of 1, 2/)
  })
})

describe('a set that has changed', () => {
  it('is refused by the row, or by the file that is gone', async () => {
    const other = await startFakeHub([
      { ...(await dataset('openai/gsm8k', 'svamp', 'main')) },
      {
        ...(await dataset('ChilleD/SVAMP', 'gsm8k', 'refs/convert/parquet')),
        commits: {
          [commit]: {
            'default/train/0000.parquet': await readFile(join(fixtures, 'own/none.parquet')),
          },
        },
      },
    ])
    const settings = { ...hub.settings, endpoint: other.endpoint, cache: join(scratch, 'other') }
    await expect(gsm8k({ train: 1, holdout: 1, hub: { settings } }).load()).rejects.toThrow(
      /openai\/gsm8k@main has no file like/,
    )
    await expect(svamp({ train: 1, holdout: 1, hub: { settings } }).load()).rejects.toThrow(
      /Row 1 of ChilleD\/SVAMP@refs\/convert\/parquet is not as it was \(ID:/,
    )
    await other.close()
  })
})

describe('Parquet files', () => {
  it.each(['none', 'gzip', 'zstd', 'brotli', 'lz4'])('are read: %s', async (compression) => {
    const path = join(fixtures, `own/${compression}.parquet`)
    const { holdout } = await fromFile(path, { train: 0, holdout: 5 }).load()
    expect(byId(holdout)[2]).toEqual({
      id: `${compression}.parquet:3`,
      question: 'What is 2 + 1?',
      gold: '3',
    })
  })

  it('are refused where they cannot be read or lack a column', async () => {
    const broken = join(scratch, 'broken.parquet')
    await writeFile(broken, (await readFile(join(fixtures, 'own/zstd.parquet'))).subarray(0, 500))
    const load = (path: string) => fromFile(path, { train: 0, holdout: 1 }).load()
    await expect(load(broken)).rejects.toThrow(/Cannot read the task file .*broken.parquet/)
    await expect(load(join(scratch, 'none.parquet'))).rejects.toThrow(/none.parquet \(ENOENT\)/)
    await expect(load(join(fixtures, 'math/algebra/train-00000-of-00001.parquet'))).rejects.toThrow(
      /row 1: it needs a "question" and a "gold"/,
    )
  })
})

// The public sets as they are, with what a seed takes from them: the same on every machine and in every version.
const data = join(import.meta.dirname, '../../../shared/data')
const digest = (problems: readonly Problem[]) =>
  createHash('sha256')
    .update(JSON.stringify(problems.map(({ id, question, gold }) => [id, question, gold])))
    .digest('hex')
    .slice(0, 16)
describe.skipIf(!existsSync(data))('the public sets (../shared/data)', () => {
  it('give the same problems for a seed', async () => {
    const sizes = { train: 512, holdout: 120 }
    const grade = await gsm8k({ ...sizes, folder: join(data, 'gsm8k') }).load()
    const stories = await svamp({ ...sizes, path: join(data, 'svamp/SVAMP.json') }).load()
    expect(
      [grade, stories].map(({ train, holdout, dropped }) => ({
        train: digest(train),
        holdout: digest(holdout),
        first: holdout[0].id,
        dropped,
      })),
    ).toEqual([
      { train: '97cfe8c0c9a6bd4b', holdout: '82c66c41a8bb746b', first: 'gsm8k-test-1313', dropped: 0 },
      { train: '437043854086bfab', holdout: '6f765b4aec7c702b', first: 'chal-376', dropped: 1 },
    ])
    for (const { gold } of [...grade.holdout, ...stories.holdout])
      expect(Number.isFinite(Number(gold))).toBe(true)
  })
})

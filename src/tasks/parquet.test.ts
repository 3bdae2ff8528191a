import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { UserError } from '../errors.ts'
import { random } from '../random.ts'
import { fromFile } from './from-file.ts'
import { readParquet } from './parquet.ts'

const own = join(import.meta.dirname, 'fixtures/hub/own')
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parquet-'))
})
afterAll(() => rm(folder, { recursive: true }))

describe('readParquet', () => {
  it('keeps every digit of integers and decimals, over row groups', async () => {
    expect(await readParquet(join(own, 'exact.parquet'))).toEqual([
      {
        question: 'Number 0?',
        gold: '9007199254740993',
        unsigned: '18446744073709551615',
        small: '3.50',
        large: '1000000000000000000000000000001',
      },
      { question: 'Number 1?', gold: '-4611686018427387905', unsigned: 0, small: '-0.05', large: '-1' },
      { question: 'Number 2?', gold: 7, unsigned: 1, small: '2.00', large: '0' },
      { question: 'Number 3?', gold: null, unsigned: null, small: null, large: null },
    ])
  })

  it('gives problems these golds, and refuses a row without one by its number', async () => {
    await expect(fromFile(join(own, 'exact.parquet'), { train: 0, holdout: 1 }).load()).rejects.toThrow(
      /exact.parquet, row 4: it needs a "question" and a "gold"/,
    )
  })

  it('says one sentence of a damaged file, and nothing fails after it', async () => {
    const late: unknown[] = []
    const listen = (error: unknown) => late.push(error)
    process.on('unhandledRejection', listen)
    const path = join(folder, 'damaged.parquet')
    let refused = 0
    for (let i = 0; i < 150; i++) {
      const r = random('damaged parquet', i)
      const bytes = await readFile(
        join(own, `${r.pick(['none', 'gzip', 'zstd', 'brotli', 'lz4', 'exact'])}.parquet`),
      )
      for (let k = r.int(4); k >= 0; k--) bytes[4 + r.int(bytes.length - 4)] = r.int(256)
      await writeFile(path, bytes)
      const error = await readParquet(path).then(
        () => null,
        (error: unknown) => error,
      )
      if (error === null) continue
      expect(error).toBeInstanceOf(UserError)
      expect((error as Error).message).toMatch(
        /^Cannot read the task file .*damaged.parquet \(.*Check the path and the file\.$/s,
      )
      refused++
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
    process.off('unhandledRejection', listen)
    expect(refused).toBeGreaterThan(50)
    expect(late).toEqual([])
  })
})

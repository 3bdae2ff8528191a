import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { UserError } from '../errors.ts'
import {
  checkRunFolder,
  differences,
  openRunFolder,
  readAtWork,
  readRecord,
  readResults,
  recordText,
  resultsText,
} from './folder.ts'
import { isLock } from './lock.ts'
import { planBases } from './plan.ts'
import type { RunRecord } from './schema.ts'
import { sampleArm, sampleRecord, sampleResults } from './testing/samples.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'folder-'))
})
afterEach(() => rm(folder, { recursive: true }))

const visible = async (path: string) => (await readdir(path)).filter((name) => !isLock(name)).sort()

const open = async (path: string, record: RunRecord, how?: { fresh: boolean }) => {
  const opened = await openRunFolder(path, record, how)
  opened.release()
  return opened
}

const withArms = (arms: RunRecord['identity']['arms'], changes: Partial<RunRecord> = {}) => {
  const { shared } = sampleRecord().identity
  return sampleRecord({ identity: { shared, arms }, arms: Object.keys(arms), ...changes })
}
const faster = sampleArm({ train: { steps: 3, problemsPerStep: 2, boards: 1, learningRate: 1 } })

describe('openRunFolder', () => {
  it('makes a new folder, and continues it for an equal identity', async () => {
    const path = join(folder, 'a/b')
    await open(path, sampleRecord())
    await open(path, sampleRecord({ machine: { cores: 64 }, seeds: [17] }))
    expect(await readRecord(path)).toEqual(sampleRecord({ machine: { cores: 64 }, seeds: [17] }))
    expect(await visible(path)).toEqual(['experiment.json'])
  })

  it('keeps the history, and changes fields on disk before it says that they are changed', async () => {
    const first = await openRunFolder(folder, sampleRecord())
    await first.update({ history: { read: [[17, 23]] } })
    first.release()
    const { record } = await open(folder, sampleRecord())
    expect(record().history).toEqual({ read: [[17, 23]] })
    expect(await readRecord(folder)).toEqual(record())
  })

  it('adds arms to those that are there, and refuses one that became another', async () => {
    const { alone, board } = sampleRecord().identity.arms
    await open(folder, sampleRecord())
    await open(folder, withArms({ alone, faster }, { contrasts: [{ arm: 'faster', against: 'alone' }] }))
    const record = await readRecord(folder)
    expect(record.identity.arms).toEqual({ alone, board, faster })
    expect([record.arms, record.contrasts]).toEqual([
      ['alone', 'faster'],
      [{ arm: 'faster', against: 'alone' }],
    ])
    // The arm that is not compared now is known still.
    await expect(open(folder, withArms({ alone, board: faster }))).rejects.toThrow(
      /another configuration \(arms.board.train.boards: 2 before, 1 now; arms.board.train.learningRate: absent before, 1 now\)/,
    )
    const other = sampleRecord()
    other.identity.shared.data.holdout = 5
    await expect(open(folder, other)).rejects.toThrow(/data.holdout: 4 before, 5 now/)
    await expect(
      open(folder, sampleRecord({ looks: { first: [17, 23], maxSeeds: 4 } })),
    ).resolves.toBeDefined()
    await expect(open(folder, sampleRecord())).rejects.toThrow(/seeds until resolved: .* before, absent now/)
  })

  it('keeps the names of the untrained model’s jobs, wherever the file puts an arm that shares them', async () => {
    const { alone } = sampleRecord().identity.arms
    const board = sampleArm({ protocol: { ...alone.protocol, name: 'another' } })
    const bases = async () => planBases(await readRecord(folder)).map(({ name, arms }) => [name, ...arms])
    await open(folder, withArms({ alone, board }))
    expect(await bases()).toEqual([
      ['base-alone', 'alone'],
      ['base-board', 'board'],
    ])
    // Arms that play as `board` does: before it, and in its place.
    const shares = { ...faster, protocol: board.protocol }
    await open(folder, withArms({ shares, alone, board }))
    const after = [
      ['base-alone', 'alone'],
      ['base-board', 'shares', 'board'],
    ]
    expect(await bases()).toEqual(after)
    await open(folder, withArms({ shares, alone }))
    expect((await bases())[1]).toEqual(['base-board', 'shares'])
    // So too where another arm becomes the baseline.
    await open(folder, withArms({ shares, alone, board }, { baseline: 'shares', contrasts: [] }))
    expect((await bases()).map(([name]) => name)).toEqual(['base-board', 'base-alone'])
    await open(folder, withArms({ shares, alone, board }))
    expect(await bases()).toEqual(after)
    const record = await readRecord(folder)
    await writeFile(join(folder, 'experiment.json'), recordText({ ...record, came: ['alone', 'nobody'] }))
    await expect(readRecord(folder)).rejects.toThrow(/it has no arm "nobody"/)
  })

  it('says nothing of the order of arms that came at once', async () => {
    const { alone, board } = sampleRecord().identity.arms
    await open(folder, withArms({ board, alone }))
    await open(folder, withArms({ board, alone, faster }))
    expect(await readRecord(folder)).not.toHaveProperty('came')
  })

  it('names the jobs of an earlier plan, and leaves them alone', async () => {
    await open(folder, sampleRecord())
    for (const name of ['base-alone-1', 'alone-s17', 'alone-s99', 'gone-s17', 'my-notes'])
      await mkdir(join(folder, name))
    expect((await open(folder, sampleRecord())).unplanned).toEqual(['alone-s99', 'gone-s17'])
    expect(await visible(folder)).toContain('gone-s17')
    // Seeds that looks added are part of the plan, although each run begins with the first ones.
    const looks = { first: [17, 23], maxSeeds: 4 }
    const adding = await openRunFolder(folder, sampleRecord({ looks }))
    await adding.update({ seeds: [17, 23, 99] })
    adding.release()
    expect((await open(folder, sampleRecord({ looks }))).unplanned).toEqual(['gone-s17'])
  })

  it('refuses a folder that holds other files, and leaves them alone even when told to start afresh', async () => {
    await writeFile(join(folder, 'thesis.txt'), 'years of work')
    for (const fresh of [false, true]) {
      await expect(open(folder, sampleRecord(), { fresh })).rejects.toThrow(/already holds other files/)
    }
    await writeFile(join(folder, 'experiment.json'), '{"kind":"something else"}')
    await expect(open(folder, sampleRecord(), { fresh: true })).rejects.toThrow(/not written by/)
    expect((await readdir(folder)).sort()).toEqual(['experiment.json', 'thesis.txt'])
  })

  it('removes only a run when told to start afresh, and through no link', async () => {
    const outside = await mkdtemp(join(tmpdir(), 'outside-'))
    try {
      await writeFile(join(outside, 'thesis.txt'), 'years of work')
      await open(folder, sampleRecord())
      for (const name of ['base-1', 'base-shared', 'recipe-s17', 'my-notes', '.staged'])
        await mkdir(join(folder, name))
      await symlink(outside, join(folder, 'recipe-s18'))
      await writeFile(join(folder, 'results.json'), '{}')
      await open(folder, withArms({ alone: faster }, { contrasts: [] }), { fresh: true })
      expect(await visible(folder)).toEqual(['experiment.json', 'my-notes'])
      expect(Object.keys((await readRecord(folder)).identity.arms)).toEqual(['alone'])
      expect(await readdir(outside)).toEqual(['thesis.txt'])
    } finally {
      await rm(outside, { recursive: true })
    }
  })

  it('starts afresh over a run of another version', async () => {
    await writeFile(
      join(folder, 'experiment.json'),
      JSON.stringify({ kind: 'message-board experiment', schemaVersion: 1 }),
    )
    await expect(open(folder, sampleRecord())).rejects.toThrow(/made by an earlier version/)
    await open(folder, sampleRecord(), { fresh: true })
    expect(await readRecord(folder)).toEqual(sampleRecord())
  })

  it('refuses a path that is a file', async () => {
    await writeFile(join(folder, 'file'), '')
    await expect(open(join(folder, 'file'), sampleRecord())).rejects.toThrow(/cannot be written \(ENOTDIR/)
    await expect(open(join(folder, 'file/below'), sampleRecord())).rejects.toThrow(UserError)
  })

  it('removes what a killed writer left', async () => {
    await writeFile(join(folder, '.experiment.json.1234.tmp'), '{"ki')
    await open(folder, sampleRecord())
    expect(await visible(folder)).toEqual(['experiment.json'])
  })

  it('tells which jobs are at work, while it is', async () => {
    expect(await readAtWork(folder)).toBeNull()
    const run = await openRunFolder(folder, sampleRecord())
    expect(await readAtWork(folder)).toEqual([])
    await Promise.all([
      run.atWork('alone-s17', true),
      run.atWork('board-s17', true),
      run.atWork('alone-s17', false),
    ])
    expect(await readAtWork(folder)).toEqual(['board-s17'])
    await writeFile(join(folder, 'running.json'), '{')
    expect(await readAtWork(folder)).toEqual([])
    run.release()
    expect(await readAtWork(folder)).toBeNull()
    expect(await visible(folder)).toEqual(['experiment.json'])
  })

  it('forgets what a killed run was at', async () => {
    await open(folder, sampleRecord())
    await writeFile(join(folder, 'running.json'), '["alone-s17"]')
    expect(await readAtWork(folder)).toBeNull()
    const run = await openRunFolder(folder, sampleRecord())
    expect(await readAtWork(folder)).toEqual([])
    run.release()
  })

  it('gives the lock back when the folder turns out to be of no use', async () => {
    await open(folder, sampleRecord())
    await mkdir(join(folder, '.staged/list.json'), { recursive: true })
    await expect(open(folder, sampleRecord())).rejects.toThrow(/list\.json is a folder/)
    await rm(join(folder, '.staged'), { recursive: true })
    await open(folder, sampleRecord())
  })
})

describe('readRecord', () => {
  const put = (text: string) => writeFile(join(folder, 'experiment.json'), text)
  const text = (changes: object) => recordText({ ...sampleRecord(), ...changes } as RunRecord)

  it('gives all that was written', async () => {
    await put(text({ note: 'free' }))
    expect(await readRecord(folder)).toEqual({ ...sampleRecord(), note: 'free' })
  })

  it.each([
    [1, /made by an earlier version of message-board \(its schemaVersion is 1, and this version reads 2\)/],
    [undefined, /made by an earlier version/],
    [3, /made by a newer version/],
  ])('says whose a folder of version %s is', async (schemaVersion, expected) => {
    await put(text({ schemaVersion }))
    await expect(readRecord(folder)).rejects.toThrow(expected)
  })

  const { shared, arms } = sampleRecord().identity
  it.each([
    ['no identity', { identity: undefined }, /field 'identity'/],
    [
      'an arm that leads out',
      { identity: { shared, arms: { ...arms, '../x': arms.alone } } },
      /no arm can be named "..\/x"/,
    ],
    ['an arm that it lacks', { arms: ['alone', 'debate'] }, /no arm "debate"/],
    ['a baseline that it lacks', { baseline: 'toString' }, /no arm "toString"/],
    ['a contrast that it lacks', { contrasts: [{ arm: 'x', against: 'alone' }] }, /no arm "x"/],
    ['a seed twice', { seeds: [17, 17] }, /a seed stands twice/],
    ['an arm twice', { arms: ['alone', 'alone'] }, /an arm stands twice/],
    [
      'more jobs than anything can hold',
      { identity: { arms, shared: { ...shared, evaluation: { ...shared.evaluation, baseRuns: 1e8 } } } },
      /it has 100000004 jobs/,
    ],
  ])('refuses %s', async (_, changes, expected) => {
    await put(text(changes))
    await expect(readRecord(folder)).rejects.toThrow(expected)
    await expect(readRecord(folder)).rejects.toBeInstanceOf(UserError)
  })

  it('knows a digit that became another', async () => {
    await put(text({}).replace('23', '22'))
    await expect(readRecord(folder)).rejects.toThrow(
      /is damaged \(its checksum is another: .*\): put back a copy/,
    )
  })

  it('refuses what is no file, or none of ours', async () => {
    await expect(checkRunFolder(join(folder, 'new'), sampleRecord())).resolves.toBeUndefined()
    await expect(readRecord(folder)).rejects.toThrow(/is no run folder/)
    for (const odd of ['', 'null', '[]', '"x"', '{}']) {
      await put(odd)
      await expect(readRecord(folder)).rejects.toThrow(/not written by message-board/)
    }
    await rm(join(folder, 'experiment.json'))
    await symlink('/etc/hostname', join(folder, 'experiment.json'))
    await expect(readRecord(folder)).rejects.toThrow(/is a symbolic link where a file should be/)
  })
})

describe('readResults', () => {
  const path = () => join(folder, 'results.json')

  it('gives what was written, or nothing where nothing was', async () => {
    expect(await readResults(folder)).toBeNull()
    await writeFile(path(), resultsText(sampleResults()))
    expect(await readResults(folder)).toEqual(sampleResults())
  })

  it.each([
    ['a digit that became another', resultsText(sampleResults()).replace('"dropped": 3', '"dropped": 2')],
    ['no seal', JSON.stringify(sampleResults())],
    ['another version', resultsText(sampleResults()).replace('"schemaVersion": 2', '"schemaVersion": 1')],
    ['nothing', ''],
    ['null', 'null'],
  ])('refuses %s', async (_, text) => {
    await writeFile(path(), text)
    await expect(readResults(folder)).rejects.toThrow(/results.json (is damaged|is not valid|does not hold)/)
    await expect(readResults(folder)).rejects.toBeInstanceOf(UserError)
  })
})

describe('differences', () => {
  it('names each setting that differs, with both values', () => {
    expect(differences({ a: { b: 1, c: [1] }, d: 'x' }, { a: { b: 2, c: [1] }, e: null })).toEqual([
      'a.b: 1 before, 2 now',
      'd: "x" before, absent now',
      'e: absent before, null now',
    ])
    expect(differences({ a: [1, 2] }, { a: [1, 2] })).toEqual([])
  })
})

import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openRunFolder, readRecord } from './folder.ts'
import { openJobLog, readJob } from './job-log.ts'
import { lockFolder } from './lock.ts'
import { mergeRuns } from './merge.ts'
import { planJobs, shardOf } from './plan.ts'
import type { RunRecord } from './schema.ts'
import { finishSample, sampleArm, sampleHoldout, sampleRecord } from './testing/samples.ts'

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'merge-'))
})
afterEach(() => rm(root, { recursive: true }))

const at = (...names: string[]) => join(root, ...names)

/** Runs shard `k` of `n`, or all, of the sample's jobs into a folder. */
async function run(name: string, { k, n }: { k: number; n: number }, record: RunRecord = sampleRecord()) {
  const folder = await openRunFolder(at(name), n === 1 ? record : { ...record, shard: `${k}/${n}` })
  for (const { name: job, seed } of shardOf(planJobs(record), { k, n })) {
    const log = await openJobLog(at(name, job), { trains: seed !== null })
    await finishSample(log, seed === null ? 0 : 3, writeFile)
  }
  folder.release()
  return at(name)
}

const shards = (n: number) =>
  Promise.all(Array.from({ length: n }, (_, i) => run(`s${i + 1}`, { k: i + 1, n })))
const merge = async (folders: string[], out = at('out')) => (await mergeRuns(folders, out)).release()

async function contents(path: string): Promise<Record<string, string>> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile() && !entry.name.startsWith('.lock-'))
  const paths = files.map((entry) => join(entry.parentPath, entry.name)).sort()
  return Object.fromEntries(
    await Promise.all(paths.map(async (file) => [file.slice(path.length), await readFile(file, 'latin1')])),
  )
}

describe('mergeRuns', () => {
  it('makes the folder that one run would have made, and changes none of the others', async () => {
    const whole = await contents(await run('whole', { k: 1, n: 1 }))
    const folders = await shards(4)
    const before = await Promise.all(folders.map(contents))
    await merge(folders)
    expect(await contents(at('out'))).toEqual(whole)
    expect(await readRecord(at('out'))).toEqual(sampleRecord())
    expect(await Promise.all(folders.map(contents))).toEqual(before)
    await readJob(at('out', 'board-s23'), { problems: sampleHoldout, checkpoint: true })
  })

  it('goes on where it was cut short, and takes a job that two folders have', async () => {
    const folders = await shards(3)
    await cp(at('s1', 'base-alone-1'), at('s2', 'base-alone-1'), { recursive: true })
    await merge(folders)
    const whole = await contents(at('out'))
    await rm(at('out', 'alone-s17'), { recursive: true })
    await mkdir(at('out', '.merge.1.tmp/alone-s17'), { recursive: true })
    await merge(folders)
    expect(await contents(at('out'))).toEqual(whole)
    expect(await readdir(at('out'))).not.toContain('.merge.1.tmp')
  })

  it('names the jobs that no folder has finished, and writes nothing', async () => {
    const [first, second] = await shards(3)
    await expect(merge([first, second])).rejects.toThrow(
      /^No folder holds all of alone-s17, board-s23: run the shards/,
    )
    await openJobLog(at('s2', 'board-s23'), { trains: true })
    await expect(merge([first, second])).rejects.toThrow(/alone-s17, board-s23/)
    await expect(readdir(at('out'))).rejects.toThrow(/ENOENT/)
    await expect(merge([])).rejects.toThrow(/Nothing to merge/)
  })

  it('names a job that two folders hold and that differs', async () => {
    const folders = await shards(2)
    const log = await openJobLog(at('s2', 'base-alone-1'), { trains: false })
    await log.evaluated(
      [...sampleHoldout].map((id) => ({
        phase: 'evaluation' as const,
        problem: { id, question: '?', gold: '1' },
        rounds: [],
      })),
      1,
    )
    await expect(merge(folders)).rejects.toThrow(/s1 and .*s2 hold two jobs base-alone-1 that differ/)
  })

  it('refuses folders of other runs, and names what differs', async () => {
    const folders = await shards(2)
    const { shared, arms } = sampleRecord().identity
    const other = { identity: { shared, arms: { ...arms, board: sampleArm({ credit: { name: 'other' } }) } } }
    const third = await run('other', { k: 2, n: 2 }, sampleRecord(other))
    await expect(merge([folders[0], third])).rejects.toThrow(
      /s1 and .*other are not of one run \(identity.arms.board.credit.name: "own answer" before, "other" now/,
    )
    const seeds = await run('seeds', { k: 2, n: 2 }, sampleRecord({ seeds: [17] }))
    await expect(merge([folders[0], seeds])).rejects.toThrow(/seeds: \[17,23\] before, \[17\] now/)
    await merge(folders)
    await rm(at('out', 'experiment.json'))
    await expect(merge(folders)).rejects.toThrow(/out already holds other files/)
  })

  it('takes no job that is damaged, that is evaluated on other problems, or that is still written', async () => {
    const folders = await shards(2)
    const path = at('s2', 'board-s17/rollouts.jsonl')
    const text = await readFile(path, 'utf8')
    await writeFile(path, text.replace('It is 1', 'It is 7'))
    await expect(merge(folders)).rejects.toThrow(
      /rollouts.jsonl is damaged .*delete the folder .*s2\/board-s17/,
    )
    await writeFile(path, text)
    await rm(at('s2', 'board-s17/checkpoint-3/adapter.safetensors'))
    await expect(merge(folders)).rejects.toThrow(/adapter.safetensors is damaged \(it is missing\)/)
    await rm(at('s2', 'board-s17'), { recursive: true })
    const log = await openJobLog(at('s2', 'board-s17'), { trains: true })
    const swapped = {
      ...log,
      evaluated: (lines: Parameters<typeof log.evaluated>[0], seconds: number) =>
        log.evaluated([...lines].reverse(), seconds),
    }
    await finishSample(swapped, 3, writeFile)
    await expect(merge(folders)).rejects.toThrow(/"h2" is evaluated where "h1" should be/)
    const release = await lockFolder(folders[1])
    await expect(merge(folders)).rejects.toThrow(/s2 is still written: wait/)
    release()
    await expect(readdir(at('out'))).rejects.toThrow(/ENOENT/)
  })
})

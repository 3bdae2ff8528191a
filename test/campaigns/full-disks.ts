/**
 * Disks that become full at any moment of a run: what is said is one sentence, and the same command again, once there is
 * room, ends byte for byte as if there had always been. Kept answers of an evaluation too. Each disk is a small file
 * system in memory, seen by one process alone, so Linux with `unshare` is needed, and no rights.
 */
import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { UserError } from '../../src/errors.ts'
import { writeFileAtomic } from '../../src/files.ts'
import { openKeyedLines } from '../../src/keyed-lines.ts'
import { random } from '../../src/random.ts'
import { openRunFolder, resultsText } from '../../src/record/folder.ts'
import { openJobLog } from '../../src/record/job-log.ts'
import { isLock } from '../../src/record/lock.ts'
import { planJobs } from '../../src/record/plan.ts'
import { replaceFiles } from '../../src/record/staged.ts'
import { finishSample, sampleRecord, sampleResults } from '../../src/record/testing/samples.ts'
import { type Campaign, campaignSchema, type Extent, isProgram, main, roundsOf, sumOf } from './rounds.ts'

/** A round that takes longer than this hangs, in milliseconds; other work on the machine takes its part. */
const SLOW = 60_000
/** The disk, and the most of it that a round leaves free, in bytes. */
const DISK = 1 << 20
const FREE = 256 << 10

const record = sampleRecord()
/** As an engine writes a checkpoint's files, and longer, so that disks become full in them too. */
const save = (path: string, text: string) => writeFileAtomic(path, text.repeat(40))
const answerSchema = z.object({ key: z.string(), text: z.string() })

/** All that a run writes, then what an evaluation keeps, then what grading again replaces. */
async function writeAll(root: string): Promise<void> {
  const run = await openRunFolder(join(root, 'run'), record)
  try {
    for (const { name, seed } of planJobs(record)) {
      await run.atWork(name, true)
      const log = await openJobLog(join(root, 'run', name), { trains: seed !== null })
      await finishSample(log, 3, save)
      await run.atWork(name, false)
    }
    await replaceFiles(join(root, 'run'), new Map([['results.json', resultsText(sampleResults())]]))
  } finally {
    run.release()
  }
  const answers = await openKeyedLines(join(root, 'answers.jsonl'), answerSchema)
  // One at a time, so that the order is the same.
  for (let i = 0; i < 100; i++) {
    const key = `${i}`
    if (!answers.get(key)) await answers.add({ key, text: `${i}`.repeat(100) })
  }
  await answers.close()
}

/** All files but the disk's filler and the locks. */
async function filesOf(root: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {}
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || isLock(entry.name)) continue
    const path = join(entry.parentPath, entry.name)
    files[path.slice(root.length)] = await readFile(path, 'latin1')
  }
  return files
}

/** The campaign, on a file system of `DISK` bytes. */
async function fillDisks(disk: string, extent: Extent): Promise<Campaign> {
  const { seed } = extent
  const outcomes = { 'became full': 0, 'had room': 0 }
  const failures: string[] = []
  let slowest = 0
  const alone = await mkdtemp(join(tmpdir(), 'campaign-disk-'))
  try {
    await writeAll(alone)
    const expected = await filesOf(alone)
    for (const round of roundsOf(extent)) {
      const fail = (what: unknown) => {
        const text = what instanceof Error ? (what.stack ?? what.message) : String(what)
        failures.push(`round ${round} of seed ${seed}: ${text}`)
      }
      const started = performance.now()
      const folder = join(disk, 'round')
      await mkdir(folder)
      const free = random('full-disks', seed, round).int(FREE)
      await writeFile(join(disk, 'filler'), Buffer.alloc(DISK - free))
      const came = await writeAll(folder).then(
        () => 'had room' as const,
        (error) => {
          const isSentence = error instanceof UserError && !error.message.includes('\n')
          if (!isSentence || !/cannot be written \(ENOSPC/.test(error.message)) fail(error)
          return 'became full' as const
        },
      )
      outcomes[came]++
      await rm(join(disk, 'filler'))
      await writeAll(folder).catch(fail)
      const found = await filesOf(folder)
      const names = [...new Set([...Object.keys(found), ...Object.keys(expected)])]
      const others = names.filter((name) => found[name] !== expected[name])
      if (others.length > 0) fail(`the folder is another: ${others.join(', ')}`)
      await rm(folder, { recursive: true })
      const took = Math.round(performance.now() - started)
      slowest = Math.max(slowest, took)
      if (took > SLOW) fail(`it took ${took} ms`)
    }
  } finally {
    await rm(alone, { recursive: true })
  }
  return { seed, rounds: sumOf(outcomes), outcomes, slowestMs: slowest, grownMiB: null, failures }
}

const program = fileURLToPath(import.meta.url)

/** Runs the campaign in a process of its own, which alone sees its disk. */
export async function fullDisks(extent: Extent): Promise<Campaign> {
  const disk = await mkdtemp(join(tmpdir(), 'campaign-disk-'))
  try {
    const inside = 'mount -t tmpfs -o size="$1" tmpfs "$2" && exec "$0" --import tsx "$3" --disk "$2" "$4"'
    const command = ['sh', '-c', inside, process.execPath, `${DISK}`, disk, program, JSON.stringify(extent)]
    const { stdout, stderr } = spawnSync('unshare', ['--user', '--map-root-user', '--mount', ...command], {
      encoding: 'utf8',
    })
    if (stdout === '') throw new Error(`no disk could be made: ${stderr}`)
    return campaignSchema.parse(JSON.parse(stdout))
  } finally {
    await rm(disk, { recursive: true })
  }
}

if (process.argv[2] === '--disk') {
  const [disk, extent] = process.argv.slice(3)
  process.stdout.write(JSON.stringify(await fillDisks(disk, JSON.parse(extent))))
} else if (isProgram(import.meta.url)) await main(import.meta.url, 400, fullDisks)

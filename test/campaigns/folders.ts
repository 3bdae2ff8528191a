/**
 * A run folder that was damaged, or that came from somebody else: what is read of it is what was written, or is refused
 * in a sentence, and what goes on in it ends as if nothing had happened. Nothing is written outside of it.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect, isDeepStrictEqual } from 'node:util'
import { UserError } from '../../src/errors.ts'
import { type Random, random } from '../../src/random.ts'
import { openRunFolder, readAtWork, readRecord, readResults, resultsText } from '../../src/record/folder.ts'
import { type JobRecord, openJobLog, progressText, readJob, withRollouts } from '../../src/record/job-log.ts'
import { mergeRuns } from '../../src/record/merge.ts'
import { planJobs } from '../../src/record/plan.ts'
import type { Results } from '../../src/record/results.ts'
import { isUnsettled } from '../../src/record/staged.ts'
import {
  finishSample,
  sampleHoldout,
  sampleMetrics,
  sampleRecord,
  sampleResults,
  sampleRollout,
  sampleSave,
} from '../../src/record/testing/samples.ts'
import { type Campaign, campaign, type Extent, isProgram, main, type Outcome } from './rounds.ts'

const record = sampleRecord()
const jobs = planJobs(record)
const steps = 3
const thesis = 'years of work\n'
/** The job that was graded again, in the change that is staged. */
const changedJob = 'alone-s17'

/** What is at each path below a folder, in words that differ where it does; the texts of files byte by byte. */
type Tree = Map<string, string>
const folderMark = 'folder'
const fileMark = 'file '

async function treeOf(root: string): Promise<Tree> {
  const tree: Tree = new Map()
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    const name = path.slice(root.length + 1)
    if (entry.isDirectory()) tree.set(name, folderMark)
    else if (entry.isSymbolicLink()) tree.set(name, `link to ${await readlink(path)}`)
    else if (!entry.isFile()) tree.set(name, 'something else')
    else tree.set(name, fileMark + (await readFile(path, 'latin1').catch(() => 'not to be read')))
  }
  return tree
}

async function plant(root: string, tree: Tree): Promise<void> {
  await mkdir(root, { recursive: true })
  for (const [path, what] of tree) if (what === folderMark) await mkdir(join(root, path), { recursive: true })
  for (const [path, what] of tree) {
    if (what !== folderMark) await writeFile(join(root, path), what.slice(fileMark.length), 'latin1')
  }
}

/** Whether a job's folder holds what it holds in another tree, whatever else was put there. */
function holdsJob(tree: Tree, job: string, expected: Tree): boolean {
  // Spaces and fields that stand twice change nothing.
  const normal = (path: string, what: string | undefined) =>
    path.endsWith('progress.json') && what?.startsWith(`${fileMark}{`)
      ? JSON.stringify(JSON.parse(what.slice(fileMark.length)))
      : what
  return [...expected].every(
    ([path, what]) => !path.startsWith(`${job}/`) || normal(path, tree.get(path)) === normal(path, what),
  )
}

/** A run folder before any damage, and what is to be read of it. */
interface Template {
  tree: Tree
  values: Map<string, JobRecord>
  results: Results | null
}

interface Templates {
  /** All jobs finished, with results. */
  finished: Template
  /** One job within its training, one within its evaluation, one not begun; each with what a kill leaves. */
  stopped: Template
  /** Finished, with a change of one job and of the results that a kill left staged whole. */
  staged: Template
  /** What the latter becomes. */
  settled: Template
}

async function makeTemplates(): Promise<Templates> {
  const root = await mkdtemp(join(tmpdir(), 'campaign-folders-'))
  const template = async (): Promise<Template> => {
    const values = new Map<string, JobRecord>()
    for (const { name } of jobs) {
      const value = await readJob(join(root, name)).catch(() => null)
      if (value) values.set(name, value)
    }
    return { tree: await treeOf(root), values, results: await readResults(root) }
  }
  try {
    const run = await openRunFolder(root, record)
    for (const { name, seed } of jobs) {
      await finishSample(await openJobLog(join(root, name), { trains: seed !== null }), steps, writeFile)
    }
    await writeFile(join(root, 'results.json'), resultsText(sampleResults()))
    await writeFile(join(root, 'table.md'), '| table |\n')
    run.release()
    const finished = await template()

    const { progress, rollouts } = finished.values.get(changedJob)!
    const right = rollouts.map((line) => ({
      ...line,
      rounds: line.rounds.map((posts) => posts.map((post) => ({ ...post, correct: true }))),
    }))
    const next = withRollouts(progress, right)
    const results = sampleResults()
    results.checks.decontamination.dropped++
    const changes: [path: string, text: string][] = [
      [`${changedJob}/rollouts.jsonl`, next.text],
      [`${changedJob}/progress.json`, progressText(changedJob, next.progress)],
      ['results.json', resultsText(results)],
    ]
    // As a kill leaves it after the list was written.
    await mkdir(join(root, '.staged'))
    for (const [i, [, text]] of changes.entries()) await writeFile(join(root, '.staged', `${i}`), text)
    const files = changes.map(([path, text]) => ({ path, sha256: sha256(text) }))
    await writeFile(join(root, '.staged/list.json'), JSON.stringify({ files, removed: ['table.md'] }))
    const staged = await template()
    ;(await openRunFolder(root, record)).release()
    const settled = await template()

    await rm(root, { recursive: true })
    await plant(root, finished.tree)
    for (const name of ['alone-s23', 'board-s17', 'board-s23', 'results.json', 'table.md']) {
      await rm(join(root, name), { recursive: true })
    }
    for (const [name, last] of [
      ['alone-s23', 2],
      ['board-s17', 3],
    ] as const) {
      const log = await openJobLog(join(root, name), { trains: true })
      for (let step = 1; step <= last; step++) {
        const boards = ['t1', 't2'].map((id) => sampleRollout(id, step))
        const kept = { metrics: sampleMetrics(step), rollouts: boards, seconds: 1, trained: step === steps }
        await log.step(kept, sampleSave(step, writeFile))
      }
      if (last === steps)
        await log.evaluated(
          sampleHoldout.slice(0, 2).map((id) => sampleRollout(id)),
          0.5,
        )
      await writeFile(join(root, name, 'rollouts.jsonl'), '{"phase":"eva', { flag: 'a' })
    }
    await mkdir(join(root, 'alone-s23/checkpoint-3'))
    return { finished, stopped: await template(), staged, settled }
  } finally {
    await rm(root, { recursive: true, force: true })
  }
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

interface Around {
  root: string
  outside: string
}

async function rewrite(path: string, change: (bytes: Buffer) => Buffer): Promise<void> {
  if ((await lstat(path)).isFile()) await writeFile(path, change(await readFile(path)))
}

/** Ways to damage what is at a path; some do nothing where it is not of their kind. */
const damages: Record<string, (path: string, r: Random, around: Around) => Promise<void>> = {
  bits: (path, r) =>
    rewrite(path, (bytes) => {
      for (let i = r.int(3); i >= 0; i--) if (bytes.length > 0) bytes[r.int(bytes.length)] ^= 1 << r.int(8)
      return bytes
    }),
  digit: (path, r) =>
    rewrite(path, (bytes) => {
      const digits = [...bytes.keys()].filter((i) => bytes[i] >= 0x30 && bytes[i] <= 0x39)
      if (digits.length > 0) bytes[r.pick(digits)] = 0x30 + r.int(10)
      return bytes
    }),
  zeros: (path, r) =>
    rewrite(path, (bytes) => {
      const from = r.int(bytes.length + 1)
      return bytes.fill(0, from, Math.min(bytes.length, from + r.int(bytes.length + 1)))
    }),
  cut: (path, r) => rewrite(path, (bytes) => bytes.subarray(0, r.int(bytes.length + 1))),
  tail: (path, r) =>
    rewrite(path, (bytes) =>
      Buffer.concat([bytes, Buffer.from(r.pick(['\n', 'null\n', '{"step":9}\n', '\0\0\0', '}']))]),
    ),
  lines: (path, r) =>
    rewrite(path, (bytes) => {
      const lines = bytes.toString('latin1').split(/(?<=\n)/)
      const [i, j] = [r.int(lines.length), r.int(lines.length)]
      r.pick<() => unknown>([
        () => lines.splice(i, 0, lines[i]),
        () => lines.splice(i, 1),
        () => lines.splice(i, 1, 'null\n'),
        () => {
          const held = lines[i]
          lines[i] = lines[j]
          lines[j] = held
        },
      ])()
      return Buffer.from(lines.join(''), 'latin1')
    }),
  gone: (path) => rm(path, { recursive: true }),
  async swap(path, r, { root }) {
    const isFolder = (await lstat(path)).isDirectory()
    const others = [...(await treeOf(root))]
      .filter(([, what]) => (what === folderMark) === isFolder)
      .map(([name]) => join(root, name))
      .filter((other) => !`${other}/`.startsWith(`${path}/`) && !`${path}/`.startsWith(`${other}/`))
    if (others.length === 0) return
    const other = r.pick(others)
    const between = join(root, '.between')
    await rename(path, between)
    await rename(other, path)
    await rename(between, other)
  },
  async folder(path) {
    await rm(path, { recursive: true })
    await mkdir(path)
  },
  async file(path) {
    await rm(path, { recursive: true })
    await writeFile(path, 'a file\n')
  },
  async link(path, r, { root, outside }) {
    const copy = join(root, '.copy')
    if (`${path}/`.startsWith(`${copy}/`)) return
    await rm(copy, { recursive: true, force: true })
    await rename(path, copy)
    const targets = [outside, join(outside, 'thesis.txt'), join(outside, 'nowhere'), copy, path, '/dev/zero']
    await symlink(r.pick(targets), path)
  },
  async pipe(path) {
    await rm(path, { recursive: true })
    execFileSync('mkfifo', [path])
  },
  async unreadable(path) {
    if ((await lstat(path)).isFile()) await chmod(path, 0)
  },
  async hostile(_, r, { root, outside }) {
    const inside = `${changedJob}/../../outside/thesis.txt`
    const target = r.pick(['../outside/thesis.txt', join(outside, 'thesis.txt'), inside, '.lock-1'])
    await rm(join(root, '.staged'), { recursive: true, force: true })
    await mkdir(join(root, '.staged'))
    await writeFile(join(root, '.staged/0'), 'overwritten')
    const file = { path: target, sha256: sha256('overwritten') }
    const change = r.pick([
      { files: [file], removed: [] },
      { files: [], removed: [target] },
    ])
    await writeFile(join(root, '.staged/list.json'), JSON.stringify(change))
  },
}

/** Damages what is at some path of a run folder, and says how. */
async function damage(r: Random, around: Around): Promise<string> {
  const paths = [...(await treeOf(around.root)).keys()]
  if (paths.length === 0) return 'nothing left'
  const path = r.pick(paths)
  const kind = r.pick(Object.keys(damages))
  await damages[kind](join(around.root, path), r, around)
  return `${kind} of ${path}`
}

/** What came of reading or writing: a value, or a sentence of one line. */
type Attempt<T> = { value: T; said?: undefined } | { said: string }

async function attempt<T>(work: () => Promise<T>): Promise<Attempt<T>> {
  try {
    return { value: await work() }
  } catch (error) {
    if (!(error instanceof UserError)) throw error
    if (error.message.includes('\n')) throw new Error(`no sentence: ${error.message}`)
    return { said: error.message }
  }
}

/** One round: a folder of one kind is damaged, read, merged and continued. */
async function round(templates: Templates, r: Random, inside: string, happens: () => void): Promise<Outcome> {
  const around = { root: join(inside, 'run'), outside: join(inside, 'outside') }
  const { root, outside } = around
  const kind = r.pick(['finished', 'stopped', 'staged'] as const)
  const template = templates[kind]
  await plant(root, template.tree)
  await mkdir(outside)
  await writeFile(join(outside, 'thesis.txt'), thesis)
  const done: string[] = []
  for (let i = r.int(3); i >= 0; i--) done.push(await damage(r, around))
  /** Jobs that ended as if nothing had happened. */
  let ended = 0
  /** Fails the round where something was read or left that was never written. */
  const must = (holds: boolean, what: string) => {
    if (!holds) throw new Error(`${what}, of a ${kind} folder after ${done.join(', ')}`)
  }
  const tried = async <T>(work: () => Promise<T>): Promise<Attempt<T>> => {
    happens()
    return attempt(work).catch((error) => {
      throw new Error(`of a ${kind} folder after ${done.join(', ')}: ${inspect(error)}`)
    })
  }
  const isOneOf = (found: unknown, ...values: unknown[]) =>
    values.some((value) => isDeepStrictEqual(found, value))

  const write = (path: string, text: string) => {
    happens()
    return writeFile(path, text)
  }
  /** What a run does: settles the folder, and takes every job to its end. */
  async function goOn(): Promise<void> {
    const results = await tried(() => readResults(root))
    const left: { job: string; anew: boolean }[] = []
    for (const { name, seed } of jobs) {
      const anew = (await attempt(() => readJob(join(root, name)))).said !== undefined
      const log = await tried(() => openJobLog(join(root, name), { trains: seed !== null }))
      if (log.said !== undefined) continue
      const end = await tried(() => finishSample(log.value, steps, write))
      must(end.said === undefined, `${name} does not go on (${end.said})`)
      left.push({ job: name, anew })
    }
    ended = left.length
    const tree = await treeOf(root)
    const states = kind === 'staged' ? [templates.settled, templates.finished] : [templates.finished]
    const isState = (state: Template) =>
      (results.said !== undefined ||
        results.value === null ||
        isDeepStrictEqual(results.value, state.results)) &&
      // A job that was begun anew says nothing of what had been graded again.
      left.every(({ job, anew }) => holdsJob(tree, job, anew ? templates.finished.tree : state.tree))
    must(states.some(isState), 'the folder is left in no state that was written')
  }

  const before = await treeOf(root)
  const found = await tried(() => readRecord(root))
  must(found.said !== undefined || isOneOf(found.value, record), 'another record is read')
  const results = await tried(() => readResults(root))
  must(results.said !== undefined || isOneOf(results.value, template.results, null), 'other results are read')
  for (const { name } of jobs) {
    const read = await tried(() => readJob(join(root, name), { problems: sampleHoldout, checkpoint: true }))
    must(read.said !== undefined || isOneOf(read.value, template.values.get(name)), `another ${name} is read`)
  }
  await tried(() => readAtWork(root))
  await tried(() => isUnsettled(root))
  const merged = await tried(() => mergeRuns([root], join(inside, 'merged')))
  if (merged.said === undefined) {
    merged.value.release()
    const out = await treeOf(join(inside, 'merged'))
    for (const { name } of jobs) {
      must(holdsJob(out, name, templates.finished.tree), `another ${name} is merged`)
    }
  }
  must(isDeepStrictEqual(await treeOf(root), before), 'reading changes the folder')

  const run = await tried(() => openRunFolder(root, record))
  if (run.said === undefined) {
    try {
      await goOn()
    } finally {
      run.value.release()
    }
  }
  const spared = await treeOf(outside)
  must(isDeepStrictEqual(spared, new Map([['thesis.txt', fileMark + thesis]])), 'a file outside is changed')
  await readableAgain(root)
  return { kind: `${kind}: ${ended === jobs.length ? 'all ended' : ended > 0 ? 'some ended' : 'refused'}` }
}

/** So that whoever looks after the round can. */
async function readableAgain(root: string): Promise<void> {
  for (const [path, what] of await treeOf(root))
    if (what.startsWith(fileMark)) await chmod(join(root, path), 0o600)
}

export async function damagedFolders(options: Extent): Promise<Campaign> {
  const templates = await makeTemplates()
  return campaign({
    ...options,
    secrets: [],
    round: (number, inside, happens) =>
      round(templates, random('folders', options.seed, number), inside, happens),
  })
}

if (isProgram(import.meta.url)) await main(import.meta.url, 5000, damagedFolders)

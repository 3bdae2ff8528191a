import { execFileSync } from 'node:child_process'
import {
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { UserError } from '../errors.ts'
import { openJobLog, progressText, readJob, readProgress, withRollouts, writeJobError } from './job-log.ts'
import { finishSample, sampleHoldout, sampleMetrics, sampleRollout, sampleSave } from './testing/samples.ts'

const steps = 3
let root: string
let folder: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'job-'))
  folder = join(root, 'alone-s17')
})
afterEach(() => rm(root, { recursive: true }))

const inJob = (...names: string[]) => join(folder, ...names)
const finish = async (job = folder) => finishSample(await openJobLog(job, { trains: true }), steps, writeFile)

/** Every file under a folder, by path. */
async function contents(path: string): Promise<Record<string, string>> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const texts = await Promise.all(
    files.sort().map(async (file) => [file.slice(path.length), await readFile(file, 'latin1')]),
  )
  return Object.fromEntries(texts)
}

/** Both ways in refuse the job in one sentence of that kind, and change nothing. */
async function refused(expected: RegExp, how: { reads?: boolean; opens?: boolean } = {}): Promise<void> {
  const before = await contents(root)
  const readings = how.reads === false ? [] : [() => readJob(folder, { checkpoint: true })]
  const openings = how.opens === false ? [] : [() => openJobLog(folder, { trains: true })]
  for (const attempt of [...readings, ...openings]) {
    const error = await attempt().then(
      () => null,
      (thrown) => thrown,
    )
    expect(error).toBeInstanceOf(UserError)
    expect(error.message).toMatch(expected)
    expect(error.message).not.toMatch(/\n/)
  }
  expect(await contents(root)).toEqual(before)
}

describe('a job', () => {
  it('is read back as it was kept', async () => {
    await finish()
    const { progress, metrics, rollouts } = await readJob(folder, {
      problems: sampleHoldout,
      checkpoint: true,
    })
    expect(metrics).toEqual([1, 2, 3].map(sampleMetrics))
    expect(rollouts.slice(0, 2)).toEqual(['t1', 't2'].map((id) => sampleRollout(id, 1)))
    expect(rollouts.slice(6)).toEqual(sampleHoldout.map((id) => sampleRollout(id)))
    expect(progress).toMatchObject({
      steps: 3,
      trained: true,
      tokens: { sampled: 126, scored: 60, trained: 90 },
      evaluated: 4,
      seconds: { train: 3, evaluation: 1 },
    })
    expect(Object.keys(progress.checkpoint)).toEqual(['adapter.safetensors', 'optimizer.json'])
    expect((await readdir(folder)).sort()).toEqual([
      'checkpoint-3',
      'metrics.jsonl',
      'progress.json',
      'rollouts.jsonl',
    ])
    // The checksum is one that any program gives.
    const [sum] = execFileSync('sha256sum', [inJob('rollouts.jsonl')], { encoding: 'utf8' }).split(' ')
    expect(progress.sha256.rollouts).toBe(sum)
  })

  it('that was cut short within a step ends with the same bytes', async () => {
    await finish()
    const whole = await contents(folder)
    expect(Object.keys(whole)).toHaveLength(5)
    // A kill within step 2: logs and checkpoint written in part, progress.json not yet.
    for (const left of ['metrics', 'rollouts', 'checkpoint'] as const) {
      await rm(folder, { recursive: true })
      const log = await openJobLog(folder, { trains: true })
      const kept = {
        metrics: sampleMetrics(1),
        rollouts: ['t1', 't2'].map((id) => sampleRollout(id, 1)),
        seconds: 1,
      }
      await log.step({ ...kept, trained: false }, sampleSave(1, writeFile))
      await writeFile(inJob('metrics.jsonl'), '{"step":2', { flag: 'a' })
      if (left !== 'metrics') await writeFile(inJob('rollouts.jsonl'), '{"phase":"train","st', { flag: 'a' })
      if (left === 'checkpoint') await mkdir(inJob('checkpoint-2'))
      await writeFile(inJob('.progress.json.123.tmp'), '{')
      await writeJobError(folder, 'killed')
      await finish()
      expect(await contents(folder)).toEqual(whole)
    }
  })

  it('has not begun where its folder is empty, or holds no more than a first try leaves', async () => {
    expect(await readProgress(folder)).toBeUndefined()
    await expect(readJob(folder)).rejects.toThrow(/holds no job: run it/)
    await writeJobError(folder, 'it failed')
    await writeFile(inJob('metrics.jsonl'), '')
    expect(await readProgress(folder)).toBeUndefined()
    await finish()
    expect(await readdir(folder)).not.toContain('error.txt')
  })

  it('goes on in the same log after a save that failed', async () => {
    const log = await openJobLog(folder, { trains: true })
    const kept = {
      metrics: sampleMetrics(1),
      rollouts: ['t1', 't2'].map((id) => sampleRollout(id, 1)),
      seconds: 1,
    }
    const failing = async (path: string) => {
      await writeFile(join(path, 'half'), '')
      throw new Error('lost')
    }
    await expect(log.step({ ...kept, trained: false }, failing)).rejects.toThrow('lost')
    expect(log.progress().steps).toBe(0)
    await finishSample(log, steps, writeFile)
    await readJob(folder, { problems: sampleHoldout, checkpoint: true })
    expect(await readdir(inJob('checkpoint-3'))).toEqual(['adapter.safetensors', 'optimizer.json'])
  })

  it('keeps nothing that could not be read back', async () => {
    const log = await openJobLog(folder, { trains: true })
    const kept = { rollouts: [], seconds: 1, trained: false }
    const metrics = { ...sampleMetrics(1), loss: Number.NaN }
    await expect(log.step({ ...kept, metrics }, sampleSave(1, writeFile))).rejects.toThrow(
      /field 'loss'.*NaN/,
    )
    await finishSample(log, steps, writeFile)
    await readJob(folder)
  })

  it('can be read while it is written, whatever the next lines are', async () => {
    const log = await openJobLog(folder, { trains: false })
    await log.evaluated(
      ['h1', 'h2'].map((id) => sampleRollout(id)),
      1,
    )
    await writeFile(inJob('rollouts.jsonl'), '{"pha', { flag: 'a' })
    expect((await readJob(folder, { problems: sampleHoldout })).rollouts).toHaveLength(2)
  })

  it('holds other boards once they were graded again', async () => {
    await finish()
    const { progress, rollouts } = await readJob(folder)
    const before = await readFile(inJob('rollouts.jsonl'), 'utf8')
    expect(withRollouts(progress, rollouts)).toEqual({ text: before, progress })
    rollouts[6].rounds[0][0].correct = true
    const next = withRollouts(progress, rollouts)
    await writeFile(inJob('rollouts.jsonl'), next.text)
    await writeFile(inJob('progress.json'), progressText('alone-s17', next.progress))
    const again = await readJob(folder, { problems: sampleHoldout, checkpoint: true })
    expect(again).toEqual({ ...again, rollouts, progress: next.progress })
  })
})

describe('a damaged job', () => {
  const lines = async (name: string) => (await readFile(inJob(name), 'utf8')).split(/(?<=\n)/)
  const edit = async (name: string, change: (lines: string[]) => string[]) =>
    writeFile(inJob(name), change(await lines(name)).join(''))

  beforeEach(() => finish())

  it.each(['metrics.jsonl', 'rollouts.jsonl'])('is known by every kind of harm to %s', async (name) => {
    const whole = await readFile(inJob(name))
    const again = new RegExp(
      `${name} is damaged \\(.*\\): delete the folder .*alone-s17 to run that job again, or use --fresh for all\\.$`,
    )
    const harms: [what: string, () => Promise<unknown>][] = [
      ['a line twice', () => edit(name, (all) => [all[0], ...all])],
      ['a line less', () => edit(name, (all) => all.toSpliced(1, 1))],
      ['a null line', () => edit(name, (all) => all.toSpliced(1, 1, 'null\n'))],
      ['a swap', () => edit(name, ([a, b, ...rest]) => [b, a, ...rest])],
      ['zeros', () => writeFile(inJob(name), Buffer.alloc(whole.length))],
      ['a cut', () => truncate(inJob(name), whole.length - 1)],
      ['nothing left', () => truncate(inJob(name), 0)],
      ['no file', () => rm(inJob(name))],
    ]
    for (let bit = 0; bit < 8; bit++) {
      const flipped = Buffer.from(whole)
      flipped[Math.floor((flipped.length * bit) / 8)] ^= 1 << bit
      harms.push([`bit ${bit}`, () => writeFile(inJob(name), flipped)])
    }
    for (const [, harm] of harms) {
      await harm()
      await refused(again)
      await writeFile(inJob(name), whole)
    }
    await readJob(folder)
  })

  it('is never taken for one that has not begun', async () => {
    await rm(inJob('progress.json'))
    await refused(
      /progress.json is damaged \(it is missing beside (checkpoint-3|metrics.jsonl|rollouts.jsonl)\): delete/,
    )
    await rm(inJob('metrics.jsonl'))
    await rm(inJob('checkpoint-3'), { recursive: true })
    await refused(/missing beside rollouts.jsonl/)
    expect(await lines('rollouts.jsonl')).toHaveLength(10)
  })

  it('is known by its progress.json', async () => {
    const text = await readFile(inJob('progress.json'), 'utf8')
    const odd: [text: string, expected: RegExp][] = [
      ['', /progress.json is damaged \(it is not JSON\)/],
      ['null', /it is no record/],
      ['[]', /damaged/],
      [text.replace('"evaluation": 1', '"evaluation": 3'), /its checksum is another/],
      [text.replace('"sampled": 126', '"sampled": 127'), /its checksum is another/],
      [text.replace('"steps": 3', '"steps": -3'), /field 'steps'/],
    ]
    for (const [changed, expected] of odd) {
      expect(changed).not.toBe(text)
      await writeFile(inJob('progress.json'), changed)
      await refused(expected)
    }
  })

  it('is known where it stands in the place of another', async () => {
    await rename(folder, join(root, 'alone-s23'))
    await finish()
    await rm(folder, { recursive: true })
    await cp(join(root, 'alone-s23'), folder, { recursive: true })
    await expect(readJob(folder)).resolves.toBeDefined()
    await rename(folder, join(root, 'board-s17'))
    folder = join(root, 'board-s17')
    await refused(/it was changed, or belongs elsewhere/)
  })

  it('is known by its checkpoint', async () => {
    const adapter = inJob('checkpoint-3/adapter.safetensors')
    await rm(inJob('checkpoint-3/optimizer.json'))
    await refused(/optimizer.json is damaged \(it is missing\): delete the folder/)
    await writeFile(inJob('checkpoint-3/optimizer.json'), '{"step":3}\n')
    const whole = await readFile(adapter)
    whole[5] ^= 1
    await writeFile(adapter, whole)
    await refused(/adapter.safetensors is damaged \(it is not what was written/)
    await truncate(adapter, 7)
    await refused(/it has 7 bytes and progress.json counts 200/)
    await rm(inJob('checkpoint-3'), { recursive: true })
    await refused(/checkpoint-3 is damaged \(it is missing\)/)
    // What its figures are made of is whole.
    await readJob(folder)
  })

  it('is known by its problems', async () => {
    await expect(readJob(folder, { problems: ['h1', 'h3', 'h2', 'h4'] })).rejects.toThrow(
      /rollouts.jsonl is damaged \(line 8: "h2" is evaluated where "h3" should be\)/,
    )
    await expect(readJob(folder, { problems: ['h1', 'h2', 'h3'] })).rejects.toThrow(
      /"h4" .* no problem should be/,
    )
  })

  it('is neither read nor written through links, folders or pipes', async () => {
    await mkdir(join(root, 'outside'))
    await writeFile(join(root, 'outside/thesis.txt'), 'years of work\n'.repeat(1000))
    const whole = join(root, 'whole')
    await cp(folder, whole, { recursive: true })
    for (const name of [
      'progress.json',
      'metrics.jsonl',
      'rollouts.jsonl',
      'checkpoint-3',
      'checkpoint-3/optimizer.json',
    ]) {
      const path = inJob(name)
      const makers: [string, () => Promise<unknown> | unknown][] = [
        [
          'a symbolic link',
          () => symlink(join(root, name === 'checkpoint-3' ? 'outside' : 'outside/thesis.txt'), path),
        ],
        ['a symbolic link', () => symlink(join(root, 'nowhere'), path)],
        ['a named pipe', () => execFileSync('mkfifo', [path])],
        name === 'checkpoint-3' ? ['a file', () => writeFile(path, '')] : ['a folder', () => mkdir(path)],
      ]
      for (const [what, make] of makers) {
        await rm(path, { recursive: true })
        await make()
        await refused(new RegExp(`${name} is ${what} where a f.* should be: remove it`))
        await rm(folder, { recursive: true })
        await cp(whole, folder, { recursive: true })
      }
    }
    await rm(folder, { recursive: true })
    await symlink(whole, folder)
    await refused(/alone-s17 is a symbolic link where a folder should be/)
    await writeJobError(folder, 'it failed')
    expect(await readdir(whole)).not.toContain('error.txt')
  })

  it('is not begun through a link', async () => {
    await rm(folder, { recursive: true })
    await mkdir(folder)
    await writeFile(join(root, 'thesis.txt'), 'years of work')
    await symlink(join(root, 'thesis.txt'), inJob('rollouts.jsonl'))
    await expect(openJobLog(folder, { trains: true })).rejects.toThrow(/rollouts.jsonl is a symbolic link/)
    expect(await readFile(join(root, 'thesis.txt'), 'utf8')).toBe('years of work')
  })
})

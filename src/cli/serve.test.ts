import { spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeSyntheticRun } from '../view/testing/synthetic-run.ts'

const main = fileURLToPath(new URL('./main.ts', import.meta.url))

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cli-serve-'))
  await writeSyntheticRun(join(folder, 'made'), { holdout: 6, train: 12, steps: 1, problemsPerStep: 3 })
})
afterAll(() => rm(folder, { recursive: true }))

/** Runs the real command line; `until` sees what it says on standard error and may end it. */
function cli(args: string[], until?: (said: string, stop: () => void) => void) {
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), main, ...args], {
    cwd: folder,
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (data) => {
    stdout += data
  })
  child.stderr.on('data', (data) => {
    stderr += data
    until?.(stderr, () => child.kill('SIGINT'))
  })
  return new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) => {
    child.on('close', (code) => resolve({ code, stdout, stderr }))
  })
}

describe('report', () => {
  it('writes the page where it is told, and says where', async () => {
    const { code, stdout } = await cli(['report', 'made', '--out', 'there.html'])
    expect([code, stdout]).toEqual([0, 'there.html\n'])
    expect(await readFile(join(folder, 'there.html'), 'utf8')).toMatch(/^<!doctype html>[\s\S]*<\/html>\n$/)
    expect(await readdir(join(folder, 'made'))).not.toContain('report.html')
  })

  it.each([
    [['report', 'nowhere'], /There is no folder nowhere/],
    [['report', '.'], /is no run folder/],
    [['report', 'made', '--out', 'no/such/place.html'], /place\.html cannot be written \(ENOENT/],
    [['serve', 'nowhere'], /There is no folder nowhere/],
    [['serve', 'made', '--port', '99999'], /Cannot listen on 127\.0\.0\.1, port 99999/],
    [['serve', 'made', '--host', '203.0.113.7'], /Cannot listen on 203\.0\.113\.7/],
    [['run', '--log', 'elsewhere'], /Allowed choices are tensorboard/],
  ])('%j is refused in one sentence', async (args, why) => {
    const { code, stdout, stderr } = await cli(args)
    expect(stderr).toMatch(why)
    expect(stderr).not.toMatch(/\n\s+at /)
    expect([code, stdout]).toEqual([2, ''])
  })
})

describe('serve', () => {
  it('answers at the address that it prints, and ends at Ctrl-C', async () => {
    let answered: Promise<string> | undefined
    const { code, stderr } = await cli(['serve', 'made'], (said, stop) => {
      const url = /http:\S+/.exec(said)?.[0]
      if (!url || !said.includes('Ctrl-C') || answered) return
      answered = fetch(new URL('api/runs', url))
        .then((response) => response.text())
        .finally(stop)
    })
    expect(await answered).toContain('"name":"made"')
    expect(stderr).toMatch(/made is at http:\/\/127\.0\.0\.1:\d+\/#\/run\/made\n/)
    expect(code).toBe(0)
  })
})

describe('playground', () => {
  it('answers at the address that it prints, with a page that needs no other, and ends at Ctrl-C', async () => {
    let answered: Promise<string> | undefined
    const { code } = await cli(['playground'], (said, stop) => {
      const url = /http:\S+/.exec(said)?.[0]
      if (!url || !said.includes('Ctrl-C') || answered) return
      answered = fetch(url)
        .then((response) => response.text())
        .finally(stop)
    })
    expect(await answered).toContain('<title>message-board: a playground</title>')
    expect(code).toBe(0)
  })
})

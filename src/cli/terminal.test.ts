import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { downloadProgress, progress } from './progress.ts'

const source = fileURLToPath(new URL('..', import.meta.url))
const main = join(source, 'cli/main.ts')
/** What a terminal acts on. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const acting = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/
const evil = 'evil\u001b[2J\u009b31m\u202e'

function cli(...args: string[]) {
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', import.meta.resolve('tsx'), main, ...args],
    {
      encoding: 'utf8',
    },
  )
  return { stdout, stderr }
}

describe('the terminal', () => {
  it('is reached by one door', () => {
    const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter(
      (name) => /\.tsx?$/.test(name) && !/\.test\.ts$|[/\\]testing[/\\]/.test(name),
    )
    const writers = files.filter((name) =>
      /process\.std(out|err)\.write|console\.\w+\(/.test(readFileSync(join(source, name), 'utf8')),
    )
    // The engine's two lines are of numbers and its own words alone.
    expect(writers.sort()).toEqual([
      'cli/terminal.ts',
      'engine/onnx/gpu/sampler.ts',
      'engine/onnx/sequences.ts',
    ])
  })

  it.each([
    ['a model', ['eval', '--model', evil]],
    ['a folder', ['report', `${evil}\nmessage-board: all is well`]],
    ['an option', ['run', `--${evil}`]],
    ['a file', ['run', `${evil}.ts`]],
  ])('is told the name of %s as text, on one line', (_, args) => {
    const { stdout, stderr } = cli(...args)
    expect(stderr).toContain('evil\\u001b[2J\\u009b31m\\u202e')
    expect(stderr + stdout).not.toMatch(acting)
    expect(stderr).not.toMatch(/^message-board: all is well/m)
  })

  it('is told what servers and models say as text, live or not', () => {
    for (const isTTY of [true, false]) {
      const said: string[] = []
      const stream = { isTTY, columns: 200, write: (text: string) => said.push(text) }
      downloadProgress(stream)({ name: evil, done: 1, total: 2 })
      const { onEvent, end } = progress(stream)
      onEvent({ type: 'notice', text: `${evil}\r\nmore` })
      onEvent({ type: 'job', job: evil, state: 'failed', why: evil })
      end()
      const written = said.join('')
      expect(written).toContain('evil\\u001b[2J\\u009b31m\\u202e\\u000d\\nmore')
      expect(written.replaceAll('\r\u001b[K', '')).not.toMatch(acting)
    }
  })
})

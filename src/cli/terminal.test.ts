import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { downloadProgress, progress } from './progress.ts'
import { hasColour, lineWidth, printLines } from './terminal.ts'

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
    // What the engine says by `platform` is of numbers and its own words alone.
    expect(writers.sort()).toEqual(['cli/terminal.ts', 'platform/machine.ts', 'platform/machine.web.ts'])
    const sayers = files.filter((name) =>
      /import \{[^}]*\bsay\b[^}]*\} from '[./]*platform\/machine\.ts'/.test(
        readFileSync(join(source, name), 'utf8'),
      ),
    )
    expect(sayers.sort()).toEqual([
      'engine/onnx/gpu/lane.ts',
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

describe('the width of a line', () => {
  const { columns } = process.stdout
  afterEach(() => {
    process.stdout.columns = columns
  })
  it.each([
    [undefined, 120],
    [80, 80],
    [300, 120],
    [20, 60],
  ])('is of a terminal of %s columns %i', (of, width) => {
    process.stdout.columns = of as number
    expect(lineWidth()).toBe(width)
  })
})

describe('colour', () => {
  afterEach(() => vi.unstubAllEnvs())
  it.each([
    // A terminal, NO_COLOR, FORCE_COLOR, TERM.
    [true, undefined, undefined, 'xterm-256color', true],
    [true, '1', undefined, 'xterm-256color', false],
    [true, undefined, undefined, 'dumb', false],
    [true, undefined, '0', 'xterm-256color', false],
    [false, undefined, undefined, 'xterm-256color', false],
    [false, undefined, '1', 'xterm-256color', true],
    [false, '1', undefined, 'xterm-256color', false],
  ])(
    'of a terminal (%s) with NO_COLOR %s, FORCE_COLOR %s and TERM %s: %s',
    (isTTY, no, force, term, coloured) => {
      vi.stubEnv('NO_COLOR', no)
      vi.stubEnv('FORCE_COLOR', force)
      vi.stubEnv('TERM', term)
      for (const name of ['CI', 'COLORTERM', 'TMUX', 'NODE_DISABLE_COLORS']) vi.stubEnv(name, undefined)
      expect(hasColour({ isTTY })).toBe(coloured)
    },
  )
  it('never lets text act, coloured or not', () => {
    vi.stubEnv('FORCE_COLOR', '1')
    const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
    printLines([[{ text: evil, tone: 'moved' }]])
    const written = String(write.mock.calls[0][0])
    write.mockRestore()
    expect(written).toContain('evil\\u001b[2J\\u009b31m\\u202e')
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the colours that were added
    expect(written.replace(/\u001b\[\d+m/g, '')).not.toMatch(acting)
  })
})

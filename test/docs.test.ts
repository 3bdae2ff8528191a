/** The documentation: what it shows of experiments/ is what lies there, and its links lead somewhere. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** The new files that a page's diffs make. */
const made = [
  ...read('docs/make-it-yours.md').matchAll(
    /```diff\n--- \/dev\/null\n\+\+\+ b\/(\S+)\n@@ -0,0 \+1,(\d+) @@\n(.*?)\n```/gs,
  ),
].map(([, path, count, body]) => ({
  path,
  count: Number(count),
  lines: body.split('\n').map((line) => line.slice(1)),
}))

describe('docs/make-it-yours.md', () => {
  it('shows a topology, a protocol and a rule of credit', () => {
    expect(made.map(({ path }) => path)).toEqual([
      'experiments/topologies.ts',
      'experiments/roles.ts',
      'experiments/influence.ts',
    ])
  })

  it.each(made)('$path is the file that lies there, in under 40 lines', ({ path, count, lines }) => {
    expect(`${lines.join('\n')}\n`).toBe(read(path))
    expect(lines).toHaveLength(count)
    expect(count).toBeLessThan(40)
  })
})

const pages = ['README.md', ...readdirSync(join(root, 'docs')).map((name) => `docs/${name}`)].filter((path) =>
  path.endsWith('.md'),
)

it.each(pages)('the links of %s lead to files that are there', (page) => {
  const links = [...read(page).matchAll(/\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)/g)].map(([, path]) => path)
  expect(links.filter((path) => !existsSync(join(root, dirname(page), path)))).toEqual([])
})

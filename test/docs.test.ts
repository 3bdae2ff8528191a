/**
 * The documentation: what it shows is what lies there, its links and anchors lead somewhere, and every page has its place on the
 * site. (`npm run build:docs` checks the links of the built site as well.)
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { deadLinks, linkedSources, slug, sourceMarkdown, toSourcePage } from '../docs/.vitepress/links.ts'
import { sidebar } from '../docs/.vitepress/sidebar.ts'
import { commandsOf, savedFile } from '../scripts/getting-started.ts'
import { runFolderPage } from '../scripts/run-folder.ts'

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

const docs = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'))
const top = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md']
const pages = [...top, ...docs.map((name) => `docs/${name}`)]

/** A page as it reads: what stands in fences is no heading and no link. */
const prose = (page: string) => read(page).replace(/^(`{3,})[^\n]*\n.*?^\1$/gms, '')

/** The anchors of a page, as forges and the site make them. */
function anchorsOf(page: string): string[] {
  const seen = new Map<string, number>()
  return [...prose(page).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading]) => {
    const plain = slug(heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1'))
    const before = seen.get(plain) ?? 0
    seen.set(plain, before + 1)
    return before === 0 ? plain : `${plain}-${before}`
  })
}

describe.each(pages)('%s', (page) => {
  // The finished report is made when the site is built, which checks that it is there.
  const links = [
    ...prose(page).matchAll(/\]\((?!https?:|public\/example\/)([^)#\s]*)(?:#([^)\s]*))?\)/g),
  ].map(([, path, anchor]) => ({ path: path === '' ? page : join(dirname(page), path), anchor }))

  it('leads to files that are there', () => {
    expect(links.filter(({ path }) => !existsSync(join(root, path)))).toEqual([])
  })

  it('leads to headings that are there', () => {
    const anchored = links.filter(({ path, anchor }) => anchor !== undefined && path.endsWith('.md'))
    expect(anchored.filter(({ path, anchor }) => !anchorsOf(path).includes(anchor))).toEqual([])
  })

  it('includes files that are there', () => {
    const included = [...read(page).matchAll(/^<<< (\S+)$/gm)].map(([, path]) => join(dirname(page), path))
    expect(included.filter((path) => !existsSync(join(root, path)))).toEqual([])
  })
})

describe('the site', () => {
  it('has a place for every page, once, and for nothing else', () => {
    const linked = sidebar.flatMap(({ items }) => items.map(({ link }) => link))
    expect(linked.map((link) => `${link === '/' ? 'index' : link.slice(1)}.md`).sort()).toEqual(
      docs.toSorted(),
    )
  })

  it('shows the files that its pages lead to', () => {
    expect(toSourcePage('../src/board/protocols.ts', 'make-it-yours.md')).toBe(
      '/source/src/board/protocols_ts',
    )
    expect(toSourcePage('../test/a/README.md#speed', 'x.md')).toBe('/source/test/a/README_md#speed')
    expect(toSourcePage('examples/first.ts', 'x.md')).toBe('/source/docs/examples/first_ts')
    for (const own of [
      'credit.md#the-rules',
      '#here',
      'images/a.svg',
      '/example/report.html',
      'https://a.org/../b',
    ]) {
      expect(toSourcePage(own, 'x.md')).toBe(own)
    }
    const shown = linkedSources().map(({ path }) => path)
    expect(shown).toContain('experiments/influence.ts')
    expect(sourceMarkdown('experiments/influence.ts')).toContain(read('experiments/influence.ts').trimEnd())
    expect(sourceMarkdown('experiments')).toContain('- `influence.ts`')
  })

  it('finds links that lead nowhere', () => {
    const files = new Map([
      ['a.html', new Set(['top'])],
      ['b/index.html', new Set<string>()],
      ['b/p.svg', new Set<string>()],
    ])
    const site = {
      base: '/base/',
      has: (path: string) => files.has(path),
      anchorsOf: (path: string) => files.get(path)!,
    }
    const html = (hrefs: string[]) => hrefs.map((href) => `<p><a class="x" href="${href}">y</a>`).join('')
    const good = [
      '#top',
      '/base/a.html#top',
      '/base/b/',
      'b/p.svg',
      'https://elsewhere.org/x',
      'mailto:a@b.c',
    ]
    const bad = ['#gone', 'c.html', '/a.html', '/base/b/a.html', 'b/p.png']
    expect(deadLinks(html([...good, ...bad]), 'a.html', site)).toEqual(bad)
    expect(deadLinks('<img alt="" src="/base/b/q.svg">', 'a.html', site)).toEqual(['/base/b/q.svg'])
  })
})

it('docs/run-folder.md is what scripts/run-folder.ts writes', () => {
  expect(read('docs/run-folder.md')).toBe(runFolderPage())
})

describe('the first ten minutes', () => {
  const page = read('docs/getting-started.md')

  it('were run as the page has them', () => {
    const log = read('docs/public/first-ten-minutes.txt')
    expect([...log.matchAll(/^\$ (.+)$/gm)].map(([, command]) => command)).toEqual(commandsOf(page))
    const ends = [...log.matchAll(/^\[(.+), \d+ s\]$/gm)].map(([, how]) => how)
    expect(ends).toHaveLength(commandsOf(page).length)
    expect(ends.filter((how) => how !== 'exit 0')).toEqual(['answered, and stopped with Ctrl-C'])
  })

  it('have the reader save a file that is there', () => {
    expect(savedFile(page)).toEqual({ as: 'first.ts', from: 'examples/first.ts' })
    expect(existsSync(join(root, 'docs/examples/first.ts'))).toBe(true)
  })
})

it("the README's pictures are in the package", () => {
  const pictures = [...read('README.md').matchAll(/!\[[^\]]*\]\(([^)]+)\)/g)].map(([, path]) => path)
  const { files } = JSON.parse(read('package.json')) as { files: string[] }
  expect(pictures.length).toBeGreaterThan(0)
  expect(pictures.filter((path) => !files.includes(path))).toEqual([])
})

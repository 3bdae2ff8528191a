/** Links of the site: those of pages that leave docs/ are led to the pages that show the files, and all are checked. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, posix, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The name of the page that shows a file: without dots, which VitePress would take for an ending. */
const sourcePage = (path: string) => path.replaceAll('.', '_')

/** The file or folder of the repository that a link of a page leads to, where that is no page, picture or address. */
function sourceOf(href: string, page: string): { path: string; anchor: string } | null {
  const [, path, anchor] = /^([^#]*)(#.*)?$/.exec(href)!
  if (path === '' || path.startsWith('/') || /^[a-z][a-z+.-]*:/i.test(path)) return null
  const file = posix.join('docs', dirname(page), path)
  return file.startsWith('docs/') && !file.endsWith('.ts') ? null : { path: file, anchor: anchor ?? '' }
}

/** A link of a page of docs/, or, where it leads to a file that is no page, the address of the page that shows it. */
export function toSourcePage(href: string, page: string): string {
  const source = sourceOf(href, page)
  return source === null ? href : `/source/${sourcePage(source.path)}${source.anchor}`
}

/** The files and folders that pages of docs/ lead to, each once: their paths in the repository, and their pages. */
export function linkedSources(): { path: string; page: string }[] {
  const docs = join(root, 'docs')
  const pages = readdirSync(docs).filter((name) => name.endsWith('.md'))
  const found = new Set<string>()
  for (const page of pages) {
    for (const [, href] of readFileSync(join(docs, page), 'utf8').matchAll(/\]\(([^)\s]+)/g)) {
      const source = sourceOf(href, page)
      if (source !== null) found.add(source.path)
    }
  }
  return [...found].sort().map((path) => ({ path, page: sourcePage(path) }))
}

/** The anchor of a heading, as forges make it, so that one link works there and here. */
export const slug = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(' ', '-')

/** Markdown that shows a file, or lists what a folder holds. */
export function sourceMarkdown(path: string): string {
  const full = join(root, path)
  if (statSync(full).isDirectory()) {
    const names = readdirSync(full).sort()
    return `# ${path}/\n\n${names.map((name) => `- \`${name}\``).join('\n')}\n`
  }
  const text = readFileSync(full, 'utf8').trimEnd()
  // Longer than any fence inside.
  const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`{3,}/g)].map(([run]) => run.length + 1)))
  return `# ${path}\n\n${fence}${path.split('.').pop()}\n${text}\n${fence}\n`
}

/** What is wrong with the links of one page: `href`s of the site that lead to no page, file or anchor. */
export function deadLinks(
  html: string,
  path: string,
  site: { base: string; has: (path: string) => boolean; anchorsOf: (path: string) => ReadonlySet<string> },
): string[] {
  const hrefs = [...html.matchAll(/<(?:a|img|link|script)\b[^>]*?\s(?:href|src)="([^"]*)"/g)].map(
    ([, href]) => href,
  )
  return [...new Set(hrefs)].filter((href) => {
    if (/^[a-z][a-z+.-]*:|^\/\//i.test(href)) return false
    const url = new URL(href.replaceAll('&amp;', '&'), `file://${site.base}${path}`)
    if (!url.pathname.startsWith(site.base)) return true
    const inside = decodeURIComponent(url.pathname.slice(site.base.length))
    const target = inside === '' || inside.endsWith('/') ? `${inside}index.html` : inside
    if (!site.has(target)) return true
    return (
      url.hash !== '' &&
      target.endsWith('.html') &&
      !site.anchorsOf(target).has(decodeURIComponent(url.hash.slice(1)))
    )
  })
}

/**
 * Checks every link, picture and anchor of a built site.
 *
 * @throws Error that lists those that lead nowhere, by page.
 */
export function checkSite(outDir: string, base: string): void {
  const pages = readdirSync(outDir, { recursive: true, encoding: 'utf8' })
    .map((path) => path.split(sep).join('/'))
    // The report is one file with addresses of its own inside.
    .filter((path) => path.endsWith('.html') && !path.startsWith('example/'))
  const anchors = new Map<string, ReadonlySet<string>>()
  const anchorsOf = (path: string) => {
    const known = anchors.get(path)
    if (known) return known
    const ids = new Set(
      [...readFileSync(join(outDir, path), 'utf8').matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id),
    )
    anchors.set(path, ids)
    return ids
  }
  const site = { base, has: (path: string) => existsSync(join(outDir, path)), anchorsOf }
  const dead = pages.flatMap((path) =>
    deadLinks(readFileSync(join(outDir, path), 'utf8'), path, site).map((href) => `${path}: ${href}`),
  )
  if (dead.length > 0) {
    throw new Error(`${dead.length} links of ${relative(root, outDir)} lead nowhere:\n${dead.join('\n')}`)
  }
}

/**
 * The page that the report and the server share: the built user interface (src/web) with its style and script in
 * line, under a content security policy that lets nothing else run. Reads the built files; writes nothing.
 */
import { base64 } from '../bytes.ts'
import { sha256 } from '../platform/hash.ts'
import type { PageMode } from '../view/types.ts'
import { builtFile } from './built.ts'

/**
 * The hash of the one style element that the plotting library adds to each figure. A new version of it may write
 * another: the browser tests then fail on a violated policy, and Chromium's console names the new hash.
 */
const PLOT_STYLE = "'sha256-jSYQUrW7J0b3jPqhZP9C2Xh1PyJKHKXd4s0fpGGKrww='"

export interface Page {
  script: string
  style: string
}

/** @throws UserError where the built files are not to be had. */
export async function readPage(): Promise<Page> {
  const [script, style] = await Promise.all([builtFile('app.js'), builtFile('app.css')])
  // Neither may hold the tag that would end its own element.
  return {
    script: script.replaceAll('</script', '<\\/script'),
    style: style.replaceAll('</style', '<\\/style'),
  }
}

const hash = (text: string) => `'sha256-${base64(sha256().update(text).digest())}'`

/** The policy: the page's own script and styles, and connections to `connect`. */
export function contentPolicy({ script, style }: Page, connect: "'none'" | "'self'"): string {
  return [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)} ${PLOT_STYLE}`,
    `connect-src ${connect}`,
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ')
}

/** A value that the page's script finds in an element: as JSON, or already packed. */
export type EmbeddedData = { json: unknown } | { base64: string }

/**
 * The page up to its body's end, which is `</body></html>`: a caller may put more data before that. `data` are values
 * that the script finds as soon as it runs.
 */
export function pageStart(
  page: Page,
  title: string,
  mode: PageMode,
  data: Record<string, EmbeddedData> = {},
): string {
  const policy = contentPolicy(page, mode.kind === 'server' ? "'self'" : "'none'")
  const all: Record<string, EmbeddedData> = { mode: { json: mode }, ...data }
  const elements = Object.entries(all).map(([id, value]) =>
    dataElement(`id="${id}"`, 'json' in value ? embeddedJson(value.json) : value.base64),
  )
  return [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<meta name="referrer" content="no-referrer">',
    '<link rel="icon" href="data:,">',
    `<title>${escapeHtml(title)}</title>`,
    `<style>${page.style}</style>`,
    '</head>',
    '<body>',
    '<div id="app"></div>',
    '<noscript>This page draws its figures with JavaScript: turn it on, or read table.md.</noscript>',
    ...elements,
    `<script>${page.script}</script>`,
    '',
  ].join('\n')
}

export const pageEnd = '</body>\n</html>\n'

/** An element that holds data and is never run. `text` must hold no `<`. */
export const dataElement = (attributes: string, text: string): string =>
  `<script type="text/plain" ${attributes}>${text}</script>`

/** JSON without the characters that could end its element. */
const embeddedJson = (value: unknown): string => JSON.stringify(value).replaceAll('<', '\\u003c')

const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

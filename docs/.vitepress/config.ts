/**
 * The documentation as a site: `npm run build:docs` builds it, without a network, into docs/.vitepress/dist, and fails on a
 * link that leads nowhere (links.ts). Pages are those of docs/, which read as well where they lie: a link from there to a
 * file of the repository leads to a page of the site that shows that file (docs/source).
 */
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { checkSite, slug, toSourcePage } from './links.ts'
import { sidebar } from './sidebar.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Where a server has the site. */
const base = process.env.DOCS_BASE ?? '/'

export default defineConfig({
  title: 'message-board',
  description: "Train copies of a language model to read each other's notes, and know whether it helped.",
  lang: 'en',
  base,
  head: [['link', { rel: 'icon', href: `${base}icon.svg` }]],
  themeConfig: {
    sidebar,
    nav: [
      { text: 'Ten minutes', link: '/getting-started' },
      { text: 'How it works', link: '/how-it-works' },
      { text: 'API', link: '/api' },
      // A file of the site and no page of it: the browser has to load it by itself.
      { text: 'A finished report', link: '/example/report.html', target: '_blank' },
    ],
    outline: [2, 3],
    search: { provider: 'local' },
    footer: { message: 'MIT licence' },
  },
  markdown: {
    anchor: { slugify: slug },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config(md) {
      // Before VitePress's own rule, which every link passes through, looks whether a page is there.
      const render = md.renderer.rules.link_open!
      md.renderer.rules.link_open = (tokens, index, options, env, self) => {
        const token = tokens[index]
        const href = token.attrGet('href')!
        token.attrSet('href', toSourcePage(href, env.relativePath))
        if (href.startsWith('public/')) {
          // A file of the site and no page of it, so the browser has to load it by itself.
          token.attrSet('href', base + href.slice('public/'.length))
          token.attrSet('target', '_blank')
        }
        return render(tokens, index, options, env, self)
      }
    },
  },
  buildEnd: ({ outDir, site }) => checkSite(outDir, site.base),
  vite: {
    // Pages include files that lie beside docs/.
    server: { fs: { allow: [root] } },
  },
})

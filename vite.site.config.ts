/**
 * Builds the playground (src/playground) into a static site, dist/site, for any host: its addresses are relative and it
 * needs no headers. Run `npm run build` first: the site carries the report's page too. All files are named
 * to the service worker that keeps them.
 */
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig, type Plugin } from 'vite'
import { webSiblings } from './vite.siblings.ts'

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const site = path('dist/site')

/** Folders of the site that are made elsewhere: the built-in policy, and the page that a report carries. */
const beside: Readonly<Record<string, { from: string; files: readonly string[] }>> = {
  policy: {
    from: path('policies/small'),
    files: ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'],
  },
  report: { from: path('dist/web'), files: ['app.js', 'app.css'] },
}

/** Every file under a folder. */
const filesUnder = (folder: string): string[] =>
  readdirSync(folder).flatMap((name) => {
    const file = join(folder, name)
    return statSync(file).isDirectory() ? filesUnder(file) : [file]
  })

function finishSite(): Plugin {
  return {
    name: 'finish-site',
    closeBundle() {
      for (const [name, { from, files }] of Object.entries(beside)) {
        mkdirSync(join(site, name), { recursive: true })
        for (const file of files) copyFileSync(join(from, file), join(site, name, file))
      }
      const worker = join(site, 'service-worker.js')
      const files = filesUnder(site)
        .map((file) => relative(site, file).replaceAll('\\', '/'))
        .filter((file) => file !== 'service-worker.js' && file !== 'index.html')
        .sort()
      // The runtime that speaks to GPUs is loaded by those who have one.
      const needed = files.filter((file) => !file.endsWith('.jspi.wasm'))
      const hash = createHash('sha256')
      for (const file of ['index.html', ...files]) hash.update(file).update(readFileSync(join(site, file)))
      const version = hash.digest('hex').slice(0, 16)
      const code = readFileSync(worker, 'utf8')
      writeFileSync(worker, code.replaceAll('__SITE__', JSON.stringify({ version, files: needed })))
    },
  }
}

/** The runtime has its own name: an installed package serves it from where it has it (src/serve/site.ts). */
const assetFileNames = ({ names: [name = ''] }: { names: string[] }): string =>
  name.endsWith('.wasm') ? 'runtime/[name][extname]' : 'assets/[name]-[hash][extname]'

export default defineConfig({
  root: 'src/playground',
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: site,
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: {
        index: path('src/playground/index.html'),
        'service-worker': path('src/playground/service-worker.ts'),
      },
      output: {
        entryFileNames: ({ name }) => (name === 'service-worker' ? '[name].js' : 'assets/[name]-[hash].js'),
        assetFileNames,
      },
    },
  },
  worker: { format: 'es', plugins: () => [webSiblings()], rolldownOptions: { output: { assetFileNames } } },
  define: { 'process.env.NODE_ENV': '"production"' },
  plugins: [webSiblings(), finishSite()],
})

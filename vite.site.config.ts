/**
 * Builds the playground (src/playground) into a static site, dist/site, for any host: its addresses are relative and it
 * needs no headers. Puts the built-in policy beside it, and names all files to the service worker that keeps them.
 */
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig, type Plugin } from 'vite'

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const site = path('dist/site')

const policyFiles = ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json']

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
      const policy = join(site, 'policies/small')
      mkdirSync(policy, { recursive: true })
      for (const name of policyFiles) copyFileSync(join(path('policies/small'), name), join(policy, name))
      const worker = join(site, 'service-worker.js')
      const files = filesUnder(site)
        .map((file) => relative(site, file).replaceAll('\\', '/'))
        .filter((file) => file !== 'service-worker.js' && file !== 'index.html')
        .sort()
      const hash = createHash('sha256')
      for (const file of ['index.html', ...files]) hash.update(file).update(readFileSync(join(site, file)))
      const version = hash.digest('hex').slice(0, 16)
      const code = readFileSync(worker, 'utf8')
      writeFileSync(worker, code.replaceAll('__SITE__', JSON.stringify({ version, files })))
    },
  }
}

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
      },
    },
  },
  worker: { format: 'es' },
  define: { 'process.env.NODE_ENV': '"production"' },
  plugins: [finishSite()],
})

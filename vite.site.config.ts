/** Builds the playground (src/playground) into a static site, dist/site: every address in it is relative. */
import { defineConfig } from 'vite'

export default defineConfig({
  root: 'src/playground',
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../../dist/site',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
  },
  worker: { format: 'es' },
  define: { 'process.env.NODE_ENV': '"production"' },
})

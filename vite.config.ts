/** Builds the page of the report and the dashboard (src/web) into one script and one style, dist/web. */
import { defineConfig } from 'vite'

export default defineConfig({
  root: 'src/web',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../../dist/web',
    emptyOutDir: true,
    target: 'es2022',
    lib: {
      entry: 'main.tsx',
      formats: ['iife'],
      name: 'messageBoard',
      fileName: () => 'app.js',
      cssFileName: 'app',
    },
  },
  define: { 'process.env.NODE_ENV': '"production"' },
})

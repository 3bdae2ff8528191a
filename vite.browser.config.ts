/**
 * Builds message-board/browser into dist/browser: src/browser.ts, and the worker that a lane lives in, as two modules with
 * parts in common. The runtime stays a package, whose WebAssembly the bundler of whoever uses this finds by itself.
 */
import { defineConfig, type Plugin } from 'vite'
import { webSiblings } from './vite.siblings.ts'

const ignore = '/* @vite-ignore */'

/** Leaves the worker's address to the next bundler, and names the built file in it. */
const worker: Plugin = {
  name: 'worker-address',
  enforce: 'pre',
  transform(code, id) {
    if (!id.endsWith('/threads.web.ts')) return null
    return code.replace("new URL('./worker.ts',", `new URL(${ignore} './worker.js',`)
  },
  renderChunk: (code) => code.replace(ignore, ''),
}

export default defineConfig({
  publicDir: false,
  plugins: [worker, webSiblings()],
  build: {
    outDir: 'dist/browser',
    emptyOutDir: true,
    target: 'es2023',
    minify: false,
    lib: {
      entry: { index: 'src/browser.ts', worker: 'src/engine/onnx/worker.ts' },
      formats: ['es'],
      fileName: (_, name) => `${name}.js`,
    },
    rollupOptions: { external: /^onnxruntime-/, output: { chunkFileNames: '[name]-[hash].js' } },
  },
})

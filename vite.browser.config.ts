/** Builds message-board/browser (src/browser.ts), with its workers and the runtime's WebAssembly, into dist/browser. */
import { defineConfig } from 'vite'
import { webSiblings } from './vite.siblings.ts'

const names = {
  entryFileNames: '[name]-[hash].js',
  chunkFileNames: '[name]-[hash].js',
  assetFileNames: '[name]-[hash][extname]',
}

export default defineConfig({
  // Addresses beside the module itself: wherever the folder is served, and for the bundlers of those who use it.
  base: './',
  publicDir: false,
  plugins: [webSiblings()],
  worker: { format: 'es', plugins: () => [webSiblings()], rollupOptions: { output: names } },
  build: {
    outDir: 'dist/browser',
    emptyOutDir: true,
    target: 'es2023',
    rollupOptions: {
      input: 'src/browser.ts',
      preserveEntrySignatures: 'strict',
      output: { ...names, entryFileNames: 'index.js' },
    },
  },
})

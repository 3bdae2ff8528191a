import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  // Experiment files name the package; here that is its source.
  resolve: { alias: { 'message-board': fileURLToPath(new URL('./src/index.ts', import.meta.url)) } },
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // ONNX Runtime brings its own threads: one test file at a time keeps two cores from fighting.
    fileParallelism: false,
  },
})

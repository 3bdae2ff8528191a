import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // ONNX Runtime brings its own threads: one test file at a time keeps two cores from fighting.
    fileParallelism: false,
  },
})

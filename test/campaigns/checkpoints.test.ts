import { expect, test } from 'vitest'
import { fuzzCheckpoints } from './checkpoints.ts'

// At length the campaign is run by hand; here some inputs.
test('damaged checkpoints are refused in one sentence each', async () => {
  const { failures, refused, inputs } = await fuzzCheckpoints({ inputs: 150, seed: 3 })
  expect(failures).toEqual([])
  expect(refused).toBeGreaterThan(inputs / 2)
})

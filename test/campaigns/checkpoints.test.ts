import { expect, test } from 'vitest'
import { fuzzCheckpoints } from './checkpoints.ts'

// At length the campaign is run by hand; here some inputs.
test('damaged checkpoints are refused in one sentence each', async () => {
  const { failures, outcomes, rounds } = await fuzzCheckpoints({ rounds: 150, seed: 3 })
  expect(failures).toEqual([])
  expect(outcomes.refused).toBeGreaterThan(rounds / 2)
})

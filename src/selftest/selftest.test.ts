import { expect, it } from 'vitest'
import { selftest } from './index.ts'

it('passes on this machine, every check by name', async () => {
  const checks = await selftest()
  expect(checks.filter(({ passed }) => !passed)).toEqual([])
  expect(checks.map(({ name }) => name)).toEqual([
    'boards',
    'answers',
    'counters',
    'rounds',
    'worlds',
    'log-probabilities',
    'gradients',
    'adapters',
  ])
})

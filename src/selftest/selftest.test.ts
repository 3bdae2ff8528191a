import { expect, it } from 'vitest'
import { selftest } from './index.ts'

const checks = [
  'boards',
  'answers',
  'counters',
  'rounds',
  'worlds',
  'log-probabilities',
  'gradients',
  'adapters',
]

it.each([
  ['cpu', checks],
  ['wasm', [...checks, 'scores on wasm', 'gradients on wasm']],
] as const)('passes on this machine by %s, every check by name', async (device, names) => {
  const found = await selftest(device)
  expect(found.filter(({ passed }) => !passed)).toEqual([])
  expect(found.map(({ name }) => name)).toEqual(names)
})

import { expect, it } from 'vitest'
import type { RunListing } from '../view/types.ts'
import { listedRuns } from './run-list.ts'

const run = (name: string, over: Partial<RunListing> = {}): RunListing => ({
  name,
  model: 'small',
  task: 'word problems',
  arms: ['recipe'],
  seeds: [17],
  notes: { note: '', tags: [] },
  state: 'finished',
  done: 1,
  changed: '2026-01-01T00:00:00.000Z',
  found: null,
  ...over,
})
const found = (delta: number) => ({ training: [], contrasts: [{ delta }] }) as unknown as RunListing['found']
const runs = [
  run('b', { changed: '2026-01-03T00:00:00.000Z', found: found(0.1) }),
  run('a', { notes: { note: 'Worth a second look', tags: ['keep', 'gpu'] }, found: found(-0.2) }),
  run('c', { changed: '2026-01-02T00:00:00.000Z', notes: { note: '', tags: ['keep'] } }),
]
const all = { search: '', tags: new Set<string>(), order: 'newest' as const }
const names = (how: Partial<Parameters<typeof listedRuns>[1]>) =>
  listedRuns(runs, { ...all, ...how }).map(({ name }) => name)

it('orders runs, those without a difference last', () => {
  expect(names({})).toEqual(['b', 'c', 'a'])
  expect(names({ order: 'name' })).toEqual(['a', 'b', 'c'])
  expect(names({ order: 'difference' })).toEqual(['b', 'a', 'c'])
})

it('shows those that have every tag and hold the search, in any case', () => {
  expect(names({ tags: new Set(['keep']) })).toEqual(['c', 'a'])
  expect(names({ tags: new Set(['keep', 'gpu']) })).toEqual(['a'])
  expect(names({ search: ' SECOND look' })).toEqual(['a'])
  expect(names({ search: 'gpu' })).toEqual(['a'])
  expect(names({ search: 'recipe', order: 'name' })).toEqual(['a', 'b', 'c'])
  expect(names({ search: 'nothing' })).toEqual([])
})
